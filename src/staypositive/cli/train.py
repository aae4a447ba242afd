"""`staypositive train`: from a graph to a calibrated, measured and saved run."""

from __future__ import annotations

import shlex
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, Speaker, VerboseFlag
from staypositive.cli.flags import ObjectiveName, with_settings_flags
from staypositive.cli.reading import DataArgument, Reading, reads_graph
from staypositive.cli.sharded import train_sharded
from staypositive.cli.stopping import (
    StopSignals,
    WhereToBegin,
    clear_checkpoint,
    finished_run,
    require_free,
    stoppable,
)
from staypositive.cli.tables import evaluation_tables
from staypositive.errors import DivergedError, InputError, RunError, SettingError, StoppedError
from staypositive.files import locked
from staypositive.graph import KnowledgeGraph, StreamedSplit
from staypositive.interop.trackers import Tracker, make_tracker
from staypositive.probability import CALIBRATORS
from staypositive.run import Checkpoint, Run, Settings, fit, load_run
from staypositive.run.checkpoint import DEFAULT_EVERY
from staypositive.run.folder import CHECKPOINT_ROOM, RUN, is_in_shards, require_writable
from staypositive.run.measuring import best_calibrator
from staypositive.run.presets import PRESETS, check_given, preset_of, settings_for
from staypositive.sharded import is_launched
from staypositive.training import resolve_device

if TYPE_CHECKING:
    CalibrateName: TypeAlias = str
    PresetName: TypeAlias = str
else:  # the names that exist, so that --help lists them
    CalibrateName = Literal[("auto", "none", *CALIBRATORS)]
    PresetName = Literal[PRESETS]


def train(
    data: DataArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the run.", show_default="runs/NAME")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a run or a stopped training that is already there.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with a training that was stopped or killed; begin if there is none."),
    ] = False,
    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-every",
            metavar="EPOCHS|TIME",
            help="How often to keep the state: 5 (epochs), 30s, 10m, 2h.",
            show_default=DEFAULT_EVERY,
        ),
    ] = None,
    reading: Reading = Reading(),
    calibrate: Annotated[
        CalibrateName,
        typer.Option(help="Calibrator to fit on validation; auto: what suits the objective and the labels."),
    ] = "auto",
    evaluate: Annotated[bool, typer.Option(help="Measure the test split when trained.")] = True,
    start_from: Annotated[
        Path | None,
        typer.Option("--start-from", help="Run of the same model and dim whose rows to start from, by label."),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(
            "--track", metavar="TRACKER", help="Follow training in jsonl:FILE, tensorboard:FOLDER or mlflow:URI."
        ),
    ] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
    preset: Annotated[
        PresetName,
        typer.Option(
            help="What is not given: auto suits the graph's size, unless --model or --objective is given; paper is "
            "SimplE by stay-positive."
        ),
    ] = "auto",
    objective: Annotated[
        ObjectiveName | None,
        typer.Option(help="The loss to train by.", show_default="stay-positive for a given model, else the preset's"),
    ] = None,
    **settings: Any,
) -> None:
    """Train on a graph's facts, calibrate, measure, and save the run.

    What is not given comes from --preset; a flag that has no effect with the others is an error.
    Ctrl-C and SIGTERM stop after the epoch at hand; a second one stops at once.
    The same command with --resume goes on, after a kill too, to the same weights.

    Examples:
      staypositive train geo

      staypositive train my-triples.tsv --model simple --dim 200 --dropout 0.4 --out runs/mine

      staypositive train WN18AM --model distmult --objective negative-sampling --negatives 10

      torchrun --nproc-per-node 4 -m staypositive train geo

      staypositive train http://localhost:7878/query --query "SELECT ?s ?p ?o { ?s ?p ?o }"

      staypositive train geo --track tensorboard:logs --track jsonl:log.jsonl

      staypositive train grown.tsv --start-from runs/mine --model simple --dim 200 --epochs 20 --out runs/grown

      staypositive train geo --epochs 5000 --resume

    """
    speaker = Speaker(as_json, quiet, verbose)
    given = {key: value for key, value in {"objective": objective, **settings}.items() if value is not None}
    check_given(preset, given)
    graph = reading.load(data, given.get("seed", 0))
    device = resolve_device(given.get("device", "auto"))
    chosen = settings_for(graph, device, preset=preset, exact=is_launched(), **given)
    named = preset_of(preset, given)
    if calibrate not in ("auto", "none", "posterior") and not (graph.valid.has_negatives and len(graph.valid.facts)):
        raise InputError(f"--calibrate {calibrate} needs validation triples labelled false; {graph.name} has none")
    if force and resume:
        raise SettingError("--force begins anew and --resume goes on; give one of them")
    if is_launched():
        _require_shardable(chosen, {"--start-from": start_from, "--checkpoint-every": checkpoint_every})
        _train_sharded(graph, chosen, named, out, force, resume, calibrate, evaluate, track, speaker)
        return
    earlier = None if start_from is None else load_run(start_from)
    folder = out or Path("runs") / graph.name
    checkpoint = Checkpoint(folder / CHECKPOINT_ROOM, checkpoint_every or DEFAULT_EVERY)
    require_writable(folder)
    with locked(folder), stoppable(folder) as stop:
        if resume and (run := finished_run(folder, chosen, graph)):
            speaker.say(f"{folder} holds the finished run ({len(run.history)} epochs): nothing is left to do")
            clear_checkpoint(folder)  # what a save or its sweep left when it was cut short
            _report(run, folder, speaker)
            return
        if not resume:
            require_free(folder, force)
            clear_checkpoint(folder)
        speaker.say(_sizes(graph), _choice(chosen, named))
        trackers = [make_tracker(text, {"graph": graph.name, **chosen.as_dict()}) for text in track or ()]
        shown = not quiet and sys.stderr.isatty()
        told = [WhereToBegin(folder, speaker.say)] if resume else []
        options = {"start_from": earlier, "checkpoint": checkpoint, "progress": shown}
        run = _fit(graph, chosen, folder, trackers, stop, callbacks=[*told, *trackers], **options)
        run.provenance |= named
        _finish(run, graph, folder, calibrate, evaluate, speaker)
        clear_checkpoint(folder)
    _suggest(run, folder, speaker)
    _report(run, folder, speaker)


def _fit(
    graph: KnowledgeGraph, chosen: Settings, folder: Path, trackers: list[Tracker], stop: StopSignals, **options: Any
) -> Run:
    try:
        with stop:
            run = fit(graph, chosen, should_stop=stop, **options)
    except DivergedError as error:
        raise DivergedError(f"{error}. {_keep_diverged(error.run, folder)}", error.run) from None
    finally:
        for tracker in trackers:
            tracker.abandon()  # where training was cut short
    if stop():
        raise StoppedError("training had just ended", run)
    return run


def _sizes(graph: KnowledgeGraph) -> str:
    sizes = graph.counts()
    return (
        f"{graph.name}: {sizes['entities']:,} entities, {sizes['relations']} relations, "
        f"{sizes['train']:,} / {sizes['valid']:,} / {sizes['test']:,} triples"
    )


def _choice(chosen: Settings, named: dict[str, str]) -> str:
    by = "".join(f" (preset {preset})" for preset in named.values())
    return f"{chosen.model} by {chosen.objective.name}, dim {chosen.dim}{by}"


def _keep_diverged(run: Run, folder: Path) -> str:
    """Save what was trained before the loss went astray, but never over a run that went well."""
    if not run.history:
        return "That was the first epoch, so there is nothing to keep"
    place = folder.with_name(f"{folder.name}-diverged") if RUN.is_in(folder) else folder
    try:
        run.save(place)
    except RunError as error:
        return f"{error}"
    clear_checkpoint(folder)  # it would only go astray again
    return f"It is in {place}"


def _finish(run: Run, graph: KnowledgeGraph, folder: Path, calibrate: str, evaluate: bool, speaker: Speaker) -> None:
    if "start_from" in run.provenance:
        start = run.provenance["start_from"]["entities"]
        speaker.say(f"entities: {start['kept']:,} kept, {start['folded_in']:,} folded in, {start['fresh']:,} fresh")
    seconds = sum(record.seconds for record in run.history)
    usual = statistics.median(record.seconds for record in run.history)
    speaker.say(
        f"trained {len(run.history)} epochs in {seconds:.1f} s ({usual:.3f} s a usual one); "
        f"best epoch {run.best_epoch}; mean of all possible scores {run.history[-1].mean_score:+.3f}"
    )
    method = best_calibrator(graph, run.settings.objective) if calibrate == "auto" else calibrate
    if method and method != "none":
        run.calibrate(method)
    if isinstance(graph.train, StreamedSplit):
        speaker.say("facts were streamed from disk, and none was ranked: that would take them all into memory")
    elif evaluate and len(graph.test):
        with speaker.progress("ranking", 2 * len(graph.test.facts)) as advance:
            report = run.evaluate("test", progress=advance)
        evaluation_tables(speaker, "test", report)
    run.save(folder)
    speaker.say(f"saved in {folder}")


def _report(run: Run, folder: Path, speaker: Speaker) -> None:
    speaker.result(
        {
            "run": str(folder),
            "epochs": len(run.history),
            "best_epoch": run.best_epoch,
            "seconds": sum(record.seconds for record in run.history),
            "metrics": run.metrics,
            "provenance": run.provenance,
        }
    )


def _suggest(run: Run, folder: Path, speaker: Speaker) -> None:
    head, relation, _ = run.graph.train.first(1)[0].tolist()
    asked = [f"--head={run.graph.entities[head]}", f"--relation={run.graph.relations[relation]}"]
    speaker.say(f"next: {shlex.join(['staypositive', 'predict', str(folder), *asked])}")


def _require_shardable(chosen: Settings, flags: dict[str, Any]) -> None:
    """Refuse what has no effect where several processes train."""
    for flag, value in flags.items():
        if value is not None:
            raise SettingError(f"{flag} is for training in one process, without torchrun")
    if chosen.engine == "fused":
        raise SettingError("engine fused is for training in one process; under torchrun use auto or reference")


def _train_sharded(
    graph: KnowledgeGraph,
    chosen: Settings,
    named: dict[str, str],
    out: Path | None,
    force: bool,
    resume: bool,
    calibrate: str,
    evaluate: bool,
    track: list[str] | None,
    speaker: Speaker,
) -> None:
    """Train as one of the processes that torchrun started; it always goes on from checkpoints that are there."""
    folder = out or Path("runs") / graph.name
    if not is_in_shards(folder):  # which is no hindrance: its training goes on, or ends as it did
        if resume and RUN.is_in(folder):
            speaker.say(f"{folder} holds the finished run: nothing is left to do")
            return
        require_free(folder, force)

    speaker.say(_sizes(graph), _choice(chosen, named))

    def finish(run: Run) -> None:
        run.provenance |= named
        _finish(run, graph, folder, calibrate, evaluate, speaker)
        _suggest(run, folder, speaker)
        _report(run, folder, speaker)

    train_sharded(graph, chosen, folder, speaker, finish, force=force, evaluate=evaluate, track=track or ())


train_command = with_settings_flags(reads_graph(train))
