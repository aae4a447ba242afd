"""The command line as a user types it: tables, JSON, files, exit codes, error paths."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import staypositive as sp
from conftest import planted_graph
from staypositive.cli import app, main
from staypositive.models import options_class
from staypositive.objectives import OBJECTIVES, objective_options

FAST = ["--dim", "4", "--epochs", "2", "--validate-every", "1", "--threads", "1"]


def call(*arguments: str | Path) -> str:
    """Run a command that should succeed; return its standard output."""
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "160"})
    assert done.exit_code == 0, done.output
    return done.stdout


def fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str | Path
) -> tuple[int, str]:
    """Run a command that should fail; return its exit code and what it said on standard error."""
    monkeypatch.setattr(sys, "argv", ["staypositive", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0), capsys.readouterr().err


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "geo"
    call("train", "geo", "--out", folder, *FAST, "--quiet", "--no-evaluate", "--calibrate", "none")
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with labels and enough validation facts for probabilities, as a folder of files."""
    return sp.write_folder(planted_graph(24), tmp_path_factory.mktemp("cli") / "houses")


@pytest.fixture(scope="module")
def fitted(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with probabilities of unknown triples."""
    folder = tmp_path_factory.mktemp("cli") / "small"
    call("train", small, "--out", folder, *FAST, "--quiet", "--no-evaluate")
    return folder


def test_train_tells_the_story(small: Path, tmp_path: Path) -> None:
    text = call("train", small, "--out", tmp_path / "run", *FAST, "--model", "distmult")
    assert "houses: 24 entities, 2 relations, 414 / 138 / 138 triples" in text
    assert "distmult by stay-positive, dim 4, batch size 1,024, at most 2 epochs\n" in text
    assert "Ranking on test: 138 queries, filtered by train, valid, test" in text
    assert "uncalibrated" in text
    assert "platt" in text
    assert "trained 2 epochs" in text
    assert f"staypositive predict {tmp_path / 'run'}" in text.replace("\n", "")
    run = sp.load_run(tmp_path / "run")
    assert (run.settings.model, run.settings.dim, run.settings.epochs) == ("distmult", 4, 2)


def test_train_states_the_preset(tmp_path: Path) -> None:
    text = call(
        "train", "geo", "--out", tmp_path / "run", *FAST, "--preset", "paper", "--no-evaluate", "--calibrate", "none"
    )
    assert "preset paper: simple by stay-positive, dim 4, batch size 1,024, at most 2 epochs\n" in text
    assert sp.load_run(tmp_path / "run").provenance["preset"] == "paper"


def test_every_setting_and_option_has_a_flag() -> None:
    text = call("train", "--help")
    for name in [
        *(field.name for field in dataclasses.fields(sp.Settings) if field.name != "model_options"),
        *(option.name for model in sp.MODELS for option in dataclasses.fields(options_class(model))),
        *(option for objective in OBJECTIVES for option in objective_options(objective)),
    ]:
        assert f"--{name.replace('_', '-')}" in text, name


def test_train_from_one_file_and_json(tmp_path: Path) -> None:
    rows = "".join(f"a{i}\tlikes\ta{(i * i + j) % 12}\n" for i in range(12) for j in range(5))
    (tmp_path / "mine.tsv.gz").write_bytes(gzip.compress(("head\trelation\ttail\n" + rows).encode()))
    arguments = ["train", tmp_path / "mine.tsv.gz", "--split", "0.6,0.2,0.2", "--out", tmp_path / "run", *FAST]
    report = json.loads(call(*arguments, "--objective", "negative-sampling", "--negatives", "3", "--json"))
    assert report["run"] == str(tmp_path / "run")
    assert report["epochs"] == 2
    assert "classification" not in report["metrics"]["test"]
    run = sp.load_run(tmp_path / "run")
    assert run.settings.objective.negatives_per_fact == 3
    assert run.graph.counts()["train"] == 36
    assert run.calibrator is None


def test_quiet_says_only_results(small: Path, tmp_path: Path) -> None:
    text = call("train", small, "--out", tmp_path / "run", *FAST, "--quiet", "--calibrate", "temperature")
    assert "saved" not in text
    assert "temperature" in text
    assert (
        call("train", small, "--out", tmp_path / "b", *FAST, "--quiet", "--no-evaluate", "--calibrate", "none") == ""
    )


def test_evaluate(trained: Path) -> None:
    text = call("evaluate", trained, "--split", "valid", "--per-relation")
    assert "filtered by train, valid" in text
    assert "pessimistic" in text
    assert "has_currency" in text
    report = json.loads(call("evaluate", trained, "--no-ranking", "--json"))
    assert set(report) == {"classification"}
    assert set(sp.load_run(trained).metrics) == {"valid", "test"}


def test_evaluate_sampled(trained: Path) -> None:
    assert "each against 20 drawn entities" in " ".join(call("evaluate", trained, "--sampled", "20").split())
    report = json.loads(call("evaluate", trained, "--sampled", "20", "--json"))
    assert report["sampled_ranking"]["candidates"] == 20
    assert 0 < report["sampled_ranking"]["filtered"]["both"]["sampled_mrr"] <= 1
    assert "ranking" not in report
    assert sp.load_run(trained).metrics["test"]["sampled_ranking"] == report["sampled_ranking"]


def test_calibrate(fitted: Path) -> None:
    report = json.loads(call("calibrate", fitted, "--method", "isotonic", "--json"))
    assert report["nll_after"] < report["nll_before"]
    assert report["completeness"] == sp.load_run(fitted).posterior.completeness
    assert "isotonic" in report["test"]["classification"]["all"]
    text = call("calibrate", fitted, "--method", "platt", "--completeness", "0.8")
    assert "before" in text
    said = "fitted to 69 validation facts, for a graph with 0.8 of all true facts"
    assert said in " ".join(text.split())
    run = sp.load_run(fitted)
    assert run.calibrator.name == "platt"
    assert run.posterior.completeness == pytest.approx(0.8)
    chosen = run.settings.objective.preferred_calibrator(len(run.graph.valid), 69)
    assert chosen in call("calibrate", fitted)  # what suits the objective and labels
    assert sp.load_run(fitted).posterior.completeness != pytest.approx(0.8)


def test_predictions_say_what_they_assume(fitted: Path) -> None:
    asked = ["predict", fitted, "--head", "p0", "--relation", "ally"]
    text = " ".join(call(*asked).split())
    assert "probabilities assume that the graph has" in text
    assert "of all true facts (--completeness)" in text
    assert "has 0.7 of all true facts" in " ".join(call(*asked, "--completeness", "0.7").split())
    rows = json.loads(call(*asked, "--json", "--completeness", "0.7", "--top", "30"))
    assert {row["probability"] is None for row in rows if row["known"]} == {True}
    assert {0 < row["probability"] < 1 for row in rows if not row["known"]} == {True}


def test_scores_say_why_they_are_no_probabilities(trained: Path, tmp_path: Path) -> None:
    asked = ["predict", trained, "--head", "France", "--relation", "borders", "--top", "2"]
    assert "these are scores, without probabilities: none were fitted yet" in " ".join(call(*asked).split())
    assert "note: no fact has Euro (EUR) as head of borders" in " ".join(
        call("predict", trained, "--head", "Euro (EUR)", "--relation", "borders", "--top", "1").split()
    )
    found = json.loads(call("discover", trained, "--relations", "borders", "--top", "3", "--json"))
    assert [sorted(row) for row in found] == [["head", "relation", "score", "tail"]] * 3


def test_predict(trained: Path, tmp_path: Path) -> None:
    text = call("predict", trained, "--head", "France", "--relation", "borders", "--top", "3")
    assert "(France, borders, ?)" in text
    assert "these are scores, without probabilities" in " ".join(text.split())
    one = json.loads(
        call("predict", trained, "--head", "France", "--relation", "borders", "--tail", "Spain", "--json")
    )
    assert one[0]["known"] is True
    assert "probability" not in one[0]
    unknown = json.loads(
        call(
            "predict",
            trained,
            "--relation",
            "borders",
            "--tail",
            "Spain",
            "--exclude-known",
            "--top",
            "500",
            "--json",
        )
    )
    assert not any(row["known"] for row in unknown)
    (tmp_path / "labels.txt").write_text("Spain\nItaly\n", "utf-8")
    asked = ["predict", trained, "--head", "France", "--relation", "borders", "--json", "--candidates"]
    assert {row["tail"] for row in json.loads(call(*asked, tmp_path / "labels.txt"))} == {"Spain", "Italy"}
    assert len(json.loads(call(*asked, "range"))) == 10
    assert len(json.loads(call("predict", trained, "--similar", "France", "--top", "4", "--json"))) == 4


def test_predict_from_a_file_to_a_file(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "q.tsv").write_text("France\tborders\t?\nFrance\tborders\tSpain\n", "utf-8")
    text = call("predict", trained, "--queries", tmp_path / "q.tsv", "--out", tmp_path / "a.tsv", "--top", "2")
    assert "3 rows written" in text
    lines = (tmp_path / "a.tsv").read_text("utf-8").splitlines()
    assert lines[0].split("\t") == ["query", "head", "relation", "tail", "rank", "score", "known"]
    assert len(lines) == 4


def test_labels_cannot_speak_rich_markup(tmp_path: Path) -> None:
    (tmp_path / "g.tsv").write_text("".join(f"[red]{i}[/red]\tr\t[bold]x\n" for i in range(6)), "utf-8")
    call("train", tmp_path / "g.tsv", "--out", tmp_path / "run", "--dim", "4", "--epochs", "2", "--threads", "1")
    assert "[red]1[/red]" in call("predict", tmp_path / "run", "--relation", "r", "--tail", "[bold]x")


def test_datasets(tmp_path: Path) -> None:
    assert "FB15k-237AM" in call("datasets")
    assert {row["name"] for row in json.loads(call("datasets", "list", "--json"))} >= {"geo", "WN18AM"}
    shown = json.loads(call("datasets", "show", "geo", "--json"))
    assert shown["counts"]["entities"] == 5198
    assert "no problems found" in call("datasets", "show", "geo")
    assert "all hashes right" in call("datasets", "fetch", "geo")
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "train.txt").write_text("a\tr\tb\nb\tr\tc\n", "utf-8")
    (folder / "valid.txt").write_text("a\tr\tc\n", "utf-8")
    (folder / "test.txt").write_text("a\tr\tnew\nc\tr\ta\n", "utf-8")
    assert "1 triples of test have one of 1 entities" in call("datasets", "show", folder)
    assert "1 valid and test triples" in call("datasets", "clean", folder, "--out", tmp_path / "clean")
    assert (tmp_path / "clean" / "test.txt").read_text("utf-8") == "c\tr\ta\n"


def test_help_and_version() -> None:
    assert "staypositive train geo" in call("--help")
    for command in ("train", "evaluate", "calibrate", "predict", "datasets", "import-pykeen"):
        assert "Example" in call(command, "--help")
    assert call("--version").strip() == f"staypositive {sp.__version__}"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["train", "nowhere"], 2, "neither a file, nor a folder, nor a named dataset"),
        (["train", "geo", "--negatives", "3"], 2, "negatives applies to the objective negative-sampling"),
        (["train", "geo", "--split", "0.8,0.1,0.1"], 2, "single file"),
        (["train", "geo", "--split", "most"], 2, "expected three shares"),
        (["train", "geo", "--model", "rotate"], 2, "rotate"),
        (["train", "geo", "--device", "meta"], 2, "expected a device"),
        (["train", "geo", "--init-scale", "nan"], 2, "init_scale must be a finite number"),
        (["train", "geo", "--seed", "99999999999999999999"], 2, "seed must be at most 9223372036854775807"),
        (["train", "geo", "--batch-size", "99999999999999999999"], 2, "batch_size must be at most 2147483647"),
        (["train", "geo", "--accumulator", "1e308"], 2, "accumulator must be at most 3.40282e+38, got 1e+308"),
        (["train", "geo", "--epochs", "0"], 2, "epochs must be at least 1, got 0"),
        (["train", "geo", "--score-bound", "5"], 2, "score_bound applies to the tanh bound"),
        (["train", "geo", "--preset", "paper", "--slices", "3"], 2, "slices applies to the models ntn and tucker"),
        (["train", "geo", "--threads", "100000"], 2, "threads must be between"),
        (["train", "geo", "--dim", "1000000000"], 2, "try a smaller dim"),
        (
            ["train", "geo", "--preset", "paper", "--prior", "0.5", "--prior-score", "1"],
            2,
            "one of prior_score, prior and closed_world",
        ),
        (["evaluate", "nowhere"], 1, "no run in nowhere"),
    ],
)
def test_errors_are_one_line_and_a_code(
    arguments: list[str], code: int, said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    found, text = fail(monkeypatch, capsys, *arguments)
    assert found == code
    assert said in text.replace("\n", " ")
    assert "Traceback" not in text


def test_prediction_errors(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = fail(monkeypatch, capsys, "predict", trained, "--head", "Frnce", "--relation", "borders")
    assert (code, "Did you mean 'France'" in text) == (2, True)
    assert "ask something" in fail(monkeypatch, capsys, "predict", trained)[1]
    assert "lacks" in fail(monkeypatch, capsys, "predict", trained, "--head", "France")[1]
    both = ["predict", trained, "--similar", "France", "--head", "France"]
    assert "one way at a time" in fail(monkeypatch, capsys, *both)[1]
    away = ["predict", trained, "--similar", "France", "--out", Path(__file__) / "no" / "answers.tsv"]
    code, text = fail(monkeypatch, capsys, *away)
    assert (code, "Not a directory" in text) == (1, True)
    asked = ["predict", trained, "--head", "France", "--relation", "borders", "--candidates", "nowhere.txt"]
    assert "list of candidates" in fail(monkeypatch, capsys, *asked)[1]


def test_import_needs_pykeen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "staypositive.interop.pykeen", None)  # as where it is not installed
    code, text = fail(monkeypatch, capsys, "import-pykeen", tmp_path / "theirs", "--out", tmp_path / "ours")
    assert (code, "pip install 'staypositive[pykeen]'" in text) == (2, True)


def test_a_run_is_not_replaced_unasked(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = fail(monkeypatch, capsys, "train", "geo", "--out", trained, *FAST)
    assert (code, "--force" in text) == (2, True)


def test_divergence_keeps_what_was_trained_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    arguments = ["train", "geo", "--out", folder, *FAST, "--quiet", "--no-evaluate"]
    code, text = fail(monkeypatch, capsys, *arguments, "--bound", "identity", "--learning-rate", "1e30")
    assert code == 1
    assert "smaller learning rate" in text
    assert "nothing to keep" in text
    assert not (folder / "run.json").exists()
    trained = sp.fit(sp.load_graph("geo"), dim=2, epochs=1)

    def astray(*_: object, **__: object) -> None:
        raise sp.DivergedError("astray", run=trained)

    monkeypatch.setattr("staypositive.fit", astray)
    assert f"It is in {folder}" in fail(monkeypatch, capsys, *arguments)[1]
    assert len(sp.load_run(folder).predict("France", "borders")) == 10
    before = (folder / "run.json").read_bytes()
    assert "run-diverged" in fail(monkeypatch, capsys, *arguments, "--force")[1]
    assert (folder / "run.json").read_bytes() == before
    assert sp.load_run(tmp_path / "run-diverged").settings.dim == 2


def test_what_cannot_be_kept_or_calibrated_is_said_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("staypositive.fit", lambda *_, **__: pytest.fail("trained"))
    (tmp_path / "file").write_text("in the way", "utf-8")
    assert "cannot write to" in fail(monkeypatch, capsys, "train", "geo", "--out", tmp_path / "file" / "x")[1]
    (tmp_path / "g.tsv").write_text("".join(f"a{i}\tr\tb{i % 3}\n" for i in range(9)), "utf-8")
    arguments = ["train", tmp_path / "g.tsv", "--out", tmp_path / "x", "--calibrate", "platt"]
    assert "needs validation triples labelled false" in fail(monkeypatch, capsys, *arguments)[1]


def test_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("staypositive.cli.app", stop)
    assert fail(monkeypatch, capsys)[0] == 130


def test_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "staypositive", "--version"], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == f"staypositive {sp.__version__}"


def test_a_terminal_without_the_letters_of_a_label_is_no_error() -> None:
    asked = ["predict", "geo-demo", "--head", "Brazil", "--relation", "has_capital", "--top", "1"]
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "staypositive", *asked], capture_output=True, encoding="ascii", env=ascii_only
    )
    assert done.returncode == 0, done.stderr
    assert "Bras\\xedlia, Brazil" in done.stdout


def test_extend_gives_a_run_new_entities(trained: Path, tmp_path: Path) -> None:
    rows = "Atlantis\tborders\tFrance\nAtlantis\thas_currency\tEuro (EUR)\nFrance\tborders\tSpain\n"
    (tmp_path / "more.tsv").write_text(rows, "utf-8")
    report = json.loads(call("extend", trained, tmp_path / "more.tsv", "--out", tmp_path / "grown", "--json"))
    assert report == {
        "run": str(tmp_path / "grown"), "facts": 2, "entities": 1, "source": "more.tsv", "known_already": 1,
    }  # fmt: skip
    text = call("extend", trained, tmp_path / "more.tsv", "--out", tmp_path / "grown", "--force", "--ridge", "0.1")
    assert "1 new entities and 2 new facts" in text
    assert "--similar=Atlantis" in text
    assert "tail" in call("predict", tmp_path / "grown", "--head", "Atlantis", "--relation", "borders")


def test_extend_says_what_is_wrong(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "more.tsv").write_text("Atlantis\tborders\tFrance\nAtlantis\tborder\tSpain\n", "utf-8")
    code, said = fail(monkeypatch, capsys, "extend", trained, tmp_path / "more.tsv", "--out", tmp_path / "grown")
    assert code == 2
    assert f"{tmp_path / 'more.tsv'}:2: no relation is called 'border'" in said
    (tmp_path / "more.tsv").write_text("Atlantis\tborders\tMu\n", "utf-8")
    code, said = fail(monkeypatch, capsys, "extend", trained, tmp_path / "more.tsv", "--out", tmp_path / "grown")
    assert code == 2
    assert "leads to an entity that the model knows" in said
    code, said = fail(monkeypatch, capsys, "extend", trained, tmp_path / "more.tsv", "--out", trained)
    assert code == 2
    assert "already holds a run" in said


def test_join_makes_one_run_of_two(
    small: Path, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call("train", small, "--out", tmp_path / "other", *FAST, "--seed", "1", "--no-evaluate", "--calibrate", "none")
    both = tmp_path / "both"
    report = json.loads(call("ensemble", fitted, tmp_path / "other", "--out", both, "--facts", "50", "--json"))
    assert sum(member["weight"] for member in report["members"]) == pytest.approx(1)
    assert report["metrics"]["test"]["ranking"]["queries"] == 138
    text = call("ensemble", fitted, tmp_path / "other", "--out", both, "--force", "--weights", "3,1", "--no-evaluate")
    assert f"0.75  {fitted}" in text
    assert "tail" in call("predict", both, "--head", "p0", "--relation", "ally")
    code, said = fail(monkeypatch, capsys, "ensemble", fitted, tmp_path / "other", "--out", both)
    assert code == 2
    assert "already holds a run" in said
    code, said = fail(monkeypatch, capsys, "ensemble", fitted, both, "--out", both, "--force")
    assert code == 2
    assert "is one of the members" in said
    code, said = fail(monkeypatch, capsys, "ensemble", fitted, "--out", tmp_path / "one")
    assert code == 2
    assert "two runs or more" in said


def test_runs_of_other_seeds_share_a_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"p{a}\t{'ally' if (a + b) % 2 else 'rival'}\tp{b}" for a in range(20) for b in range(20) if a != b]
    (tmp_path / "own.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    few = ("--model", "complex", "--objective", "second-moment", "--dim", "4", "--epochs", "2", "--no-evaluate")
    for name, *seeds in (("a", "0"), ("b", "1"), ("c", "1", "--split-seed", "0")):
        call("train", tmp_path / "own.tsv", "--out", tmp_path / name, *few, "--seed", *seeds)
    code, said = fail(monkeypatch, capsys, "ensemble", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "ab")
    assert code == 2
    assert "--split-seed" in said
    text = call("ensemble", tmp_path / "a", tmp_path / "c", "--out", tmp_path / "ac")
    assert "for its best member" in text
    alone = call("ensemble", tmp_path / "a", tmp_path / "a", "--out", tmp_path / "aa")
    assert "the ensemble is that run only" in alone


def test_train_starts_from_a_run(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = call(
        "train",
        "geo",
        "--start-from",
        trained,
        "--out",
        tmp_path / "on",
        *FAST,
        "--no-evaluate",
        "--calibrate",
        "none",
    )
    assert "entities: 5,198 kept, 0 folded in, 0 fresh" in text
    code, said = fail(
        monkeypatch, capsys, "train", "geo", "--start-from", trained, "--out", tmp_path / "x", "--dim", "5"
    )
    assert code == 2
    assert "same dim: it has 4, here 5" in said
