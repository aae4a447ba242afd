"""How far the probabilities can be trusted: with labelled triples, and from facts alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from staypositive.evaluation import reliability_bins, sigmoid
from staypositive.inference import Predictor, wilson
from staypositive.models import logit
from staypositive.probability import kernel_density, null_density
from staypositive.reports.charts import Bins, Series, density_chart, reliability_chart
from staypositive.reports.frame import plain
from staypositive.reports.html import Content, Html, figure, join, percent, table, tag
from staypositive.reports.report_data import ReportData

Floats = NDArray[np.float64]
_METRICS = {
    "nll": "NLL", "brier": "Brier", "auc": "AUC", "average_precision": "AP", "ece": "ECE", "accuracy": "accuracy",
}  # fmt: skip
_STATED = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
_EDGE = 8.5  # log-odds beyond this are drawn at the edge


def probability_section(data: ReportData) -> Content:
    """Return reliability and densities where there are labelled triples, and what facts alone say in any case."""
    ways = {"uncalibrated": Predictor(data.graph, data.predictor.scorer)}
    if data.predictor.calibrator is not None:
        ways[data.predictor.calibrator.name] = data.predictor
    labelled = "classification" in data.report
    checked = _reliability(data, ways) if labelled else _at_least(data, ways)
    drawings = [*(_density(data, name, way) for name, way in ways.items()), _z(data)]
    if labelled:
        lead = (
            f"Stated probabilities against the truth of {len(data.held):,} triples of {data.split}, labelled "
            "true and false. Calibrated probabilities lie on the diagonal; a dot's area is its share of triples, its "
            "whisker a 95% interval."
        )
    else:
        lead = (
            f"{data.split} has no triples labelled false, so that stated probabilities cannot be checked against the "
            "truth. What facts alone say: how far held-out facts stand out from the null distribution of their "
            "questions, whose mean and standard deviation are known in closed form, and what probability they are "
            "given."
        )
    return [lead, checked, tag("div", *drawings, class_="multiples below")]


def _reliability(data: ReportData, ways: dict[str, Predictor]) -> Html:
    curves = []
    for place, (name, way) in enumerate(ways.items()):
        logits = way.triple_logits(data.held.triples)
        sums = np.array(reliability_bins(logits, data.held.signs, 10))
        stated, hits, counts = sums[:, sums[2] > 0]
        spans = [wilson(int(hit), int(count), 1.0) for hit, count in zip(hits, counts, strict=True)]
        tone = 1 if place == 0 and len(ways) > 1 else 0
        curves.append(
            Bins(name, (stated / counts).tolist(), (hits / counts).tolist(), counts.astype(int).tolist(),
                 [span.low for span in spans], [span.high for span in spans], tone)
        )  # fmt: skip
    measured = data.report["classification"]["all"]
    rows = [[name, *(measured[name][key] for key in _METRICS)] for name in ways]
    numbers = join([
        table(["", *_METRICS.values()], rows),
        tag("p", "NLL, Brier and ECE: lower is better (a coin has 0.693, 0.25 and 0). AUC and AP do not depend on "
                 "calibration, unless it looks at more than the score.", class_="note"),
    ])  # fmt: skip
    drawn = figure("Reliability", reliability_chart(curves, "observed frequency by stated probability", size=400))
    return tag("div", drawn, tag("div", numbers, _at_least(data, ways)), class_="side")


def _curves(data: ReportData, values: Floats, knots: Floats) -> list[Series]:
    """Return the densities of numbers of the held-out triples: of the true ones, and of the false ones if any."""
    truth = data.held.signs > 0
    kinds = [("true", truth), ("false", ~truth)] if data.held.has_negatives else [("facts", truth)]
    return [
        Series(kind, knots.tolist(), kernel_density(values[keep], knots).tolist(), colour)
        for colour, (kind, keep) in enumerate(kinds)
        if keep.sum() > 1
    ]


def _density(data: ReportData, name: str, way: Predictor) -> Html:
    logits = np.clip(way.triple_logits(data.held.triples), -_EDGE, _EDGE)
    curves = _curves(data, logits, np.linspace(-_EDGE, _EDGE, 160))
    at, said = [logit(p) for p in _STATED], f"density of probabilities, {name}"
    drawn = density_chart(curves, said, at=at, x_label=lambda x: f"{100 / (1 + math.exp(-x)):.3g}%")
    return figure(f"Probabilities, {name}", drawn, "log-odds scale")


def _z(data: ReportData) -> Html:
    """Draw the z-scores of held-out triples beside the standard normal curve that wrong answers should follow."""
    z = np.arcsinh(data.predictor.null_distribution.features(data.held.triples).combined_z)
    knots = np.linspace(-2.6, max(3.2, float(np.quantile(z[data.held.signs > 0], 0.995))), 160)
    null = Series("N(0, 1)", knots.tolist(), null_density(knots).tolist(), 8)
    at = [math.asinh(v) for v in (-5, -2, 0, 2, 5, 10, 20, 50) if knots[0] <= math.asinh(v) <= knots[-1]]
    curves = [*_curves(data, z, knots), null]
    drawn = density_chart(curves, "z-scores of held-out triples", at=at, x_label=lambda u: plain(math.sinh(u)))
    return figure("Above the null distribution", drawn, "z, asinh scale")


def _at_least(data: ReportData, ways: dict[str, Predictor]) -> Html:
    """How many held-out facts reach a probability: the one column of a table of truth that needs no false triple."""
    limits = (0.1, 0.5, 0.9, 0.99)
    kinds = {"facts": data.held.facts} | ({"false": data.held.falsehoods} if data.held.has_negatives else {})
    rows = []
    for name, way in ways.items():
        for kind, triples in kinds.items():
            given = sigmoid(way.triple_logits(triples))
            rows.append([f"{kind}, {name}", *(percent(float((given >= limit).mean())) for limit in limits)])
    shares = table(["", *(f"{limit:.0%}" for limit in limits)], rows)
    return tag("div", tag("h3", f"Share of {data.split} triples that are given at least"), shares)
