"""`staypositive train`: from a graph to a calibrated, measured and saved run; by several processes under torchrun."""

from __future__ import annotations

import shlex
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

import staypositive as sp
from staypositive import sharded
from staypositive.cli.command import command
from staypositive.cli.console import Console, evaluation_tables
from staypositive.cli.flags import ASSUMED, DataArgument, Reading
from staypositive.graph import StreamedSplit
from staypositive.interop import make_tracker
from staypositive.run import DEFAULT_EVERY, PRESETS, TrainingFolder, check_given, preset_of, settings_for
from staypositive.training import ProgressBar, StopSignals, resolve_device

CHECKPOINT_EVERY = Option(
    metavar="EPOCHS|TIME", show_default=DEFAULT_EVERY,
    help="How often to save a checkpoint: 5 (epochs), 30s, 10m, 2h.",
)  # fmt: skip
CALIBRATE = Option(help="Calibrator to fit on validation; auto: what suits the objective and the labels.")
TRACK = Option(metavar="TRACKER", help="Log training to jsonl:FILE, tensorboard:FOLDER or mlflow:URI.")
PRESET = Option(
    help="Settings that are not given: auto chooses by the graph's size, unless --model or --objective is given; "
    "paper is SimplE by stay-positive."
)


@command
def train_command(
    data: DataArgument,
    out: Annotated[Path | None, Option("--out", "-o", help="Folder for the run.", show_default="runs/NAME")] = None,
    force: Annotated[bool, Option(help="Replace a run or a stopped training that is there.")] = False,
    resume: Annotated[bool, Option(help="Resume a stopped or killed training; begin if there is none.")] = False,
    checkpoint_every: Annotated[str | None, CHECKPOINT_EVERY] = None,
    reading: Reading = Reading(),
    calibrate: Annotated[str, CALIBRATE, ("auto", "none", *sp.CALIBRATORS)] = "auto",
    evaluate: Annotated[bool, Option(help="Measure the test split after training.")] = True,
    start_from: Annotated[Path | None, Option(help="Run of the same model and dim to start from, by label.")] = None,
    track: Annotated[list[str] | None, TRACK] = None,
    console: Console = Console(),
    preset: Annotated[str, PRESET, PRESETS] = "auto",
    **settings: Any,
) -> None:
    """Train on a graph's facts, calibrate, measure, and save the run.

    Settings that are not given come from --preset; a flag that has no effect with the others is an error.
    Ctrl-C and SIGTERM stop after the current epoch; a second one stops at once.
    The same command with --resume continues, after a kill too, and gives the same weights.

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
    given = {name: value for name, value in settings.items() if value is not None}
    check_given(preset, given)
    graph = reading.load(data, given.get("seed", 0))
    device = resolve_device(given.get("device", "auto"))
    chosen = settings_for(graph, device, preset=preset, exact=sharded.is_launched(), **given)
    if calibrate not in ("auto", "none", "posterior") and not (graph.valid.has_negatives and len(graph.valid.facts)):
        raise sp.InputError(f"--calibrate {calibrate} needs validation triples labelled false; {graph.name} has none")
    if force and resume:
        raise sp.SettingError("--force begins anew and --resume continues; give one of them")
    folder = TrainingFolder(out or Path("runs") / graph.name)
    job = Job(graph, chosen, preset_of(preset, given), folder, calibrate, evaluate, track or (), console)
    if sharded.is_launched():
        _require_shardable(chosen, {"--start-from": start_from, "--checkpoint-every": checkpoint_every})
        _train_sharded(job, force, resume)
    else:
        _train(job, force, resume, checkpoint_every, start_from)


@dataclass(frozen=True)
class Job:
    """What to train, and what to do with it then."""

    graph: sp.KnowledgeGraph
    settings: sp.Settings
    preset: dict[str, str]
    folder: TrainingFolder
    calibrate: str
    evaluate: bool
    track: Sequence[str]
    console: Console

    def announce(self) -> None:
        """Print the graph's sizes, and which settings were chosen, and why."""
        sizes, chosen = self.graph.counts(), self.settings
        why = "".join(f"preset {preset}: " for preset in self.preset.values())
        if "auto" in self.preset.values():
            device = "with a GPU" if resolve_device(chosen.device).type == "cuda" else "without a GPU"
            why = f"preset auto for {sizes['entities']:,} entities, {device}: "
        self.console.say(
            f"{self.graph.name}: {sizes['entities']:,} entities, {sizes['relations']} relations, "
            f"{sizes['train']:,} / {sizes['valid']:,} / {sizes['test']:,} triples",
            f"{why}{chosen.model} by {chosen.objective.name}, dim {chosen.dim}, batch size {chosen.batch_size:,}, "
            f"at most {chosen.epochs:,} epochs",
        )

    @contextmanager
    def callbacks(self) -> Iterator[list[sp.Callback]]:
        """Open the trackers and, on a terminal, a bar; close the trackers of a training that is cut short."""
        about = {"graph": self.graph.name, **self.settings.as_dict()}
        trackers = [make_tracker(text, about) for text in (self.track if sharded.is_first() else ())]
        bars = [ProgressBar()] if not self.console.quiet and sys.stderr.isatty() else []
        try:
            yield [*trackers, *bars]
        finally:
            for tracker in trackers:
                tracker.abandon()

    def finish(self, run: sp.Run) -> None:
        """Calibrate, measure and save the run, and print how it went."""
        run.provenance |= self.preset
        if "start_from" in run.provenance:
            start = run.provenance["start_from"]["entities"]
            self.console.say(
                f"entities: {start['kept']:,} kept, {start['folded_in']:,} folded in, {start['fresh']:,} fresh"
            )
        seconds = [record.seconds for record in run.history]
        self.console.say(
            f"trained {len(seconds)} epochs in {sum(seconds):.1f} s (median {statistics.median(seconds):.3f} s per "
            f"epoch); best epoch {run.best_epoch}; mean of all possible scores {run.history[-1].mean_score:+.3f}"
        )
        if self.calibrate != "none":
            self.console.say("fitting probabilities of unknown triples; hiding test facts shows how far they hold")
        with self.console.progress("ranking", 2 * len(self.graph.test.facts)) as advance:
            run.finish(calibrate=self.calibrate, evaluate=self.evaluate, folder=self.folder.path, progress=advance)
        if isinstance(self.graph.train, StreamedSplit):
            self.console.say("facts were streamed from disk and not ranked: that would take them all into memory")
        evaluation_tables(self.console, "test", run.metrics.get("test", {}))
        if run.posterior is None:
            self.console.say(f"answers have scores, without probabilities: {run.why_no_probability()}")
        else:
            self.console.say(ASSUMED.format(run.posterior.completeness))
        self.console.say(f"saved in {self.folder}")

    def report(self, run: sp.Run, *, suggest: bool = True) -> None:
        """Print a question to ask next, or all about the run as JSON."""
        if suggest:
            head, relation, _ = run.graph.train.first(1)[0].tolist()
            asked = [f"--head={run.graph.entities[head]}", f"--relation={run.graph.relations[relation]}"]
            self.console.say(f"next: {shlex.join(['staypositive', 'predict', str(self.folder), *asked])}")
        self.console.result({"run": str(self.folder), **run.summary()})


def _train(job: Job, force: bool, resume: bool, every: str | None, start_from: Path | None) -> None:
    folder, checkpoint = job.folder, job.folder.checkpoint(every)
    earlier = None if start_from is None else sp.load_run(start_from)
    with folder.locked(), stoppable(folder) as stop:
        if resume and (run := folder.finished(job.settings, job.graph)):
            job.console.say(f"{folder} holds the finished run ({len(run.history)} epochs): nothing is left to do")
            folder.clear_checkpoint()
            job.report(run, suggest=False)
            return
        if not resume:
            folder.require_free(force)
            folder.clear_checkpoint()
        job.announce()
        begin = [WhereToBegin(folder, job.console.say)] if resume else []
        with job.callbacks() as callbacks, stop:
            run = sp.fit(
                job.graph, job.settings, callbacks=[*begin, *callbacks], start_from=earlier, checkpoint=checkpoint,
                should_stop=stop,
            )  # fmt: skip
        if stop():
            raise sp.StoppedError("training had just ended", run)
        job.finish(run)
        folder.clear_checkpoint()
    job.report(run)


def _require_shardable(chosen: sp.Settings, flags: dict[str, Any]) -> None:
    """Refuse what has no effect where several processes train."""
    for flag, value in flags.items():
        if value is not None:
            raise sp.SettingError(f"{flag} is for training in one process, without torchrun")
    if chosen.engine == "fused":
        raise sp.SettingError("engine fused is for training in one process; under torchrun use auto or reference")


def _train_sharded(job: Job, force: bool, resume: bool) -> None:
    """Train as one of the processes that torchrun started; process 0 finishes the whole run, where it fits in memory.

    Checkpoints lie beside the run's folder until it is saved. A restart by torchrun resumes from them, forced or not.
    """
    folder, checkpoints = job.folder, sharded.shards_of(job.folder.path)
    if not folder.is_in_shards:  # which does not matter: its training resumes, or ends as it did
        if resume and folder.has_run:
            job.console.say(f"{folder} holds the finished run: nothing is left to do")
            return
        folder.require_free(force)
    job.announce()
    with job.callbacks() as callbacks, sharded.open_world(job.settings.device) as world:
        job.console.say(f"{world.size} processes by {world.backend}; checkpoints in {checkpoints}")
        trained = sharded.fit_sharded(
            job.graph, job.settings, world,
            checkpoints=checkpoints, fresh=force and not sharded.restarts(), callbacks=callbacks,
        )  # fmt: skip
        splits = ["test"] if job.evaluate and len(job.graph.test.facts) else []
        run = None
        if trained.fits():
            ranks = {split: trained.rank(split) for split in splits}
            run = trained.whole()
        else:
            _leave_in_shards(job, trained, {split: trained.evaluate(split) for split in splits})
    if run is not None:
        run.ranks |= ranks
        job.finish(run)
        job.report(run)
        sharded.remove_checkpoints(checkpoints)


def _leave_in_shards(job: Job, trained: sharded.ShardedRun, metrics: dict[str, Any]) -> None:
    """Keep all of the run but its weights, which stay in the last checkpoint."""
    folder, shards = job.folder, sharded.shards_of(job.folder.path)
    sharded.leave_in_shards(trained, folder.path, metrics)
    job.console.say(
        f"the whole table does not fit in memory here: {folder} is kept with its weights in shards, in {shards}",
        f"next: torchrun ... -m staypositive evaluate or discover {folder}, or staypositive gather {folder}",
    )
    shown = {"run": str(folder), "shards": str(shards)}
    job.console.result(shown | {"metrics": metrics, "provenance": trained.provenance})


@contextmanager
def stoppable(folder: TrainingFolder) -> Iterator[StopSignals]:
    """Say how to resume a training that is stopped within, and exit as a signal would; keep one that diverges."""
    stop = StopSignals()
    try:
        yield stop
    except sp.DivergedError as error:
        raise sp.DivergedError(f"{error}. {folder.keep_diverged(error.run)}", error.run) from None
    except sp.StoppedError as error:
        typer.echo(f"{error}; resume with: {resume_command()}", err=True)
        raise typer.Exit(stop.exit_code) from None
    except KeyboardInterrupt:
        if folder.has_checkpoint:
            typer.echo(f"resume with: {resume_command()}", err=True)
        raise


def resume_command() -> str:
    kept = [word for word in sys.argv[1:] if word not in ("--force", "--resume")]
    return shlex.join(["staypositive", *kept, "--resume"])


class WhereToBegin(sp.Callback):
    """Says where `--resume` finds a training, once its checkpoint is known to be of this one."""

    def __init__(self, folder: TrainingFolder, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say

    def on_start(self, epochs: int) -> None:
        if not self.folder.has_checkpoint:
            self.say(f"no checkpoint in {self.folder}, so training begins")

    def on_resume(self, history: tuple[sp.EpochRecord, ...]) -> None:
        self.say(f"resuming from epoch {len(history)}")
