"""Statistics of all |E|²|R| scores by relation, and how many new facts to expect.

Means and standard deviations are exact, from the rows' first and second moments, without enumerating triples. New
facts are counted by the triple posterior, from the pairs that it was fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from staypositive.errors import InputError
from staypositive.inference.predictor import Predictor
from staypositive.models import RowMoments
from staypositive.typed import checked

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int], Any]


def mean_and_std(predictor: Predictor) -> tuple[list[float], list[float]]:
    """Return the mean and standard deviation of all |E|² scores of each relation, in closed form."""
    with torch.no_grad():
        every = RowMoments.of(predictor.scorer.entity_rows)
        found = [predictor.scorer.moments(r, every, every) for r in range(len(predictor.graph.relations))]
    return [float(m.mean) for m in found], [math.sqrt(max(float(m.variance), 0.0)) for m in found]


@checked
def score_statistics(predictor: Predictor, *, threshold: float = 0.5) -> pd.DataFrame:
    """Return one row per relation, and one for all: facts, mean, std, and, where there are probabilities, new facts.

    `new_facts` is how many facts are missing by the posterior, with the standard error `new_error`. `likely` unknown
    triples reach the threshold, and `likely_facts` of these are true.
    """
    import pandas as pd

    if not 0 < threshold < 1:
        raise InputError(f"a threshold is a probability between 0 and 1, got {threshold}")
    graph, (means, stds) = predictor.graph, (np.array(part) for part in mean_and_std(predictor))
    facts = np.bincount(graph.facts()[:, 1], minlength=len(graph.relations))
    # The variance of all relations' scores is that within relations and that between their means.
    columns: dict[str, Any] = {
        "relation": [*graph.relations, "(all)"],
        "facts": [*facts.tolist(), int(facts.sum())],
        "mean": [*means, means.mean()],
        "std": [*stds, np.sqrt((stds**2).mean() + means.var())],
    }
    if predictor.posterior is not None:
        new, error = predictor.posterior.expected_with_error()
        likely_facts, likely = predictor.posterior.expected(threshold)
        columns |= {
            "new_facts": [*new, new.sum()],
            "new_error": [*error, np.sqrt((error**2).sum())],
            "likely": [*likely, likely.sum()],
            "likely_facts": [*likely_facts, likely_facts.sum()],
        }
    table = pd.DataFrame(columns)
    if predictor.posterior is not None:
        table.attrs["completeness"] = predictor.posterior.completeness
    return table
