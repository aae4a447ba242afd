"""Runs in shards that somebody made up, every hash right: one error of ours, never a traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

import staypositive as sp
from launching import world_of_one
from security.test_forged_states import GENERATOR, SMALL, STRANGE, Change, put, without
from staypositive.errors import RunError, SettingError
from staypositive.files import sha256_bytes, to_json
from staypositive.run import make_settings
from staypositive.run.folder import RUN, SHARDS
from staypositive.sharded import World, fit_sharded, gather_run, leave_in_shards, open_sharded, shards_of

SHARDED = {name: value for name, value in SMALL.items() if name not in ("objective", "gram_update_interval")}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with world_of_one() as held:
        yield held


@pytest.fixture(scope="module")
def left(planted: sp.KnowledgeGraph, world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("left") / "run"
    trained = fit_sharded(planted, make_settings(**SHARDED), world, checkpoints=shards_of(folder))
    leave_in_shards(trained, folder, {})
    return folder


@pytest.fixture
def in_shards(left: Path, tmp_path: Path) -> Path:
    shutil.copytree(shards_of(left), tmp_path / "run.shards")
    return Path(shutil.copytree(left, tmp_path / "run"))


def newest(run: Path) -> Path:
    return max(shards_of(run).glob("epoch-*"))


def seal(run: Path, stated: Any) -> None:
    """Write a manifest and put right every hash on the way from it to the run."""
    if isinstance(stated, dict):
        for name, entry in (stated["files"] if isinstance(stated.get("files"), dict) else {}).items():
            if isinstance(entry, dict) and (path := newest(run) / name).is_file():
                entry |= {"bytes": path.stat().st_size, "sha256": sha256_bytes(path.read_bytes())}
        stated.pop("sha256", None)
        stated["sha256"] = sha256_bytes(to_json(stated))
    (newest(run) / "manifest.json").write_bytes(to_json(stated))
    contents = RUN.load(run)
    digest = stated["sha256"] if isinstance(stated, dict) else ""
    RUN.save(run, contents | {SHARDS: to_json(json.loads(contents[SHARDS]) | {"sha256": digest})}, "tests")


def manifest(run: Path) -> dict[str, Any]:
    return dict(json.loads((newest(run) / "manifest.json").read_text()))


def refuse_everywhere(graph: sp.KnowledgeGraph, run: Path, world: World, *, resumes: bool = True) -> None:
    """Gathering, opening and going on are all refused, and the run stays as it is."""
    before = (run / "run.json").read_bytes()
    with pytest.raises(RunError, match=str(run)):
        gather_run(run)
    with pytest.raises(RunError, match=str(run)):
        open_sharded(run, world)
    if resumes:
        with pytest.raises((RunError, SettingError), match=str(run)):
            fit_sharded(graph, make_settings(**SHARDED), world, checkpoints=shards_of(run))
    assert (run / "run.json").read_bytes() == before


@pytest.mark.parametrize("data", STRANGE, ids=lambda data: data[:9].decode("latin-1"))
def test_a_strange_place_of_shards_is_refused(data: bytes, in_shards: Path, world: World) -> None:
    RUN.save(in_shards, RUN.load(in_shards) | {SHARDS: data}, "tests")
    with pytest.raises(RunError, match=f"{in_shards} is not a readable run"):
        gather_run(in_shards)
    with pytest.raises(RunError, match=f"{in_shards} is not a readable run"):
        open_sharded(in_shards, world)


COMMON, SHARD = "common.safetensors", "shard-00000.safetensors"


def files(change: Change) -> Change:
    return lambda held: held | {"files": change(held["files"])}


def renamed(name: str, new: str) -> Change:
    return lambda held: without(name)(held) | {new: held[name]}


MANIFESTS = [
    without("format"), put("format", "1"), put("format", None), put("format", True), put("format", 1),
    put("format", 99), without("files"), put("files", None), put("files", []), put("files", {}),
    put("files", {"x": 1}), put("files", {"x": {}}), lambda held: [held], lambda held: None,
    *(files(without(name)) for name in (COMMON, SHARD, "history.json", "training.json")),
    *(files(put(name, {})) for name in ("shard-00007.safetensors", "more.safetensors", "../x.json", "/x", "")),
    *(files(put(SHARD, entry)) for entry in ({"file": "../x"}, {"file": 7}, {"file": ""}, None, [])),
    files(renamed(SHARD, "shard-00001.safetensors")), files(renamed(SHARD, f"shard-{2**60}.safetensors")),
    files(renamed(COMMON, "common.json")),
]  # fmt: skip


@pytest.mark.parametrize("change", MANIFESTS)
def test_a_manifest_that_is_none_is_refused(
    change: Change, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    stated = change(manifest(in_shards))
    seal(in_shards, stated)
    is_whole = isinstance(stated, dict)  # else it does not count, and the checkpoint before it does
    refuse_everywhere(planted, in_shards, world, resumes=is_whole)


@pytest.mark.parametrize("data", STRANGE, ids=lambda data: data[:9].decode("latin-1"))
def test_a_strange_manifest_is_passed_over(
    data: bytes, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    (newest(in_shards) / "manifest.json").write_bytes(data)
    refuse_everywhere(planted, in_shards, world, resumes=False)
    fitted = fit_sharded(planted, make_settings(**SHARDED), world, checkpoints=shards_of(in_shards))
    assert len(fitted.result.history) == 4  # from the checkpoint before it


def write_json(run: Path, name: str, data: bytes) -> None:
    (newest(run) / name).write_bytes(data)
    seal(run, manifest(run))


@pytest.mark.parametrize("data", STRANGE, ids=lambda data: data[:9].decode("latin-1"))
def test_a_strange_history_is_refused(data: bytes, planted: sp.KnowledgeGraph, in_shards: Path, world: World) -> None:
    write_json(in_shards, "history.json", data)
    refuse_everywhere(planted, in_shards, world)


@pytest.mark.parametrize(
    "change",
    [
        lambda history: [{}], lambda history: history[::-1], lambda history: history * 2,
        lambda history: [epoch | {"terms": {"x": None}} for epoch in history],
        lambda history: [epoch | {"is_best": False} for epoch in history[:-1]],
        lambda history: [epoch | {"more": 1} for epoch in history],
    ],
)  # fmt: skip
def test_a_history_that_is_none_is_refused(
    change: Change, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    history = json.loads((newest(in_shards) / "history.json").read_text())
    write_json(in_shards, "history.json", to_json(change(history)))
    refuse_everywhere(planted, in_shards, world)


def not_resumed(graph: sp.KnowledgeGraph, run: Path, world: World, said: str) -> None:
    with pytest.raises(RunError, match=f"{newest(run)} is not a readable checkpoint: .*{said}"):
        fit_sharded(graph, make_settings(**SHARDED), world, checkpoints=shards_of(run))


@pytest.mark.parametrize(
    "change",
    [
        lambda history: history[:-1],
        lambda history: [epoch | {"validation": {}} for epoch in history],
        lambda history: [epoch | {"is_best": False} for epoch in history],
    ],
)
def test_a_history_that_does_not_fit_is_not_resumed(
    change: Change, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    history = json.loads((newest(in_shards) / "history.json").read_text())
    write_json(in_shards, "history.json", to_json(change(history)))
    not_resumed(planted, in_shards, world, "")


@pytest.mark.parametrize("data", STRANGE, ids=lambda data: data[:9].decode("latin-1"))
def test_a_strange_training_is_not_resumed(
    data: bytes, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    write_json(in_shards, "training.json", data)
    not_resumed(planted, in_shards, world, "")


@pytest.mark.parametrize("name", ["identity", "origin"])
@pytest.mark.parametrize("value", [None, [], {}, 7])
def test_a_training_that_is_none_is_not_resumed(
    name: str, value: Any, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    about = json.loads((newest(in_shards) / "training.json").read_text())
    for changed in (about | {name: value}, without(name)(about)):
        write_json(in_shards, "training.json", to_json(changed))
        not_resumed(planted, in_shards, world, "")


STEPS = [
    (without("steps"), "steps"), (put("steps", torch.tensor(-1)), "-1 steps do not go with"),
    (put("steps", torch.tensor(7.0)), "steps"), (put("steps", torch.zeros(3)), ""),
    (lambda held: held | {"steps": held["steps"] + 1}, "steps do not go with 4 epochs"),
    (lambda held: held | {name: held[name] + 1 for name in ("steps", "optimiser.steps")}, "do not go with 4 epochs"),
    (without("optimiser.steps"), "steps"), (put("optimiser.steps", torch.tensor(7)), "of the optimiser"),
    (without("model.relations"), "expected model.relations"), (put("more", torch.zeros(2)), "more"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), STEPS)
def test_a_progress_that_does_not_fit_is_not_resumed(
    change: Change, said: str, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    path = newest(in_shards) / COMMON
    path.write_bytes(save(change(load(path.read_bytes()))))
    seal(in_shards, manifest(in_shards))
    not_resumed(planted, in_shards, world, said)


ENTITIES = "best.entities"
SHARD_TENSORS = [
    without(ENTITIES), put(ENTITIES, torch.zeros(())), put(ENTITIES, torch.zeros(0)), put(ENTITIES, torch.zeros(40)),
    put(ENTITIES, torch.zeros(40, 1)), put(ENTITIES, torch.zeros(41, 4)), put(ENTITIES, torch.zeros(39, 4)),
    put(ENTITIES, torch.zeros(40, 4, dtype=torch.int32)), put(ENTITIES, torch.zeros(40, 4, dtype=torch.bool)),
    put(ENTITIES, torch.full((40, 4), torch.nan)), put(ENTITIES, torch.full((40, 4), 1e300, dtype=torch.float64)),
    lambda tables: {},
]  # fmt: skip


@pytest.mark.parametrize("change", SHARD_TENSORS)
def test_a_shard_that_is_none_is_refused(
    change: Change, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    path = newest(in_shards) / "shard-00000.safetensors"
    path.write_bytes(save(change(load(path.read_bytes()))))
    seal(in_shards, manifest(in_shards))
    refuse_everywhere(planted, in_shards, world)


@pytest.mark.parametrize(
    "change",
    [
        without("best.relations"), put("best.relations", torch.zeros(())), put("best.relations", torch.zeros(1, 4)),
        put("best.relations", torch.full((3, 4), torch.inf)), lambda tables: {},
    ],
)  # fmt: skip
def test_common_tables_that_are_none_are_refused(
    change: Change, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    path = newest(in_shards) / "common.safetensors"
    path.write_bytes(save(change(load(path.read_bytes()))))
    seal(in_shards, manifest(in_shards))
    refuse_everywhere(planted, in_shards, world)


@pytest.mark.parametrize("state", [GENERATOR, GENERATOR[:7], torch.zeros(5056), None])
def test_a_generator_that_is_none_is_not_gone_on_with(
    state: torch.Tensor | None, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    path = newest(in_shards) / "common.safetensors"
    tables = without("generator")(load(path.read_bytes()))
    path.write_bytes(save(tables | ({} if state is None else {"generator": state})))
    seal(in_shards, manifest(in_shards))
    with pytest.raises(RunError, match=str(shards_of(in_shards))):
        fit_sharded(planted, make_settings(**SHARDED), world, checkpoints=shards_of(in_shards))
