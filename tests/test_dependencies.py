"""What the package imports is what it declares."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from staypositive.toml import parse_toml

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "staypositive"
DISTRIBUTIONS = {
    "sklearn": "scikit-learn", "mlflow": "mlflow-skinny", "docdata": "pykeen", "class_resolver": "pykeen",
    "anyio": "fastapi", "pydantic": "fastapi", "starlette": "fastapi",
}  # fmt: skip
"""The declared distribution that provides a module, where it has another name."""


def imported_modules() -> dict[str, set[str]]:
    """Return each module outside the package that is imported anywhere, with the files that do."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                found.setdefault(name.partition(".")[0], set()).add(path.relative_to(SOURCE).as_posix())
    return found


def test_every_imported_module_is_declared() -> None:
    project = parse_toml((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    stated = sum(project["optional-dependencies"].values(), project["dependencies"])
    declared = {re.split(r"[^\w.-]", text, maxsplit=1)[0].lower() for text in stated}
    outside = imported_modules().keys() - sys.stdlib_module_names - {"staypositive", "tomllib"}
    assert {DISTRIBUTIONS.get(name, name) for name in outside} <= declared


def test_toml_is_imported_in_one_place() -> None:
    found = imported_modules()
    assert found["tomllib"] == found["tomli"] == {"toml.py"}
