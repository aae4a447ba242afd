"""How far the probabilities can be trusted: when facts are hidden, and with labelled triples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.evaluation import reliability_bins
from staypositive.inference import Predictor
from staypositive.models import logit
from staypositive.probability import kernel_density, null_density
from staypositive.reports.charts import Bins, Series, density_chart, reliability_chart
from staypositive.reports.frame import plain
from staypositive.reports.html import Content, Html, Number, figure, folded_table, join, number, percent, table, tag
from staypositive.reports.report_data import ReportData

Floats = NDArray[np.float64]
_METRICS = {
    "nll": "NLL", "brier": "Brier", "auc": "AUC", "average_precision": "AP", "ece": "ECE", "accuracy": "accuracy",
}  # fmt: skip
_STATED = (1e-9, 1e-6, 0.001, 0.5, 0.999)
ENOUGH = 20  # triples from which a bin is drawn
_LOW, _HIGH = -28.0, 16.0  # log-odds beyond these are drawn at the edge


def probability_section(data: ReportData) -> Content:
    """Return how far probabilities of unknown triples hold, and, where there are labels, those of labelled ones."""
    parts: list[Html] = []
    lead = (
        "A probability is how likely it is that a triple which is not in the graph is true. "
        f"These assume that the graph has {percent(data.predictor.assumed)} of all true facts."
    )
    if data.predictor.posterior is None:
        lead = f"There are scores and no probabilities: {data.run.why_no_probability()}."
    if "discovery" in data.report:
        lead += (
            f" Checked by hiding the facts of {data.split} and fitting anew: of the triples stated at 80%, eight in "
            "ten should be hidden facts. Triples that no split states count as false, so that true is a lower bound."
        )
        parts.append(_discovery(data.report["discovery"]))
    if "classification" in data.report:
        parts.append(_labelled(data))
    drawings = [*([] if data.predictor.posterior is None else [_density(data)]), _z(data)]
    return [lead, *parts, tag("div", *drawings, class_="multiples below")]


def _discovery(measured: dict[str, Any]) -> Html:
    shown = [own for own in measured["bins"] if own["triples"] >= ENOUGH]
    stated, true, lows, highs = ([own[name] for own in shown] for name in ("stated", "true", "low", "high"))
    curve = Bins("unknown triples", stated, true, [round(own["triples"]) for own in shown], lows, highs)
    said = "observed frequency by stated probability"
    drawn = figure("Stated and true", reliability_chart([curve], said, size=400, even=True))
    tops = [[f"top {top['triples']:,}", percent(top["stated"]), percent(top["true"])] for top in measured["tops"]]
    sums = ["facts in all", number(round(measured["sum"])), number(measured["hidden"])]
    bins = [
        [Number(f"from {100 * own['from']:g}%"), number(round(own["triples"])), percent(own["stated"]),
         percent(own["true"]), Number(f"{percent(own['low'])} to {percent(own['high'])}")]
        for own in measured["bins"]
    ]  # fmt: skip
    numbers = tag("div", tag("h3", "The most likely"), table(["", "stated", "true"], [*tops, sums]),
                  tag("h3", "By stated probability"),
                  *folded_table(["probability", "triples", "stated", "true", "95% interval"], bins))  # fmt: skip
    return tag("div", drawn, numbers, class_="side")


def _labelled(data: ReportData) -> Html:
    """Show triples labelled true and false, by the calibrator of triples like these."""
    from scipy.stats import binomtest

    ways = {"uncalibrated": Predictor(data.graph, data.predictor.scorer)}
    if data.predictor.calibrator is not None:
        ways[data.predictor.calibrator.name] = data.predictor
    curves = []
    for place, (name, way) in enumerate(ways.items()):
        sums = np.array(reliability_bins(way.labelled_log_odds(data.held.triples), data.held.signs, 10))
        stated, hits, counts = sums[:, sums[2] > 0]
        tests = (binomtest(int(hit), int(n)) for hit, n in zip(hits, counts, strict=True))
        spans = [test.proportion_ci(method="wilson") for test in tests]
        tone = 1 if place == 0 and len(ways) > 1 else 0
        curves.append(
            Bins(name, (stated / counts).tolist(), (hits / counts).tolist(), counts.astype(int).tolist(),
                 [span.low for span in spans], [span.high for span in spans], tone)
        )  # fmt: skip
    measured = data.report["classification"]["all"]
    rows = [[name, *(measured[name][key] for key in _METRICS)] for name in ways]
    share = percent(float((data.held.signs > 0).mean()))
    said = (
        f"{len(data.held):,} triples of {data.split}, {share} of them labelled true. NLL, Brier and ECE: lower is "
        "better (a coin has 0.693, 0.25 and 0). AUC and AP do not depend on calibration, unless it looks at more "
        "than the score."
    )
    numbers = tag("div", table(["", *_METRICS.values()], rows), tag("p", said, class_="note"))
    drawn = figure(
        "Labelled triples", reliability_chart(curves, "observed frequency by stated probability", size=400)
    )
    return join([tag("h3", "Among triples like the labelled ones"), tag("div", drawn, numbers, class_="side")])


def _curves(data: ReportData, values: Floats, knots: Floats) -> list[Series]:
    """Return the densities of numbers of the held-out triples: of the true ones, and of the false ones if any."""
    truth = data.held.signs > 0
    kinds = [("true", truth), ("false", ~truth)] if data.held.has_negatives else [("facts", truth)]
    return [
        Series(kind, knots.tolist(), kernel_density(values[keep], knots).tolist(), colour)
        for colour, (kind, keep) in enumerate(kinds)
        if keep.sum() > 1
    ]


def _density(data: ReportData) -> Html:
    """Draw the log-odds of held-out triples, as if they were not in the graph."""
    log_odds = np.clip(data.predictor.log_odds(data.held.triples), _LOW, _HIGH)
    curves = _curves(data, log_odds, np.linspace(_LOW, _HIGH, 160))
    at, said = [logit(p) for p in _STATED], "density of probabilities"
    drawn = density_chart(curves, said, at=at, x_label=lambda x: f"{1 / (1 + math.exp(-x)):.6g}".replace("e-0", "e−"))
    return figure(f"Probabilities of the triples of {data.split}", drawn, "if they were unknown, log-odds scale")


def _z(data: ReportData) -> Html:
    """Draw the z-scores of held-out triples beside the standard normal curve that wrong answers should follow."""
    z = np.arcsinh(data.predictor.null_distribution.features(data.held.triples).combined_z)
    knots = np.linspace(-2.6, max(3.2, float(np.quantile(z[data.held.signs > 0], 0.995))), 160)
    null = Series("N(0, 1)", knots.tolist(), null_density(knots).tolist(), 8)
    at = [math.asinh(v) for v in (-5, -2, 0, 2, 5, 10, 20, 50) if knots[0] <= math.asinh(v) <= knots[-1]]
    curves = [*_curves(data, z, knots), null]
    drawn = density_chart(curves, "z-scores of held-out triples", at=at, x_label=lambda u: plain(math.sinh(u)))
    return figure("Above the null distribution", drawn, "z, asinh scale")
