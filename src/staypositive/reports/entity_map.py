"""A map of the entities: the two directions in which their rows differ most, coloured by what they take part in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from staypositive.models import RowMoments
from staypositive.reports.charts import Point, scatter
from staypositive.reports.frame import COLOURS, colour
from staypositive.reports.html import Content, percent, tag
from staypositive.reports.report_data import ReportData

GRID = (7, 9)  # columns and rows; the entity with most facts in each cell is offered a name on the map
BUSIEST = 200  # entities with most facts, which are always drawn


def principal_plane(rows: Tensor) -> tuple[NDArray[np.float64], float]:
    """Return rows in the plane of their two largest principal components, and its share of their variance.

    A component's sign is the one with which its largest weight is positive, so that a map is drawn alike each time.
    """
    values = rows.double()
    moments = RowMoments.of(values)
    variances, directions = torch.linalg.eigh(moments.covariance)
    axes = directions[:, -2:].flip(1)
    if axes.shape[1] < 2:
        axes = torch.cat([axes, torch.zeros_like(axes)], dim=1)
    largest = axes.abs().argmax(0)
    axes = axes * torch.where(axes[largest, torch.arange(2)] < 0, -1.0, 1.0)
    variances = variances.clamp(min=0)
    places: NDArray[np.float64] = ((values - moments.mean) @ axes).cpu().numpy()
    return places, float(variances[-2:].sum()) / (float(variances.sum()) or 1.0)


def is_two_sided(heads: Tensor, tails: Tensor) -> bool:
    """Return whether the heads and the tails of a relation are mostly the same entities."""
    sides = heads.cpu().numpy(), tails.cpu().numpy()
    return 2 * len(np.intersect1d(*sides)) > len(np.union1d(*sides))


def main_roles(triples: NDArray[np.int64], n_entities: int, two_sided: Sequence[bool]) -> NDArray[np.int64]:
    """Return what each entity is most often: r as head of relation r, |R| + r as its tail, −1 without facts.

    A two-sided relation gives one role, r, to both.
    """
    n_relations, relations = len(two_sided), triples[:, 1]
    entities = np.concatenate([triples[:, 0], triples[:, 2]])
    roles = np.concatenate([relations, np.where(np.array(two_sided)[relations], relations, relations + n_relations)])
    pairs, counts = np.unique(np.column_stack([entities, roles]), axis=0, return_counts=True)
    rising = pairs[np.lexsort((-pairs[:, 1], counts))]
    found = np.full(n_entities, -1, dtype=np.int64)
    found[rising[:, 0]] = rising[:, 1]  # the last one stays: the most frequent
    return found


def map_section(data: ReportData) -> Content:
    graph, relations = data.graph, data.graph.relations
    places, share = principal_plane(data.predictor.scorer.entity_rows)
    facts = graph.train.facts
    degrees = np.bincount(facts[:, [0, 2]].ravel(), minlength=len(graph.entities))
    members = data.predictor.null_distribution.members
    both = list(map(is_two_sided, members["head"], members["tail"]))
    roles = main_roles(facts, len(graph.entities), both)
    names = [label if same else f"{label} →" for label, same in zip(relations, both, strict=True)]
    names += [*(f"→ {label}" for label in relations), "no facts"]  # the last is also role −1
    kinds, counts = np.unique(roles, return_counts=True)
    common = kinds[np.argsort(-counts, kind="stable")][:COLOURS].tolist()
    shown = _chosen(degrees, data.points, data.seed)
    tones = [common.index(role) if role in common else COLOURS for role in roles.tolist()]
    said = {i: f"{graph.entities[i]} · {names[roles[i]]} · {degrees[i]:,} facts" for i in shown}
    points = {i: Point(float(places[i, 0]), float(places[i, 1]), tones[i], said[i]) for i in shown}
    offered = [(points[i], graph.entities[i]) for i in _spread(places, degrees, shown)]
    drawn = scatter(list(points.values()), offered, "map of the entities")
    entries = [f"{names[kind]} ({(roles == kind).sum():,})" for kind in common]
    legend = [tag("li", entry, class_=colour(i)) for i, entry in enumerate(entries)]
    if len(kinds) > COLOURS:
        legend.append(tag("li", "other roles", class_="grey"))
    lead = (
        f"{len(points):,} of {len(graph.entities):,} entities by the first two principal components of their rows "
        f"({percent(share)} of the variance), coloured by the place they most often have in a fact: head (r →) or "
        "tail (→ r). Point at one to read its name; in each part, the one with most facts is named."
    )
    return [lead, tag("ul", *legend, class_="legend"), drawn]


def _spread(places: NDArray[np.float64], degrees: NDArray[np.int64], shown: list[int]) -> list[int]:
    """Return the busiest entity of each cell of a grid, so that every part of the map has a name; busiest first."""
    own = places[shown]
    low, span = own.min(0), np.maximum(np.ptp(own, axis=0), 1e-12)
    cells = np.minimum(((own - low) / span * GRID).astype(np.int64), np.array(GRID) - 1)
    order = np.lexsort((np.array(shown), -degrees[shown]))
    first = np.unique(cells[order], axis=0, return_index=True)[1]
    return [shown[i] for i in order[np.sort(first)].tolist()]


def _chosen(degrees: NDArray[np.int64], most: int, seed: int) -> list[int]:
    """Return the entities to draw: all, or the busiest and a sample of the rest."""
    if len(degrees) <= most:
        return list(range(len(degrees)))
    order = np.argsort(-degrees, kind="stable")
    busiest, rest = order[: min(BUSIEST, most)], order[min(BUSIEST, most) :]
    drawn = np.random.default_rng(seed).choice(rest, most - len(busiest), replace=False)
    return sorted([*busiest.tolist(), *drawn.tolist()])
