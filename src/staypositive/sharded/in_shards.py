"""A run whose weights stay in shards: kept so, opened by any number of processes, and gathered within little memory.

Its folder is a run's, with `shards.json` in place of the weights: which checkpoint beside it holds them, by hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from staypositive.errors import RunError, SettingError
from staypositive.files import locked, parsed, to_json
from staypositive.graph.on_disk import Progress, silent
from staypositive.models import build_model
from staypositive.run.checking import largest_weights, require_bounded
from staypositive.run.checkpoint import readable
from staypositive.run.folder import RUN, SHARDS, WEIGHTS, RunParts, load_in_shards, save_with
from staypositive.sealed_folder import UnsealedError
from staypositive.sharded.checkpoint import SHARDED, ShardedCheckpoint, remove_checkpoints, require_bounded_share
from staypositive.sharded.fitting import ShardedRun, hold_share
from staypositive.tensors import Table, tensors_in_pieces
from staypositive.training import TrainingResult, World
from staypositive.training.world import PIECE
from staypositive.version import __version__

ENTITIES = "entities"


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
            f"the last checkpoint in {trained.checkpoints.folder} is damaged; the same command resumes from the one "
            "before it"
        )
    if trained.world.rank == 0:
        stated = {"folder": checkpoint.folder.parent.name, "checkpoint": checkpoint.folder.name}
        parts = RunParts(
            trained.graph, trained.model, trained.settings, result.history, result.best_epoch, trained.provenance,
            metrics=metrics,
        )  # fmt: skip
        save_with(folder, parts, {SHARDS: to_json(stated | {"sha256": checkpoint.sha256})})
    trained.world.wait()


def open_sharded(folder: Path, world: World) -> ShardedRun:
    """Open a run that stays in shards, each process its own rows, whatever number of processes left it."""
    parts, checkpoint = _open(folder, world)
    model = parts.model
    shapes = {name: weight.shape for name, weight in model.named_parameters()}
    hold_share(model, world)
    with readable(checkpoint.folder):
        for name, weight in model.named_parameters():
            first = 0
            for piece in checkpoint.weights(name, shapes[name], world.rank, world.size):
                weight.data[first : first + len(piece)] = piece
                first += len(piece)
        model.to(world.device).eval()
        require_bounded_share(model, world)
    result = TrainingResult(parts.history, parts.best_epoch, "epochs")
    return ShardedRun(world, parts.graph, parts.settings, model, result, parts.provenance)


def gather_run(folder: Path, out: Path | None = None, *, rows: int = PIECE, progress: Progress = silent) -> Path:
    """Make a run that stays in shards one as any other, in its own folder, or in another.

    At most `rows` entity rows are in memory at once; `progress` shows a bar of them. Shards that no run needs any
    more are removed: those that go by the name of a run that was gathered in its own folder.
    """
    if out is not None and RUN.is_in(out):
        raise SettingError(f"{out} already holds a run; give another --out")
    parts, checkpoint = _open(folder)
    with progress("rows", parts.model.n_entities) as advance:
        save_with(out or folder, parts, {WEIGHTS: _gathered(parts, checkpoint, rows, advance)})
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


def _gathered(
    parts: RunParts, checkpoint: ShardedCheckpoint, rows: int, advance: Callable[[int], Any]
) -> Iterator[bytes]:
    """Yield the file of all weights; those that lead to scores that 32 bits cannot hold are refused at its end."""
    largest: dict[str, Tensor] = {}

    def watched(name: str, shape: tuple[int, ...]) -> Iterator[Tensor]:
        for piece in checkpoint.weights(name, shape, rows=rows):
            yield piece
            if name == ENTITIES:
                advance(len(piece))
                piece = largest_weights(piece.float())[None]
                piece = torch.maximum(piece, largest.get(name, piece))
            largest[name] = piece

    with readable(checkpoint.folder):
        shapes = {name: tuple(weight.shape) for name, weight in parts.model.state_dict().items()}
        yield from tensors_in_pieces({name: Table(shape, watched(name, shape)) for name, shape in shapes.items()})
        model = build_model(parts.settings.model, **parts.model.settings() | {"n_entities": 1})
        model.load_state_dict(largest)
        require_bounded(model)


def _open(folder: Path, world: World | None = None) -> tuple[RunParts, ShardedCheckpoint]:
    """Return the parts of a run in shards, the model an outline, and the whole checkpoint of its weights."""
    parts, stated = load_in_shards(folder)
    for name in (stated["folder"], stated["checkpoint"]):
        if name in ("", "..") or Path(name).name != name:
            raise RunError(f"{folder} names shards outside its own: {name!r}")
    place = folder.resolve().with_name(stated["folder"]) / stated["checkpoint"]
    try:
        found = ShardedCheckpoint.at(place)
        wrong = found.damage(world)
        if found.sha256 != stated["sha256"]:
            wrong = f"{place / SHARDED.manifest} is another one than the run's"
    except UnsealedError as error:
        wrong = str(error)
    if wrong:
        raise RunError(f"{wrong}. Put it back as it was, or train again: the same command resumes from what is whole")
    if found.best_epoch != parts.best_epoch:
        raise RunError(f"{place} has weights of epoch {found.best_epoch}, and the run those of {parts.best_epoch}")
    return parts, found
