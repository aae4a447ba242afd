// Probabilities at another prior, as the library's `at_prior` has them: log-odds + logit(new) − logit(base).

export const logit = (chance) => Math.log(chance) - Math.log1p(-chance);
export const sigmoid = (odds) => (odds >= 0 ? 1 / (1 + Math.exp(-odds)) : Math.exp(odds) / (1 + Math.exp(odds)));
export const atPrior = (odds, prior, base) => sigmoid(odds + logit(prior) - logit(base));
