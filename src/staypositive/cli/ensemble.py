"""`staypositive ensemble`: several runs of one graph as one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, Speaker, VerboseFlag, parse_numbers
from staypositive.cli.stopping import require_free
from staypositive.cli.tables import evaluation_tables
from staypositive.errors import InputError
from staypositive.run import Run, build_ensemble, load_run
from staypositive.run.ensembles import CHOICES, MOST_FACTS, most_tries
from staypositive.run.measuring import best_calibrator

if TYPE_CHECKING:
    ChooseName: TypeAlias = str
else:
    ChooseName = Literal[CHOICES]


def ensemble_command(
    runs: Annotated[list[Path], typer.Argument(help="Folders of two runs or more, of the same graph.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the joined run.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a run that is already there.")] = False,
    weights: Annotated[
        str | None,
        typer.Option(metavar="W,W,...", help="The runs' weights.", show_default="chosen on validation facts"),
    ] = None,
    backward_weight: Annotated[
        float | None,
        typer.Option(help="What ranking adds of facts read backwards; with --weights.", show_default="0, or chosen"),
    ] = None,
    choose: Annotated[
        ChooseName,
        typer.Option(
            help="What weights that are not given are chosen by: MRR, or the NLL that the posterior expects."
        ),
    ] = "mrr",
    facts: Annotated[int, typer.Option(min=1, help="Validation facts to choose weights by, at most.")] = MOST_FACTS,
    evaluate: Annotated[bool, typer.Option(help="Measure the test split of the joined run.")] = True,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Join trained runs into one that often ranks better, and tells better, than each of them.

    The weighted sum of bilinear models is a bilinear model, whose rows are theirs side by side. So a joined run does
    what a run does, and costs as much as its members do together; but it is not trained on (`train --start-from`),
    and takes no new entities if one of them is TransE. Members that differ help most: train them with other seeds,
    models, or options, on the same split (`--split-seed`, for one file). Weights are chosen on validation facts, a
    run that does not help being left out.

    Examples:
      staypositive train geo --model complex --objective second-moment --dim 64 --seed 0 --out runs/a

      staypositive train geo --model cp --objective second-moment --dim 64 --seed 1 --out runs/b

      staypositive ensemble runs/a runs/b --out runs/both

    """
    speaker = Speaker(as_json, quiet, verbose)
    given = parse_numbers(weights, "weights")
    if out.resolve() in [folder.resolve() for folder in runs]:
        raise InputError(f"{out} is one of the runs to be joined: the joined one goes elsewhere")
    require_free(out, force)
    held = [load_run(folder) for folder in runs]
    if given is None and backward_weight is None:
        with speaker.progress("joining", most_tries(len(held))) as advance:
            joined = build_ensemble(held, choose=choose, most_facts=facts, progress=advance)
    else:
        joined = build_ensemble(held, weights=given, backward_weight=backward_weight)
    members = [
        {"run": str(folder), "model": run.settings.model, "weight": member["weight"]}
        for folder, run, member in zip(runs, held, joined.provenance["members"], strict=True)
    ]
    for member in members:
        speaker.say(f"{member['weight']:.2f}  {member['run']} ({member['model']})")
    _say_gain(joined, choose, speaker)
    method = best_calibrator(joined.graph, joined.settings.objective)
    if method:
        joined.calibrate(method)
    if evaluate and len(joined.graph.test):
        with speaker.progress("ranking", 2 * len(joined.graph.test.facts)) as advance:
            report = joined.evaluate("test", progress=advance)
        evaluation_tables(speaker, "test", report)
    joined.save(out)
    speaker.say(f"saved in {out}")
    chosen = {name: joined.provenance[name] for name in ("backward_weight", "weights_chosen_by")}
    found = {"validation": joined.provenance.get("validation"), "metrics": joined.metrics}
    speaker.result({"run": str(out), "members": members, **chosen, **found})


def _say_gain(joined: Run, choose: str, speaker: Speaker) -> None:
    """Tell what joining gave on validation facts, and where it gave nothing."""
    backward, found = joined.provenance["backward_weight"], joined.provenance.get("validation")
    if backward:
        speaker.say(f"the backward reading of facts counts {backward:g} times as much in ranking")
    if found is None:
        return
    sign, name = (1, "MRR") if choose == "mrr" else (-1, "NLL that the posterior expects")
    best, together = sign * max(found["alone"]), sign * found["joined"]
    speaker.say(f"validation {name}: {together:.4f} joined, {best:.4f} the best run alone")
    if sum(member["weight"] > 0 for member in joined.provenance["members"]) == 1:
        speaker.say("no other run helps the best one: this is that run alone")
