"""The page on threats names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text("utf-8")


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 30
    for path, name in named:
        file = ROOT / path if path.startswith(("experiments/", "scripts/")) else ROOT / "tests" / path
        assert file.is_file(), path
        assert not name or f"def {name}(" in file.read_text("utf-8"), f"{path}::{name}"


def test_every_threat_names_what_holds_it() -> None:
    rows = [
        line
        for line in PAGE.partition("## Fuzzing")[0].splitlines()
        if line.startswith("| ") and ":--" not in line and "| held by |" not in line
    ]
    assert len(rows) > 30
    assert not [row for row in rows if not re.search(r"`[\w/]+\.py", row.split(" | ")[-1])]
