"""Tables of the paper, reproduced."""

from __future__ import annotations

import statistics

from experiments.paper.paper import load_paper
from experiments.paper.table2 import all_records
from experiments.store import Row
from experiments.tables import ablations
from experiments.tables.common import RESULTS, Rows, by_setting, markdown

RANKED = {"mrr": "MRR", "hits@1": "Hit@1"}


CLASSIFIED = {"nll": "NLL", "brier": "Brier", "auc": "AUC", "nll_platt": "NLL, Platt", "brier_platt": "Brier, Platt"}


def cells_of_table2(
    rows: Rows, kind: str, ties: str = "realistic", experiment: str = "table2"
) -> dict[tuple[str, str], dict[str, list[Row]]]:
    """The rows of Table 2, or of its extension, by (dataset, row of the table) and metric."""
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    paper = load_paper()
    for cell in paper.table2 if experiment == "table2" else paper.extended:
        for row in rows:
            if (
                row["experiment"] == experiment
                and (row["dataset"], row["model"], row["objective"]) == (cell.dataset, cell.model, cell.objective)
                and (bool(row["filter"]) == (kind == "ranking"))
                and row["side"] in ("", "both")
                and row["filter"] in ("", "filtered")
                and row["ties"] in ("", ties)
            ):
                found.setdefault((cell.dataset, cell.name), {}).setdefault(row["metric"], []).append(row)
    return found


def table2(
    rows: Rows, kind: str, metrics: dict[str, str], ties: str = "realistic", experiment: str = "table2"
) -> str:
    """Our numbers of Table 2, the paper's in brackets."""
    lines = []
    for (dataset, name), cell in cells_of_table2(rows, kind, ties, experiment).items():
        shown = []
        for metric in metrics:
            values = [float(row["value"]) for row in cell[metric]]
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            mean, published = statistics.fmean(values), cell[metric][0]["published"]
            beside = f" ({float(published):.3f}, {mean / float(published) - 1:+.1%})" if published else ""
            shown.append(f"{mean:.3f}{spread}{beside}")
        lines.append([dataset, name, *shown])
    return markdown(["data", "model", *metrics.values()], lines)


def table2_settings(rows: Rows, experiment: str = "table2") -> str:
    """The setting chosen for each cell, and what it drew."""
    lines = []
    for kind, metric in (("classification", "nll"), ("ranking", "mrr")):
        for (dataset, name), cell in cells_of_table2(rows, kind, experiment=experiment).items():
            row = cell[metric][0]
            drawn = {int(one["negatives_drawn"]) for one in cell[metric]}
            lines.append([dataset, name, row["setting"], f"{max(drawn):,}", row["device"], row["commit"][:10]])
    return markdown(["data", "model", "setting", "negatives drawn", "device", "commit"], lines)


def grid_seconds(_: Rows) -> str:
    """What the grid took: runs, epochs and seconds of training on the GPU, both rounds, by the record of each run."""
    lines, total = [], [0, 0, 0.0]
    every = [record for kind in ("grid", "finals") for record in all_records(RESULTS, kind)]
    every = [record for record in every if record["experiment"] == "table2"]
    for name in dict.fromkeys(cell.name for cell in load_paper().table2):
        found = [record for record in every if record["cell"].rpartition("-")[2] == name]
        sums = [len(found), sum(int(r["epochs"]) for r in found), sum(float(r["seconds"]) for r in found)]
        total = [a + b for a, b in zip(total, sums, strict=True)]
        lines.append([name, f"{sums[0]:,}", f"{sums[1]:,}", f"{sums[2]:,.0f}"])
    lines.append(["all", f"{total[0]:,}", f"{total[1]:,}", f"{total[2]:,.0f}"])
    return markdown(["row, four datasets", "runs", "epochs", "seconds of training"], lines)


def table1(rows: Rows) -> str:
    """The share of an epoch that drawing negatives takes."""
    lines = [
        [model, *setting.split(", batch")[0].split(", "), f"{cell['drawing_seconds']:.2f}",
         f"{cell['rest_seconds']:.2f}", f"{cell['share']:.1%}"]
        for (model, setting), cell in by_setting(rows, "table1").items()
    ]  # fmt: skip
    return markdown(["model", "engine", "sampler", "drawing, s", "the rest, s", "share of drawing"], lines)


def figure2(rows: Rows) -> str:
    """The reduction of epoch time by negative ratio."""
    own = by_setting(rows, "figure2")
    kinds = list(dict.fromkeys(setting.split(", batch")[0] for _, setting in own))
    ratios = sorted({int(setting.rpartition(" ")[2]) for _, setting in own})
    lines = []
    for kind in kinds:
        found = {
            int(setting.rpartition(" ")[2]): cell["reduction"]
            for (_, setting), cell in own.items()
            if setting.startswith(kind + ",")
        }
        lines.append([kind, *(f"{found[n]:.1%}" if n in found else "" for n in ratios)])
    return markdown(["engine, sampler", *(f"n = {n}" for n in ratios)], lines)


def theorem1(rows: Rows) -> str:
    """The sum of all scores at the largest size, by model, and the peak memory of both ways."""
    lines = []
    own = by_setting(rows, "theorems")
    for model in dict.fromkeys(model for model, _ in own):
        sums = {s: c for (m, s), c in own.items() if m == model and "theorem_seconds" in c}
        peak = next((c for (m, _), c in own.items() if m == model and "theorem_peak_mb" in c), None)
        if not sums or peak is None:
            continue
        setting, cell = max(sums.items(), key=lambda item: item[1]["enumeration_seconds"])
        lines.append(
            [model, setting.partition(", ")[2], f"{1e3 * cell['theorem_seconds']:.2f}",
             f"{1e3 * cell['enumeration_seconds']:.0f}",
             f"{cell['enumeration_seconds'] / cell['theorem_seconds']:.0f}", f"{peak['theorem_peak_mb']:.1f}",
             f"{peak['enumeration_peak_mb']:.0f}"]
        )  # fmt: skip
    header = ["model", "largest", "Theorem 1, ms", "enumeration, ms", "ratio", "peak, MB", "peak of enumeration, MB"]
    return markdown(header, lines)


def theorem23(rows: Rows) -> str:
    """Epochs without negatives and with them, as multiples."""
    found = {
        setting: cell["epoch_seconds"]
        for (_, setting), cell in by_setting(rows, "theorems").items()
        if "epoch_seconds" in cell
    }
    if not found:
        return markdown(["negatives", "s an epoch", "times that without"], [])
    counts = {int(s.rpartition("negatives ")[2]) if "negatives" in s else 0: v for s, v in found.items()}
    lines = [[str(n), f"{counts[n]:.3f}", f"{counts[n] / counts[0]:.2f}"] for n in sorted(counts)]
    return markdown(["negatives", "s an epoch", "times that without"], lines)


OPEN = ("not run yet", "open")


def claims(rows: Rows) -> str:
    """The paper's claims, what they say, what we found, and whether they hold."""
    means = {
        cell: {metric: statistics.fmean(float(row["value"]) for row in own) for metric, own in metrics.items()}
        for kind in ("classification", "ranking")
        for cell, metrics in cells_of_table2(rows, kind).items()
    }
    lines = [
        ["sp lowers NLL against its baseline", "by up to 77%", *_against_baseline(means, "nll", "nll", 0.77)],
        ["sp lowers Brier against its baseline", "by up to 49%", *_against_baseline(means, "brier", "brier", 0.49)],
        ["sp raises AUC against its baseline", "by up to 20%", *_against_baseline(means, "auc", "auc", 0.20)],
        ["baselines after Platt stay behind sp without it", "mostly",
         *_against_baseline(means, "nll_platt", "nll", 0.0)],
        ["sp's columns of Table 2", "28 published numbers", *_within(means)],
        ["no dropout costs MRR (WN18AM, FB15k-237AM)", "DistMult 2.7%, 18.4%; spDistMult 0.4%, 0.8%",
         *_without_dropout(rows)],
        ["penalty over all entities or the batch's", "MRR moves by less than 1%", *_scope(rows)],
        ["share of a SimplE epoch that drawing takes", "69.3%", *_drawing(rows, "simple", 0.693)],
        ["share of a ComplEx epoch that drawing takes", "62.3%", *_drawing(rows, "complex", 0.623)],
        ["spSimplE's epoch is shorter the larger the ratio", "Figure 2", *_shorter(rows)],
    ]  # fmt: skip
    return markdown(["claim", "the paper", "here", "verdict"], lines)


def _against_baseline(
    means: dict[tuple[str, str], dict[str, float]], of_baseline: str, of_ours: str, claimed: float
) -> tuple[str, str]:
    """The change from baseline to sp, cell by cell where both were run."""
    gains = {}
    for (dataset, name), ours in means.items():
        baseline = means.get((dataset, name.removeprefix("sp")))
        if name.startswith("sp") and baseline and of_ours in ours:
            change = ours[of_ours] / baseline[of_baseline] - 1
            gains[f"{dataset} {name}"] = change if of_ours == "auc" else -change
    if not gains:
        return OPEN
    said = ", ".join(f"{cell} {gain:+.0%}" for cell, gain in gains.items())
    verdict = "reproduced" if max(gains.values()) >= claimed else "in part" if max(gains.values()) > 0 else "not"
    return said, verdict if len(gains) == 4 else f"{verdict} so far ({len(gains)} of 4 cells run)"


def _within(means: dict[tuple[str, str], dict[str, float]], share: float = 0.03) -> tuple[str, str]:
    """How many of the sp rows' published numbers are met within a share, or passed."""
    met = run = 0
    for cell in load_paper().table2:
        own = means.get((cell.dataset, cell.name))
        for metric, published in cell.published if own and cell.name.startswith("sp") else ():
            lower_is_better = metric.startswith(("nll", "brier"))
            change = own[metric] / published - 1 if own else 0.0
            run, met = run + 1, met + ((change if lower_is_better else -change) <= share)
    total = sum(len(cell.published) for cell in load_paper().table2 if cell.name.startswith("sp"))
    verdict = "reproduced" if met == total else "reproduced so far" if met == run else "in part"
    return f"{met} of {run} within {share:.0%} or better, {total - run} not run yet", verdict


RANKED_SETS = ("WN18AM", "FB15k-237AM")


def _without_dropout(rows: Rows) -> tuple[str, str]:
    """What dropping dropout costs baselines and sp, where both were run."""
    names = ("DistMult", "spDistMult", "SimplE", "spSimplE")
    found = ablations.pairs(rows, "dropout", (0.4, 0.0), names, RANKED_SETS)
    if not found:
        return OPEN
    costs: dict[str, list[float]] = {name: [] for name in names}
    for (_, name), (with_it, without) in found.items():
        costs[name].append(1 - without / with_it)
    sp, drawn = (
        [c for name in costs if name.startswith("sp") == is_sp for c in costs[name]] for is_sp in (True, False)
    )
    said = "; ".join(f"{name} {', '.join(f'{cost:.1%}' for cost in own)}" for name, own in costs.items() if own)
    return said, "reproduced" if max(sp) < 0.01 < min(drawn) else "in part"


def _scope(rows: Rows) -> tuple[str, str]:
    """How MRR moves when the penalty runs over all rows."""
    found = ablations.pairs(rows, "scope", ("batch", "all"), ("spDistMult", "spSimplE"), RANKED_SETS)
    if not found:
        return OPEN
    moves = {f"{dataset} {name}": every / batch - 1 for (dataset, name), (batch, every) in found.items()}
    few = [abs(move) < 0.01 for move in moves.values()]
    said = ", ".join(f"{cell} {move:+.1%}" for cell, move in moves.items())
    return said, "reproduced" if all(few) else "in part" if any(few) else "not"


def _drawing(rows: Rows, model: str, claimed: float) -> tuple[str, str]:
    """The share of drawing by a looping sampler, beside ours."""
    own = {setting: cell["share"] for (name, setting), cell in by_setting(rows, "table1").items() if name == model}
    loop, ours = (next(own[s] for s in own if s.startswith(f"fused-cpu, {kind}")) for kind in ("loop", "vector"))
    verdict = "reproduced" if abs(loop - claimed) < 0.1 else "in part"
    return f"{loop:.1%} by a loop, {ours:.1%} by ours (fused engine)", f"{verdict}, for a looping sampler"


def _shorter(rows: Rows) -> tuple[str, str]:
    """Whether the reduction grows with the ratio, for every engine and sampler."""
    own: dict[str, list[tuple[int, float]]] = {}
    for (_, setting), cell in by_setting(rows, "figure2").items():
        kind, ratio = setting.split(", batch")[0], int(setting.rpartition(" ")[2])
        own.setdefault(kind, []).append((ratio, cell["reduction"]))
    grows = all(sorted(points) == sorted(points, key=lambda point: point[1]) for points in own.values())
    least, most = (bound(gain for points in own.values() for _, gain in points) for bound in (min, max))
    return f"{least:.0%} to {most:.0%} shorter", "reproduced" if grows else "in part"
