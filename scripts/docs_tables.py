"""Write the tables of the docs from `results/index.csv` and the catalogue, between their markers.

python scripts/docs_tables.py            # renew them
python scripts/docs_tables.py --check    # fail if a page is not what the index says
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from staypositive.experiments import read_index
from staypositive.experiments.paper import elsewhere, load_paper
from staypositive.graph import CATALOGUE

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
Row = dict[str, str]
Rows = list[Row]


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """Return a table; the first column is text, the others numbers."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def datasets(_: Rows) -> str:
    """The catalogue's counts."""
    names = ("entities", "relations", "train", "valid", "test")
    return markdown(["dataset", *names], [[d.name, *(f"{d.counts[n]:,}" for n in names)] for d in CATALOGUE.values()])


def first_runs(rows: Rows, metrics: dict[str, tuple[str, str]], wanted: tuple[str, ...]) -> str:
    """One line a dataset and model; `metrics` maps a heading to (metric, calibration)."""
    own = [row for row in rows if row["experiment"] == "first-runs" and row["dataset"] in wanted]
    lines = []
    for dataset in wanted:
        for model in dict.fromkeys(row["model"] for row in own if row["dataset"] == dataset):
            cells = []
            for metric, calibration in metrics.values():
                values = [
                    row["value"]
                    for row in own
                    if (row["dataset"], row["model"], row["metric"]) == (dataset, model, metric)
                    and row["calibration"] == calibration
                    and row["unseen"] in ("", "with")
                    and (row["side"], row["filter"], row["ties"]) in (("", "", ""), ("both", "filtered", "realistic"))
                ]
                cells.append(f"{float(values[0]):.3f}" if values else "")
            lines.append([f"{dataset}, {model}", *cells])
    return markdown(["", *metrics], lines)


def first_runs_ranking(rows: Rows) -> str:
    """Speed and filtered realistic ranking of the AM sets."""
    metrics = {
        "s an epoch": ("epoch_seconds", ""),
        "MRR": ("mrr", ""),
        "Hits@1": ("hits@1", ""),
        "Hits@10": ("hits@10", ""),
        "AMRI": ("amri", ""),
    }
    return first_runs(rows, metrics, ("WN18AM", "FB15k-237AM"))


def first_runs_classification(rows: Rows) -> str:
    """Speed and classification of WN11 and FB13, before and after Platt scaling."""
    metrics = {
        "s an epoch": ("epoch_seconds", ""),
        "NLL": ("nll", "uncalibrated"),
        "Brier": ("brier", "uncalibrated"),
        "AUC": ("auc", "uncalibrated"),
        "ECE": ("ece", "uncalibrated"),
        "NLL, Platt": ("nll", "platt"),
        "Brier, Platt": ("brier", "platt"),
        "ECE, Platt": ("ece", "platt"),
    }
    return first_runs(rows, metrics, ("WN11", "FB13"))


def first_runs_settings(rows: Rows) -> str:
    """The settings, machine and commands behind the tables."""
    own = [row for row in rows if row["experiment"] == "first-runs"]
    seen = sorted({(r["model"], r["dim"], r["setting"], r["device"], r["commit"][:10], r["command"]) for r in own})
    return markdown(["model", "dim", "setting", "device", "commit", "command"], [[*s[:5], f"`{s[5]}`"] for s in seen])


def speed(rows: Rows, experiment: str) -> str:
    """Epochs of one benchmark run, best first within a workload."""
    own: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        if row["experiment"] == experiment:
            key = (row["dataset"], row["model"], row["dim"], row["setting"], row["device"])
            own.setdefault(key, {})[row["metric"]] = row["value"]
    lines = []
    for (dataset, model, dim, setting, device), cell in own.items():
        if "epoch_seconds" in cell:
            floor = f"{float(cell['bandwidth_fraction']):.1%}" if "bandwidth_fraction" in cell else ""
            rate, seconds = float(cell["triples_per_second"]) / 1e6, float(cell["epoch_seconds"])
            lines.append([f"{model}, {setting}", dataset, dim, f"{seconds:.4g}", f"{rate:.3g}", floor, device])
    header = ["model, engine", "data", "d", "s an epoch", "M triples/s", "of floor", "device"]
    return markdown(header, sorted(lines, key=lambda line: (line[1], float(line[3]))))


def speed_theorem(rows: Rows) -> str:
    """Theorem 1 against enumeration."""
    own: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["metric"] in ("theorem_seconds", "enumeration_seconds"):
            own.setdefault(f"{row['model']}, {row['setting']}", {})[row["metric"]] = row["value"]
    lines = [
        [what, cell["theorem_seconds"], cell["enumeration_seconds"],
         f"{float(cell['enumeration_seconds']) / float(cell['theorem_seconds']):.0f}"]
        for what, cell in own.items()
    ]  # fmt: skip
    return markdown(["", "Theorem 1, s", "enumeration, s", "ratio"], sorted(lines, key=lambda line: float(line[3])))


def engines_agree(rows: Rows) -> str:
    """Validation MRR by epoch, both engines, each seed."""
    own = [row for row in rows if row["experiment"] == "engines-agree"]
    seeds = sorted({row["seed"] for row in own})
    lines = []
    for setting in sorted({row["setting"] for row in own}, key=lambda text: (text.split("epoch ")[1], text)):
        cells = {row["seed"]: f"{float(row['value']):.5f}" for row in own if row["setting"] == setting}
        lines.append([setting, *(cells[seed] for seed in seeds)])
    return markdown(["", *(f"seed {seed}" for seed in seeds)], lines)


def speed_ranking(rows: Rows) -> str:
    """Seconds of filtered ranking."""
    own = [row for row in rows if row["metric"] == "ranking_seconds"]
    lines = [[row["setting"], row["model"], row["dim"], f"{float(row['value']):.3g}", row["device"]] for row in own]
    return markdown(["evaluator", "model", "d", "seconds", "device"], sorted(lines, key=lambda line: float(line[3])))


def _table2(rows: Rows, kind: str, ties: str = "realistic") -> dict[tuple[str, str], dict[str, list[Row]]]:
    """The rows of Table 2 by (dataset, row of the table) and metric."""
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for cell in load_paper().table2:
        for row in rows:
            if (
                row["experiment"] == "table2"
                and (row["dataset"], row["model"], row["objective"]) == (cell.dataset, cell.model, cell.objective)
                and (bool(row["filter"]) == (kind == "ranking"))
                and row["side"] in ("", "both")
                and row["filter"] in ("", "filtered")
                and row["ties"] in ("", ties)
            ):
                found.setdefault((cell.dataset, cell.name), {}).setdefault(row["metric"], []).append(row)
    return found


def table2(rows: Rows, kind: str, metrics: dict[str, str], ties: str = "realistic") -> str:
    """Our numbers of Table 2, the paper's in brackets."""
    lines = []
    for (dataset, name), cell in _table2(rows, kind, ties).items():
        shown = []
        for metric in metrics:
            values = [float(row["value"]) for row in cell[metric]]
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            mean, published = statistics.fmean(values), cell[metric][0]["published"]
            beside = f" ({float(published):.3f}, {mean / float(published) - 1:+.1%})" if published else ""
            shown.append(f"{mean:.3f}{spread}{beside}")
        lines.append([dataset, name, *shown])
    return markdown(["data", "model", *metrics.values()], lines)


def table2_settings(rows: Rows) -> str:
    """The setting chosen for each cell, and what it drew."""
    lines = []
    for kind, metric in (("classification", "nll"), ("ranking", "mrr")):
        for (dataset, name), cell in _table2(rows, kind).items():
            row = cell[metric][0]
            drawn = {int(one["negatives_drawn"]) for one in cell[metric]}
            lines.append([dataset, name, row["setting"], f"{max(drawn):,}", row["device"], row["commit"][:10]])
    return markdown(["data", "model", "setting", "negatives drawn", "device", "commit"], lines)


def lighter_state(rows: Rows) -> str:
    """Validation MRR by how the optimiser's state and the rows are kept."""
    own: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["experiment"] == "lighter-state":
            own.setdefault((row["dataset"], row["setting"].partition(";")[0]), []).append(float(row["value"]))
    lines = [
        [data, state, f"{statistics.fmean(values):.4f}", f"{statistics.stdev(values):.4f}"]
        for (data, state), values in own.items()
    ]
    return markdown(["data", "state", "MRR, mean of three seeds", "sd"], lines)


def speed_memory(rows: Rows) -> str:
    """Peak memory on the largest graph, by state."""
    own = [
        row for row in rows if row["metric"] == "peak_gb" and "1e+07" in row["dataset"] and "65536" in row["setting"]
    ]
    return markdown(["", "GB"], [[row["setting"], f"{float(row['value']):.1f}"] for row in own])


def _by_setting(rows: Rows, experiment: str) -> dict[tuple[str, str], dict[str, float]]:
    """The figures of an experiment by model and setting."""
    own: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == experiment:
            own.setdefault((row["model"], row["setting"]), {})[row["metric"]] = float(row["value"])
    return own


def table1(rows: Rows) -> str:
    """The share of an epoch that drawing negatives takes."""
    lines = [
        [model, *setting.split(", batch")[0].split(", "), f"{cell['drawing_seconds']:.2f}",
         f"{cell['rest_seconds']:.2f}", f"{cell['share']:.1%}"]
        for (model, setting), cell in _by_setting(rows, "table1").items()
    ]  # fmt: skip
    return markdown(["model", "engine", "sampler", "drawing, s", "the rest, s", "share of drawing"], lines)


def figure2(rows: Rows) -> str:
    """The reduction of epoch time by negative ratio."""
    own = _by_setting(rows, "figure2")
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
    own = _by_setting(rows, "theorems")
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
        for (_, setting), cell in _by_setting(rows, "theorems").items()
        if "epoch_seconds" in cell
    }
    if not found:
        return markdown(["negatives", "s an epoch", "times that without"], [])
    counts = {int(s.rpartition("negatives ")[2]) if "negatives" in s else 0: v for s, v in found.items()}
    lines = [[str(n), f"{counts[n]:.3f}", f"{counts[n] / counts[0]:.2f}"] for n in sorted(counts)]
    return markdown(["negatives", "s an epoch", "times that without"], lines)


def pykeen_side(rows: Rows) -> str:
    """PyKEEN's DistMult by loop and loss: MRR's mean and deviation over seeds, the median of the rest."""
    own: dict[str, dict[tuple[str, str], list[float]]] = {}
    for row in rows:
        if row["experiment"] == "pykeen-side":
            cell = own.setdefault(row["setting"].partition(";")[0], {})
            cell.setdefault((row["metric"], row["calibration"]), []).append(float(row["value"]))
    lines = []
    for name, cell in own.items():
        mrr = cell["mrr", ""]
        shown = [("nll", "uncalibrated"), ("nll", "platt"), ("auc", "platt"), ("epoch_seconds", "")]
        spread = f" ± {statistics.stdev(mrr):.3f}" if len(mrr) > 1 else ""
        middle = [f"{statistics.median(cell[place]):.3f}" for place in shown]
        lines.append([name, f"{statistics.fmean(mrr):.3f}{spread}", *middle])
    return markdown(["training", "MRR", "NLL", "NLL, Platt", "AUC", "s an epoch"], lines)


def pykeen_side_setting(rows: Rows) -> str:
    """What all rows of the table have in common."""
    own = [row for row in rows if row["experiment"] == "pykeen-side"]
    said = sorted(
        {(r["dataset"], r["dim"], r["setting"].partition("; ")[2], r["device"], r["commit"][:10]) for r in own}
    )
    return markdown(["data", "d", "setting", "device", "commit"], [list(line) for line in said])


def speed_loading(rows: Rows) -> str:
    """Seconds from files to a graph."""
    own = _by_setting([row for row in rows if row["metric"] in ("parse_seconds", "cached_seconds")], "bench-growth")
    lines = [[s, f"{c['parse_seconds']:.2f}", f"{c['cached_seconds']:.3f}"] for (_, s), c in own.items()]
    return markdown(["FB15k-237", "parsed, s", "from the cache, s"], lines)


def service(rows: Rows) -> str:
    """Latencies and rates of the service, and of files of queries."""
    own: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "service":
            key = (row["dataset"], row["model"], row["dim"], row["setting"])
            own.setdefault(key, {})[row["metric"]] = float(row["value"])
    lines = []
    for (dataset, model, dim, setting), cell in own.items():
        rate = cell.get("requests_per_second", cell.get("file_queries_per_second", 0.0))
        times = [
            f"{cell[name]:.1f}" if name in cell else "" for name in ("latency_p50", "latency_p95", "latency_p99")
        ]
        lines.append([f"{dataset}, {model} {dim}: {setting}", *times, f"{rate:,.0f}"])
    return markdown(["", "p50, ms", "p95, ms", "p99, ms", "answered a second"], lines)


RANKED = {"mrr": "MRR", "hits@1": "Hit@1"}
CLASSIFIED = {"nll": "NLL", "brier": "Brier", "auc": "AUC", "nll_platt": "NLL, Platt", "brier_platt": "Brier, Platt"}


def second_moment_until(rows: Rows) -> str:
    """Seconds of training to an MRR, a line a seed."""
    own: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "second-moment-until":
            own.setdefault(row["seed"], {})[row["metric"]] = float(row["value"])
    lines = [
        [seed, *(f"{f['seconds']:.1f} {f['first_epoch_seconds']:.1f} {f['epochs']:.0f} {f['mrr']:.3f}".split())]
        for seed, f in sorted(own.items())
    ]
    return markdown(["seed", "seconds of training", "of them the first epoch's", "epochs", "validation MRR"], lines)


def _seeds(values: list[float]) -> str:
    """Mean and spread of some seeds' figures."""
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def _second_moment(rows: Rows, wanted: Callable[[Row], bool]) -> dict[tuple[str, str], dict[str, list[float]]]:
    """The figures of the second-moment runs by dataset and calibration, then by metric, one a seed."""
    own: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        if row["experiment"] == "second-moment" and wanted(row):
            figures = own.setdefault((row["dataset"], row["calibration"]), {})
            figures.setdefault(row["metric"], []).append(float(row["value"]))
    return own


def second_moment_ranking(rows: Rows) -> str:
    """Our filtered realistic ranking beside published figures, dataset by dataset."""

    def is_plain(row: Row) -> bool:
        return (row["filter"], row["ties"], row["side"]) == ("filtered", "realistic", "both")

    lines = []
    for (dataset, _), figures in sorted(_second_moment(rows, is_plain).items()):
        ours = [_seeds(figures[name]) for name in ("mrr", "hits@1", "hits@10")]
        lines.append([f"**{dataset}**: second moment, no negatives", *ours, "here"])
        for other in elsewhere("ranking"):
            if dataset in other:
                theirs = [f"{other[dataset][name]:.3f}" if name in other[dataset] else "" for name in RANKING_COLUMNS]
                lines.append([f"{dataset}: {other['system']}", *theirs, other["source"]])
    return markdown(["", "MRR", "Hits@1", "Hits@10", "source"], lines)


def second_moment_probabilities(rows: Rows) -> str:
    """Our classification by calibration beside published figures."""
    lines = []
    for (dataset, way), figures in sorted(_second_moment(rows, lambda row: bool(row["calibration"])).items()):
        ours = [_seeds(figures[name]) if name in figures else "" for name in PROBABILITY_COLUMNS]
        lines.append([f"**{dataset}**: {way}{' (no negative label)' if way == 'posterior' else ''}", *ours, "here"])
    for other in elsewhere("probabilities"):
        for dataset in ("FB13", "WN11"):
            if dataset in other:
                found = other[dataset]
                theirs = [f"{found[name]:.3f}" if name in found else "" for name in PROBABILITY_COLUMNS]
                lines.append([f"{dataset}: {other['system']}", *theirs, other["source"]])
    return markdown(["", "NLL", "Brier", "ECE", "AUC", "accuracy, thresholds by relation", "source"], lines)


def recommender(rows: Rows) -> str:
    """How well each ranks held-out likes."""
    own: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "recommender":
            own.setdefault(row["model"], {})[row["metric"]] = float(row["value"])
    said = {
        "popularity": "popularity",
        "iALS": "iALS: the same loss with L2, by alternating least squares",
        "second moment": "second moment, by gradient steps",
        "the truth": "the true chances: no recommender can do better",
    }
    lines = [[said[name], f"{own[name]['recall@20']:.3f}", f"{own[name]['NDCG@100']:.3f}"] for name in said]
    return markdown(["", "recall@20", "NDCG@100"], lines)


def recommender_probabilities(rows: Rows) -> str:
    """What the recommender states, and what is true."""
    own = {row["metric"]: float(row["value"]) for row in rows if row["experiment"] == "recommender"}
    lines = [
        ["the five best items of 100 users: stated probability, mean", f"{own['said']:.3f}"],
        ["the same items: true chance, mean", f"{own['true']:.3f}"],
        ["held-out likes inside their answer sets at 80%", f"{own['coverage']:.1%}"],
        ["items in such a set, median", f"{own['median_size']:,.0f}"],
    ]
    return markdown(["", ""], lines)


def new_entities(rows: Rows) -> str:
    """MRR of entities that were folded in, beside those trained with."""
    own: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "new-entities" and row["metric"] in ("mrr", "chance"):
            side, _, epochs = row["setting"].partition("; ")
            key = (row["dataset"], f"{row['objective']}, {row['model']}, dim {row['dim']}, {epochs}")
            own.setdefault(key, {})[side if row["metric"] == "mrr" else "chance"] = float(row["value"])
    lines = [
        [*key, *(f"{found[name]:.3f}" for name in ("folded in", "trained with them", "chance"))]
        for key, found in own.items()
    ]
    return markdown(["data", "objective, model", "folded in, MRR", "trained with, MRR", "chance"], lines)


RANKING_COLUMNS = ("mrr", "hits@1", "hits@10")
PROBABILITY_COLUMNS = ("nll", "brier", "ece", "auc", "accuracy_relation_thresholds")

TABLES: dict[str, Callable[[Rows], str]] = {
    "table2-classification": lambda rows: table2(rows, "classification", CLASSIFIED),
    "table2-ranking": lambda rows: table2(rows, "ranking", RANKED),
    "table2-optimistic": lambda rows: table2(rows, "ranking", RANKED, ties="optimistic"),
    "table2-settings": table2_settings,
    "table1": table1,
    "service": service,
    "figure2": figure2,
    "theorem1": theorem1,
    "theorem23": theorem23,
    "speed-loading": speed_loading,
    "lighter-state": lighter_state,
    "speed-memory": speed_memory,
    "datasets": datasets,
    "first-runs-ranking": first_runs_ranking,
    "first-runs-classification": first_runs_classification,
    "first-runs-settings": first_runs_settings,
    "speed-cpu": lambda rows: speed(rows, "bench"),
    "speed-growth": lambda rows: speed(rows, "bench-growth"),
    "speed-gpu": lambda rows: speed(rows, "bench-gpu"),
    "speed-theorem": speed_theorem,
    "engines-agree": engines_agree,
    "speed-ranking": speed_ranking,
    "recommender": recommender,
    "recommender-probabilities": recommender_probabilities,
    "new-entities": new_entities,
    "second-moment-until": second_moment_until,
    "second-moment-ranking": second_moment_ranking,
    "second-moment-probabilities": second_moment_probabilities,
    "pykeen-side": pykeen_side,
    "pykeen-side-setting": pykeen_side_setting,
}


def main() -> int:
    """Renew or check every page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    rows = read_index(ROOT / "results" / "index.csv")
    stale = []
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        text = page.read_text("utf-8")
        renewed = MARK.sub(lambda mark: mark[1] + TABLES[mark[2]](rows) + mark[3], text)
        if renewed != text:
            stale.append(page.relative_to(ROOT))
            if not check:
                page.write_text(renewed, "utf-8")
    if stale:
        print(f"{'stale' if check else 'renewed'}: {', '.join(map(str, stale))}")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
