"""Fit the constants of `staypositive plan` to the measured runs of the results, and write them into the package.

Time per fact = step/batch + fact + gathered bytes · a + moved bytes · b, by least squares of relative errors, no
constant below 0. Peak memory = copies · state + 32 B per fact (its ids and its place in the order) + a planned fact's
bytes.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Annotated, Any

import numpy as np
import typer
from scipy.optimize import nnls

from experiments.context import PROGRAM, RESULTS, ResultsOption
from experiments.store import Row, read_results
from staypositive.files import sha256_bytes
from staypositive.graph import find_dataset
from staypositive.planning import COSTS_FILE as FILE
from staypositive.planning import Training, cost_terms
from staypositive.training.fused_gpu import MOST_EXAMPLES

FACT_BYTES = 32.0
ASSUMED = {
    "device_bytes": 141e9,
    "link_bytes_per_second": 450e9,
    "network_bytes_per_second": 50e9,
    "devices_per_machine": 8,
    "seconds_per_collective": 30e-6,
}


def measured(rows: list[Row]) -> list[dict[str, float]]:
    """Return what was measured of each run of the fused engine on a GPU: AdaGrad in 32 bits, without dropout."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        batch = re.fullmatch(r"fused-gpu, batch (\d+)", row["setting"])
        if row["experiment"] != "bench-gpu" or row["objective"] != "stay-positive" or batch is None:
            continue
        run = found.setdefault((row["dataset"], row["model"], row["setting"]), {"batch": float(batch[1])})
        run[row["metric"]] = float(row["value"])
        run["entity_width"], run["relation_width"] = Training(row["model"], int(row["dim"])).widths
        run["entities"], run["relations"], run["facts"] = _sizes(row["dataset"])
    return list(found.values())


def _sizes(dataset: str) -> tuple[int, int, int]:
    """Return entities, relations and facts, of a known dataset or of the benchmark's own graphs."""
    drawn = re.fullmatch(r"power-law (\S+), ([\d,]+) facts", dataset)
    if drawn:
        return int(float(drawn[1])), 200, int(drawn[2].replace(",", ""))
    counts = find_dataset(dataset).counts
    return counts["entities"], counts["relations"], counts["train"]


def fit(runs: list[dict[str, float]]) -> tuple[dict[str, float], np.ndarray]:
    """Return the constants, and the relative error of each run's time."""
    columns = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    batch, widths = columns["batch"], (columns["entity_width"], columns["relation_width"])
    seconds = batch / columns["triples_per_second"]
    state = 8 * (columns["entities"] * widths[0] + columns["relations"] * widths[1])
    of_time, of_memory = cost_terms(
        batch=batch, widths=widths, moved_bytes=batch * columns["bytes_per_fact"], state_bytes=state,
        facts=columns["facts"], planned_facts=MOST_EXAMPLES,
    )  # fmt: skip
    parts = np.column_stack(np.broadcast_arrays(*of_time.values()))
    found = nnls(parts / seconds[:, None], np.ones(len(runs)))[0]
    peak = 1e9 * columns["peak_gb"] - FACT_BYTES * of_memory["bytes_per_fact"]
    fitted = ("copies_of_state", "bytes_per_planned_fact")
    held = np.column_stack([of_memory[name] for name in fitted])
    memory = nnls(held / peak[:, None], np.ones(len(runs)))[0]
    costs = dict(zip(of_time, found.tolist(), strict=True)) | dict(zip(fitted, memory.tolist(), strict=True))
    costs["bytes_per_fact"] = FACT_BYTES
    return costs, (parts @ found) / seconds - 1


def rounded(costs: dict[str, float]) -> dict[str, Any]:
    """Return the constants to four digits: more was not measured."""
    return {name: float(f"{value:.4g}") for name, value in costs.items()}


def fit_costs(
    results: ResultsOption = RESULTS,
    check: Annotated[bool, typer.Option("--check", help="Fail where the package has other constants.")] = False,
) -> None:
    """Fit the constants of `staypositive plan` to the runs of bench-gpu; print predicted and measured times."""
    used = [row for row in read_results(results) if row["experiment"] == "bench-gpu"]
    runs = measured(used)
    costs, errors = fit(runs)
    for run, error in zip(runs, errors.tolist(), strict=True):
        print(f"|E| {run['entities']:>10,} width {run['entity_width']:.0f} batch {run['batch']:>6.0f}: {error:+.1%}")
    provenance = {
        "fitted": f"{PROGRAM} fit-costs on {len(runs)} runs of bench-gpu (fused-gpu, stay-positive, AdaGrad)",
        "device": used[0]["device"],
        "commit": used[0]["commit"],
        "rows_sha256": sha256_bytes(json.dumps(runs, sort_keys=True).encode()),
        "largest_relative_error": float(f"{np.abs(errors).max():.2g}"),
        "assumed": "device, links and network by NVIDIA's data sheets of H200, NVLink 4 and ConnectX-7 (one 400 Gb/s "
        "port a GPU); 30 µs a collective; none of it measured here",
    }
    whole = json.loads(FILE.read_text("utf-8"))
    new = whole | {"costs": rounded(costs) | {"planned_facts": MOST_EXAMPLES} | ASSUMED, "provenance": provenance}
    if check:
        sys.exit(0 if new == whole else f"{FILE} has other constants than the results give")
    FILE.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\n", "utf-8")
