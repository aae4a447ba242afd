"""`staypositive evaluate`, `calibrate` and `predict`: what can be done with a saved run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, RunArgument, SafeFlag, Speaker, VerboseFlag, keep_results
from staypositive.cli.sharded import evaluate_sharded
from staypositive.cli.tables import evaluation_tables, frame_rows
from staypositive.completion import complete_relation
from staypositive.errors import DataError, InputError, SettingError
from staypositive.evaluation import DEFAULT_MEMORY
from staypositive.graph import SPLITS
from staypositive.inference import read_queries
from staypositive.interop import require_table_path, write_table
from staypositive.probability import CALIBRATORS
from staypositive.run import load_run
from staypositive.sharded import is_launched

if TYPE_CHECKING:
    import pandas as pd

    SplitName: TypeAlias = str
    MethodName: TypeAlias = str
else:  # the names that exist, so that --help lists them
    SplitName = Literal[SPLITS]
    MethodName = Literal[("auto", *CALIBRATORS)]


def evaluate(
    run: RunArgument,
    split: Annotated[SplitName, typer.Option(help="The split to measure.")] = "test",
    ranking: Annotated[bool, typer.Option(help="Rank each fact among all entities.")] = True,
    sampled: Annotated[
        int | None, typer.Option(min=1, help="Rank against so many drawn entities instead: for very large graphs.")
    ] = None,
    per_relation: Annotated[bool, typer.Option("--per-relation", help="Show each relation apart.")] = False,
    memory_mb: Annotated[
        int, typer.Option("--memory-mb", min=1, help="Ceiling for scores held at once, in MiB.")
    ] = DEFAULT_MEMORY // 2**20,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Measure a run on a split, and keep the metrics in its folder.

    Ranks are filtered and realistic unless said; optimistic, pessimistic and raw ones stand beside them.
    A run whose weights stayed in shards is ranked under torchrun, by any number of processes.

    Examples:
      staypositive evaluate runs/geo --per-relation

      staypositive evaluate runs/geo --split valid --json

      staypositive evaluate runs/large --sampled 1000

      torchrun --nproc-per-node 4 -m staypositive evaluate runs/in-shards

    """
    speaker = Speaker(as_json, quiet, verbose)
    if sampled is not None and (per_relation or not ranking):
        raise SettingError("--sampled goes with neither --per-relation nor --no-ranking")
    memory = memory_mb * 2**20
    if is_launched():
        if not ranking:
            raise SettingError("a run in shards can only be ranked; --no-ranking leaves nothing to do")
        report = evaluate_sharded(run, split, sampled, memory, speaker)
        evaluation_tables(speaker, split, report, per_relation)
        speaker.result(report)
        return
    held = load_run(run)
    with speaker.progress("ranking", 2 * len(held.graph.split(split).facts)) as advance:
        report = held.evaluate(split, ranking=ranking, sampled=sampled, memory=memory, progress=advance)
    keep_results(held, run, speaker)
    evaluation_tables(speaker, split, report, per_relation)
    speaker.result(report)


def calibrate(
    run: RunArgument,
    method: Annotated[
        MethodName, typer.Option(help="How to calibrate; auto: what suits the objective and the labels there are.")
    ] = "auto",
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Fit a calibrator on validation triples, and keep it with the run.

    All but posterior need validation triples labelled true and false. Posterior needs facts alone: it compares a
    triple's score with those of other members of the relation's domain and range, in closed form.

    Examples:
      staypositive calibrate runs/geo --method isotonic

      staypositive calibrate runs/geo --method posterior

    """
    speaker = Speaker(as_json, quiet, verbose)
    held = load_run(run)
    change = held.calibrate(method)
    method = held.calibrator.name if held.calibrator else method
    report = held.evaluate("test", ranking=False) if held.graph.test.has_negatives else {}
    keep_results(held, run, speaker)
    rows = [["valid (fitted on)", change["nll_before"], change["nll_after"]]] if change else []
    if report:
        measured = report["classification"]["all"]
        rows.append(["test", measured["uncalibrated"]["nll"], measured[method]["nll"]])
    if rows:
        speaker.table(f"Negative log-likelihood, {method}", ["split", "before", "after"], rows)
    else:
        speaker.say(
            f"{method} fitted on {len(held.graph.valid.facts):,} validation facts; there is no label to measure it"
        )
    speaker.result({"method": method, **change, "test": report})


def predict(
    run: RunArgument,
    head: Annotated[str | None, typer.Option("--head", "-h", help="Label of the head.")] = None,
    relation: Annotated[
        str | None,
        typer.Option("--relation", "-r", help="Label of the relation.", autocompletion=complete_relation),
    ] = None,
    tail: Annotated[str | None, typer.Option("--tail", "-t", help="Label of the tail.")] = None,
    queries: Annotated[
        Path | None, typer.Option("--queries", help="File of queries: triples with ? for the missing part.")
    ] = None,
    similar: Annotated[str | None, typer.Option("--similar", help="Entities most like this one, instead.")] = None,
    top: Annotated[int, typer.Option("--top", "-n", min=1, help="Answers a query.")] = 10,
    exclude_known: Annotated[bool, typer.Option("--exclude-known", help="Leave out facts of the graph.")] = False,
    exclude_self: Annotated[
        bool, typer.Option("--exclude-self", help="Leave out the entity that is asked about.")
    ] = False,
    candidates: Annotated[
        str | None,
        typer.Option("--candidates", help="'range' (entities the relation has in train) or a file, a label a line."),
    ] = None,
    prior: Annotated[
        float | None, typer.Option("--prior", help="Share of true triples to assume.", show_default="the run's")
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option("--coverage", help="Give the set of new answers that holds the true one so often, e.g. 0.9."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the answers as a .tsv, .csv, .parquet or .nt file.")
    ] = None,
    spreadsheet_safe: SafeFlag = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Answer (h, r, ?), (?, r, t) or (h, ?, t) with probabilities, or judge a whole triple.

    Examples:
      staypositive predict runs/geo --head France --relation borders

      staypositive predict runs/geo --relation has_currency --tail "Euro (EUR)" --exclude-known

      staypositive predict runs/geo --head Japan --relation has_currency --candidates range --prior 0.01

      staypositive predict runs/geo --queries questions.tsv --out answers.tsv

      staypositive predict runs/geo --head France --relation borders --coverage 0.9

      staypositive predict runs/geo --similar France

    """
    speaker = Speaker(as_json, quiet, verbose)
    if out is not None:
        require_table_path(out)
    held = load_run(run)
    options: dict[str, Any] = {
        "top": top,
        "exclude_known": exclude_known,
        "exclude_self": exclude_self,
        "candidates": _candidates(candidates),
        "prior": prior,
    }
    ways = {"--similar": similar, "--queries": queries, "--head, --relation and --tail": head or relation or tail}
    if sum(way is not None for way in ways.values()) > 1:
        raise InputError(f"ask in one way at a time: {' or '.join(ways)}")
    if coverage is not None and (similar is not None or queries is not None):
        raise InputError("--coverage is for one question: two of --head, --relation and --tail")
    if similar is not None:
        title, frame = f"Most like {similar}", held.similar(similar, top)
    elif queries is not None:
        asked = read_queries(queries, held.graph)
        with speaker.progress("answering", len(asked)) as advance:
            title, frame = f"{len(asked):,} queries", held.answer(asked, **options, progress=advance)
    elif head is None and relation is None and tail is None:
        raise InputError("ask something: two of --head, --relation and --tail, or --queries, or --similar")
    else:
        title = f"({head or '?'}, {relation or '?'}, {tail or '?'})"
        if coverage is None:
            frame = held.predict(head, relation, tail, **options)
        else:
            frame = held.prediction_set(head, relation, tail, coverage=coverage, prior=prior)
            title += f": {len(frame):,} new answers, the true one among them with probability {coverage:g}"
    if out is not None:
        whole = _whole(frame, head, relation, tail) if out.suffix == ".nt" else frame
        write_table(whole, out, spreadsheet_safe=spreadsheet_safe)
        speaker.say(f"{len(frame):,} rows written to {out}")
    else:
        speaker.table(title, list(frame.columns), frame_rows(frame))
    speaker.result(frame.to_dict(orient="records"))


def _whole(frame: pd.DataFrame, head: str | None, relation: str | None, tail: str | None) -> pd.DataFrame:
    """Return answers as whole triples: what was asked about stands in each row."""
    given = {"head": head, "relation": relation, "tail": tail}
    return frame.assign(**{name: label for name, label in given.items() if label is not None})


def _candidates(text: str | None) -> str | list[str] | None:
    if text is None or text == "range":
        return text
    try:
        lines = Path(text).read_text("utf-8-sig").replace("\r\n", "\n").split("\n")
        return [line for line in lines if line]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as a list of candidates: {error}", text) from None
