"""Checkpoints that somebody made up, every hash right: one error of ours, never a traceback."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load, save

import staypositive as sp
from staypositive.cli import main
from staypositive.errors import RunError, SettingError
from staypositive.files import to_json
from staypositive.run.checkpoint import CHECKPOINT, epochs_done

SMALL: dict[str, Any] = {
    "model": "complex", "objective": "second-moment", "gram_update_interval": 4, "dim": 2, "epochs": 4,
    "validate_every": 1,
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
    put("optimiser.steps", torch.tensor(1)),
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
