"""`staypositive predict`, `discover`, `explain` and `serve`: questions to a trained run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from typer import Option

from staypositive.cli.command import command
from staypositive.cli.console import Console
from staypositive.cli.flags import CompletenessFlag, Output, RunArgument, opened, read_text
from staypositive.completion import complete_relation
from staypositive.errors import InputError
from staypositive.inference import (
    Discovery,
    PartialDiscovery,
    Predictor,
    discover,
    discovery_table,
    read_queries,
    require_probability,
)
from staypositive.models import Scorer
from staypositive.run import Run, load_run
from staypositive.sharded import is_first

HEAD = Option("--head", "-h", help="Label of the head.")
RELATION = Option("--relation", "-r", help="Label of the relation.", autocompletion=complete_relation)
TAIL = Option("--tail", "-t", help="Label of the tail.")


@command
def predict_command(
    run: RunArgument,
    head: Annotated[str | None, HEAD] = None,
    relation: Annotated[str | None, RELATION] = None,
    tail: Annotated[str | None, TAIL] = None,
    queries: Annotated[Path | None, Option(help="File of queries: triples with ? for the missing part.")] = None,
    similar: Annotated[str | None, Option(help="Entities most like this one, instead.")] = None,
    top: Annotated[int, Option("--top", "-n", min=1, help="Answers per query.")] = 10,
    exclude_known: Annotated[bool, Option(help="Leave out facts of the graph.")] = False,
    exclude_self: Annotated[bool, Option(help="Leave out the entity that is asked about.")] = False,
    candidates: Annotated[
        str | None, Option(help="'range' (of the relation, in train), or a file with a label per line.")
    ] = None,
    completeness: CompletenessFlag = None,
    coverage: Annotated[
        float | None, Option(help="Give a set of new answers with the true one at this probability, e.g. 0.9.")
    ] = None,
    output: Output = Output(),
    console: Console = Console(),
) -> None:
    """Answer (h, r, ?), (?, r, t) or (h, ?, t) with probabilities, or judge a whole triple.

    The probability is how likely it is that a triple which is not in the graph is true. Known facts have none.

    Examples:
      staypositive predict runs/geo --head France --relation borders
      staypositive predict runs/geo --relation has_currency --tail "Euro (EUR)" --exclude-known
      staypositive predict runs/geo --head Japan --relation has_currency --candidates range --completeness 0.95
      staypositive predict runs/geo --queries questions.tsv --out answers.tsv
      staypositive predict runs/geo --head France --relation borders --coverage 0.9
      staypositive predict runs/geo --similar France

    """
    held = load_run(run)
    asked: dict[str, Any] = {"head": head, "relation": relation, "tail": tail}
    ways = {"--similar": similar, "--queries": queries, "--head, --relation and --tail": head or relation or tail}
    if sum(way is not None for way in ways.values()) > 1:
        raise InputError(f"ask in one way at a time: {' or '.join(ways)}")
    if coverage is not None and (similar is not None or queries is not None):
        raise InputError("--coverage is for one question: two of --head, --relation and --tail")
    options: dict[str, Any] = {
        "top": top, "exclude_known": exclude_known, "exclude_self": exclude_self,
        "candidates": _candidates(candidates), "completeness": completeness,
    }  # fmt: skip
    if similar is not None:
        title, frame = f"Most like {similar}", held.similar(similar, top)
    elif queries is not None:
        listed = read_queries(queries, held.graph)
        with console.progress("answering", len(listed)) as advance:
            title, frame = f"{len(listed):,} queries", held.answer(listed, **options, progress=advance)
    elif head is None and relation is None and tail is None:
        raise InputError("ask something: two of --head, --relation and --tail, or --queries, or --similar")
    else:
        title = f"({head or '?'}, {relation or '?'}, {tail or '?'})"
        if coverage is None:
            frame = held.predict(**asked, **options)
        else:
            frame = held.prediction_set(**asked, coverage=coverage, completeness=completeness)
            title += f": {len(frame):,} new answers, the true one among them with probability {coverage:g}"
    output.show(frame, title, console, **asked)
    _say_if_scores(held, console, similar is None)


def _say_if_scores(run: Run, console: Console, asked: bool = True) -> None:
    reason = run.why_no_probability()
    if asked and reason:
        console.say(f"these are scores, without probabilities: {reason}")


def _candidates(text: str | None) -> str | list[str] | None:
    if text is None or text == "range":
        return text
    lines = read_text(text, f"{text}: cannot be read as a list of candidates").replace("\r\n", "\n").split("\n")
    return [line for line in lines if line]


@command
def discover_command(
    run: RunArgument,
    min_probability: Annotated[
        float | None, Option(help="Keep triples of at least this probability.", show_default="0.5")
    ] = None,
    top: Annotated[int | None, Option(min=1, help="Keep only this many, the most likely.")] = None,
    completeness: CompletenessFlag = None,
    relations: Annotated[str | None, Option(help="Relations to look at, separated by commas.")] = None,
    output: Output = Output(),
    console: Console = Console(),
) -> None:
    """Find new triples that are likely, over the whole graph.

    Facts of any split are left out. Probabilities sum to the number of facts that the graph lacks: by default as
    many as were held out for validation, unless it leaves no room for so many; --completeness says otherwise. A run
    without probabilities gives the best triples by score; it needs --top. With --out, a search that was stopped
    resumes when the same command is given again.

    Examples:
      staypositive discover runs/geo --completeness 0.95 --top 20
      staypositive discover runs/geo --relations borders,has_currency --min-probability 0.5 --out new.tsv
      torchrun --nproc-per-node 4 -m staypositive discover runs/in-shards --top 20

    """
    with opened(run) as held:
        if isinstance(held, Run):
            predictor = held.predictor.assuming(completeness)
            search: Callable[..., Iterator[Discovery]] = partial(discover, predictor)
        else:
            predictor, search = Predictor(held.graph, Scorer(held.model)).assuming(completeness), held.discover
        names = held.graph.relations
        wanted = list(range(len(names))) if relations is None else [names.id(name) for name in relations.split(",")]
        least = require_probability(predictor, min_probability, top)
        fitted = predictor.posterior.as_dict() if predictor.posterior else None
        asked = {"run": held.provenance, "top": top, "min_probability": least, "posterior": fitted}
        folder = output.out.with_name(f"{output.out.name}.partial") if output.out and is_first() else None
        kept = PartialDiscovery(folder, asked)
        left = [relation for relation in wanted if relation not in kept.found]
        if not isinstance(held, Run):
            left = held.world.from_first(left)  # only it knows what was found before
        with console.progress("relations", len(left)) as advance:
            for found in search(relations=left, min_probability=min_probability, most=top, progress=advance):
                kept.add(found)
    if is_first():
        table = discovery_table(predictor, [*kept.found.values()], top)
        output.show(table, f"{len(table):,} new triples", console)
        if predictor.posterior is not None and table.empty:
            console.say(f"none reaches {least:g}: a lower --min-probability or --completeness finds more")
        if isinstance(held, Run):
            _say_if_scores(held, console)
        kept.remove()


@command
def explain_command(
    run: RunArgument,
    head: Annotated[str, HEAD],
    relation: Annotated[str, RELATION],
    tail: Annotated[str, TAIL],
    top: Annotated[int, Option("--top", "-n", min=1, help="Facts to show.")] = 10,
    console: Console = Console(),
) -> None:
    """Show the training facts that support a triple most.

    A fact's support is how far a small training step that raises its score would raise the triple's: the product of
    both scores' gradients in the rows they share, 1 being what a step on the triple itself would do.

    Examples:
      staypositive explain geo-demo --head Germany --relation borders --tail Austria

    """
    frame = load_run(run).explain(head, relation, tail, top)
    Output().show(frame, f"What supports ({head}, {relation}, {tail})", console)


@command
def serve_command(
    run: RunArgument,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None, Option(envvar="STAYPOSITIVE_TOKEN", help="Bearer token that requests must have.")
    ] = None,
    timeout: Annotated[float, Option(min=0.1, help="Seconds that a request may take.")] = 30.0,
    threads: Annotated[int, Option(min=1, help="CPU threads; more pay from a million entities on.")] = 1,
    console: Console = Console(),
) -> None:
    """Serve a run over HTTP: a page to explore it, a JSON API, health checks and metrics.

    It listens on loopback only, unless --host is given, and beyond loopback only with a token.

    Examples:
      staypositive serve geo-demo
      staypositive serve runs/geo --port 9000 --token "$(openssl rand -hex 16)" --host 0.0.0.0

    """
    try:
        from staypositive.service import Limits, serve
    except ImportError as error:
        raise InputError(f"serving needs {error.name}: pip install 'staypositive[serve]'") from None
    torch.set_num_threads(threads)
    held = load_run(run)

    def announce(address: str) -> None:
        console.say(repr(held), f"explore  {address}", f"API      {address}docs", "stop     Ctrl+C")
        console.result({"run": str(run), "address": address})

    serve(held, host=host, port=port, token=token, limits=Limits(seconds=timeout), announce=announce)
