"""The report in a real browser (`make test-browser`): nothing overflows or is refused, both themes, on paper."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import staypositive as sp
from browsing import PICTURES, open_browser
from graphs import encode
from staypositive.reports import write_report

pytestmark = pytest.mark.browser
pytest.importorskip("selenium.webdriver")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser(1180) as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(sp.load_run("geo-demo"), path).as_uri()


def themed(browser: Any, theme: str, width: int = 1180) -> None:
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    metrics = {"width": width, "height": 1240, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def picture(browser: Any, name: str, height: int) -> None:
    if PICTURES:
        clip = {"x": 0, "y": 0, "width": 1180, "height": height, "scale": 1}
        asked = {"captureBeyondViewport": True, "clip": clip}
        data = browser.execute_cdp_cmd("Page.captureScreenshot", asked)["data"]
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        (Path(PICTURES) / f"{name}.png").write_bytes(base64.b64decode(data))


@pytest.mark.parametrize("width", [1180, 400])
def test_both_themes_fit_the_window_and_nothing_complains(browser: Any, address: str, width: int) -> None:
    grounds = []
    for theme in ("light", "dark"):
        themed(browser, theme, width)
        browser.get(address)
        root = "return document.documentElement"
        assert browser.execute_script(f"{root}.scrollWidth") <= width
        grounds.append(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
        if width == 1180:
            picture(browser, f"report-{theme}", browser.execute_script(f"{root}.scrollHeight"))
    assert grounds[0] != grounds[1]
    assert browser.get_log("browser") == []


def test_no_text_of_a_chart_leaves_the_page(browser: Any, address: str) -> None:
    themed(browser, "light")
    browser.get(address)
    outside = browser.execute_script(
        "return [...document.querySelectorAll('svg text')].filter(text => { const box = text.getBoundingClientRect();"
        " return box.left < 0 || box.right > innerWidth; }).map(text => text.textContent)"
    )
    assert outside == []


def test_long_labels_fit(browser: Any, tmp_path: Path) -> None:
    long = "/government/politician/government_positions_held./government/government_position_held/basic_title"
    facts = [(f"{long}{i}", f"{long}{j % 2}", f"{long}{j}") for i in range(9) for j in range(9) if (i + j) % 4]
    columns = {"test": tuple(zip(*facts[::4], strict=True)), "train": tuple(zip(*facts, strict=True))}
    run = sp.fit(encode("long", columns, {}), model="distmult", dim=4, epochs=1)
    themed(browser, "light")
    browser.get(write_report(run, tmp_path / "long.html").as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 1180
    cut = "return [...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth).length"
    assert browser.execute_script(cut) == 0


def test_it_can_be_printed(browser: Any, address: str) -> None:
    themed(browser, "light")
    browser.get(address)
    printed = browser.execute_cdp_cmd(
        "Page.printToPDF", {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.7}
    )
    data = base64.b64decode(printed["data"])
    assert data.startswith(b"%PDF")
    if PICTURES:
        (Path(PICTURES) / "report.pdf").write_bytes(data)
