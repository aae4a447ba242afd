"""What needs no second process: a world of one, and stubs of larger ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import staypositive as sp
from launching import world_of_one
from staypositive import sealed_folder
from staypositive.errors import DivergedError, RunError, SettingError
from staypositive.inference import discover
from staypositive.run import make_settings, new_model
from staypositive.run.checkpoint import Checkpoint, identity_of
from staypositive.run.fitting import training_task
from staypositive.sharded import World, checkpoint, fit_sharded, shard_model
from staypositive.sharded import fitting as fitting_module
from staypositive.sharded.checkpoint import SHARDED, ShardedCheckpointFolder
from staypositive.training import build_engine, train
from staypositive.training.world import rows_of

SMALL: dict[str, Any] = {
    "model": "distmult", "dim": 8, "batch_size": 256, "validate_every": 2, "device": "cpu", "learning_rate": 0.5,
}  # fmt: skip


class Outline(World):
    """One of several processes, that talks to no other."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size, self.device = rank, size, torch.device("cpu")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with world_of_one() as world:
        yield world


@pytest.mark.parametrize(
    "options",
    [{}, {"monitor": "mrr", "objective": "second-moment"}, {"patience": 1, "learning_rate": 1e-30},
     {"objective": "negative-sampling", "negatives": 2}],
)  # fmt: skip
def test_one_process_fits_as_fit_does(world: World, planted: sp.KnowledgeGraph, options: dict[str, Any]) -> None:
    settings = make_settings(**{**SMALL, "epochs": 6, "engine": "reference", **options})
    ours, theirs = fit_sharded(planted, settings, world), sp.fit(planted, settings)
    assert ours.result.best_epoch == theirs.best_epoch
    assert len(ours.result.history) == len(theirs.history)
    whole = ours.whole()
    assert whole is not None
    torch.testing.assert_close(whole.model.entities, theirs.model.entities, rtol=1e-3, atol=1e-4)
    whole.ranks["test"] = ours.rank("test")
    expected = theirs.evaluate("test")["ranking"]["filtered"]["realistic"]["both"]["mrr"]
    found = whole.evaluate("test")["ranking"]["filtered"]["realistic"]["both"]["mrr"]
    assert found == pytest.approx(expected, rel=0.02)
    assert whole.provenance["sharded"]["bytes_per_step"] == {"rows": 0, "sums": 0, "gradients": 0}
    wanted = {"most": 5}
    for new, plain in zip(ours.discover(**wanted), discover(whole.predictor, **wanted), strict=True):
        assert np.array_equal(new.triples, plain.triples)


def test_rows_in_16_bits_are_trained(world: World, planted: sp.KnowledgeGraph) -> None:
    trained = fit_sharded(planted, make_settings(**SMALL, epochs=4, precision="bfloat16"), world)
    history = trained.result.history
    assert trained.model.entities.dtype == torch.bfloat16
    assert history[-1].terms["facts"] < history[0].terms["facts"]
    whole = trained.whole()
    assert whole is not None
    assert whole.model.entities.dtype == torch.float32


@pytest.mark.parametrize("model", ["simple", "tucker"])
def test_processes_draw_the_start_of_one(
    planted: sp.KnowledgeGraph, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting_module, "PIECE", 7)
    settings = make_settings(model=model, dim=6, seed=3)
    whole = new_model(planted, settings)
    for rank in range(3):
        stub = Outline(rank, 3)
        own = shard_model(planted, settings, stub)
        assert torch.equal(own.entities, whole.entities[rank::3])
        assert torch.equal(own.relations, whole.relations)
        assert len(own.entities) == rows_of(rank, 3, own.n_entities)
    with pytest.raises(SettingError, match="41 processes cannot share 40 entities"):
        shard_model(planted, settings, Outline(0, 41))


@pytest.mark.parametrize(
    "options",
    [{"objective": "1vsall"}, {"objective": "second-moment", "gram_update_interval": 2},
     {"objective": "negative-sampling", "l2": 0.1}],
)  # fmt: skip
def test_what_needs_whole_tables_is_refused(
    world: World, planted: sp.KnowledgeGraph, options: dict[str, Any]
) -> None:
    with pytest.raises(SettingError, match="cannot be sharded"):
        fit_sharded(planted, make_settings(**SMALL, **options), world)


def test_divergence_is_said(world: World, planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    wild = make_settings(**SMALL | {"learning_rate": 1e20, "bound": "identity", "power": 2})
    with pytest.raises(DivergedError, match=r"NaN or infinite in epoch \d+ .*; the last whole checkpoint is in"):
        fit_sharded(planted, wild, world, checkpoints=tmp_path / "shards")
    labelled = make_settings(**SMALL, monitor="nll")
    unlabelled = sp.KnowledgeGraph(
        "bare", planted.entities, planted.relations, planted.train, sp.Split(planted.valid.facts), planted.test
    )
    with pytest.raises(SettingError, match="monitor nll needs"):
        fit_sharded(unlabelled, labelled, world)
    with pytest.raises(SettingError, match="under torchrun use mrr or nll"):
        fit_sharded(planted, make_settings(**SMALL, monitor="posterior"), world)


@pytest.mark.parametrize("optimiser", ["adagrad", "adam"])
def test_a_training_goes_on_from_its_newest_whole_checkpoint(
    world: World, planted: sp.KnowledgeGraph, tmp_path: Path, optimiser: str
) -> None:
    folder = tmp_path / "shards"
    chosen = SMALL | {"optimiser": optimiser, "dropout": 0.2}
    through = fit_sharded(planted, make_settings(**chosen, epochs=6), world)
    fit_sharded(planted, make_settings(**chosen, epochs=5), world, checkpoints=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["epoch-000004", "epoch-000005"]
    shard = folder / "epoch-000005" / "shard-00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")  # damaged: the one before it counts
    (folder / "epoch-000009").mkdir()  # cut short before its manifest
    seen: list[int] = []

    class Watch(sp.Callback):
        def on_epoch(self, record: sp.EpochRecord) -> None:
            seen.append(record.epoch)

    last = make_settings(**chosen, epochs=6)
    resumed = fit_sharded(planted, last, world, checkpoints=folder, callbacks=[Watch()])
    assert seen == [5, 6]
    assert torch.equal(resumed.model.entities, through.model.entities)
    assert [r.terms for r in resumed.result.history] == [r.terms for r in through.result.history]
    assert resumed.result.best_epoch == through.result.best_epoch


def test_checkpoints_of_others_are_refused(world: World, planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    fit_sharded(planted, make_settings(**SMALL, epochs=2), world, checkpoints=folder)
    other = make_settings(**SMALL, epochs=2, seed=1)
    with pytest.raises(SettingError, match=r"is of another training: seed is 0 there and 1 here\. .*use --force"):
        fit_sharded(planted, other, world, checkpoints=folder)
    manifest = folder / "epoch-000002" / "manifest.json"
    said = json.loads(manifest.read_text("utf-8"))
    manifest.write_text(json.dumps(said | {"writer": "9"}), "utf-8")  # not the hash that it states: as good as none
    assert len(fit_sharded(planted, other, world, checkpoints=folder).result.history) == 2
    fit_sharded(planted, make_settings(**SMALL, epochs=2), world, checkpoints=folder, fresh=True)
    assert [path.name for path in folder.iterdir()] == ["epoch-000002"]


def test_a_newer_format_is_refused(
    world: World, planted: sp.KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(**SMALL, epochs=2)
    with monkeypatch.context() as newer:
        newer.setattr("staypositive.sharded.checkpoint.SHARDED", replace(SHARDED, format=3))
        fit_sharded(planted, settings, world, checkpoints=tmp_path / "shards")
    with pytest.raises(RunError, match=r"checkpoint format 3, written by .*; this staypositive reads up to 2"):
        fit_sharded(planted, settings, world, checkpoints=tmp_path / "shards")


class KilledError(BaseException):
    """A kill, as far as Python can play one: nothing catches it."""


@pytest.mark.parametrize("place", ["write_tensors", "write_atomic", "entry_of", "rmtree", "sync_folder"])
def test_a_kill_at_any_call_of_any_save_changes_nothing(
    place: str, world: World, planted: sp.KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(**SMALL | {"dim": 2, "epochs": 4, "validate_every": 1, "optimiser": "adam"})
    expected = fit_sharded(planted, settings, world)
    calls, last = 0, 0

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == last:
                raise KilledError
            return work(*given)

        return call

    where = {"rmtree": shutil, "sync_folder": sealed_folder}.get(place, checkpoint)
    monkeypatch.setattr(where, place, counted(getattr(where, place)))
    kills = 0
    while True:
        calls, last, folder = 0, kills + 1, tmp_path / str(kills)
        try:
            fit_sharded(planted, settings, world, checkpoints=folder)
            break
        except KilledError:
            kills += 1
        last = 0
        resumed = fit_sharded(planted, settings, world, checkpoints=folder)
        assert torch.equal(resumed.model.entities, expected.model.entities)
        assert [record.terms for record in resumed.result.history] == [r.terms for r in expected.result.history]
        assert not list(folder.glob("*/.*.part"))
        assert len(list(folder.iterdir())) <= 3  # nobody has removed what a kill after the last save left
    assert kills >= 2


def test_a_disk_that_is_full_leaves_the_checkpoint_before(
    world: World, planted: sp.KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = fit_sharded(planted, make_settings(**SMALL, epochs=2), world, checkpoints=tmp_path / "shards")
    assert trained.checkpoints is not None
    state = trained.checkpoints.load()
    assert state is not None

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for name in ("write_tensors", "write_atomic", "entry_of"):
        monkeypatch.setattr(checkpoint, name, full)
        with pytest.raises(RunError, match=r"cannot write the checkpoint to .*No space left"):
            trained.checkpoints.save(replace(state, history=state.history[:1]))
        monkeypatch.undo()
    found = trained.checkpoints.newest()
    assert found is not None
    assert (found.folder.name, found.best_epoch) == ("epoch-000002", 2)


@pytest.mark.parametrize("every", [2, "1h", "0.001s"])
def test_the_loop_of_one_process_resumes_by_it(
    every: int | str, world: World, planted: sp.KnowledgeGraph, tmp_path: Path
) -> None:
    """The state is the one that `train` keeps and restores, whoever drives the engine."""
    settings = make_settings(**SMALL | {"dim": 3}, epochs=4)

    def trained(epochs: int, folder: Path) -> torch.Tensor:
        model = shard_model(planted, settings, world)
        engine = build_engine(settings.engine, training_task(planted, settings, model, world))
        origin = {"version": "0", "torch": "0", "device": "cpu", "threads": 1, "started": "today"}
        identity = identity_of(replace(settings, epochs=epochs), planted)
        kept = ShardedCheckpointFolder(world, Checkpoint(folder, every), identity, origin, engine, "mrr")
        validate = fitting_module._validation(planted, model, world, "mrr")
        assert validate is not None
        result = train(engine, epochs, validate=validate, validate_every=2, checkpointer=kept)
        assert origin.get("resumed_after", []) == ([2] if folder.name == "b" and epochs == 4 else [])
        assert len(result.history) == epochs
        return model.entities.detach().clone()

    through = trained(4, tmp_path / "a")
    trained(2, tmp_path / "b")
    assert torch.equal(trained(4, tmp_path / "b"), through)
