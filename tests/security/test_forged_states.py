"""Checkpoints and shards that somebody made up, every hash right: one error of ours, never a traceback."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load, save

import staypositive as sp
from launching import world_of_one
from staypositive.cli import main
from staypositive.distributed import World, fit_sharded, gather_run, leave_in_shards, open_sharded, shards_of
from staypositive.errors import RunError, SettingError
from staypositive.files import sha256_bytes
from staypositive.run import make_settings
from staypositive.run.checkpoint import CHECKPOINT, epochs_done
from staypositive.run.folder import RUN, SHARDS
from staypositive.run.hashed import to_json

SMALL: dict[str, Any] = {
    "model": "complex", "objective": "second-moment", "spread_every": 4, "dim": 2, "epochs": 4, "validate_every": 1,
    "batch_size": 64, "device": "cpu", "monitor": "mrr", "optimiser": "adam",
}  # fmt: skip
DEEP = b"[" * 200_000
NESTED = b"[" * 800 + b"]" * 800
STRANGE = [b"", b"null", b"[]", b"{}", b"7", b'"x"', b"NaN", b"[NaN]", b"[null]", b"[[]]", b"\xff", DEEP, NESTED]
Change = Callable[[Any], Any]


def put(name: str, value: Any) -> Change:
    return lambda held: held | {name: value}


def without(name: str) -> Change:
    return lambda held: {key: value for key, value in held.items() if key != name}


@pytest.fixture(scope="module")
def kept(planted: sp.KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state of a training that was stopped after two epochs; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("kept") / "run" / "checkpoint"
    answers = iter([False, True])
    with pytest.raises(sp.StoppedError):
        sp.fit(planted, **SMALL, checkpoint=folder, should_stop=lambda: next(answers))
    return folder


@pytest.fixture
def checkpoint(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "run" / "checkpoint"))


def refused(graph: sp.KnowledgeGraph, folder: Path) -> str:
    with pytest.raises((RunError, SettingError)) as found:
        sp.fit(graph, **SMALL, checkpoint=folder)
    assert str(folder) in str(found.value)
    assert "\n" not in str(found.value)
    return str(found.value)


def test_the_state_itself_is_read(planted: sp.KnowledgeGraph, checkpoint: Path) -> None:
    assert len(sp.fit(planted, **SMALL, checkpoint=checkpoint).history) == 4


@pytest.mark.parametrize("role", ["history.json", "training.json"])
@pytest.mark.parametrize("data", STRANGE, ids=lambda data: data[:9].decode("latin-1"))
def test_strange_json_is_refused(role: str, data: bytes, planted: sp.KnowledgeGraph, checkpoint: Path) -> None:
    if (role, data) == ("history.json", b"[]"):
        return  # of no epochs at all: refused below, by the number of steps
    CHECKPOINT.save(checkpoint, CHECKPOINT.load(checkpoint) | {role: data}, "0")
    refused(planted, checkpoint)
    if role == "history.json":
        with pytest.raises(RunError, match=str(checkpoint)):
            epochs_done(checkpoint)


@pytest.mark.parametrize("role", CHECKPOINT.roles)
def test_a_missing_part_is_refused(role: str, planted: sp.KnowledgeGraph, checkpoint: Path) -> None:
    contents = CHECKPOINT.load(checkpoint)
    del contents[role]
    CHECKPOINT.save(checkpoint, contents, "0")
    refused(planted, checkpoint)


@pytest.mark.parametrize(
    "change",
    [
        lambda history: [], lambda history: history[:1], lambda history: history * 2, lambda history: history[::-1],
        lambda history: [history[0], history[1] | {"epoch": True}],
        lambda history: [history[0], history[1] | {"epoch": 7}],
        lambda history: [history[0], history[1] | {"seconds": None}],
        lambda history: [history[0], history[1] | {"terms": []}],
        lambda history: [history[0], history[1] | {"validation": {}, "is_best": True}],
        lambda history: [history[0], history[1] | {"validation": {"mrr": "x"}}],
        lambda history: [epoch | {"is_best": False} for epoch in history],
        lambda history: [history[0], without("terms")(history[1])],
        lambda history: [history[0], history[1] | {"more": 1}],
    ],
)  # fmt: skip
def test_a_history_that_is_none_is_refused(change: Change, planted: sp.KnowledgeGraph, checkpoint: Path) -> None:
    contents = CHECKPOINT.load(checkpoint)
    changed = to_json(change(json.loads(contents["history.json"])))
    CHECKPOINT.save(checkpoint, contents | {"history.json": changed}, "0")
    refused(planted, checkpoint)


@pytest.mark.parametrize("name", ["identity", "origin"])
@pytest.mark.parametrize("value", [None, [], {}, 7, {"epochs": None}, {"epochs": "4", "started": 1}])
def test_a_training_that_is_none_is_refused(
    name: str, value: Any, planted: sp.KnowledgeGraph, checkpoint: Path
) -> None:
    contents = CHECKPOINT.load(checkpoint)
    about = json.loads(contents["training.json"])
    for changed in (about | {name: value}, without(name)(about)):
        CHECKPOINT.save(checkpoint, contents | {"training.json": to_json(changed)}, "0")
        refused(planted, checkpoint)
    resumed = about | {"origin": about["origin"] | {"resumed_after": ["x"]}}
    CHECKPOINT.save(checkpoint, contents | {"training.json": to_json(resumed)}, "0")
    refused(planted, checkpoint)


GENERATOR = torch.zeros(5056, dtype=torch.uint8)
TENSORS = [
    *(without(name) for name in ("generator", "steps", "model.entities", "optimiser.steps", "gram", "taken")),
    put("more", torch.zeros(2)), put("generator", GENERATOR), put("generator", torch.zeros(3)),
    put("generator", GENERATOR[:7]), put("generator", torch.zeros(5056)), put("steps", torch.tensor(-1)),
    put("steps", torch.tensor(0)), put("steps", torch.tensor(2**63 - 1)), put("steps", torch.tensor([1, 2])),
    put("steps", torch.tensor(1.5)), put("steps", torch.zeros(0)), put("optimiser.steps", torch.zeros(3)),
    put("gram", torch.zeros(2)), put("pending", torch.zeros(4, 4, dtype=torch.float64)),
    lambda state: state | {"gram": torch.full_like(state["gram"], torch.nan)},
    lambda state: state | {"model.entities": state["model.entities"][:1].clone()},
    lambda state: state | {"model.entities": state["model.entities"].double()},
    lambda state: state | {"model.entities": torch.full_like(state["model.entities"], torch.inf)},
    lambda state: state | {"model.entities": torch.full_like(state["model.entities"], 1e20)},
    lambda state: {},
]  # fmt: skip


@pytest.mark.parametrize("change", TENSORS)
def test_a_state_that_is_none_is_refused(change: Change, planted: sp.KnowledgeGraph, checkpoint: Path) -> None:
    contents = CHECKPOINT.load(checkpoint)
    changed = save(change(load(contents["state.safetensors"])))
    CHECKPOINT.save(checkpoint, contents | {"state.safetensors": changed}, "0")
    assert "is not a readable checkpoint" in refused(planted, checkpoint)


@pytest.mark.parametrize(
    "change",
    [
        without("entities"), put("more", torch.zeros(2)), put("relations", torch.zeros(3)), lambda best: {},
        lambda best: best | {"entities": best["entities"].double()},
        lambda best: best | {"entities": torch.full_like(best["entities"], torch.nan)},
        lambda best: best | {"entities": torch.full_like(best["entities"], 1e20)},
    ],
)  # fmt: skip
def test_best_weights_that_are_none_are_refused(change: Change, planted: sp.KnowledgeGraph, checkpoint: Path) -> None:
    contents = CHECKPOINT.load(checkpoint)
    changed = save(change(load(contents["best.safetensors"])))
    CHECKPOINT.save(checkpoint, contents | {"best.safetensors": changed}, "0")
    assert "is not a readable checkpoint" in refused(planted, checkpoint)


@pytest.mark.parametrize("flag", ["--resume", "--quiet", "--force"])
def test_the_command_line_says_it_in_one_line(
    flag: str, planted: sp.KnowledgeGraph, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    CHECKPOINT.save(checkpoint, CHECKPOINT.load(checkpoint) | {"history.json": b"null", "training.json": DEEP}, "0")
    data = sp.write_folder(planted, tmp_path / "data")
    words = ["train", str(data), "--epochs=4", "--dim=2", "--device=cpu", f"--out={tmp_path / 'run'}", flag]
    if flag == "--force":  # which begins anew, and asks nothing of what was there
        call(words, 0)
        return
    call(words, 1)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"error: {checkpoint} is not a readable checkpoint" in said


def call(words: list[str], code: int) -> None:
    with patch.object(sys, "argv", ["staypositive", *words]), pytest.raises(SystemExit) as ended:
        main()
    assert int(ended.value.code or 0) == code


# -- shards ------------------------------------------------------------------------------------------------------


SHARDED = {name: value for name, value in SMALL.items() if name not in ("objective", "spread_every")}


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
    for path in newest(run).glob("*.safetensors"):
        if isinstance(stated, dict) and isinstance(stated.get("files"), dict):
            stated["files"][path.name] = {"bytes": path.stat().st_size, "sha256": sha256_bytes(path.read_bytes())}
    if isinstance(stated, dict):
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


STATE = "state"
MANIFESTS = [
    *(without(name) for name in ("format", "processes", "identity", "files", STATE)),
    put("format", "1"), put("format", 99), put("processes", 0), put("processes", 2), put("processes", 2**60),
    put("processes", True), put("processes", None), put("files", []), put("files", {"x": 1}), put(STATE, None),
    put(STATE, []), put(STATE, {}), put("identity", []), lambda held: [held], lambda held: None,
]  # fmt: skip


@pytest.mark.parametrize("change", MANIFESTS)
def test_a_manifest_that_is_none_is_refused(
    change: Change, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    stated = change(manifest(in_shards))
    seal(in_shards, stated)
    is_whole = isinstance(stated, dict)  # else it does not count, and the checkpoint before it does
    if is_whole and stated.get("identity") == []:  # which says nothing to gathering
        with pytest.raises(SettingError, match="another graph or other settings"):
            fit_sharded(planted, make_settings(**SHARDED), world, checkpoints=shards_of(in_shards))
        return
    refuse_everywhere(planted, in_shards, world, resumes=is_whole)


@pytest.mark.parametrize("data", STRANGE, ids=lambda data: data[:9].decode("latin-1"))
def test_a_strange_manifest_is_passed_over(
    data: bytes, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    (newest(in_shards) / "manifest.json").write_bytes(data)
    refuse_everywhere(planted, in_shards, world, resumes=False)
    fitted = fit_sharded(planted, make_settings(**SHARDED), world, checkpoints=shards_of(in_shards))
    assert len(fitted.result.history) == 4  # from the checkpoint before it


@pytest.mark.parametrize(
    "change",
    [
        *(without(name) for name in ("steps", "optimiser_steps", "best_epoch", "history")),
        put("steps", -1), put("steps", "3"), put("steps", None), put("optimiser_steps", 7), put("best_epoch", 99),
        put("best_epoch", -1), put("best_epoch", 1.5), put("history", None), put("history", [{}]), put("more", 1),
        put("history", {}), put("history", []),
        lambda state: state | {"history": state["history"][::-1]},
        lambda state: state | {"history": [epoch | {"terms": {"x": None}} for epoch in state["history"]]},
    ],
)  # fmt: skip
def test_a_progress_that_is_none_is_refused(
    change: Change, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    stated = manifest(in_shards)
    seal(in_shards, stated | {STATE: change(stated[STATE])})
    refuse_everywhere(planted, in_shards, world)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state | {"steps": state["steps"] + 1, "optimiser_steps": state["steps"] + 1},
        lambda state: state | {"history": [epoch | {"validation": {}} for epoch in state["history"]]},
    ],
)
def test_a_progress_that_does_not_fit_is_not_gone_on_with(
    change: Change, planted: sp.KnowledgeGraph, in_shards: Path, world: World
) -> None:
    stated = manifest(in_shards)
    seal(in_shards, stated | {STATE: change(stated[STATE])})
    with pytest.raises(RunError, match="is not a readable checkpoint: expected"):
        fit_sharded(planted, make_settings(**SHARDED), world, checkpoints=shards_of(in_shards))


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
