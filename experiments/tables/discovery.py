"""Tables of how far probabilities of unknown triples hold, and of what labels add."""

from __future__ import annotations

import statistics

from experiments.tables.common import Rows, markdown, seeds

HIDDEN = {"test": "", "valid": ", validation hidden"}
Figures = dict[tuple[str, str], dict[str, list[float]]]
LEAST = 100  # triples of a bin that is shown


def discovery(rows: Rows) -> str:
    """Stated against true where facts are hidden, mean over seeds."""
    lines = []
    for (dataset, split), own in _figures(rows, "discovery", "split").items():
        mean = {key: statistics.mean(values) for key, values in own.items()}
        tops = [f"{mean[f'stated@{size}']:.3f} / {mean[f'true@{size}']:.3f}" for size in ("100", "1000", "hidden")]
        by_relation = f"{mean['relations_median']:.2f} ({mean['relations_low']:.2f}–{mean['relations_high']:.2f})"
        lines.append([
            f"{dataset}{HIDDEN[split]} ({len(own['mrr'])})", f"{mean['mrr']:.3f}", f"{mean['hidden']:,.0f}", *tops,
            f"{mean['sum_before_offset']:,.0f}", f"{mean['offset']:+.2f}", by_relation, f"{mean['log_loss']:.3f}",
        ])  # fmt: skip
    header = [
        "graph (seeds)", "MRR", "hidden", "top 100", "top 1,000", "top (number hidden)", "sum before the offset",
        "offset", "sum / hidden by relation", "log-loss per hidden fact",
    ]  # fmt: skip
    return markdown(header, lines)


def bins(rows: Rows) -> str:
    """Stated and true share of unknown triples by probability, where the test facts are hidden, over all seeds."""
    lines = []
    for (dataset, split), own in _figures(rows, "discovery", "split").items():
        lows = sorted({float(key.split("_")[1]) for key in own if key.startswith("bin_")})
        for low in lows if split == "test" else ():
            name = f"bin_{low:g}_"
            counts = own[f"{name}triples"]
            total = sum(counts)
            if total < LEAST or low < 0.01:
                continue
            stated, true = (
                sum(n * share for n, share in zip(counts, own[name + key], strict=True)) / total
                for key in ("stated", "true")
            )
            lines.append([dataset, f"from {low:g}", f"{total:,.0f}", f"{stated:.3f}", f"{true:.3f}"])
    return markdown(["graph", "probability", "triples", "stated", "true"], lines)


def labels(rows: Rows) -> str:
    """NLL of labelled test triples by the number of labels."""
    own = _figures(rows, "labels", "calibration")
    datasets = dict.fromkeys(dataset for dataset, _ in own)
    names = {
        "coin": "a coin",
        "relations": "each relation's share",
        "20": "20",
        "100": "100",
        "500": "500",
        "all": "all",
    }
    lines = [
        [dataset, *(seeds(own[dataset, name]["nll"]) for name in names if (dataset, name) in own)]
        for dataset in datasets
    ]
    return markdown(["graph", *names.values()], lines)


def completeness(rows: Rows) -> str:
    """What probabilities sum to, with a share of all facts hidden and the completeness told."""
    lines = [
        [
            dataset,
            setting.removeprefix("hide "),
            *(f"{own[key][0]:,.0f}" for key in ("hidden", "sum", "sum_before_offset")),
        ]
        for (dataset, setting), own in _figures(rows, "completeness", "setting").items()
    ]
    return markdown(["graph", "hidden share", "hidden facts", "sum of probabilities", "sum before the offset"], lines)


def _figures(rows: Rows, experiment: str, by: str) -> Figures:
    """The figures of an experiment by dataset and a column, then by metric, one per seed."""
    own: Figures = {}
    for row in rows:
        if row["experiment"] == experiment:
            own.setdefault((row["dataset"], row[by]), {}).setdefault(row["metric"], []).append(float(row["value"]))
    return own
