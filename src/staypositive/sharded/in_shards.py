"""A run whose weights stay in shards: kept so, opened by any number of processes, and gathered within little memory.

Its folder is a run's, with `shards.json` in place of the weights: which checkpoint beside it holds them, by hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from staypositive.errors import RunError, SettingError
from staypositive.graph.on_disk import Progress, silent
from staypositive.models import build_model
from staypositive.run.checking import largest_weights, parsed, require_bounded
from staypositive.run.chunks import Table, tensors_in_pieces
from staypositive.run.folder import RUN, SHARDS, WEIGHTS, RunParts, load_in_shards, save_with
from staypositive.run.locking import locked
from staypositive.run.sealed_folder import to_json
from staypositive.sharded.checkpoint import Checkpoint, remove_checkpoints
from staypositive.sharded.fitting import ShardedRun, hold_share, require_bounded_share
from staypositive.sharded.rows import PIECE
from staypositive.sharded.world import World
from staypositive.training import TrainingResult
from staypositive.version import __version__


def shards_of(folder: Path) -> Path:
    """Return where the shards of a run's training lie: beside its folder."""
    return folder.with_name(f"{folder.name}.shards")


def leave_in_shards(trained: ShardedRun, folder: Path, metrics: dict[str, Any]) -> None:
    """Keep a run whose weights stay where the last checkpoint has them; every process calls this."""
    assert trained.checkpoints is not None
    require_bounded_share(trained.model, trained.world)
    checkpoint, result = trained.checkpoints.newest(), trained.result
    if checkpoint is None or checkpoint.best_epoch != result.best_epoch:
        raise RunError(
            f"the last checkpoint in {trained.checkpoints.folder} is damaged; the same command goes on from the one "
            "before it"
        )
    if trained.world.rank == 0:
        stated = {"folder": checkpoint.folder.parent.name, "checkpoint": checkpoint.folder.name}
        parts = RunParts(
            trained.graph, trained.model, trained.settings, result.history, result.best_epoch, metrics, None,
            trained.provenance,
        )  # fmt: skip
        save_with(folder, parts, {SHARDS: to_json(stated | {"sha256": checkpoint.sha256})})
    trained.world.wait()


def open_sharded(folder: Path, world: World) -> ShardedRun:
    """Open a run that stays in shards, each process its own rows, whatever number of processes left it."""
    parts, checkpoint = _open(folder)
    checkpoint.require_whole(world)
    model = parts.model
    hold_share(model, world)
    tables = {f"{checkpoint.group}.{name}": weight.data for name, weight in model.named_parameters()}
    entities = f"{checkpoint.group}.entities"
    with checkpoint.reading():
        checkpoint.read(world, {entities: tables.pop(entities)}, tables)
    model.to(world.device).eval()
    with _named(checkpoint):
        require_bounded_share(model, world)
    result = TrainingResult(parts.history, parts.best_epoch, "epochs")
    return ShardedRun(world, parts.graph, parts.settings, model, result, parts.provenance)


def gather_run(folder: Path, out: Path | None = None, *, rows: int = PIECE, progress: Progress = silent) -> Path:
    """Make a run that stays in shards one as any other, in its own folder, or in another.

    At most so many entity rows are in memory at once; `progress` shows a bar of them. Shards that no run needs any
    more are removed: those that go by the name of a run that was gathered in its own folder.
    """
    parts, checkpoint = _open(folder)
    if out is not None and RUN.is_in(out):
        raise SettingError(f"{out} already holds a run; give another --out")
    checkpoint.require_whole()
    tables = {}
    with checkpoint.reading(), progress("rows", parts.model.n_entities) as advance:
        for name, weight in parts.model.state_dict().items():
            stored, shape = f"{checkpoint.group}.{name}", tuple(weight.shape)
            if name == "entities":
                tables[name] = Table(shape, checkpoint.whole_table(stored, shape, rows, advance))
            else:
                tables[name] = Table(shape, [checkpoint.common_table(stored, shape)])
        save_with(out or folder, parts, {WEIGHTS: _bounded(parts, tables, checkpoint)})
    own = checkpoint.folder.parent
    if out is None and own == shards_of(folder.resolve()) and not own.is_symlink():  # else they are another run's too
        remove_checkpoints(own)
    return out or folder


def keep_metrics(folder: Path, split: str, report: dict[str, Any]) -> None:
    """Add what was measured of a split to a run that stays in shards."""
    with locked(folder):
        kept = parsed(RUN.load(folder, ("metrics.json",))["metrics.json"])
        kept[split] = kept.get(split, {}) | report
        RUN.update(folder, {"metrics.json": to_json(kept)}, __version__)


def _bounded(parts: RunParts, tables: dict[str, Table], checkpoint: Checkpoint) -> Iterator[bytes]:
    """Yield the file of all weights; those that lead to scores that 32 bits cannot hold are refused at its end."""
    largest = torch.zeros(())

    def watched(pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        nonlocal largest
        for piece in pieces:
            largest = torch.maximum(largest, largest_weights(piece))
            yield piece

    entities = tables["entities"]
    with _named(checkpoint):
        yield from tensors_in_pieces(tables | {"entities": Table(entities.shape, watched(entities.pieces))})
        model = build_model(parts.settings.model, **parts.model.settings() | {"n_entities": 1})
        others = {name: torch.cat(list(table.pieces)) for name, table in tables.items() if name != "entities"}
        model.load_state_dict(others | {"entities": largest[None]})
        require_bounded(model)


@contextmanager
def _named(checkpoint: Checkpoint) -> Iterator[None]:
    """Say of which checkpoint the weights are that are refused."""
    try:
        yield
    except RunError as error:
        raise RunError(f"{checkpoint.folder} is not a readable checkpoint: {error}") from None


def _open(folder: Path) -> tuple[RunParts, Checkpoint]:
    parts, stated = load_in_shards(folder)
    for name in (stated["folder"], stated["checkpoint"]):
        if name in ("", "..") or Path(name).name != name:
            raise RunError(f"{folder} names shards outside its own: {name!r}")
    place = folder.resolve().with_name(stated["folder"]) / stated["checkpoint"]
    checkpoint = Checkpoint.open(place, stated["sha256"])
    if checkpoint.best_epoch != parts.best_epoch:
        raise RunError(
            f"{place} has weights of epoch {checkpoint.best_epoch}, and the run those of {parts.best_epoch}"
        )
    return parts, checkpoint
