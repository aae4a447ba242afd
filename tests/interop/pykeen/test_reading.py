"""PyKEEN's models as runs of ours: equal scores, and all that a run can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pykeen")

import numpy as np
import torch
from pykeen.datasets import UMLS
from pykeen.pipeline import pipeline
from pykeen.triples import CoreTriplesFactory
from safetensors.torch import save_file
from typer.testing import CliRunner

import staypositive as sp
from pykeen_models import MODELS, TRAIN, small_model
from staypositive.cli import app
from staypositive.errors import InputError, RunError, SettingError
from staypositive.inference.discovery import discover
from staypositive.inference.statistics import score_statistics
from staypositive.interop.pykeen import Geo, StayPositiveTrainingLoop, from_pykeen, graph_of, save_weights


def assert_equal_scores(run: sp.Run, model: Any, dataset: Any) -> None:
    """Scores of triples, of all tails and of all heads; with inverse triples in the direction that PyKEEN asks in."""
    triples = torch.cat([dataset.testing.mapped_triples, dataset.validation.mapped_triples])
    scorer, close = run.predictor.scorer.asked(), {"rtol": 1e-5, "atol": 1e-5}
    model.eval()
    with torch.no_grad():
        inner = model._prepare_batch(triples, index_relation=1)
        torch.testing.assert_close(scorer.triples(*triples.unbind(1)), model.score_hrt(inner).squeeze(1), **close)
        torch.testing.assert_close(scorer.tails(*triples[:, :2].unbind(1)), model.predict_t(triples[:, :2]), **close)
        torch.testing.assert_close(scorer.heads(*triples[:, 1:].unbind(1)), model.predict_h(triples[:, 1:]), **close)


@pytest.fixture(scope="module", params=MODELS)
def trained(request: pytest.FixtureRequest, nations: Any) -> Any:
    extra = {"model_kwargs": {"embedding_dim": 3, "rank": 4}} if request.param == "CP" else {}
    result = pipeline(
        dataset=nations, model=request.param, random_seed=0, training_kwargs={"num_epochs": 2, **TRAIN},
        evaluation_kwargs={"use_tqdm": False, "batch_size": 64}, **extra,
    )  # fmt: skip
    result.model.double()  # so that rounding is not what is compared
    return result


def test_scores_and_ranks_equal_pykeens(trained: Any, nations: Any) -> None:
    run = from_pykeen(trained, nations)
    assert_equal_scores(run, trained.model, nations)
    report = run.evaluate("test")["ranking"]["filtered"]
    for ties in ("realistic", "optimistic", "pessimistic"):
        theirs = trained.get_metric(f"both.{ties}.inverse_harmonic_mean_rank")
        assert report[ties]["both"]["mrr"] == pytest.approx(theirs, abs=2e-4)  # near-ties fall either way


def test_a_triples_score_is_the_mean_of_both_directions(trained: Any, nations: Any) -> None:
    if not nations.create_inverse_triples:
        pytest.skip("one direction alone")
    triples = nations.testing.mapped_triples
    with torch.no_grad():
        inner = trained.model._prepare_batch(triples, index_relation=1)
        mean = (trained.model.score_hrt(inner) + trained.model.score_hrt_inverse(inner.clone())).squeeze(1) / 2
    found = from_pykeen(trained, nations).predictor.score(triples.numpy())
    np.testing.assert_allclose(found, mean.numpy(), rtol=1e-5, atol=1e-5)


def test_folder_without_pickle(trained: Any, nations: Any, tmp_path: Path) -> None:
    trained.save_to_directory(tmp_path)
    with pytest.raises(RunError, match=r"pickle.*never read here.*save_weights"):
        from_pykeen(tmp_path)
    save_weights(trained.model, tmp_path)
    (tmp_path / "trained_model.pkl").unlink()
    (tmp_path / "training_triples" / "base.pth").unlink()
    assert_equal_scores(from_pykeen(tmp_path), trained.model, nations)
    assert_equal_scores(from_pykeen(tmp_path, nations), trained.model, nations)


def test_state_dict_in_safetensors(trained: Any, nations: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    weights = {name: weight for name, weight in trained.model.state_dict().items() if "regularizer" not in name}
    save_file(weights, path)
    with pytest.raises(SettingError, match="does not say what model"):
        from_pykeen(path, nations)
    name = type(trained.model).__name__.lower()
    assert_equal_scores(from_pykeen(path, nations, model=name), trained.model, nations)


def test_a_run_of_pykeens_does_what_a_run_does(plain_nations: Any, tmp_path: Path) -> None:
    umls = UMLS()
    result = pipeline(
        dataset=umls, model="complex", training_loop="stay-positive", training_loop_kwargs={"prior": 0.1},
        random_seed=0, optimizer_kwargs={"lr": 0.05}, model_kwargs={"embedding_dim": 8},
        training_kwargs={"num_epochs": 3, **TRAIN}, evaluation_kwargs={"use_tqdm": False, "batch_size": 64},
    )  # fmt: skip
    run = from_pykeen(result, umls)
    assert run.settings.objective == result.training_loop.objective
    assert run.provenance["trained_by"] == "StayPositiveTrainingLoop"
    assert run.model.prior_score == pytest.approx(np.log(0.1 / 0.9))
    census = score_statistics(run.predictor, threshold=0.9, samples=100)
    with torch.no_grad():
        scores = result.model.score_t(torch.tensor([[i, 0] for i in range(umls.num_entities)]))
    assert float(census["mean"].iloc[0]) == pytest.approx(float(scores.mean()), abs=1e-4)
    run.calibrate("posterior")
    run.save(tmp_path / "run")
    again = sp.load_run(tmp_path / "run")
    head, relation, _ = (umls.testing.label_triples(umls.testing.mapped_triples[:1])[0]).tolist()
    first, second = (own.predict(head, relation, top=5) for own in (run, again))
    assert first.equals(second)
    assert first["probability"].between(0, 1).all()
    assert len(run.prediction_set(head, relation, coverage=0.5))
    found = next(discover(run.predictor, min_probability=0.01))
    assert len(found.triples)
    assert not run.predictor.is_known(found.triples).any()


def test_labelled_negatives_calibrate() -> None:
    dataset = Geo()
    run = from_pykeen(small_model("DistMult", dataset.training).float(), "geo")
    assert run.graph.valid.has_negatives
    assert set(run.calibrate("platt")) == {"nll_before", "nll_after"}


def test_what_trained_it_is_told_by_the_loop(plain_nations: Any) -> None:
    common = {"dataset": plain_nations, "model": "distmult", "training_kwargs": {"num_epochs": 1, **TRAIN},
              "random_seed": 0, "evaluation_kwargs": {"use_tqdm": False, "batch_size": 64}}  # fmt: skip
    drawn = pipeline(negative_sampler="basic", negative_sampler_kwargs={"num_negs_per_pos": 7}, **common)
    assert from_pykeen(drawn).settings.objective == sp.NegativeSampling(negatives=7)
    assert from_pykeen(drawn).provenance["trained_by"] == "SLCWATrainingLoop with MarginRankingLoss"
    assert from_pykeen(pipeline(training_loop="lcwa", **common)).settings.objective == sp.OneVsAll()


def test_a_factory_without_labels_has_ids_for_labels(plain_nations: Any) -> None:
    train = plain_nations.training
    factory = CoreTriplesFactory(train.mapped_triples, train.num_entities, train.num_relations)
    graph = graph_of(factory)
    assert list(graph.entities)[:3] == ["0", "1", "2"]
    assert len(graph.valid) == len(graph.test) == 0


def test_what_does_not_fit_is_said(plain_nations: Any, tmp_path: Path) -> None:
    model = small_model("DistMult", plain_nations.training)
    with pytest.raises(InputError, match="no labels: give the dataset"):
        from_pykeen(model)
    with pytest.raises(InputError, match=r"14 entities and 55 relations .* umls has 135 and 46"):
        from_pykeen(model, "umls")
    with pytest.raises(InputError, match="got a int"):
        from_pykeen(3)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="cannot be read as safetensors"):
        from_pykeen(tmp_path / "absent.safetensors", plain_nations)
    save_file({"other": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(RunError, match="no entity_representations"):
        from_pykeen(tmp_path / "other.safetensors", plain_nations, model="cp")
    save_weights(model, tmp_path / "own.safetensors")
    (tmp_path / "training_triples").mkdir()
    (tmp_path / "trained_model.safetensors").write_bytes((tmp_path / "own.safetensors").read_bytes())
    with pytest.raises(RunError, match="does not hold the training triples"):
        from_pykeen(tmp_path)


def test_another_numbering_is_refused(plain_nations: Any) -> None:
    result = pipeline(
        dataset=plain_nations, model="distmult", random_seed=0, training_kwargs={"num_epochs": 1, **TRAIN},
        evaluation_kwargs={"use_tqdm": False, "batch_size": 64},
    )  # fmt: skip
    labels = {label: i for i, label in enumerate(sorted(plain_nations.entity_to_id, reverse=True))}
    other = plain_nations.training.with_labels(labels, plain_nations.relation_to_id)
    with pytest.raises(InputError, match="numbers its entity labels otherwise"):
        from_pykeen(result, other)


def test_normalised_rows_need_the_live_model(plain_nations: Any, tmp_path: Path) -> None:
    model = small_model("DistMult", plain_nations.training, entity_representations_kwargs={"normalizer": torch.tanh})
    with pytest.raises(SettingError, match="read the live model"):
        save_weights(model, tmp_path)
    assert_equal_scores(from_pykeen(model, plain_nations), model, plain_nations)


def test_import_on_the_command_line(plain_nations: Any, tmp_path: Path) -> None:
    result = pipeline(
        dataset=plain_nations, model="hole", random_seed=0, training_kwargs={"num_epochs": 1, **TRAIN},
        evaluation_kwargs={"use_tqdm": False, "batch_size": 64},
    )  # fmt: skip
    result.save_to_directory(tmp_path / "theirs")
    save_weights(result.model, tmp_path / "theirs")
    done = CliRunner().invoke(
        app, ["import-pykeen", str(tmp_path / "theirs"), "--dataset", "nations", "--out", str(tmp_path / "ours")]
    )
    assert done.exit_code == 0, done.output
    assert_equal_scores(sp.load_run(tmp_path / "ours"), result.model, plain_nations)


def test_loop_is_told_of_its_options(plain_nations: Any) -> None:
    loop = StayPositiveTrainingLoop(
        small_model("CP", plain_nations.training), plain_nations.training, closed_world="logit", power=2
    )
    density = plain_nations.training.num_triples / (14**2 * 55)
    assert loop.view.algebra.prior_score == pytest.approx(np.log(density / (1 - density)))
    assert loop.objective == sp.StayPositive(power=2)
