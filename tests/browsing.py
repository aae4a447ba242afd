"""A headless Chromium for the tests of pages, and where their pictures go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
PICTURES = os.environ.get("STAYPOSITIVE_PICTURES")
"""A folder for screenshots, if they are wanted."""


@contextmanager
def open_browser(width: int) -> Iterator[Any]:
    """Open a window; its console is logged."""
    webdriver = pytest.importorskip("selenium.webdriver")
    driver = shutil.which("chromedriver")
    if CHROMIUM is None or driver is None:
        pytest.skip("there is no Chromium with its driver here")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars", f"window-size={width},1240"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield browser
    finally:
        browser.quit()
