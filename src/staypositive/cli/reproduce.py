"""`staypositive reproduce` and `staypositive results`: the paper as commands, and its figures checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, Speaker, VerboseFlag, own_command
from staypositive.errors import InputError
from staypositive.experiments.index import read_index, write_rows
from staypositive.experiments.kept import Kept
from staypositive.experiments.paper import Cell, Paper, load_paper
from staypositive.experiments.table2 import Lab, chosen_records, decide, read_records, rerun, rows_of_cell, search
from staypositive.graph import KnowledgeGraph, load_graph
from staypositive.training import resolve_device

RESULTS = Path("results")
ROUNDING = 6e-6
"""The index has six digits."""
WHAT = ("table2", "extended", "table1", "figure1", "figure2", "ablations", "theorems", "past", "all")

ResultsFlag = Annotated[Path, typer.Option("--results", help="Folder of the results; the index is its index.csv.")]


def reproduce_command(
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(WHAT)}.")],
    rows: Annotated[
        str | None, typer.Option(help="Rows of the table, separated by commas: spDistMult,SimplE.")
    ] = None,
    datasets: Annotated[str | None, typer.Option(help="Datasets, separated by commas: WN11,FB13.")] = None,
    chosen: Annotated[
        bool, typer.Option("--chosen", help="Train the setting that the search chose, nothing else (table2).")
    ] = False,
    seed: Annotated[int, typer.Option(help="The seed to train again, with --chosen.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Reduced settings for two cores, marked as such in the index.")
    ] = False,
    by_mrr: Annotated[
        bool, typer.Option("--by-mrr", help="Choose by MRR on validation facts, not NLL on labels (WN11, FB13).")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    results: ResultsFlag = RESULTS,
    plots: Annotated[Path, typer.Option(help="Folder for figures.")] = Path("docs/images"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Run the paper's experiments again. What is done already is skipped, so it can be stopped and gone on with.

    Examples:
    staypositive reproduce all --dry-run

    staypositive reproduce table2 --rows spDistMult --datasets FB13 --chosen

    staypositive reproduce table2 --quick

    staypositive reproduce figure1

    """
    if what not in WHAT:
        raise InputError(f"expected one of {', '.join(WHAT)}, got {what!r}")
    speaker = Speaker(as_json, quiet, verbose, warnings=False)
    paper = load_paper().quickened() if quick else load_paper()
    command = own_command(("--plots", "--results"))
    if by_mrr:
        paper = paper.choosing_by_mrr()
    suffix = ("_by_mrr" if by_mrr else "") + ("-quick" if quick else "")
    lab = Lab(results, resolve_device(device), command, experiment="table2" + suffix)
    wanted = paper.cells(rows.split(",") if rows else None, datasets.split(",") if datasets else None)
    parts = [name for name in WHAT if name != "all"] if what == "all" else [what]
    job = Job(speaker, paper, lab, wanted, plots, quick)
    for part in parts:
        if part in ("table2", "extended"):
            job.table(part, chosen, seed, dry_run)
        else:
            job.part(part, dry_run)
    speaker.result(job.shown)


@dataclasses.dataclass
class Job:
    """One call of `reproduce`."""

    speaker: Speaker
    paper: Paper
    lab: Lab
    cells: list[Cell]
    plots: Path
    quick: bool
    shown: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def table(self, part: str, chosen: bool, seed: int, dry_run: bool) -> None:
        """Both rounds of each cell of the table, or the chosen setting alone."""
        paper, grid = self.paper, ("quick" if self.quick else "full" if part == "table2" else "subset")
        known = paper.table2 if part == "table2" else paper.extended
        lab = dataclasses.replace(self.lab, experiment=self.lab.experiment.replace("table2", part))
        cells = [cell for cell in self.cells if cell in known]
        self._plan(part, cells, lab, grid, chosen)
        if dry_run:
            return
        graphs: dict[str, KnowledgeGraph] = {}
        for cell in cells:
            graph = graphs.setdefault(cell.dataset, load_graph(cell.dataset))
            if chosen:
                self._chosen(cell, graph, lab, seed)
                continue
            rule = paper.rule_of(cell)
            settings = len(paper.settings(cell, grid, 1))
            with self.speaker.progress(f"{cell.slug}, the grid", settings * rule.epochs) as done:
                records = search(paper, cell, graph, lab, grid, done)
            finals = min(rule.finalists, settings) * len(rule.seeds)
            with self.speaker.progress(f"{cell.slug}, the best", finals * rule.final_epochs) as done:
                kept = decide(paper, cell, graph, lab, records, grid, done)
            files = [str(lab.path("kept", f"{cell.slug}-{s}", ".npz").relative_to(lab.results)) for s in rule.seeds]
            write_rows(lab.results / "index.csv", rows_of_cell(cell, list(zip(files, kept, strict=True))))
            self._show(cell, kept)

    def _plan(self, part: str, cells: list[Cell], lab: Lab, grid: str, chosen: bool) -> None:
        lines = []
        for cell in cells:
            rule = self.paper.rule_of(cell)
            settings = len(self.paper.settings(cell, grid, 1))
            kept = all(lab.path("kept", f"{cell.slug}-{seed}", ".npz").exists() for seed in rule.seeds)
            path = lab.path("grid", cell.slug, ".csv")
            searched = len(read_records(path)) if path.exists() else 0
            state = "done" if kept else f"{searched} of the grid done" if searched else "to do"
            finals = min(rule.finalists, settings)
            again = f"{finals} × {len(rule.seeds)} seeds"
            lines.append([cell.slug, settings, rule.epochs, again, rule.final_epochs, state])
        header = ["cell", "settings", "epochs", "then", "epochs", "state"]
        if not chosen:
            self.speaker.table(f"Plan of {part} on {self.lab.device}", header, lines)

    def _chosen(self, cell: Cell, graph: KnowledgeGraph, lab: Lab, seed: int) -> None:
        records = [r for r in chosen_records(self.paper, cell, lab) if int(r["seed"]) == seed]
        if not records:
            raise InputError(f"{lab.results} has no chosen setting of {cell.name} on {cell.dataset} with seed {seed}")
        own = dataclasses.replace(lab, experiment=f"{lab.experiment}-chosen")
        with self.speaker.progress(cell.slug, int(records[0]["best_epoch"])) as done:
            kept = rerun(self.paper, cell, graph, own, records[0], done)
        write_rows(lab.results / "index.csv", rows_of_cell(cell, [("", kept)]))
        self._show(cell, [kept])

    def _show(self, cell: Cell, kept: list[Kept]) -> None:
        """Show a cell's metrics beside the paper's."""
        rows = [row for row in rows_of_cell(cell, [("", one) for one in kept]) if "published" in row]
        found: dict[str, list[float]] = {}
        for row in rows:
            found.setdefault(row["metric"], []).append(row["value"])
        published = dict(cell.published)
        lines = []
        for metric, values in found.items():
            mean = sum(values) / len(values)
            lines.append([metric, mean, max(values) - min(values), published[metric], mean / published[metric] - 1])
            self.shown.append({"dataset": cell.dataset, "row": cell.name, "metric": metric, "ours": mean,
                               "published": published[metric], "seeds": len(values)})  # fmt: skip
        setting = f"{cell.slug}: {kept[0].about['setting']}"
        self.speaker.table(setting, ["metric", "ours", "spread", "paper", "difference"], lines)

    def part(self, part: str, dry_run: bool) -> None:
        """One of the other parts."""
        from staypositive.cli import reproduce_parts

        run: Callable[[Job, bool], None] = getattr(reproduce_parts, part)
        run(self, dry_run)


results_app = typer.Typer(
    help="The index of results: collect kept files into it, and check it.", no_args_is_help=True
)


@results_app.command("collect")
def collect(results: ResultsFlag = RESULTS, as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """Put the rows of every kept result into the index."""
    speaker = Speaker(as_json, quiet)
    cells = {cell.slug: cell for cell in load_paper().cells()}
    rows: list[dict[str, Any]] = []
    files = kept_files(results)
    with speaker.progress("kept results", len(files)) as done:
        for path in files:
            slug = path.stem.partition("-")[2].rpartition("-")[0]
            kept, file = Kept.read(path), str(path.relative_to(results))
            of_paper = slug in cells and path.stem.startswith(("table2", "extended"))
            rows += rows_of_cell(cells[slug], [(file, kept)]) if of_paper else kept.rows(file)
            done(1)
    count = write_rows(results / "index.csv", rows)
    speaker.say(f"{count} rows of {len(files)} kept results")
    speaker.result({"rows": count, "files": len(files)})


@results_app.command("check")
def check(results: ResultsFlag = RESULTS, as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """Recompute every figure of the index that has a kept file, and compare. Needs neither GPU nor data."""
    speaker = Speaker(as_json, quiet)
    held: dict[str, list[dict[str, str]]] = {}
    for row in read_index(results / "index.csv"):
        if row["file"]:
            held.setdefault(row["file"], []).append(row)
    places = ("metric", "side", "filter", "ties", "calibration", "unseen")
    wrong, count = [], 0
    with speaker.progress("kept results", len(held)) as done:
        for file, rows in held.items():
            fresh = {
                tuple(str(row.get(p, "")) for p in places): row["value"] for row in Kept.read(results / file).rows()
            }
            for row in rows:
                value = fresh.get(tuple(row[p] for p in places))
                count += 1
                if value is None or abs(value - float(row["value"])) > ROUNDING * abs(value):
                    wrong.append({"file": file, "metric": row["metric"], "index": row["value"], "recomputed": value})
            done(1)
    unknown = sorted(set(map(str, (p.relative_to(results) for p in kept_files(results)))) - set(held))
    if wrong:
        speaker.table("Not what the kept files give", list(wrong[0]), [list(one.values()) for one in wrong[:50]])
    speaker.say(f"{count - len(wrong)} of {count} figures of {len(held)} kept files recomputed and equal")
    for file in unknown:
        speaker.say(f"{file} is not in the index: staypositive results collect")
    speaker.result({"figures": count, "wrong": wrong, "not_in_index": unknown})
    if wrong or unknown or not count:
        raise typer.Exit(1)


def kept_files(results: Path) -> list[Path]:
    """Return every kept result under a folder of results."""
    return sorted((results / "kept").glob("*.npz"))
