"""`staypositive ensemble`, `extend` and `gather`: new runs from trained ones."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import staypositive as sp
from staypositive.cli.command import command
from staypositive.cli.console import Console, evaluation_tables
from staypositive.cli.flags import ForceFlag, Layout, RunArgument, RunFolderFlag, parse_numbers
from staypositive.graph import read_triples
from staypositive.run import ENSEMBLE_CHOICES, ENSEMBLE_FACTS, RIDGE, UNOBSERVED_WEIGHT, TrainingFolder, most_tries
from staypositive.sharded import gather_run, is_launched


@command
def ensemble_command(
    runs: Annotated[list[Path], Argument(help="Folders of two runs or more, of the same graph.")],
    out: RunFolderFlag,
    force: ForceFlag = False,
    weights: Annotated[
        str | None, Option(metavar="W,W,...", help="Their weights.", show_default="chosen on validation facts")
    ] = None,
    backward_weight: Annotated[
        float | None,
        Option(help="Weight of facts read backwards in ranking; with --weights.", show_default="0, or chosen"),
    ] = None,
    choose: Annotated[
        str, Option(help="Choose weights by MRR, or by the posterior's expected NLL."), ENSEMBLE_CHOICES
    ] = "mrr",
    facts: Annotated[int, Option(min=1, help="Validation facts to choose weights by, at most.")] = ENSEMBLE_FACTS,
    evaluate: Annotated[bool, Option(help="Measure the test split of the ensemble.")] = True,
    console: Console = Console(),
) -> None:
    """Combine trained runs into an ensemble that often ranks better, and is better calibrated, than each of them.

    The weighted sum of bilinear models is a bilinear model, whose rows are theirs side by side. So an ensemble does
    what a run does, and costs as much as its members do together; but it is not trained further
    (`train --start-from`), and takes no new entities if one of them is TransE. Members that differ help most: train
    them with other seeds, models, or options, on the same split (`--split-seed`, for one file). Weights are chosen
    on validation facts; a run that does not help is left out.

    Examples:
      staypositive train geo --model complex --objective second-moment --dim 64 --seed 0 --out runs/a
      staypositive train geo --model cp --objective second-moment --dim 64 --seed 1 --out runs/b
      staypositive ensemble runs/a runs/b --out runs/both

    """
    given = parse_numbers(weights, "weights")
    if out.resolve() in [folder.resolve() for folder in runs]:
        raise sp.InputError(f"{out} is one of the members: the ensemble needs another folder")
    TrainingFolder(out).require_free(force)
    held = [sp.load_run(folder) for folder in runs]
    if given is None and backward_weight is None:
        with console.progress("choosing weights", most_tries(len(held))) as advance:
            ensemble = sp.build_ensemble(held, choose=choose, most_facts=facts, progress=advance)
    else:
        ensemble = sp.build_ensemble(held, weights=given, backward_weight=backward_weight)
    members = [
        {"run": str(folder), "model": run.settings.model, "weight": member["weight"]}
        for folder, run, member in zip(runs, held, ensemble.provenance["members"], strict=True)
    ]
    console.say(*(f"{member['weight']:.2f}  {member['run']} ({member['model']})" for member in members))
    _say_gain(ensemble, choose, console)
    with console.progress("ranking", 2 * len(ensemble.graph.test.facts)) as advance:
        ensemble.finish(evaluate=evaluate, folder=out, progress=advance)
    evaluation_tables(console, "test", ensemble.metrics.get("test", {}))
    console.say(f"saved in {out}")
    chosen = {name: ensemble.provenance[name] for name in ("backward_weight", "weights_chosen_by")}
    found = {"validation": ensemble.provenance.get("validation"), "metrics": ensemble.metrics}
    console.result({"run": str(out), "members": members, **chosen, **found})


def _say_gain(ensemble: sp.Run, choose: str, console: Console) -> None:
    """Print what the ensemble gains on validation facts, and where it gains nothing."""
    backward, found = ensemble.provenance["backward_weight"], ensemble.provenance.get("validation")
    if backward:
        console.say(f"facts read backwards have {backward:g} times the weight in ranking")
    if found is None:
        return
    sign, name = (1, "MRR") if choose == "mrr" else (-1, "NLL that the posterior expects")
    best, together = sign * max(found["alone"]), sign * found["joined"]
    console.say(f"validation {name}: {together:.4f} for the ensemble, {best:.4f} for its best member")
    if sum(member["weight"] > 0 for member in ensemble.provenance["members"]) == 1:
        console.say("no other run helps the best one: the ensemble is that run only")


@command
def extend_command(
    run: RunArgument,
    facts: Annotated[Path, Argument(help="File of facts: head, relation, tail; tab-separated, .csv or .gz.")],
    out: RunFolderFlag,
    force: ForceFlag = False,
    layout: Layout = Layout(),
    ridge: Annotated[float, Option(help="Shrinkage for few facts; 1 weighs a typical row as a missed fact.")] = RIDGE,
    unobserved_weight: Annotated[
        float | None,
        Option(
            help="Weight w0 of unobserved triples, relative to facts.",
            show_default=f"as a second-moment run was trained, else {UNOBSERVED_WEIGHT}",
        ),
    ] = None,
    console: Console = Console(),
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
    held = sp.load_run(run)
    TrainingFolder(out).require_free(force)
    triples = read_triples(facts, **layout.options())
    grown = held.with_entities(triples, ridge=ridge, unobserved_weight=unobserved_weight)
    grown.save(out)
    added, stated = grown.provenance["added"][-1], grown.graph.sources[-1].rows
    console.say(
        f"{added['entities']:,} new entities and {added['facts']:,} new facts from {facts} "
        f"({stated - added['facts']:,} of its lines were known already); saved in {out}"
    )
    if added["entities"]:
        label = grown.graph.entities[len(held.graph.entities)]
        console.say(f"next: {shlex.join(['staypositive', 'predict', str(out), f'--similar={label}'])}")
    console.result({"run": str(out), **added, "known_already": stated - added["facts"]})


@command
def gather_command(
    run: RunArgument,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Folder for the run.", show_default="its own, without its shards")
    ] = None,
    console: Console = Console(),
) -> None:
    """Turn a run whose weights stayed in shards into an ordinary one: a single file of weights, within little memory.

    `torchrun ... -m staypositive train` leaves weights in shards where they do not fit in one process's memory.
    Gathering takes disk for one table more, and memory for some of its rows and for the graph; what then reads the
    run takes memory for the table.

    Examples:
      staypositive gather runs/large
      staypositive gather runs/large --out runs/whole

    """
    if is_launched():
        raise sp.SettingError("`gather` is for one process, without torchrun")
    folder = gather_run(run, out, progress=console.progress)
    console.say(f"{folder} holds the whole run")
    console.result({"run": str(folder)})
