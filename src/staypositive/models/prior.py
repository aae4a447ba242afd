"""The prior score ψ: given as a score, as a probability, or from the closed-world assumption."""

from __future__ import annotations

import math

from staypositive.errors import SettingError

CLOSED_WORLD = ("literal", "logit")


def resolve_prior_score(
    prior_score: float | None = None, prior: float | None = None, closed_world: str | None = None, *, density: float
) -> float:
    """Return ψ from at most one of three ways to state it; 0 (an even prior) when none is given.

    `prior_score` is ψ itself. `prior` is a probability, and ψ its logit. `closed_world="literal"` is the paper's
    ψ = |G| / (|E|²|R|), a probability used as a score; `"logit"` is what that probability means as a score.
    `density` is |G| / (|E|²|R|).
    """
    if sum(choice is not None for choice in (prior_score, prior, closed_world)) > 1:
        raise SettingError("give one of prior_score, prior and closed_world; they all set ψ")
    if prior is not None:
        return logit(prior)
    if closed_world is None:
        return 0.0 if prior_score is None else float(prior_score)
    if closed_world not in CLOSED_WORLD:
        raise SettingError(f"expected closed_world among {', '.join(CLOSED_WORLD)}, got {closed_world!r}")
    return density if closed_world == "literal" else logit(density)


def logit(probability: float) -> float:
    if not 0 < probability < 1:
        raise SettingError(f"a prior is a probability between 0 and 1, both excluded; got {probability}")
    return math.log(probability) - math.log1p(-probability)
