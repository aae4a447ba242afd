"""The paper's experiments as data."""

from __future__ import annotations

import pytest

from experiments.paper.ablations import Variant, variants
from experiments.paper.paper import load_paper
from experiments.paper.table2 import describe, options_of
from staypositive.errors import InputError
from staypositive.run.settings import make_settings


def test_the_grids_have_the_papers_sizes() -> None:
    paper = load_paper()
    sizes = {cell.name: len(paper.settings(cell, "full", 100)) for cell in paper.table2}
    assert sizes == {"DistMult": 96, "SimplE": 96, "spDistMult": 128, "spSimplE": 128}
    cell = paper.cells(["spSimplE"], ["FB13"])[0]
    settings = paper.settings(cell, "full", 100, seed=2)
    assert len({describe(one) for one in settings}) == 128
    assert {one.seed for one in settings} == {2}
    assert {one.batch_size for one in settings} == {100}
    assert {one.score_bound for one in settings} == {5.0}
    assert len(paper.settings(paper.extended[0], "subset", 10)) == 8


def test_published_numbers_and_names() -> None:
    paper = load_paper()
    assert len(paper.table2) == 16
    assert sum(len(cell.published) for cell in paper.table2) == 4 * 14
    assert dict(paper.cells(["spDistMult"], ["WN11"])[0].published)["nll"] == 0.620
    assert {cell.model for cell in paper.extended} == {"complex", "hole", "analogy", "rescal"}
    with pytest.raises(InputError, match="spTransE is not in the paper's table"):
        paper.cells(["spTransE"])
    with pytest.raises(InputError, match="known: FB13"):
        paper.cells(None, ["FB15k"])


def test_the_rule_gives_the_authors_batch_on_wn11() -> None:
    assert load_paper().rule.batch_size(112_581) == 1126


def test_quick_is_one_setting_a_cell() -> None:
    paper = load_paper().quickened()
    assert all(len(paper.settings(cell, "quick", 10)) == 1 for cell in paper.table2)
    assert (paper.rule.finalists, len(paper.rule.seeds)) == (1, 1)


def test_settings_as_one_reads_them() -> None:
    settings = make_settings(model="simple", penalty_weight=0.001, dim=200, dropout=0.4, prior_score=-2.0)
    assert describe(settings) == "lr 0.1, λ 0.001, d 200, dropout 0.4, ψ -2"
    drawn = make_settings(objective="negative-sampling", negatives=10, l2=0.1)
    assert options_of(drawn) == {"learning_rate": 0.1, "l2": 0.1, "dim": 100, "dropout": 0.0, "negatives": 10}


def test_every_variant_makes_settings() -> None:
    paper = load_paper()
    for cell in paper.table2:
        base = paper.settings(cell, "full", 10)[0]
        for variant in variants(paper, cell):
            changed = variant.apply(base, seed=4)
            assert changed.seed == 4
            for key, value in variant.change:
                assert getattr(changed, key, None) == value or getattr(changed.objective, key, None) == value
    names = {variant.group for variant in variants(paper, paper.cells(["SimplE"])[0])}
    assert names == {"dropout"}
    literal = Variant("closed world", (("closed_world", "literal"),))
    assert literal.apply(paper.settings(paper.cells(["spSimplE"])[0], "full", 10)[0], 0).prior_score is None
