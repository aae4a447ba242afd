// Probabilities at another completeness: the server says what some add to log-odds, and between two it is a line.

export const sigmoid = (odds) => (odds >= 0 ? 1 / (1 + Math.exp(-odds)) : Math.exp(odds) / (1 + Math.exp(odds)));
export const logit = (share) => Math.log(share / (1 - share));

export function shiftOf(completeness, shifts) {
  const above = shifts.findIndex(([share]) => share >= completeness);
  if (above <= 0) return shifts.at(above)?.[1] ?? 0; // beyond the ends, or no probabilities at all
  const [[low, from], [high, to]] = shifts.slice(above - 1, above + 1);
  return from + ((to - from) * (logit(completeness) - logit(low))) / (logit(high) - logit(low));
}
