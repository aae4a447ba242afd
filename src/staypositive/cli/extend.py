"""`staypositive extend`: new facts and new entities for a trained run, without retraining."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from staypositive.cli.common import HeaderFlag, JsonFlag, QuietFlag, RunArgument, Speaker, VerboseFlag
from staypositive.cli.reading import ColumnsFlag, NaFlag, SkipBlankFlag, layouts_shown, parse_columns, parse_list
from staypositive.cli.stopping import require_free
from staypositive.graph import read_triples
from staypositive.run import Run, load_run
from staypositive.run.new_entities import RIDGE, UNOBSERVED_WEIGHT


def extend_command(
    run: RunArgument,
    facts: Annotated[Path, typer.Argument(help="File of facts: head, relation, tail; tab-separated, .csv or .gz.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the extended run.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a run that is already there.")] = False,
    header: HeaderFlag = None,
    columns: ColumnsFlag = None,
    skip_blank: SkipBlankFlag = False,
    na: NaFlag = None,
    ridge: Annotated[
        float, typer.Option(help="How strongly few facts are held back; 1 weighs a typical row as a missed fact.")
    ] = RIDGE,
    unobserved_weight: Annotated[
        float | None,
        typer.Option(
            help="Weight w0 of what is no fact.",
            show_default=f"as a second-moment run was trained, else {UNOBSERVED_WEIGHT}",
        ),
    ] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Give a run new entities, each from a few facts about it, without training.

    An entity that the run does not know gets the row that fits its facts best, all known rows being fixed: one
    least-squares solve. Some of its facts must lead to known entities, and their relations must be known. Facts among
    known entities are added as known facts, and move no row. To learn from many new facts, train again with
    `staypositive train DATA --start-from RUN`.

    Examples:
      staypositive extend runs/geo new-facts.tsv --out runs/geo-grown

      staypositive predict runs/geo-grown --head Atlantis --relation borders

    """
    speaker = Speaker(as_json, quiet, verbose)
    held = load_run(run)
    require_free(out, force)
    with layouts_shown():
        given = parse_columns(columns)
        triples = read_triples(facts, header, columns=given, skip_blank=skip_blank, na=parse_list(na))
    grown = held.with_entities(triples, ridge=ridge, unobserved_weight=unobserved_weight)
    grown.save(out)
    added, stated = grown.provenance["added"][-1], grown.graph.sources[-1].rows
    speaker.say(
        f"{added['entities']:,} new entities and {added['facts']:,} new facts from {facts} "
        f"({stated - added['facts']:,} of its lines were known already); saved in {out}"
    )
    _suggest(held, grown, out, speaker)
    speaker.result({"run": str(out), **added, "known_already": stated - added["facts"]})


def _suggest(held: Run, grown: Run, folder: Path, speaker: Speaker) -> None:
    if len(grown.graph.entities) > len(held.graph.entities):
        label = grown.graph.entities[len(held.graph.entities)]
        speaker.say(f"next: {shlex.join(['staypositive', 'predict', str(folder), f'--similar={label}'])}")
