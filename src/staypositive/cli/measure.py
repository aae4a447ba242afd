"""`staypositive evaluate`, `calibrate`, `stats` and `report`: how good a trained run is, and what it holds likely."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from staypositive.cli.command import command
from staypositive.cli.console import Console, evaluation_tables
from staypositive.cli.flags import Output, PriorFlag, RunArgument, opened
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
                report = held.evaluate(split, ranking=ranking, progress=advance, **options)
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
        str, Option(help="The calibrator; auto: what suits objective and labels."), ("auto", *CALIBRATORS)
    ] = "auto",
    console: Console = Console(),
) -> None:
    """Fit a calibrator on validation triples, and keep it with the run.

    All but posterior need validation triples labelled true and false. Posterior needs only facts: it compares a
    triple's score with those of other members of the relation's domain and range, in closed form.

    Examples:
      staypositive calibrate runs/geo --method isotonic
      staypositive calibrate runs/geo --method posterior

    """
    held = load_run(run)
    change = held.calibrate(method)
    method = held.calibrator.name if held.calibrator else method
    report = held.evaluate("test", ranking=False) if held.graph.test.has_negatives else {}
    keep_results(held, run, console)
    rows = [["valid (fitted on)", change["nll_before"], change["nll_after"]]] if change else []
    if report:
        measured = report["classification"]["all"]
        rows.append(["test", measured["uncalibrated"]["nll"], measured[method]["nll"]])
    if rows:
        console.table(f"Negative log-likelihood, {method}", ["split", "before", "after"], rows)
    else:
        facts = len(held.graph.valid.facts)
        console.say(f"{method} fitted on {facts:,} validation facts; there is no label to measure it")
    console.result({"method": method, **change, "test": report})


@command
def stats_command(
    run: RunArgument,
    threshold: Annotated[float, Option(help="Count triples of at least this probability.")] = 0.5,
    prior: PriorFlag = None,
    samples: Annotated[int, Option(min=1, help="Triples drawn per relation for the estimate.")] = 100_000,
    exact: Annotated[bool, Option(help="Count them all too: |E|² scores per relation.")] = False,
    seed: Annotated[int, Option(help="Seed of the draw.")] = 0,
    output: Output = Output(),
    console: Console = Console(),
) -> None:
    """Mean and standard deviation of all |E|²|R| scores by relation, in closed form; how many triples are likely.

    `normal` takes a relation's scores for normal; `sampled` is an estimate with its 95% interval.

    Examples:
      staypositive stats runs/geo
      staypositive stats runs/geo --threshold 0.9 --prior 0.01 --exact

    """
    held = load_run(run)
    with console.progress("relations", len(held.graph.relations)) as advance:
        table = held.stats(
            threshold=threshold, prior=prior, samples=samples, exact=exact, seed=seed, progress=advance
        )
    output.show(table, f"All triples by relation; likely: probability ≥ {threshold:g}", console)


@command
def report_command(
    run: RunArgument,
    out: Annotated[Path, Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    split: Annotated[str | None, Option(help="Split to show quality on.", show_default="test, or else valid")] = None,
    prior: Annotated[
        float | None, Option(help="Share of true triples to assume.", show_default="each relation's density")
    ] = None,
    samples: Annotated[int, Option(min=2, help="Pairs per relation, at most, for score statistics.")] = 20_000,
    points: Annotated[int, Option(min=2, help="Entities drawn on the map, at most.")] = 3000,
    seed: Annotated[int, Option(help="Seed of what is drawn.")] = 0,
    console: Console = Console(),
) -> None:
    """Write one HTML page about a run: training, ranking, probabilities, statistics, map, predictions, settings.

    The page needs no network and no script; it follows the light or dark theme and can be printed.

    Examples:
      staypositive report geo-demo
      staypositive report runs/mine --out mine.html --split valid --prior 0.01

    """
    held = load_run(run)
    with console.progress("drawing", 9) as advance:
        held.report(
            out, split=split, prior=prior, samples=samples, points=points, seed=seed, progress=lambda _: advance(1)
        )
    size = out.stat().st_size
    console.say(f"written to {out} ({size / 1024:,.0f} KB); open it in a browser")
    console.result({"report": str(out), "bytes": size})
