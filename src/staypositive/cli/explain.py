"""`staypositive explain`: the training facts that a triple rests on."""

from __future__ import annotations

from typing import Annotated

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, RunArgument, Speaker, VerboseFlag
from staypositive.cli.tables import frame_rows
from staypositive.completion import complete_relation
from staypositive.run import load_run


def explain_command(
    run: RunArgument,
    head: Annotated[str, typer.Option("--head", "-h", help="Label of the head.")],
    relation: Annotated[
        str, typer.Option("--relation", "-r", help="Label of the relation.", autocompletion=complete_relation)
    ],
    tail: Annotated[str, typer.Option("--tail", "-t", help="Label of the tail.")],
    top: Annotated[int, typer.Option("--top", "-n", min=1, help="Facts to show.")] = 10,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Show the training facts that support a triple most.

    A fact's support is how far a small training step that raises its score would raise the triple's: the product of
    both scores' gradients in the rows they share, 1 being what a step on the triple itself would do.

    Examples:
      staypositive explain geo-demo --head Germany --relation borders --tail Austria

    """
    speaker = Speaker(as_json, quiet, verbose)
    frame = load_run(run).explain(head, relation, tail, top)
    speaker.table(f"What supports ({head}, {relation}, {tail})", list(frame.columns), frame_rows(frame))
    speaker.result(frame.to_dict(orient="records"))
