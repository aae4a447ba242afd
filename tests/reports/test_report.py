"""The page: everything asked for is on it, labels are text, nothing is fetched, and its numbers are the run's."""

from __future__ import annotations

import copy
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import staypositive as sp
from conftest import ladder_graph, planted_graph
from graphs import encode
from staypositive.cli import app
from staypositive.objectives import SecondMoment
from staypositive.reports import render_report, write_report
from staypositive.reports.entity_map import is_two_sided, main_roles, principal_plane
from staypositive.reports.html import number, percent
from staypositive.run import train_command

SECTIONS = ["training", "ranking", "probabilities", "statistics", "map", "predictions", "discoveries", "provenance"]


class Page(HTMLParser):
    """The elements of a page, checked to be closed in order; its text, and the ids of its sections."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text, self.sections = "", []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "section":
            self.sections.append(dict(attrs)["id"])
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def geo_page() -> str:
    return render_report(sp.load_run("geo-demo"), points=300)


def test_the_packaged_run_has_every_section_and_its_numbers(geo_page: str) -> None:
    page = Page(geo_page)
    assert page.sections == SECTIONS
    kept = sp.load_run("geo-demo").metrics["test"]
    for metrics in (
        kept["ranking"]["filtered"]["realistic"]["tail"],
        kept["ranking"]["raw"]["pessimistic"]["both"],
        kept["ranking"]["relations"]["speaks"],
    ):
        assert f"{metrics['mrr']:.3f}" in page.text
    for measured in kept["classification"]["all"].values():
        assert number(measured["brier"]) in page.text
    for label in ("Loss: tails", "Loss: n3", "Validation MRR", "best 0.", "Worst ranked", "has_capital"):
        assert label in page.text
    assert "f96e28d977ac5a0a" in page.text
    assert geo_page.count('class="point') == 300


def test_nothing_is_fetched_and_no_script_runs(geo_page: str) -> None:
    page = Page(geo_page)
    assert not {"script", "link", "img", "iframe", "object", "use"} & page.tags
    assert not {name for name in page.attributes if name.startswith("on") or name in ("src", "srcset", "data")}
    assert set(re.findall(r'href="([^"]*)"', geo_page)) == {f"#{name}" for name in SECTIONS}
    assert "url(" not in geo_page
    assert "@import" not in geo_page
    assert "default-src &#x27;none&#x27;" in geo_page


def test_labels_are_text() -> None:
    evil = '</style><script>hit()</script><img src=x onerror="hit()">'
    facts = [(f"{evil}{i}", evil, f"{evil}{j}") for i in range(12) for j in range(12) if (i + j) % 3]
    columns = {name: tuple(zip(*facts[part::5], strict=True)) for name, part in (("valid", 3), ("test", 4))}
    columns["train"] = tuple(zip(*(fact for i, fact in enumerate(facts) if i % 5 < 3), strict=True))
    run = sp.fit(encode(evil, columns, {}), model="distmult", dim=4, epochs=2, validate_every=1)
    text = render_report(run)
    page = Page(text)
    assert not {"script", "img"} & page.tags
    assert f"{evil}0" in page.text
    assert "hit()" in page.text
    assert "<script" not in text
    assert "<img" not in text


@pytest.fixture(scope="module")
def judged_run() -> sp.Run:
    run = sp.fit(ladder_graph(), model="complex", dim=8, epochs=20, batch_size=64, learning_rate=0.5)
    run.calibrate("platt", completeness=0.8)
    run.evaluate("test")
    return run


def test_probabilities_are_checked_on_hidden_facts(judged_run: sp.Run) -> None:
    page = Page(render_report(judged_run))
    assert page.sections == SECTIONS
    assert "80% of all true facts" in page.text
    measured = judged_run.metrics["test"]["discovery"]
    assert f"facts in all{number(round(measured['sum']))}{number(measured['hidden'])}" in page.text
    for top in measured["tops"]:
        assert f"top {top['triples']:,}{percent(top['stated'])}{percent(top['true'])}" in page.text
    for part in measured["bins"]:
        assert f"from {100 * part['from']:g}%{number(round(part['triples']))}" in page.text
    assert "Among triples like the labelled ones" in page.text
    assert not re.search(r"\b(nan|NaN|None|inf)\b", page.text)


def test_new_facts_follow_the_completeness(judged_run: sp.Run) -> None:
    for completeness in (None, 0.6):
        page = Page(render_report(judged_run, completeness=completeness))
        stated = percent(completeness or 0.8)
        new = judged_run.stats(completeness=completeness)["new_facts"].tolist()
        assert f"{number(round(new[-1]))}new facts to expect, if the graph has {stated} of all" in page.text
        for relation, expected in zip(judged_run.graph.relations, new, strict=False):
            assert re.search(rf"{relation}\d+{number(expected)}", page.text)


def test_a_new_fact_has_its_probability_and_a_score_alone_has_none(judged_run: sp.Run) -> None:
    best = judged_run.discover(top=1).iloc[0]
    shown = f"{best['head']} → {best['tail']}{percent(best['probability'])}"
    assert shown in Page(render_report(judged_run)).text
    scores = copy.copy(judged_run)
    scores.posterior = None
    listed = Page(render_report(scores)).text.partition("by score alone")[2].partition("Settings and provenance")[0]
    assert " → " in listed
    assert "%" not in listed


def test_without_labels_it_says_what_facts_alone_can(planted: sp.KnowledgeGraph) -> None:
    facts = {name: planted.split(name).facts for name in ("train", "valid", "test")}
    bare = sp.KnowledgeGraph(
        "bare", planted.entities, planted.relations, *(sp.Split(triples) for triples in facts.values())
    )
    run = sp.fit(bare, model="distmult", dim=8, epochs=10, learning_rate=0.5)
    page = Page(render_report(run))
    assert page.sections == SECTIONS
    assert "There are scores and no probabilities" in page.text
    assert "labelled" not in page.text
    assert "Above the null distribution" in page.text
    run.calibrate()
    page = Page(render_report(run, split="valid", completeness=0.9))
    assert "A probability is how likely it is" in page.text
    assert "Probabilities of the triples of valid" in page.text
    assert "hiding the facts" not in page.text  # that is done with test


def test_without_held_out_facts_their_sections_are_left_out() -> None:
    graph = encode("small", {"train": (("a", "b", "c"), ("r", "r", "r"), ("b", "c", "a"))}, {})
    page = Page(render_report(sp.fit(graph, model="distmult", dim=4, epochs=1)))
    assert page.sections == ["training", "statistics", "map", "discoveries", "provenance"]


def test_what_cannot_be_shown_is_refused(planted_run: sp.Run, judged_run: sp.Run) -> None:
    graph = encode("small", {"train": (("a", "b", "c"), ("r", "r", "r"), ("b", "c", "a"))}, {})
    small = sp.fit(graph, model="distmult", dim=4, epochs=1)
    with pytest.raises(sp.InputError, match="split 'test' of small has no facts"):
        render_report(small, split="test")
    with pytest.raises(sp.InputError, match=r"between 0 and 1; got 1\.5"):
        render_report(judged_run, completeness=1.5)
    with pytest.raises(sp.InputError, match="no probabilities that a completeness could change"):
        render_report(planted_run, completeness=0.9)
    with pytest.raises(sp.InputError, match="points must be at least 2"):
        render_report(planted_run, points=1)


def test_the_plane_is_that_of_a_singular_value_decomposition() -> None:
    rows = torch.randn(50, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 8)
    places, share = principal_plane(rows)
    centred = (rows - rows.mean(0)).numpy()
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(places), np.abs(left[:, :2] * values[:2]), rtol=1e-9, atol=1e-9)
    assert share == pytest.approx((values[:2] ** 2).sum() / (values**2).sum())
    flipped = principal_plane(rows @ torch.diag(torch.ones(7, dtype=torch.float64)))[0]
    np.testing.assert_allclose(places, flipped)
    assert principal_plane(rows[:, :1])[0].shape == (50, 2)  # one column has one direction


def test_roles_are_counted() -> None:
    triples = np.array([[0, 0, 1], [0, 0, 2], [0, 1, 1], [3, 1, 1], [1, 1, 3], [1, 1, 0]])
    of_each = (torch.as_tensor(triples[triples[:, 1] == relation]) for relation in (0, 1))
    both = [is_two_sided(own[:, 0], own[:, 2]) for own in of_each]
    assert both == [False, True]
    assert main_roles(triples, 5, both).tolist() == [0, 1, 2, 1, -1]


def test_the_command_makes_the_same_settings() -> None:
    settings = sp.make_settings(objective="second-moment", reciprocal=False, dim=7, n3=0.5)
    command = train_command("my graph", settings)
    assert command == "staypositive train 'my graph' --objective second-moment --dim 7 --n3 0.5 --no-reciprocal"
    command = train_command("geo", sp.make_settings(prior_score=-1.5, power=2))
    assert command == "staypositive train geo --objective stay-positive --prior-score=-1.5 --power 2"


def test_the_command_leaves_out_what_has_no_effect() -> None:
    """As earlier versions may have saved it: `train` would refuse it."""
    settings = sp.Settings(model="complex", bound="identity", score_bound=7.0, objective=SecondMoment())
    command = train_command("geo", settings)
    assert command == "staypositive train geo --model complex --objective second-moment --bound identity"


def test_the_command_line_writes_the_file(tmp_path: Path) -> None:
    run = sp.fit(planted_graph(20), model="distmult", dim=4, epochs=2, validate_every=1)
    run.save(tmp_path / "run")
    asked = ["report", str(tmp_path / "run"), "--out", str(tmp_path / "a" / "r.html"), "--points", "10"]
    done = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert done.exit_code == 0
    assert "open it in a browser" in done.output
    assert Page((tmp_path / "a" / "r.html").read_text("utf-8")).sections == SECTIONS
    assert write_report(run, tmp_path / "b.html").exists()
