"""A run whose weights stay in shards: every command can come to it, and damage is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner, Result

import staypositive as sp
from launching import TESTS, torchrun, with_environment, world_of_one
from staypositive.cli import app
from staypositive.errors import RunError, SettingError
from staypositive.files import sha256_bytes, to_json
from staypositive.run import make_settings
from staypositive.run.folder import RUN, SHARDS, is_in_shards
from staypositive.sharded import fit_sharded, gather_run, in_shards, leave_in_shards, open_sharded, shards_of
from staypositive.sharded.checkpoint import ShardedCheckpoint
from staypositive.tensors import Table, tensors_in_pieces

FLAGS = ["--model=distmult", "--dim=8", "--epochs=9", "--validate-every=2", "--batch-size=128", "--penalty-weight=0"]
SMALL: dict[str, Any] = {"model": "distmult", "dim": 4, "epochs": 2, "validate_every": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def data(planted: sp.KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sp.write_folder(planted, tmp_path_factory.mktemp("data") / "planted")


@pytest.fixture(scope="module")
def command(data: Path) -> list[str]:
    return ["train", str(data), *FLAGS, "--device=cpu", "--calibrate=none", "--quiet"]


@pytest.fixture(scope="module")
def left(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left in shards; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("left") / "run"
    done = torchrun(2, TESTS / "crowded.py", *command, f"--out={folder}")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def fitting(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> sp.Run:
    """What two processes make of it where it fits."""
    folder = tmp_path_factory.mktemp("fitting") / "run"
    done = torchrun(2, "-m", "staypositive", *command, f"--out={folder}")
    assert done.returncode == 0, done.stderr
    return sp.load_run(folder)


@pytest.fixture
def run(left: Path, tmp_path: Path) -> Path:
    """A copy of what was left, elsewhere."""
    shutil.copytree(left, tmp_path / "run")
    shutil.copytree(shards_of(left), tmp_path / "run.shards")
    return tmp_path / "run"


@pytest.fixture
def launched() -> Iterator[None]:
    with with_environment(TORCHELASTIC_RUN_ID="tests"):
        yield


def call(*words: str | Path, code: int = 0) -> Result:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


def shards(run: Path) -> list[Path]:
    return sorted(run.parent.glob("*.shards/epoch-000009/shard-*"))


def test_a_gathered_run_is_the_one_that_fits(run: Path, fitting: sp.Run, tmp_path: Path) -> None:
    assert len(shards(run)) == 2
    assert call("gather", run).output == f"{run} holds the whole run\n"
    assert not list(tmp_path.glob("*.shards"))
    held = sp.load_run(run)
    weights = fitting.model.state_dict()
    assert held.model.state_dict().keys() == weights.keys()
    for name, weight in held.model.state_dict().items():
        assert torch.equal(weight, weights[name]), name
    assert held.settings == fitting.settings
    assert held.best_epoch == fitting.best_epoch < 9  # the weights set aside, not the last ones
    assert [record.terms for record in held.history] == [record.terms for record in fitting.history]
    assert held.metrics["test"]["ranking"] == fitting.metrics["test"]["ranking"]
    assert held.provenance["sharded"]["processes"] == 2
    assert held.predict("p0", "ally").equals(fitting.predict("p0", "ally"))
    assert "Ranking on test" in call("evaluate", run).stdout
    assert "p0" in call("predict", run, "--relation", "ally", "--tail", "p2", "--top", "40").stdout
    assert json.loads((run / "run.json").read_text("utf-8"))["format"] == 1


def test_few_rows_at_once_are_in_memory(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def seen(tables: Mapping[str, Table]) -> Iterator[bytes]:
        for piece in tensors_in_pieces(tables):
            sizes.append(len(piece))
            yield piece

    monkeypatch.setattr(in_shards, "tensors_in_pieces", seen)
    told: list[int] = []
    real = ShardedCheckpoint.rows

    def watched(self: ShardedCheckpoint, *given: Any) -> Iterator[torch.Tensor]:
        for piece in real(self, *given):
            told.append(len(piece))
            yield piece

    monkeypatch.setattr(ShardedCheckpoint, "rows", watched)
    assert gather_run(run, tmp_path / "whole", rows=7) == tmp_path / "whole"
    assert told == [6] * 6 + [4]  # of 40 entities, three of each of two files at once
    assert sizes.count(6 * 8 * 4) == 6
    assert max(sizes[1:]) == 6 * 8 * 4  # but for the header
    assert gather_run(run, tmp_path / "by-one", rows=1) == tmp_path / "by-one"  # one of each file is the least
    assert set(told[7:]) == {2}
    gather_run(run)
    expected = sp.load_run(run).model.entities
    for folder in ("whole", "by-one"):
        assert torch.equal(sp.load_run(tmp_path / folder).model.entities, expected)


def test_shards_stay_where_the_whole_is_made_elsewhere(run: Path, tmp_path: Path) -> None:
    call("gather", run, "--out", tmp_path / "whole")
    assert is_in_shards(run)
    assert len(shards(run)) == 2
    with pytest.raises(SettingError, match="already holds a run; give another --out"):
        gather_run(run, tmp_path / "whole")
    assert json.loads(call("gather", run, "--out", tmp_path / "other", "--json").stdout) == {
        "run": str(tmp_path / "other")
    }
    shutil.copytree(run, tmp_path / "copy")
    gather_run(tmp_path / "copy")  # the shards are not its own: the run that it was copied from needs them
    assert len(shards(run)) == 2
    gather_run(run)
    assert shards(run) == []


def test_a_gathering_that_is_cut_short_changes_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: ShardedCheckpoint, *given: Any) -> Iterator[torch.Tensor]:
        yield torch.zeros(4, 8)
        raise OSError(28, "No space left on device")

    before = sorted(path.name for path in run.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(ShardedCheckpoint, "rows", full)
        with pytest.raises(RunError, match=r"cannot write the run to .*: No space left on device"):
            gather_run(run)
    assert sorted(path.name for path in run.iterdir()) == before
    (run / ".weights.safetensors.x1y2.part").write_bytes(b"as a kill leaves it")
    gather_run(run)
    assert not list(run.glob(".*"))
    assert len(sp.load_run(run).model.entities) == 40


def remove(path: Path) -> None:
    path.unlink()


def alter(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def restate(path: Path) -> None:
    """Write a manifest that has the hash that it states, and is another."""
    manifest = json.loads(path.read_text("utf-8"))
    del manifest["sha256"]
    manifest["writer"] += "+1"
    path.write_bytes(to_json(manifest | {"sha256": sha256_bytes(to_json(manifest))}))


@pytest.mark.parametrize(
    ("change", "name", "said"),
    [
        (remove, "shard-00001.safetensors", r"epoch-000009/shard-00001\.safetensors is missing\. Put it back"),
        (alter, "shard-00000.safetensors", r"epoch-000009/shard-00000\.safetensors is damaged\. Put it back"),
        (alter, "common.safetensors", r"epoch-000009/common\.safetensors is damaged"),
        (remove, "manifest.json", r"no checkpoint in .*epoch-000009 \(no manifest\.json\).* train again"),
        (alter, "manifest.json", r"epoch-000009/manifest\.json is damaged"),
        (restate, "manifest.json", r"epoch-000009/manifest\.json is another one than the run's"),
    ],
)
def test_damage_is_named(run: Path, change: Callable[[Path], None], name: str, said: str) -> None:
    change(shards(run)[0].parent / name)
    before = (run / "run.json").read_bytes()
    with pytest.raises(RunError, match=said):
        gather_run(run)
    with world_of_one() as world, pytest.raises(RunError, match=said):
        open_sharded(run, world)
    assert (run / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"folder": "..", "checkpoint": "x", "sha256": ""}, "names shards outside its own: '..'"),
        ({"folder": "/etc", "checkpoint": "x", "sha256": ""}, "names shards outside its own: '/etc'"),
        ({"folder": "run.shards", "checkpoint": "a/b", "sha256": ""}, "names shards outside its own: 'a/b'"),
        ({"folder": "run.shards"}, "does not say where its weights are"),
        ([1], "does not say where its weights are"),
    ],
)
def test_forged_places_are_refused(run: Path, stated: Any, said: str) -> None:
    RUN.save(run, RUN.load(run) | {SHARDS: to_json(stated)}, "tests")
    with pytest.raises(RunError, match=said):
        gather_run(run)


def test_shards_of_other_shapes_are_refused(run: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = shards(run)[1]
    save_file({name: table[1:].clone() for name, table in load_file(path).items()}, path)
    manifest = path.with_name("manifest.json")
    stated = json.loads(manifest.read_text("utf-8"))
    del stated["sha256"]
    stated["files"][path.name] = {"bytes": path.stat().st_size, "sha256": sha256_bytes(path.read_bytes())}
    digest = sha256_bytes(to_json(stated))
    manifest.write_bytes(to_json(stated | {"sha256": digest}))
    contents = RUN.load(run)
    RUN.save(run, contents | {SHARDS: to_json(json.loads(contents[SHARDS]) | {"sha256": digest})}, "tests")
    with pytest.raises(RunError, match=r"best.entities of shape \[19, 8\], and \[20, 8\] was expected"):
        gather_run(run)
    with world_of_one() as world, pytest.raises(RunError, match=r"of shape \[19, 8\], and \[20, 8\] was"):
        open_sharded(run, world)
    assert is_in_shards(run)


def test_other_commands_say_what_to_do(run: Path) -> None:
    done = CliRunner().invoke(app, ["predict", str(run), "--head", "p0", "--relation", "ally"])
    assert "are in shards" in str(done.exception)
    assert "`staypositive gather`" in str(done.exception)
    with pytest.raises(RunError, match="geo-demo is not in shards: it is a run as any other"):
        gather_run(sp.load_run("geo-demo").save(run.parent / "geo-demo"))


@pytest.mark.usefixtures("launched")
def test_torchrun_is_refused_where_it_has_no_place(run: Path) -> None:
    refused = CliRunner().invoke(app, ["gather", str(run)])
    assert "for one process, without torchrun" in str(refused.exception)
    refused = CliRunner().invoke(app, ["evaluate", str(run), "--no-ranking"])
    assert "can only be ranked" in str(refused.exception)


def test_any_number_of_processes_ranks_and_discovers(run: Path, tmp_path: Path) -> None:
    """Three processes do with what two left what one does with the gathered run."""
    evaluate = torchrun(3, "-m", "staypositive", "evaluate", run, "--sampled=9", "--json")
    assert evaluate.returncode == 0, evaluate.stderr
    found = json.loads(evaluate.stdout)
    wanted = ["--top=120", "--relations=rival,ally"]
    discover = torchrun(3, "-m", "staypositive", "discover", run, *wanted, f"--out={tmp_path / 'new.tsv'}")
    assert discover.returncode == 0, discover.stderr
    assert f"rows written to {tmp_path / 'new.tsv'}" in discover.stdout
    assert discover.stdout.count("\n") == 1  # one process speaks
    call("gather", run, "--quiet")
    held = sp.load_run(run)
    assert held.metrics["test"].keys() == {"ranking", "sampled_ranking"}
    assert held.metrics["test"]["sampled_ranking"] == found["sampled_ranking"]
    assert found["sampled_ranking"]["candidates"] == 9
    alone = held.evaluate(sampled=9)["sampled_ranking"]["filtered"]["both"]["sampled_mrr"]
    assert alone == pytest.approx(found["sampled_ranking"]["filtered"]["both"]["sampled_mrr"], abs=0.01)  # near-ties
    call("discover", run, *wanted, "--out", tmp_path / "one.tsv")
    ours, theirs = (pd.read_csv(tmp_path / name, sep="\t") for name in ("new.tsv", "one.tsv"))
    assert list(ours) == ["head", "relation", "tail", "score"]  # in shards there are no probabilities
    assert len(ours) == len(theirs) == 120
    both = ours.merge(theirs, on=["head", "relation", "tail"])
    assert len(both) > 110  # the last may tie
    np.testing.assert_allclose(both["score_x"], both["score_y"], rtol=1e-4)


@pytest.mark.usefixtures("launched")
def test_one_process_under_torchrun_ranks_and_says_so(run: Path) -> None:
    said = call("evaluate", run, "--split", "valid", "--per-relation").stdout
    assert "Ranking on valid" in said
    assert "by relation" in said
    kept = json.loads(RUN.load(run, ("metrics.json",))["metrics.json"])
    assert kept.keys() == {"test", "valid"}
    too_many = CliRunner().invoke(app, ["evaluate", str(run), "--sampled", "40"])
    assert "rank among all of them" in str(too_many.exception)
    assert "new triples" in call("discover", run, "--top", "3").stdout


@pytest.mark.usefixtures("launched")
def test_the_same_training_ends_whole_where_there_is_memory(command: list[str], run: Path, fitting: sp.Run) -> None:
    call(*command, f"--out={run}", "--resume")
    assert not shards_of(run).exists()
    assert torch.equal(sp.load_run(run).model.entities, fitting.model.entities)


@pytest.mark.usefixtures("launched")
def test_a_training_goes_on_from_a_run_in_shards(command: list[str], run: Path) -> None:
    call(*command, f"--out={run}", "--epochs=11")
    assert len(sp.load_run(run).history) == 11
    other = CliRunner().invoke(app, [*command, f"--out={run}", "--dim=9"])
    assert "already holds a run" in str(other.exception)


@pytest.mark.usefixtures("launched")
def test_another_training_does_not_take_the_place_of_a_run_in_shards(command: list[str], run: Path) -> None:
    other = CliRunner().invoke(app, [*command, f"--out={run}", "--dim=9"])
    assert "is of another training: dim is 8 there and 9 here" in str(other.exception)
    assert "use --force" in str(other.exception)
    assert is_in_shards(run)


@pytest.mark.parametrize("options", [{"precision": "bfloat16"}, {"model": "tucker"}, {"objective": "second-moment"}])
def test_all_that_can_be_sharded_can_be_gathered(
    planted: sp.KnowledgeGraph, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Without validation too: then the last weights are those of the run."""
    bare = sp.KnowledgeGraph(
        "bare", planted.entities, planted.relations, planted.train, sp.Split(planted.valid.facts[:0]), planted.test
    )
    folder = tmp_path / "run"
    with world_of_one() as world:
        trained = fit_sharded(bare, make_settings(**SMALL | options), world, checkpoints=shards_of(folder))
        leave_in_shards(trained, folder, {})
        again = open_sharded(folder, world)
        whole = trained.whole()
    assert whole is not None
    gather_run(folder, rows=5)
    held = sp.load_run(folder).model.state_dict()
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(held[name], weight), name
        assert torch.equal(again.model.state_dict()[name], weight), name


def test_a_run_is_left_only_by_a_checkpoint_that_has_it(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    with world_of_one() as world:
        settings = make_settings(**SMALL | {"epochs": 4, "monitor": "mrr"})
        trained = fit_sharded(planted, settings, world, checkpoints=shards_of(tmp_path / "run"))
        for path in shards_of(tmp_path / "run").glob("epoch-*/shard-*"):
            alter(path)
        with pytest.raises(RunError, match=r"the last checkpoint in .* is damaged; the same command resumes"):
            leave_in_shards(trained, tmp_path / "run", {})


def test_pieces_that_are_no_table_are_refused() -> None:
    with pytest.raises(RunError, match="x has 3 rows, and 2 came"):
        list(tensors_in_pieces({"x": Table((3, 2), [torch.zeros(2, 2)])}))
    with pytest.raises(RunError, match=r"x has rows of shape \(2,\), and \(1,\) came"):
        list(tensors_in_pieces({"x": Table((3, 2), [torch.zeros(3, 1)])}))
    with pytest.raises(RunError, match="the weights of x are not finite numbers"):
        list(tensors_in_pieces({"x": Table((1, 2), [torch.full((1, 2), torch.nan)])}))
