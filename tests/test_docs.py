"""Documentation that runs: each Python block of a page is executed, and the tables say what the results say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import staypositive as sp

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
WITH_CODE = [page for page in PAGES if PYTHON.search(page.read_text("utf-8"))]
NEEDS = {
    "large-graphs": ("numba",),
    "pykeen": ("pykeen",),
    "your-data": ("pyarrow", "pyoxigraph"),
    "export": ("pyarrow", "pyoxigraph", "onnx", "onnxruntime"),
}
"""What a page's code needs beyond the package itself; without it, the page is passed over."""


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for package in NEEDS.get(page.stem, ()):
        pytest.importorskip(package)
    for block in PYTHON.findall(page.read_text("utf-8")):
        exec(compile(block, str(page), "exec"), {})


def test_some_pages_have_code() -> None:
    assert len(WITH_CODE) >= 5


def test_tables_come_from_the_results() -> None:
    command = [sys.executable, "-m", "experiments", "tables", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[\w-]+)?\)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    shown = set(re.findall(r"^::: staypositive\.(\w+)", text, re.MULTILINE)) | set(
        re.findall(r"^`([A-Z]+)`", text, re.M)
    )
    errors = {name for name in sp.__all__ if name.endswith("Error")}  # shown as one module
    assert set(sp.__all__) - {"__version__"} <= shown | errors
