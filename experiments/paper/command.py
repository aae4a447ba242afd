"""`python -m experiments reproduce`: the paper's tables, figures and ablations, and what goes beyond them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.artifacts import Artifact
from experiments.context import (
    RESULTS,
    CommitOption,
    DeviceOption,
    ExperimentContext,
    GraphsOption,
    ResultsOption,
    load,
)
from experiments.paper.paper import Cell, Paper, load_paper
from experiments.paper.table2 import (
    artifact_path,
    chosen_records,
    decide,
    read_records,
    rerun,
    rows_of_cell,
    search,
)
from staypositive.cli.console import Console, JsonFlag, QuietFlag, VerboseFlag
from staypositive.errors import InputError
from staypositive.graph import KnowledgeGraph

TABLES = ("table2", "extended")
WHAT = (*TABLES, "table1", "figure1", "figure2", "ablations", "theorems", "background", "beyond_paper", "all")


def reproduce(
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(WHAT)}.")],
    rows: Annotated[
        str | None, typer.Option(help="Rows of the table, separated by commas: spDistMult,SimplE.")
    ] = None,
    datasets: Annotated[str | None, typer.Option(help="Datasets, separated by commas: WN11,FB13.")] = None,
    chosen: Annotated[
        bool, typer.Option("--chosen", help="Train only the setting that the search chose (table2).")
    ] = False,
    seed: Annotated[int, typer.Option(help="The seed to train again, with --chosen.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Reduced settings for two cores, marked as such in the results.")
    ] = False,
    by_mrr: Annotated[
        bool, typer.Option("--by-mrr", help="Choose by MRR on validation facts, not NLL on labels (WN11, FB13).")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    results: ResultsOption = RESULTS,
    graphs: GraphsOption = None,
    plots: Annotated[Path, typer.Option(help="Folder for figures.")] = Path("docs/images"),
    device: DeviceOption = "auto",
    commit: CommitOption = None,
    seconds: Annotated[float, typer.Option(help="Start no further cell of the table after this time.")] = 1e9,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Run the paper's experiments again. What is done already is skipped, so a run can be stopped and resumed.

    Examples:
    python -m experiments reproduce all --dry-run

    python -m experiments reproduce table2 --rows spDistMult --datasets FB13 --chosen

    python -m experiments reproduce table2 --quick

    python -m experiments reproduce figure1

    On a machine that has only torch: reproduce table2 --graphs FOLDER --results OUT --commit HASH, and then here:
    python -m experiments results add OUT

    """
    if what not in WHAT:
        raise InputError(f"expected one of {', '.join(WHAT)}, got {what!r}")
    console = Console(as_json, quiet, verbose, warnings=False)
    paper = load_paper().quickened() if quick else load_paper()
    if by_mrr:
        paper = paper.choosing_by_mrr()
    suffix = ("_by_mrr" if by_mrr else "") + ("-quick" if quick else "")
    context = ExperimentContext.start("table2" + suffix, results, device, commit)
    wanted = paper.cells(rows.split(",") if rows else None, datasets.split(",") if datasets else None)
    job = Job(console, paper, context, wanted, plots, quick, graphs, time.monotonic() + seconds)
    for part in [name for name in WHAT if name != "all"] if what == "all" else [what]:
        if part in TABLES:
            job.table(part, chosen, seed, dry_run)
        else:
            job.part(part, dry_run)
    console.result(job.shown)


@dataclasses.dataclass
class Job:
    """One call of `reproduce`."""

    console: Console
    paper: Paper
    context: ExperimentContext
    cells: list[Cell]
    plots: Path
    quick: bool
    graphs: Path | None = None
    end: float = float("inf")
    """When no further cell is started."""
    shown: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    _loaded: tuple[str, KnowledgeGraph] | None = None

    def table(self, part: str, chosen: bool, seed: int, dry_run: bool) -> None:
        """Both rounds of each cell of the table, or only the chosen setting."""
        paper, grid = self.paper, ("quick" if self.quick else "full" if part == "table2" else "subset")
        known = paper.table2 if part == "table2" else paper.extended
        context = dataclasses.replace(self.context, experiment=self.context.experiment.replace("table2", part))
        cells = [cell for cell in self.cells if cell in known]
        self._plan(part, cells, context, grid, chosen)
        if dry_run:
            return
        for cell in cells:
            if time.monotonic() > self.end:
                self.console.say(f"out of time before {cell.slug}")
                return
            graph = self.load(cell.dataset)
            if chosen:
                self._chosen(cell, graph, context, seed)
                continue
            rule = paper.rule_of(cell)
            settings = len(paper.settings(cell, grid, 1))
            with self.console.progress(f"{cell.slug}, the grid", settings * rule.epochs) as done:
                records = search(paper, cell, graph, context, grid, done)
            finals = min(rule.finalists, settings) * len(rule.seeds)
            with self.console.progress(f"{cell.slug}, the best", finals * rule.final_epochs) as done:
                kept = decide(paper, cell, graph, context, records, grid, done)
            files = [str(artifact_path(context, cell.slug, s).relative_to(context.results)) for s in rule.seeds]
            context.add(rows_of_cell(cell, list(zip(files, kept, strict=True))))
            self._show(cell, kept)

    def _plan(self, part: str, cells: list[Cell], context: ExperimentContext, grid: str, chosen: bool) -> None:
        lines = []
        for cell in cells:
            rule = self.paper.rule_of(cell)
            settings = len(self.paper.settings(cell, grid, 1))
            kept = all(artifact_path(context, cell.slug, seed).exists() for seed in rule.seeds)
            searched = len(read_records(context, "grid", cell.slug))
            state = "done" if kept else f"{searched} of the grid done" if searched else "to do"
            finals = min(rule.finalists, settings)
            again = f"{finals} × {len(rule.seeds)} seeds"
            lines.append([cell.slug, settings, rule.epochs, again, rule.final_epochs, state])
        header = ["cell", "settings", "epochs", "then", "epochs", "state"]
        if not chosen:
            self.console.table(f"Plan of {part} on {self.context.device}", header, lines)

    def _chosen(self, cell: Cell, graph: KnowledgeGraph, context: ExperimentContext, seed: int) -> None:
        records = [r for r in chosen_records(self.paper, cell, context) if int(r["seed"]) == seed]
        if not records:
            raise InputError(
                f"{context.results} has no chosen setting of {cell.name} on {cell.dataset} with seed {seed}"
            )
        own = dataclasses.replace(context, experiment=f"{context.experiment}-chosen")
        with self.console.progress(cell.slug, int(records[0]["best_epoch"])) as done:
            kept = rerun(self.paper, cell, graph, own, records[0], done)
        context.add(rows_of_cell(cell, [("", kept)]))
        self._show(cell, [kept])

    def _show(self, cell: Cell, kept: list[Artifact]) -> None:
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
        self.console.table(setting, ["metric", "ours", "spread", "paper", "difference"], lines)

    def part(self, part: str, dry_run: bool) -> None:
        """One of the other parts."""
        from experiments.paper import parts

        run: Callable[[Job, bool], None] = getattr(parts, part)
        run(self, dry_run)

    def load(self, dataset: str) -> KnowledgeGraph:
        """Load a dataset; the last one stays."""
        if self._loaded is None or self._loaded[0] != dataset:
            self._loaded = dataset, load(dataset, self.graphs)
        return self._loaded[1]
