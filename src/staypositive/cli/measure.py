"""`staypositive evaluate`, `calibrate`, `stats` and `report`: how good a trained run is, and what it holds likely."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from staypositive.cli.command import command
from staypositive.cli.console import Console, evaluation_tables
from staypositive.cli.flags import CompletenessFlag, Output, RunArgument, opened
from staypositive.errors import SettingError
from staypositive.evaluation import DEFAULT_MEMORY
from staypositive.graph import SPLITS
from staypositive.probability import CALIBRATORS
from staypositive.run import Run, is_packaged, load_run
from staypositive.sharded import is_first, is_launched, keep_metrics

MEMORY_MB = DEFAULT_MEMORY // 2**20


@command
def evaluate_command(
    run: RunArgument,
    split: Annotated[str, Option(help="The split to measure."), SPLITS] = "test",
    ranking: Annotated[bool, Option(help="Rank each fact among all entities.")] = True,
    discovery: Annotated[bool, Option(help="Hide the test facts and see how far probabilities hold.")] = True,
    sampled: Annotated[
        int | None, Option(min=1, help="For large graphs: rank against this number of drawn entities.")
    ] = None,
    per_relation: Annotated[bool, Option(help="Show metrics per relation too.")] = False,
    memory_mb: Annotated[int, Option(min=1, help="Ceiling for scores held at once, in MiB.")] = MEMORY_MB,
    console: Console = Console(),
) -> None:
    """Measure a run on a split, and keep the metrics in its folder.

    Ranks are filtered and realistic unless the table says otherwise; optimistic, pessimistic and raw ones stand
    beside them. A run whose weights stayed in shards is ranked under torchrun, by any number of processes.

    Examples:
      staypositive evaluate runs/geo --per-relation
      staypositive evaluate runs/geo --split valid --json
      staypositive evaluate runs/large --sampled 1000
      torchrun --nproc-per-node 4 -m staypositive evaluate runs/in-shards

    """
    if sampled is not None and (per_relation or not ranking):
        raise SettingError("--sampled goes with neither --per-relation nor --no-ranking")
    if is_launched() and not ranking:
        raise SettingError("a run in shards can only be ranked; --no-ranking leaves nothing to do")
    options: dict[str, Any] = {"sampled": sampled, "memory": memory_mb * 2**20}
    with opened(run) as held:
        with console.progress("ranking", 2 * len(held.graph.split(split).facts)) as advance:
            if isinstance(held, Run):
                report = held.evaluate(split, ranking=ranking, discovery=discovery, progress=advance, **options)
            else:
                report = held.evaluate(split, progress=advance, **options)
        if isinstance(held, Run):
            keep_results(held, run, console)
        else:
            if is_first():
                keep_metrics(run, split, report)
            held.world.wait()
    evaluation_tables(console, split, report, per_relation)
    console.result(report)


def keep_results(run: Run, folder: Path, console: Console) -> None:
    """Keep what was measured in the folder that the run was read from; one of the package stays as it is."""
    if is_packaged(folder):
        console.say(f"{folder} is part of the package: nothing is kept in it")
    else:
        run.save_results(folder)


@command
def calibrate_command(
    run: RunArgument,
    method: Annotated[
        str,
        Option(help="Calibrator of labelled splits; auto: what suits objective and labels."),
        ("auto", "none", *CALIBRATORS),
    ] = "auto",
    completeness: CompletenessFlag = None,
    console: Console = Console(),
) -> None:
    """Fit the probabilities of triples that are not in the graph, and keep them with the run.

    They are fitted to validation facts and to counts of all pairs that the graph does not state; no label is needed.
    Where validation has triples labelled true and false, a calibrator of triples like those is fitted too, which
    `evaluate` measures.

    Examples:
      staypositive calibrate runs/geo
      staypositive calibrate runs/geo --completeness 0.8
      staypositive calibrate runs/geo --method isotonic

    """
    held = load_run(run)
    with console.progress("relations", len(held.graph.relations)) as advance:
        change = held.calibrate(method, completeness=completeness, progress=advance)
    report = held.evaluate("test", ranking=False, discovery=False) if held.graph.test.has_negatives else {}
    keep_results(held, run, console)
    if held.posterior is not None:
        console.say(
            f"probabilities of unknown triples: fitted to {held.posterior.held_out:,} validation facts, for a graph "
            f"with {held.posterior.completeness:.4g} of all true facts"
        )
    rows, calibrator = [], held.calibrator
    if "nll_before" in change:
        rows.append(["valid (fitted on)", change["nll_before"], change["nll_after"]])
    if report and calibrator is not None:
        measured = report["classification"]["all"]
        rows.append(["test", measured["uncalibrated"]["nll"], measured[calibrator.name]["nll"]])
    if rows and calibrator is not None:
        console.table(
            f"Negative log-likelihood of labelled triples, {calibrator.name}", ["split", "before", "after"], rows
        )
    console.result({"method": calibrator.name if calibrator else None, **change, "test": report})


@command
def stats_command(
    run: RunArgument,
    threshold: Annotated[float, Option(help="Count triples of at least this probability.")] = 0.5,
    completeness: CompletenessFlag = None,
    output: Output = Output(),
    console: Console = Console(),
) -> None:
    """Mean and standard deviation of all |E|²|R| scores by relation, in closed form; how many new facts to expect.

    `new_facts` is how many true triples the graph lacks, with its standard error; `likely` unknown triples reach the
    threshold, and `likely_facts` of these are true.

    Examples:
      staypositive stats runs/geo
      staypositive stats runs/geo --threshold 0.9 --completeness 0.8

    """
    table = load_run(run).stats(threshold=threshold, completeness=completeness)
    output.show(table, f"All triples by relation; likely: probability ≥ {threshold:g}", console)


@command
def report_command(
    run: RunArgument,
    out: Annotated[Path, Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    split: Annotated[str | None, Option(help="Split to show quality on.", show_default="test, or else valid")] = None,
    completeness: CompletenessFlag = None,
    points: Annotated[int, Option(min=2, help="Entities drawn on the map, at most.")] = 3000,
    seed: Annotated[int, Option(help="Seed of what is drawn.")] = 0,
    console: Console = Console(),
) -> None:
    """Write one HTML page about a run: training, ranking, probabilities, statistics, map, predictions, settings.

    The page needs no network and no script; it follows the light or dark theme and can be printed.

    Examples:
      staypositive report geo-demo
      staypositive report runs/mine --out mine.html --split valid --completeness 0.95

    """
    held = load_run(run)
    with console.progress("drawing", 9) as advance:
        held.report(
            out, split=split, completeness=completeness, points=points, seed=seed, progress=lambda _: advance(1)
        )
    size = out.stat().st_size
    console.say(f"written to {out} ({size / 1024:,.0f} KB); open it in a browser")
    console.result({"report": str(out), "bytes": size})
