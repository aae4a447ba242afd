"""`fit_sharded`: from a graph and settings to a run, by several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from staypositive.errors import DivergedError, SettingError
from staypositive.evaluation import Ranks, negative_log_likelihood, ranking_metrics
from staypositive.graph import KnowledgeGraph
from staypositive.inference import Discovery
from staypositive.models import BilinearModel, build_model
from staypositive.models.contract import draw_uniform
from staypositive.run import Run, Settings, monitor_of, ranking_report
from staypositive.run.checkpoint import Checkpoint, identity_of
from staypositive.run.cores import SharedCores
from staypositive.run.fitting import blank_model, training_task, use_threads
from staypositive.run.measuring import FILTERS, require_fewer
from staypositive.run.provenance import provenance
from staypositive.sharded.checkpoint import ShardedCheckpointFolder
from staypositive.sharded.ranking import discover_sharded, rank_sampled_sharded, rank_sharded, score_sharded
from staypositive.training import Callback, TrainingResult, Validate, World, build_engine, train
from staypositive.training.world import PIECE, rows_of
from staypositive.version import __version__


@dataclass(frozen=True)
class ShardedRun:
    """A trained model whose entity rows are spread over the processes; every method is for all of them to call."""

    world: World
    graph: KnowledgeGraph
    settings: Settings
    model: BilinearModel
    result: TrainingResult
    provenance: dict[str, Any]
    checkpoints: ShardedCheckpointFolder | None = None

    def rank(self, split: str, sampled: int | None = None, **options: Any) -> Ranks:
        """Rank a split's facts; options are `memory` and `progress`, as `rank_sharded` takes them."""
        facts, known = self.graph.split(split).facts, self.graph.facts(*FILTERS[split])
        if sampled is None:
            return rank_sharded(self.world, self.model, facts, known, **options)
        require_fewer(sampled, self.graph)
        return rank_sampled_sharded(self.world, self.model, facts, known, sampled, **options)

    def evaluate(self, split: str, *, sampled: int | None = None, **options: Any) -> dict[str, Any]:
        """Return the ranking metrics of a split as `Run.evaluate` does; drawn entities are those of one process."""
        return ranking_report(self.graph, split, self.rank(split, sampled, **options), sampled)

    def discover(self, **options: Any) -> Iterator[Discovery]:
        return discover_sharded(self.world, self.graph, self.model, **options)

    def fits(self) -> bool:
        """Whether the whole table, and a copy of it, fit in the memory that process 0 has free."""
        needed = 2 * self.model.n_entities * self.model.entities[:1].nbytes
        return bool(self.world.from_first([needed < free_memory()])[0])

    def whole(self) -> Run | None:
        """Return the ordinary run to process 0, and None to the others."""
        model = self.model.float()
        entities = self.world.gather(model.entities.detach(), model.n_entities)
        if entities is None:
            return None
        with torch.device("meta"):
            built = build_model(self.settings.model, **model.settings())
        replicated = {name: weight.detach().cpu() for name, weight in model.state_dict().items()}
        built.load_state_dict(replicated | {"entities": entities}, assign=True)
        result = self.result
        return Run(
            self.graph, built.to(self.world.device), self.settings, result.history, result.best_epoch, self.provenance
        )


def fit_sharded(
    graph: KnowledgeGraph,
    settings: Settings,
    world: World,
    *,
    checkpoints: Path | None = None,
    fresh: bool = False,
    callbacks: Sequence[Callback] = (),
) -> ShardedRun:
    """Train by all processes of the world, each of which calls this with the same graph and settings.

    The steps are `fit`'s with the reference engine, to rounding, whatever the number of processes. With `checkpoints`
    the training is kept in that folder after every validation, and resumes from the newest whole checkpoint there,
    unless `fresh`. Callbacks are for process 0 alone.
    """
    use_threads(settings.threads)
    model = shard_model(graph, settings, world)
    engine = build_engine(settings.engine, training_task(graph, settings, model, world))
    monitor = monitor_of(graph, settings)
    origin = provenance(graph, world.device, __version__) | {"engine": engine.name}
    folder, where = None, ""
    if checkpoints is not None:
        kept, identity = Checkpoint(checkpoints, settings.validate_every), identity_of(settings, graph)
        folder = ShardedCheckpointFolder(world, kept, identity, origin, engine, monitor)
        where = f"; the last whole checkpoint is in {checkpoints}"
        if fresh:
            folder.remove()
    with SharedCores(world.device).told(engine):
        try:
            result = train(
                engine, settings.epochs, validate=_validation(graph, model, world, monitor),
                validate_every=settings.validate_every, monitor=monitor, patience=settings.patience,
                callbacks=callbacks if world.rank == 0 else (), checkpointer=folder, keep_last=False,
            )  # fmt: skip
        except DivergedError as error:
            raise DivergedError(f"{error}{where}") from None
    begun = origin.get("resumed_after", [0])[-1]
    steps = max(1, (len(result.history) - begun) * engine.batches)
    moved = {purpose: round(world.sent[purpose] / steps) for purpose in ("rows", "sums", "gradients")}
    origin["sharded"] = {"processes": world.size, "backend": world.backend, "bytes_per_step": moved}
    return ShardedRun(world, graph, settings, model, result, origin, folder)


def shard_model(graph: KnowledgeGraph, settings: Settings, world: World) -> BilinearModel:
    """Build the model that the settings describe with this process's entity rows alone, on its device.

    Every process draws all start weights, a piece at a time, and keeps its own: so a seed means one start.
    """
    with torch.device("meta"):
        model = blank_model(graph, settings)
    hold_share(model, world)
    width = model.entity_width()

    def draw(table: Tensor, limit: float, generator: torch.Generator) -> None:
        if table is not model.entities:
            draw_uniform(table, limit, generator)
            return
        for first in range(0, model.n_entities, PIECE):
            piece = table.new_empty(min(PIECE, model.n_entities - first), width)
            draw_uniform(piece, limit, generator)
            mine, places = world.own(torch.arange(first, first + len(piece)))
            table.data[places] = piece[mine]

    model.initialise(torch.Generator().manual_seed(settings.seed), settings.used("init_scale"), draw)
    return model.to(world.device).to(getattr(torch, settings.precision))


def hold_share(model: BilinearModel, world: World) -> None:
    """Give an outline of a model room for its weights, on the CPU, and of the entities for this process's alone."""
    if model.n_entities < world.size:
        raise SettingError(f"{world.size} processes cannot share {model.n_entities} entities; start fewer")
    count = rows_of(world.rank, world.size, model.n_entities)
    model.entities = nn.Parameter(torch.empty(count, model.entity_width(), device="meta"))
    model.to_empty(device="cpu")


def free_memory() -> float:
    """Return the bytes of memory that are free, as far as the system says."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return float("inf")


def _validation(graph: KnowledgeGraph, model: BilinearModel, world: World, monitor: str) -> Validate | None:
    """Return what measures an epoch, or None where there is nothing to measure."""
    valid = graph.valid
    if len(valid.facts) == 0:
        return None
    if monitor == "posterior":
        raise SettingError("monitor posterior needs all rows in one process; under torchrun use mrr or nll")

    def by_nll(model: BilinearModel) -> dict[str, float]:
        logits = score_sharded(world, model, valid.triples) + model.prior_score
        return {"nll": negative_log_likelihood(logits, valid.signs)}

    def by_mrr(model: BilinearModel) -> dict[str, float]:
        known = graph.facts(*FILTERS["valid"])
        return {"mrr": ranking_metrics(rank_sharded(world, model, valid.facts, known))["mrr"]}

    return by_nll if monitor == "nll" else by_mrr
