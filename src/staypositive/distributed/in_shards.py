"""A run whose weights stay in shards: kept so, opened by any number of processes, and gathered within little memory.

Its folder is a run's, with `shards.json` in place of the weights: which checkpoint beside it holds them, by hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from staypositive.distributed.checkpoint import Checkpoint, remove_checkpoints
from staypositive.distributed.fitting import ShardedRun, hold_share
from staypositive.distributed.rows import PIECE
from staypositive.distributed.world import World
from staypositive.errors import RunError, SettingError
from staypositive.graph.streamed.job import Progress, silent
from staypositive.run.checking import parsed
from staypositive.run.folder import RUN, SHARDS, WEIGHTS, RunParts, load_in_shards, save_with
from staypositive.run.hashed import to_json
from staypositive.run.locking import locked
from staypositive.run.memory import ran_out_of_memory
from staypositive.run.pieces import Table, tensors_in_pieces
from staypositive.training import TrainingResult
from staypositive.version import __version__


def shards_of(folder: Path) -> Path:
    """Return where the shards of a run's training lie: beside its folder."""
    return folder.with_name(f"{folder.name}.shards")


def leave_in_shards(trained: ShardedRun, folder: Path, metrics: dict[str, Any]) -> None:
    """Keep a run whose weights stay where the last checkpoint has them; every process calls this."""
    assert trained.checkpoints is not None
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
    with _readable(checkpoint):
        checkpoint.read(world, {entities: tables.pop(entities)}, tables)
    model.to(world.device).eval()
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
    with _readable(checkpoint), progress("rows", parts.model.n_entities) as advance:
        for name, weight in parts.model.state_dict().items():
            stored, shape = f"{checkpoint.group}.{name}", tuple(weight.shape)
            if name == "entities":
                tables[name] = Table(shape, checkpoint.whole_table(stored, shape, rows, advance))
            else:
                tables[name] = Table(shape, [checkpoint.common_table(stored)])
        save_with(out or folder, parts, {WEIGHTS: tensors_in_pieces(tables)})
    if out is None and checkpoint.folder.parent == shards_of(folder.resolve()):  # else they are another run's too
        remove_checkpoints(checkpoint.folder.parent)
    return out or folder


def keep_metrics(folder: Path, split: str, report: dict[str, Any]) -> None:
    """Add what was measured of a split to a run that stays in shards."""
    with locked(folder):
        contents = RUN.load(folder)
        kept = parsed(contents["metrics.json"])
        kept[split] = kept.get(split, {}) | report
        RUN.save(folder, contents | {"metrics.json": to_json(kept)}, __version__)


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


@contextmanager
def _readable(checkpoint: Checkpoint) -> Iterator[None]:
    """Say in one error what a shard that is none leads to: hashes say that a file is whole, not what it is."""
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, IndexError, RuntimeError) as error:
        if ran_out_of_memory(error):
            raise
        raise RunError(f"{checkpoint.folder} is not a readable checkpoint: {error}") from error
