"""Table 2's grid on a machine that has torch alone: reads encoded graphs, writes grid, finals and kept results.

    python benchmarks/paper_grid.py --graphs cache --results out --rows spDistMult,spSimplE --commit HASH

Does what `staypositive reproduce` does for `--part` (table2, extended or ablations), cell by cell, and stops starting
new cells after `--seconds`; `--part background` trains the chosen runs of WN11 and FB13 again and keeps what every
calibration starts from. Copy the results into `results/` and run `staypositive results collect`; the rows of
ablations are written to a file of the index's columns.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

import torch

from staypositive.experiments.ablations import ablate, variants
from staypositive.experiments.index import write_rows
from staypositive.experiments.kept import keep_background
from staypositive.experiments.paper import load_paper
from staypositive.experiments.table2 import Lab, chosen_records, decide, rerun, search
from staypositive.graph import load_graph


def main() -> None:
    """Run both rounds of each cell, while time lasts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--part", default="table2", choices=("table2", "extended", "ablations", "background"))
    parser.add_argument("--groups", default="", help="of ablations, by name; all unless given")
    parser.add_argument("--rows", default="spDistMult,spSimplE")
    parser.add_argument("--datasets", default="WN11,WN18AM,FB13,FB15k-237AM")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--by-mrr", action="store_true", help="choose by MRR also where there are labels")
    chosen = parser.parse_args()
    paper, start = load_paper(), time.perf_counter()
    if chosen.by_mrr:
        paper = paper.choosing_by_mrr()
    for dataset in chosen.datasets.split(","):
        graph = load_graph(chosen.graphs / f"{dataset}.npz")
        for cell in paper.cells(chosen.rows.split(","), [dataset]):
            if time.perf_counter() - start > chosen.seconds:
                print("out of time before", cell.slug)
                return
            command = f"staypositive reproduce {chosen.part} --rows {cell.name} --datasets {dataset}"
            command += " --by-mrr" if chosen.by_mrr else ""
            experiment = chosen.part + ("_by_mrr" if chosen.by_mrr else "")
            lab = Lab(chosen.results, torch.device(chosen.device), command, chosen.commit, experiment)
            began = time.perf_counter()
            if chosen.part == "ablations":
                groups = [name for name in chosen.groups.split(",") if name]
                wanted = [v for v in variants(paper, cell) if not groups or v.group in groups]
                rows = ablate(paper, cell, graph, lab, wanted)
                write_rows(lab.path("rows", cell.slug, ".csv"), rows)
                print(cell.slug, len(rows), "rows", round(time.perf_counter() - began, 1), flush=True)
                continue
            if chosen.part == "background":
                for record in chosen_records(paper, cell, dataclasses.replace(lab, experiment="table2")):
                    result = rerun(paper, cell, graph, lab, record, keep=keep_background)
                    result.write(lab.path("kept", f"{cell.slug}-{record['seed']}", ".npz"))
                print(cell.slug, "background", round(time.perf_counter() - began, 1), flush=True)
                continue
            grid = "subset" if chosen.part == "extended" else "full"
            records = search(paper, cell, graph, lab, grid)
            between = time.perf_counter()
            kept = decide(paper, cell, graph, lab, records, grid)
            took = between - began, time.perf_counter() - between
            wanted = ("mrr", "hits@1", "nll", "brier", "auc", "nll_platt", "brier_platt")
            shown = [
                {r["metric"]: round(r["value"], 4) for r in result.rows() if r["metric"] in wanted
                 and r.get("ties", "realistic") == "realistic" and r.get("side", "both") == "both"
                 and r.get("filter", "filtered") == "filtered"}
                for result in kept
            ]  # fmt: skip
            print(cell.slug, [round(s, 1) for s in took], kept[0].about["setting"], shown, flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
