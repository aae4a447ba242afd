"""Trackers: what they wrote is what the history says, and they close however training ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import staypositive as sp
from conftest import planted_graph
from staypositive.cli import app
from staypositive.interop.trackers import make_tracker

SETTINGS = {"model": "distmult", "dim": 4, "epochs": 3, "validate_every": 2, "batch_size": 64}


@pytest.fixture(scope="module")
def graph() -> sp.KnowledgeGraph:
    return planted_graph(12)


def numbers(run: sp.Run, name: str) -> dict[int, float]:
    """What the history says under a tracker's name."""
    kind, _, term = name.partition("/")
    if kind == "loss":
        return {r.epoch: r.terms[term] for r in run.history}
    if kind == "validation":
        return {r.epoch: r.validation[term] for r in run.history if r.validation}
    return {r.epoch: getattr(r, name) for r in run.history}


NAMES = ("loss/facts", "loss/penalty", "mean_score", "seconds", "validation/nll")


def test_json_lines(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    about = {"graph": "<planted>", **sp.make_settings(**SETTINGS).as_dict()}
    run = sp.fit(graph, callbacks=[make_tracker(f"jsonl:{tmp_path / 'new' / 'log.jsonl'}", about)], **SETTINGS)
    start, *epochs, end = map(json.loads, (tmp_path / "new" / "log.jsonl").read_text("utf-8").splitlines())
    assert (start["event"], start["graph"], start["objective"]["name"]) == ("start", "<planted>", "stay-positive")
    assert end == {"event": "end", "went_well": True, "best_epoch": run.best_epoch, "stopped": "epochs"}
    for name in NAMES:
        assert {line["epoch"]: line[name] for line in epochs if name in line} == numbers(run, name), name


def test_tensorboard(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = sp.fit(graph, callbacks=[make_tracker(f"tensorboard:{tmp_path}", {"dim": 4})], **SETTINGS)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["scalars"]) == set(NAMES)
    for name in NAMES:
        written = {event.step: event.value for event in events.Scalars(name)}
        assert written == pytest.approx(numbers(run, name), rel=1e-6), name
    assert b"| dim | 4 |" in events.Tensors("about/text_summary")[0].tensor_proto.string_val[0]


@pytest.mark.filterwarnings("ignore")
def test_mlflow(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{tmp_path / 'm.db'}"
    tracker: Any = make_tracker(f"mlflow:{uri}", {"graph": "planted", **sp.make_settings(**SETTINGS).as_dict()})
    run = sp.fit(graph, callbacks=[tracker], **SETTINGS)
    client = MlflowClient(tracking_uri=uri)
    kept = client.get_run(tracker.run)
    assert kept.info.status == "FINISHED"
    assert kept.data.params["objective.name"] == "stay-positive"
    assert kept.data.params["dim"] == "4"
    assert kept.data.tags["best_epoch"] == str(run.best_epoch)
    for name in NAMES:
        written = {metric.step: metric.value for metric in client.get_metric_history(tracker.run, name)}
        assert written == pytest.approx(numbers(run, name)), name
    with pytest.raises(sp.InputError, match="MLflow cannot write to nowhere://x"):
        make_tracker("mlflow:nowhere://x")


def test_a_training_cut_short_is_closed(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    class Stop(sp.Callback):
        def on_epoch(self, record: sp.EpochRecord) -> None:
            raise KeyboardInterrupt

    tracker = make_tracker(f"jsonl:{tmp_path / 'log.jsonl'}")
    with pytest.raises(KeyboardInterrupt):
        sp.fit(graph, callbacks=[tracker, Stop()], **SETTINGS)
    tracker.abandon()
    tracker.abandon()  # once is enough
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text("utf-8").splitlines()]
    assert [event["event"] for event in events] == ["start", "epoch", "end"]
    assert events[-1]["stopped"] == "interrupted"


def test_a_diverged_training_did_not_go_well(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    tracker = make_tracker(f"jsonl:{tmp_path / 'log.jsonl'}")
    wild = {**SETTINGS, "bound": "identity", "optimiser": "adam", "learning_rate": 1e30}
    with pytest.raises(sp.DivergedError):
        sp.fit(graph, callbacks=[tracker], **wild)
    end = json.loads((tmp_path / "log.jsonl").read_text("utf-8").splitlines()[-1])
    assert (end["went_well"], end["stopped"]) == (False, "diverged")


@pytest.mark.parametrize("text", ["jsonl", "jsonl:", "paper:x", ""])
def test_an_unknown_tracker(text: str) -> None:
    with pytest.raises(sp.SettingError, match=r"jsonl:FILE, tensorboard:FOLDER or mlflow:URI, got"):
        make_tracker(text)


@pytest.mark.parametrize(("name", "module"), [("tensorboard", "tensorboard"), ("mlflow", "mlflow.tracking")])
def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(sp.InputError, match=rf"needs {name}: pip install 'staypositive\[track\]'"):
        make_tracker(f"{name}:{tmp_path}")


def test_from_the_command_line(graph: sp.KnowledgeGraph, tmp_path: Path) -> None:
    sp.write_folder(graph, tmp_path / "g")
    asked = [
        "train",
        str(tmp_path / "g"),
        "--out",
        str(tmp_path / "run"),
        "--dim",
        "4",
        "--epochs",
        "2",
        "--no-evaluate",
    ]
    done = CliRunner().invoke(app, [*asked, "--track", f"jsonl:{tmp_path / 'l'}"], catch_exceptions=False)
    assert done.exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "l").read_text("utf-8").splitlines()]
    assert [line["event"] for line in lines] == ["start", "epoch", "epoch", "end"]
    assert lines[0]["dim"] == 4
