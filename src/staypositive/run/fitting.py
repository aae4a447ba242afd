"""`fit`: from a graph and settings to a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from staypositive.errors import EndedEarlyError, InputError, SettingError, advising
from staypositive.files import locked
from staypositive.graph import KnowledgeGraph, StreamedSplit, load_graph
from staypositive.models import ENSEMBLE, BilinearModel, build_model, resolve_prior_score
from staypositive.objectives import ENOUGH_FACTS
from staypositive.run.checking import outline
from staypositive.run.checkpoint import CHECKPOINT, Checkpoint, CheckpointFolder, identity_of
from staypositive.run.cores import SharedCores
from staypositive.run.measuring import validation_measure
from staypositive.run.new_entities import carry_over
from staypositive.run.presets import preset_of, settings_for
from staypositive.run.provenance import provenance
from staypositive.run.run import Run
from staypositive.run.settings import Settings
from staypositive.training import (
    MONITORS,
    Callback,
    Engine,
    FactStream,
    ProgressBar,
    TrainingResult,
    TrainingTask,
    Validate,
    World,
    build_engine,
    build_optimiser,
    can_stream,
    resolve_device,
    train,
)
from staypositive.typed import misfit
from staypositive.version import __version__


def fit(
    graph: Any,
    settings: Settings | None = None,
    *,
    preset: str = "auto",
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
    start_from: Run | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    **changes: Any,
) -> Run:
    """Train a model on a graph's facts and return the run, with the weights of its best epoch.

    `graph` is a `KnowledgeGraph`, or what `load_graph` takes: `fit("my.tsv")`, a dataset's name, a list of triples.
    Keywords are the fields of `Settings` and the options of the objective, e.g.
    `fit(graph, model="simple", dim=200, dropout=0.4, penalty_weight=0.1, prior=0.5, epochs=100, seed=0)`; one that
    has no effect with the others is an error. What is not given comes from the `preset`: `auto` takes model,
    objective and sizes that suit the graph's size, `paper` SimplE by stay-positive. Naming a model or an objective
    takes that objective's defaults (stay-positive's, for a model) instead of `auto`; no other keyword does.
    `start_from` is an earlier run of the same model and dim: labels that it knows start with its rows, new entities
    by fold-in where their facts lead to known ones, and the rest as usual; the optimiser's state starts afresh.
    `checkpoint` is a folder, or a `Checkpoint`, in which the state of the training is kept now and then: a `fit` that
    was killed resumes from there when it is called again, and gives what it would have given. `should_stop` is asked
    after each epoch; where it says yes, the state is kept and `StoppedError` raised.
    A non-finite loss raises `DivergedError`; its `run` holds what was trained up to then, as that of `StoppedError`.
    """
    _require_arguments(
        settings=settings, preset=preset, callbacks=callbacks, progress=progress, start_from=start_from,
        checkpoint=checkpoint, should_stop=should_stop,
    )  # fmt: skip
    if settings is not None and (changes or preset != "auto"):
        raise SettingError("give either a Settings object or keywords, not both")
    graph = graph if isinstance(graph, KnowledgeGraph) else load_graph(graph)
    chosen = settings or settings_for(graph, resolve_device(changes.get("device", "auto")), preset=preset, **changes)
    use_threads(chosen.threads)
    device = resolve_device(chosen.device)
    cores = SharedCores(device)
    origin = provenance(graph, device, __version__) | ({} if settings else preset_of(preset, changes))
    model = new_model(graph, chosen)
    if start_from is not None:
        carried = carry_over(start_from, graph, model)
        origin["start_from"] = {"graph_sha256": start_from.graph.fingerprint, "entities": carried.counts()}
    with advising("preparing to train", _advice(chosen)):
        model.to(device).to(getattr(torch, chosen.precision))
        engine = build_engine(chosen.engine, training_task(graph, chosen, model))
    origin["engine"] = engine.name
    validate, monitor = _validation(graph, chosen)

    def as_run(result: TrainingResult) -> Run:
        model.float()
        return Run(graph, model, chosen, result.history, result.best_epoch, origin)

    with (
        _kept(checkpoint, graph, chosen, engine, monitor, origin) as checkpointer,
        advising("training", _advice(chosen)),
        cores.told(engine),
    ):
        try:
            result = train(
                engine, chosen.epochs, validate=validate, validate_every=chosen.validate_every, monitor=monitor,
                patience=chosen.patience, callbacks=[*callbacks, *([ProgressBar()] if progress else [])],
                checkpointer=checkpointer, should_stop=should_stop,
            )  # fmt: skip
            return as_run(result)
        except EndedEarlyError as error:
            raise type(error)(str(error), run=as_run(error.run)) from None


def _require_arguments(**arguments: Any) -> None:
    """Refuse an argument of `fit` that is not of its kind."""
    wrong = misfit(fit, arguments)
    if wrong:
        raise InputError(wrong + ("; load_run reads one" if wrong.startswith("start_from") else ""))


def use_threads(threads: int | None) -> None:
    """Give torch this number of threads, at most as many as the machine has; None leaves it as it is."""
    most = os.cpu_count() or 1
    if threads is not None and threads > most:
        raise SettingError(f"threads must be between 1 and this machine's {most}, got {threads}")
    if threads is not None:
        torch.set_num_threads(threads)


@contextmanager
def _kept(
    checkpoint: Checkpoint | str | os.PathLike[str] | None,
    graph: KnowledgeGraph,
    settings: Settings,
    engine: Engine,
    monitor: str,
    origin: dict[str, Any],
) -> Iterator[CheckpointFolder | None]:
    """Hold the folder of a checkpoint while training; None where there is to be none."""
    if checkpoint is None:
        yield None
        return
    wanted = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    device = engine.model.entities.device
    found = {"device": device.type, "engine": origin["engine"], "start_from": origin.get("start_from")}
    CHECKPOINT.require_writable(Path(wanted.folder))
    with locked(Path(wanted.folder)):
        yield CheckpointFolder(wanted, identity_of(settings, graph, **found), origin, engine, monitor)


def _advice(settings: Settings) -> str:
    drawn = settings.objective.negatives_per_fact
    fewer = f", or fewer negatives than {drawn}" if drawn > 1 else ""
    return (
        f"try a smaller batch_size than {settings.batch_size} or a smaller dim than {settings.dim}{fewer}"
        " (a checkpoint that was kept before stays as it is)"
    )


def new_model(graph: KnowledgeGraph, settings: Settings) -> BilinearModel:
    """Build and initialise the model that the settings describe, on the CPU, so that a seed means one start."""
    model = blank_model(graph, settings)
    model.initialise(torch.Generator().manual_seed(settings.seed), settings.used("init_scale"))
    return model


def blank_model(graph: KnowledgeGraph, settings: Settings) -> BilinearModel:
    """Build the model that the settings describe, all weights zero; on torch's `meta` device, its shapes alone."""
    if settings.model == ENSEMBLE:
        raise SettingError("an ensemble is made of trained runs, by `staypositive ensemble`, and not trained itself")
    sizes = len(graph.entities), len(graph.relations)
    density = len(graph.train) / (sizes[0] ** 2 * sizes[1])
    options = {name: value for name, value in vars(settings.model_options).items() if value is not None}
    prior_score = resolve_prior_score(settings.prior_score, settings.prior, settings.closed_world, density=density)
    stated = {
        "n_entities": sizes[0],
        "n_relations": sizes[1],
        "dim": settings.dim,
        "bound": settings.used("bound"),
        "score_bound": settings.score_bound,
        "prior_score": prior_score,
        "dropout": settings.dropout,
        "reciprocal": settings.objective.is_reciprocal,
        **options,
    }
    try:
        outlined = outline(settings.model, stated)  # so that what cannot fit is never begun
        if torch.get_default_device().type == "meta":
            return outlined
        if sum(weights.numel() for weights in outlined.parameters()) * 4 > memory_bytes():
            raise MemoryError
        return build_model(settings.model, **stated)
    except (RuntimeError, MemoryError, OverflowError, TypeError) as error:
        fewer = "".join(f" or fewer {name} than {value}" for name, value in options.items())
        said = f"a {settings.model} of dim {settings.dim} does not fit in memory; try a smaller dim{fewer}"
        raise SettingError(said) from error


def memory_bytes() -> int:
    """Return the size of this machine's memory, where the system says it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**63


def training_task(
    graph: KnowledgeGraph, settings: Settings, model: BilinearModel, world: World | None = None
) -> TrainingTask:
    """Return what the settings describe to train: a model on its device, by an optimiser, on a graph's facts."""
    device, objective = model.entities.device, settings.objective
    facts: Tensor | FactStream
    if isinstance(graph.train, StreamedSplit) and device.type == "cpu" and world is None and can_stream(objective):
        facts = FactStream(graph.train.stored)
    else:
        facts = training_facts(graph, model, device)
    tables = {name: table.data for name, table in model.named_parameters()}
    optimiser = build_optimiser(settings.optimiser, tables, settings.learning_rate, settings.used("accumulator"))
    weights = _fact_weights(graph, model, device)
    return TrainingTask(model, objective, optimiser, facts, settings.batch_size, settings.seed, weights, world)


def training_facts(graph: KnowledgeGraph, model: BilinearModel, device: torch.device) -> Tensor:
    """Return the facts to train on, and for reciprocal relations each one backwards too: (t, r + |R|, h)."""
    facts = torch.as_tensor(graph.train.facts, device=device)
    if not model.reciprocal:
        return facts
    backwards = facts.flip(1)
    backwards[:, 1] += model.n_relations
    return torch.cat([facts, backwards])


def _fact_weights(graph: KnowledgeGraph, model: BilinearModel, device: torch.device) -> Tensor | None:
    """Return what each of the facts to train on counts, or None where all count alike."""
    own = graph.train.fact_weights
    if own is None:
        return None
    if not own.any():
        raise InputError(f"every training fact of {graph.name} has confidence 0, so that there is nothing to learn")
    weights = torch.as_tensor(own, device=device)
    return torch.cat([weights, weights]) if model.reciprocal else weights


def monitor_of(graph: KnowledgeGraph, settings: Settings) -> str:
    """Return the metric that a training's best epoch is chosen by."""
    found: str = settings.used("monitor") or ("nll" if graph.valid.has_negatives else "mrr")
    if found == "nll" and len(graph.valid.facts) and not graph.valid.has_negatives:
        raise SettingError("monitor nll needs validation triples labelled false, and this graph has none; use mrr")
    return found


def _validation(graph: KnowledgeGraph, settings: Settings) -> tuple[Validate | None, str]:
    """Return what measures an epoch and the metric it is chosen by; (None, ...) where there is nothing to measure."""
    valid, monitor = graph.valid, monitor_of(graph, settings)
    is_streamed = isinstance(graph.train, StreamedSplit)  # to rank among its facts takes them all into memory
    if len(valid.facts) == 0 or (is_streamed and settings.monitor is None):
        return None, monitor
    if monitor == "posterior" and len(valid.facts) < ENOUGH_FACTS:
        said = f"monitor posterior needs {ENOUGH_FACTS} validation facts, and there are {len(valid.facts)}; use mrr"
        raise SettingError(said)
    measure, sign = validation_measure(graph, None, monitor), 1 if MONITORS[monitor] else -1
    return (lambda model: {monitor: sign * measure(model)}), monitor
