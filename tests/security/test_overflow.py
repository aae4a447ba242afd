"""Finite weights that 32 bits cannot compute with are refused, when they are read and when they are to be written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save, save_file

import staypositive as sp
from launching import world_of_one
from security.test_forgeries import forge, part
from staypositive.cli.console import Console
from staypositive.cli.measure import keep_results
from staypositive.errors import RunError
from staypositive.files import sha256_bytes, sha256_file, to_json
from staypositive.models import ENSEMBLE, MODELS, BilinearModel, Scorer, build_model, combine_models
from staypositive.run import build_ensemble, make_settings
from staypositive.run.checking import largest_weights, require_bounded
from staypositive.run.folder import RUN, SHARDS
from staypositive.sharded import fit_sharded, gather_run, leave_in_shards, open_sharded, shards_of

SINGLE = [name for name in MODELS if name != ENSEMBLE]
SMALL = {"dim": 4, "epochs": 1, "engine": "reference"}


def drawn(name: str, bound: str, reciprocal: bool = False) -> BilinearModel:
    model = build_model(name, 6, 3, 4, bound=bound, reciprocal=reciprocal, backward_weight=0.5 * reciprocal).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for table in model.parameters():
            table.copy_(torch.randn(table.shape, generator=generator).double())
    return model


def all_scores(model: BilinearModel) -> torch.Tensor:
    heads, relations = torch.cartesian_prod(torch.arange(model.n_entities), torch.arange(model.n_relations)).T
    with torch.no_grad():
        return torch.cat([Scorer(model).asked().tails(heads, relations), Scorer(model).tails(heads, relations)])


@pytest.mark.parametrize("bound", ["tanh", "identity"])
@pytest.mark.parametrize("name", [*SINGLE, ENSEMBLE])
def test_no_score_lies_beyond_the_reach(name: str, bound: str) -> None:
    """The largest entry at every coordinate bounds the scores of all triples, both directions of them."""
    for reciprocal in (False, True):
        if name == ENSEMBLE:
            parts = [drawn(own, bound, reciprocal) for own in ("complex", "transe", "tucker")]
            model = combine_models(parts, ["complex", "transe", "tucker"], [2.0, 0.5, 3.0], 0.5 * reciprocal)
        else:
            model = drawn(name, bound, reciprocal)
        with torch.no_grad():
            entities = model.form_entity_rows(largest_weights(model.entities)).abs()
            reach = float(model.largest_score(entities, largest_weights(model.relation_rows()), entities))
        most = float(all_scores(model).abs().max())
        assert most <= reach * (1 + reciprocal / 2) * (1 + 1e-9)
        assert reach < 1e5
        require_bounded(model)


@pytest.mark.parametrize("name", ["distmult", "hole", "rescal", "simple"])
def test_the_reach_of_bounded_rows_is_the_score_bound(name: str) -> None:
    model = build_model(name, 2, 2, 4, score_bound=7.0).double()
    ones = [torch.ones(width).double() for width in (model.entity_width(), model.relation_width())]
    assert float(model.largest_score(ones[0], ones[1], ones[0])) == pytest.approx(7.0)


def scaled(model: BilinearModel, factor: float) -> dict[str, torch.Tensor]:
    return {name: torch.full_like(weight, factor) for name, weight in model.state_dict().items()}


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("size", [1e20, -1e20, 1e13, 3e38])
def test_weights_whose_scores_overflow_are_refused(
    name: str, size: float, planted: sp.KnowledgeGraph, tmp_path: Path
) -> None:
    run = sp.fit(planted, model=name, bound="identity", **SMALL)
    folder = run.save(tmp_path / "run")
    forge(folder, "weights.safetensors", save(scaled(run.model, size)))
    with pytest.raises(RunError, match=f"{folder} is not a readable run: its weights are too large to compute with"):
        sp.load_run(folder)


def test_joined_weights_whose_scores_overflow_are_refused(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    runs = [sp.fit(planted, model=name, bound="identity", **SMALL) for name in ("distmult", "complex")]
    run = build_ensemble(runs, weights=[0.5, 0.5])
    folder = run.save(tmp_path / "run")
    assert sp.load_run(folder)
    forge(folder, "weights.safetensors", save(scaled(run.model, 1e20)))
    with pytest.raises(RunError, match="too large to compute with"):
        sp.load_run(folder)


@pytest.mark.parametrize("change", [{"score_bound": 1e300}, {"prior_score": 1e300}, {"prior_score": -1e39}])
def test_settings_whose_scores_overflow_are_refused(
    change: dict[str, float], planted: sp.KnowledgeGraph, tmp_path: Path
) -> None:
    folder = sp.fit(planted, model="distmult", bound="tanh", **SMALL).save(tmp_path / "run")
    path, _ = part(folder, "settings.json")
    settings = json.loads(path.read_text("utf-8"))
    settings["model"] |= change
    forge(folder, "settings.json", to_json(settings))
    with pytest.raises(RunError, match="too large to compute with"):
        sp.load_run(folder)


def test_one_large_side_is_refused_too(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    """Scores stay small, and the covariance of the rows does not."""
    run = sp.fit(planted, model="distmult", bound="identity", **SMALL)
    folder = run.save(tmp_path / "run")
    weights = {
        "entities": torch.full_like(run.model.entities, 1e20),
        "relations": torch.zeros_like(run.model.relations),
    }
    forge(folder, "weights.safetensors", save({name: weight.detach() for name, weight in weights.items()}))
    with pytest.raises(RunError, match="rows have entries up to 1e\\+20"):
        sp.load_run(folder)


def test_64_bit_weights_that_32_bits_cannot_hold_are_refused(planted_run: sp.Run, tmp_path: Path) -> None:
    folder = planted_run.save(tmp_path / "run")
    wide = {name: weight.double() for name, weight in planted_run.model.state_dict().items()}
    forge(folder, "weights.safetensors", save(wide))
    assert sp.load_run(folder)
    forge(folder, "weights.safetensors", save(wide | {"entities": torch.full_like(wide["entities"], 1e300)}))
    with pytest.raises(RunError, match="the weights of entities are not finite numbers of 32 bits"):
        sp.load_run(folder)


def overflowing(model: BilinearModel) -> None:
    model.entities.fill_(1e15)


def not_finite(model: BilinearModel) -> None:
    model.relations[0, 0] = torch.nan


@pytest.mark.parametrize("spoil", [overflowing, not_finite])
def test_what_could_not_be_read_is_not_written(
    spoil: Callable[[BilinearModel], None], planted: sp.KnowledgeGraph, tmp_path: Path
) -> None:
    run = sp.fit(planted, model="distmult", bound="identity", **SMALL)
    folder = run.save(tmp_path / "run")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with torch.no_grad():
        spoil(run.model)
    with pytest.raises(RunError, match=f"the run is not written to {folder}: .*weights"):
        run.save(folder)
    run = sp.load_run(folder)
    run.metrics = {"test": {"x": float("nan")}}
    for save_it in (run.save, run.save_results):
        with pytest.raises(RunError, match=f"not written to {folder}: Out of range float"):
            save_it(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_weights_that_16_bits_cannot_hold_are_not_written(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    run = sp.fit(planted, model="distmult", bound="identity", **SMALL)
    with torch.no_grad():
        run.model.relations[0, 0] = 1e5
    with pytest.raises(RunError, match="the weights of relations are too large for float16"):
        run.save(tmp_path / "run", precision="float16")
    assert not (tmp_path / "run").exists()
    assert sp.load_run(run.save(tmp_path / "run"))


@pytest.mark.parametrize("precision", [torch.float64, torch.float16])
def test_measuring_a_run_leaves_its_weights_and_its_graph(
    precision: torch.dtype, planted_run: sp.Run, tmp_path: Path
) -> None:
    """Whatever they are kept in: to read and write them again would round them, or swell them."""
    plain = sp.Run(planted_run.graph, planted_run.model, planted_run.settings, planted_run.history,
                   planted_run.best_epoch, planted_run.provenance)  # fmt: skip
    folder = plain.save(tmp_path / "run")
    forge(
        folder, "weights.safetensors", save({n: w.to(precision) for n, w in planted_run.model.state_dict().items()})
    )
    kept = {path.name: path.stat() for path in folder.iterdir()}
    files = RUN.files(folder)
    run = sp.load_run(folder)
    run.calibrate("temperature")
    run.evaluate("test")
    keep_results(run, folder, Console(quiet=True))
    changed = {"metrics.json", "calibrator.json", "posterior.json"}
    now = RUN.files(folder)
    assert {role for role in now if now[role] != files.get(role)} == changed
    for role, entry in now.items():
        if role not in changed:
            after, before = (folder / entry["file"]).stat(), kept[entry["file"]]
            assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    again = sp.load_run(folder)
    assert (again.calibrator, again.metrics) == (run.calibrator, run.metrics)
    assert json.loads((folder / "run.json").read_text())["format"] == 1


def test_results_of_a_run_that_was_replaced_meanwhile_are_not_kept(planted_run: sp.Run, tmp_path: Path) -> None:
    folder = planted_run.save(tmp_path / "run")
    run = sp.load_run(folder)
    other = sp.fit(planted_run.graph, **SMALL)
    other.save(folder)
    with pytest.raises(RunError, match="was replaced meanwhile, so nothing is kept in it"):
        run.save_results(folder)
    assert torch.equal(sp.load_run(folder).model.entities, other.model.entities)


def test_shards_whose_scores_overflow_are_refused(planted: sp.KnowledgeGraph, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = make_settings(model="distmult", bound="identity", dim=4, epochs=1, validate_every=1, device="cpu")
    with world_of_one() as world:
        leave_in_shards(fit_sharded(planted, settings, world, checkpoints=shards_of(folder)), folder, {})
        path = next(shards_of(folder).glob("epoch-*/shard-*"))
        save_file({name: torch.full_like(table, 1e20) for name, table in load_file(path).items()}, path)
        seal_shard(folder, path)
        before = (folder / "run.json").read_bytes()
        said = f"{path.parent} is not a readable checkpoint: its weights are too large to compute with"
        with pytest.raises(RunError, match=said):
            gather_run(folder)
        with pytest.raises(RunError, match=said):
            open_sharded(folder, world)
    assert (folder / "run.json").read_bytes() == before
    assert not list(folder.glob("weights*"))


def seal_shard(run: Path, path: Path) -> None:
    """Put right every hash on the way from a shard to the run."""
    manifest = path.with_name("manifest.json")
    stated = json.loads(manifest.read_text())
    del stated["sha256"]
    stated["files"][path.name] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
    digest = sha256_bytes(to_json(stated))
    manifest.write_bytes(to_json(stated | {"sha256": digest}))
    contents = RUN.load(run)
    RUN.save(run, contents | {SHARDS: to_json(json.loads(contents[SHARDS]) | {"sha256": digest})}, "tests")
