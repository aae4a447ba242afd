"""The public names are a promise; this list is its text."""

from __future__ import annotations

import subprocess
import sys

import pytest

import staypositive as sp

NAMES = [
    "CALIBRATORS",
    "CATALOGUE",
    "MODELS",
    "OBJECTIVES",
    "BilinearModel",
    "Calibrator",
    "Callback",
    "Checkpoint",
    "DataError",
    "DivergedError",
    "DownloadError",
    "EpochRecord",
    "InputError",
    "KnowledgeGraph",
    "ModelOptions",
    "NegativeSampling",
    "Objective",
    "OneVsAll",
    "Predictor",
    "Query",
    "RdfTerms",
    "Run",
    "RunError",
    "SecondMoment",
    "SettingError",
    "Settings",
    "ShortOfMemoryError",
    "Sparql",
    "Split",
    "StayPositive",
    "StayPositiveError",
    "StoppedError",
    "Table",
    "UnknownLabelError",
    "Vocabulary",
    "__version__",
    "build_model",
    "build_objective",
    "drop_unseen",
    "fit",
    "ingest",
    "inspect_graph",
    "build_ensemble",
    "load_graph",
    "load_run",
    "make_settings",
    "write_folder",
]


def test_public_names() -> None:
    assert sorted(sp.__all__) == sorted(NAMES)
    assert all(hasattr(sp, name) for name in NAMES)


def test_rooms_are_found_and_other_names_are_not() -> None:
    assert sorted(NAMES) == dir(sp)
    assert sp.graph.load_graph is sp.load_graph
    with pytest.raises(AttributeError, match="'staypositive' has no attribute 'fitt'"):
        _ = sp.fitt


def loaded_by(code: str, *suspects: str) -> list[str]:
    """Return which modules are there once the code has run in a fresh interpreter."""
    asked = f"{code}; import sys; print(*[m for m in {suspects} if m in sys.modules])"
    return subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, encoding="utf-8", check=True
    ).stdout.split()


def test_importing_is_light() -> None:
    """The package itself loads nothing, its core torch and numpy alone; the rest is imported where it is used."""
    heavy = ["pandas", "sklearn", "scipy", "pooch", "typer", "rich", "safetensors", "matplotlib", "triton", "numba"]
    assert loaded_by("import staypositive", "torch", "numpy", *heavy) == []
    assert loaded_by("from staypositive import load_graph", "torch", *heavy) == []
    assert loaded_by("from staypositive import fit", "torch", *heavy) == ["torch"]
