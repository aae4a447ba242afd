"""The explorer in a real browser (`make test-browser`): search, ask, move both sliders, follow an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import staypositive as sp
from browsing import PICTURES, open_browser
from graphs import encode
from service.serving import serving
from staypositive.models import logit

pytestmark = pytest.mark.browser
pytest.importorskip("selenium.webdriver")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser(1280) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_complaints(browser: Any) -> Iterator[None]:
    """Whatever a test does, the console stays empty: no error, no broken policy."""
    browser.get_log("browser")
    yield
    assert browser.get_log("browser") == []


def wait(browser: Any, what: Any) -> Any:
    return WebDriverWait(browser, 20, poll_frequency=0.05).until(what)


def one(browser: Any, selector: str) -> Any:
    return browser.find_element(By.CSS_SELECTOR, selector)


def texts(browser: Any, selector: str) -> list[str]:
    return [found.text for found in browser.find_elements(By.CSS_SELECTOR, selector)]


def opened(browser: Any, address: str, fragment: str = "") -> None:
    browser.get("about:blank")
    browser.get(f"{address}/{fragment}")
    wait(browser, lambda b: texts(b, "#answers .chance")[:1] not in ([], [""]))
    wait(browser, lambda b: texts(b, "#graph text"))


def picture(browser: Any, name: str) -> None:
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(Path(PICTURES) / f"{name}.png"))


def chances(browser: Any) -> dict[str, float]:
    """Return what new answers show, by name."""
    names = texts(browser, "#answers .answer:not(.known) .name")
    shown = texts(browser, "#answers .chance")
    return {name: float(text.strip("<>%")) / 100 for name, text in zip(names, shown, strict=True)}


def slide(browser: Any, name: str, value: float) -> None:
    """Move a slider as a hand does: its value, then the event."""
    script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}));"
    browser.execute_script(script, one(browser, f"#{name}"), str(value))


def test_search_and_ask_by_keyboard(browser: Any, address: str, geo_run: sp.Run) -> None:
    opened(browser, address)
    one(browser, "body").send_keys("/")
    search = one(browser, "#search")
    assert browser.switch_to.active_element == search
    search.send_keys("germ")
    wait(browser, lambda b: "Germany" in " ".join(texts(b, ".search [role=option]")))
    assert search.get_attribute("aria-expanded") == "true"
    search.send_keys(Keys.ARROW_DOWN, Keys.ARROW_UP)
    chosen = one(browser, f"#{search.get_attribute('aria-activedescendant')}")
    assert chosen.text.startswith("Germany")
    search.send_keys(Keys.ENTER)
    wait(browser, lambda b: "Germany" in one(b, "#answers-title").text)
    wait(browser, lambda b: one(b, "#entity-title").text == "Germany")
    expected = geo_run.predict("Germany", "borders", top=15, exclude_self=True)
    wait(browser, lambda b: set(texts(b, "#answers .name")) == set(expected["tail"]))
    known = set(expected["tail"][expected["known"]])
    assert set(texts(browser, "#answers .known .name")) == known
    search.send_keys("x", Keys.ESCAPE)
    assert search.get_attribute("aria-expanded") == "false"


def test_the_completeness_moves_probabilities_as_the_library_does(
    browser: Any, judged_address: str, judged_run: sp.Run
) -> None:
    opened(browser, judged_address, "#open=tail&head=p0&relation=peer")
    browser.execute_script(
        "window.asked = 0; const plain = fetch; window.fetch = (...all) => { asked++; return plain(...all); };"
    )
    before, asked = chances(browser), {"top": 15, "exclude_self": True}

    def is_shown(expected: pd.DataFrame) -> None:
        new = expected[~expected["known"]]
        shown = chances(browser)
        assert set(shown) == set(new["tail"])
        for name, probability in zip(new["tail"], new["probability"], strict=True):
            assert shown[name] == pytest.approx(probability, rel=0.06, abs=1e-6), name  # the slider has steps

    assert one(browser, "#completeness-value").text == "80.0%"
    is_shown(judged_run.predict("p0", "peer", **asked))
    assert len(texts(browser, "#answers .known")) > 0
    assert "%" not in " ".join(texts(browser, "#answers .known"))
    for completeness in (0.6, 0.95):
        slide(browser, "completeness", logit(completeness))
        is_shown(judged_run.predict("p0", "peer", **asked, completeness=completeness))
    assert browser.execute_script("return window.asked") == 0  # no request: it is instantaneous
    wait(browser, lambda b: re.search(r"completeness=0\.9[45]", b.current_url))
    one(browser, "#completeness-run").click()
    assert chances(browser) == before


def test_a_run_without_probabilities_shows_scores(browser: Any, planted: sp.KnowledgeGraph) -> None:
    run = sp.fit(planted, model="distmult", dim=4, epochs=1)
    with serving(run) as address:
        opened(browser, address, "#open=tail&head=p1&relation=rival&completeness=0.7&new=1")
        assert "without probabilities" in one(browser, "#completeness-note").text
        assert not one(browser, "#completeness").is_enabled()
        expected = run.predict("p1", "rival", top=15, exclude_self=True, exclude_known=True)
        assert sorted(texts(browser, "#answers .chance")) == sorted(f"{score:.3f}" for score in expected["score"])
        one(browser, "#stats summary").click()
        wait(browser, lambda b: len(texts(b, "#stats tbody tr")) == 2)
        one(browser, "#stats tbody tr:first-child button").click()
        wait(browser, lambda b: texts(b, ".found li"))
        page = one(browser, "body").text
        assert not re.search(r"NaN|null|undefined|Infinity", page)
        assert "%" not in one(browser, "#stats").text


def test_a_narrow_window_is_enough(browser: Any, judged_address: str) -> None:
    metrics = {"width": 390, "height": 1240, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        opened(browser, judged_address, "#open=tail&head=p0&relation=peer")
        one(browser, "#stats summary").click()
        wait(browser, lambda b: len(texts(b, "#stats tbody tr")) == 2)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        assert not re.search(r"NaN|null|undefined|Infinity", one(browser, "body").text)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_coverage_marks_the_prediction_set(browser: Any, address: str, geo_run: sp.Run) -> None:
    opened(browser, address, "#open=tail&head=Germany&relation=borders")
    for coverage in (50, 95):
        slide(browser, "coverage", coverage)
        found = set(geo_run.prediction_set("Germany", "borders", coverage=coverage / 100)["tail"])
        assert set(texts(browser, "#answers .inset .name")) == found & set(texts(browser, "#answers .name"))
        if found:
            assert one(browser, "#coverage-note").text.startswith(f"{len(found)} new answer")


def test_follow_an_answer_ask_for_heads_and_relations_and_go_back(browser: Any, address: str) -> None:
    opened(browser, address, "#open=tail&head=Germany&relation=borders")
    one(browser, "#answers .name").click()
    followed = wait(browser, lambda b: one(b, "#entity-title").text != "Germany" and one(b, "#entity-title").text)
    assert f"entity={followed}" in browser.current_url
    browser.back()
    wait(browser, lambda b: one(b, "#entity-title").text == "Germany")
    one(browser, ".segments input[value=head] + span").click()
    wait(browser, lambda b: one(b, "#answers-title").text == "? borders Germany")
    one(browser, "#facts h4:last-of-type button").click()
    wait(
        browser,
        lambda b: one(b, "#answers-title").text.startswith("?") or one(b, "#answers-title").text.endswith("?"),
    )
    opened(browser, address, "#open=relation&head=France&tail=Spain")
    assert set(texts(browser, "#answers .name")) >= {"borders", "near"}
    assert one(browser, "#in-range").get_attribute("disabled")


def test_explanation_statistics_and_new_facts(browser: Any, address: str) -> None:
    opened(browser, address, "#open=tail&head=Slovenia&relation=has_currency")
    one(browser, "#answers .why").click()
    wait(browser, lambda b: "has_currency" in " ".join(texts(b, ".support li")))
    assert "small training step" in one(browser, ".support p").text
    one(browser, "#stats summary").click()
    wait(browser, lambda b: len(texts(b, "#stats tbody tr")) == 9)
    one(browser, "#stats tbody tr:first-child button").click()
    wait(browser, lambda b: texts(b, ".found li"))
    browser.execute_script("arguments[0].scrollIntoView()", one(browser, "#stats"))
    picture(browser, "stats")


def test_a_wrong_label_is_explained(browser: Any, address: str) -> None:
    browser.get("about:blank")
    browser.get(f"{address}/#open=tail&head=Germny&relation=borders")
    wait(browser, lambda b: "no entity is called 'Germny'" in one(b, "#alert").text)
    one(browser, "#alert button").click()
    wait(browser, lambda b: one(b, "#answers-title").text == "Germany borders ?")
    wait(browser, lambda b: not one(b, "#alert").is_displayed())
    browser.get_log("browser")  # the browser itself notes each 404


def test_both_themes_have_their_picture(browser: Any, address: str) -> None:
    opened(browser, address, "#open=tail&head=Germany&relation=borders")
    browser.execute_script("localStorage.setItem('staypositive-theme', 'light')")
    opened(browser, address, "#open=tail&head=Germany&relation=borders")
    one(browser, "#answers li:nth-child(7) .why").click()
    wait(browser, lambda b: texts(b, ".support li"))
    light = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    picture(browser, "explorer-light")
    one(browser, "#theme").click()
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") != light
    assert browser.execute_script("return localStorage.getItem('staypositive-theme')") == "dark"
    picture(browser, "explorer-dark")


def test_labels_are_text(browser: Any) -> None:
    evil = '<img src=x onerror="window.hit=1">'
    graph = encode("evil", {"train": ((evil, "b", "b"), (evil, evil, evil), ("b", "c", evil))}, {})
    with serving(sp.fit(graph, model="distmult", dim=4, epochs=1)) as address:
        opened(browser, address)
        assert one(browser, "#entity-title").text == evil
        assert f"{evil} {evil} ?" in texts(browser, "#facts button")
        assert browser.find_elements(By.CSS_SELECTOR, "main img") == []
        assert browser.execute_script("return window.hit") is None


def test_a_token_is_asked_for(browser: Any, geo_run: sp.Run) -> None:
    with serving(geo_run, token="open sesame") as address:
        browser.get(f"{address}/")
        box = wait(browser, lambda b: one(b, "#token").is_displayed() and one(b, "#token"))
        box.send_keys("open sesame", Keys.ENTER)
        wait(browser, lambda b: texts(b, "#answers .chance")[:1] not in ([], [""]))
        browser.get_log("browser")  # the browser itself notes each 401


def test_the_api_page(browser: Any, address: str) -> None:
    browser.get(f"{address}/docs")
    wait(browser, lambda b: len(texts(b, "section.card")) == 16)
    assert "curl 'http" in one(browser, "section pre").text
    picture(browser, "api")
