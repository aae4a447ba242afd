"""The public names are a promise; this list is its text."""

from __future__ import annotations

import subprocess
import sys

import staypositive as sp

NAMES = [
    "CALIBRATORS",
    "CATALOGUE",
    "MODELS",
    "OBJECTIVES",
    "BilinearModel",
    "Callback",
    "DataError",
    "DivergedError",
    "DownloadError",
    "EpochRecord",
    "InputError",
    "KnowledgeGraph",
    "NegativeSampling",
    "Objective",
    "OneVsAll",
    "Predictor",
    "Query",
    "RdfTerms",
    "Run",
    "RunError",
    "SettingError",
    "Settings",
    "Sparql",
    "Split",
    "StayPositive",
    "StayPositiveError",
    "UnknownLabelError",
    "Vocabulary",
    "__version__",
    "build_model",
    "build_objective",
    "drop_unseen",
    "fit",
    "ingest",
    "inspect_graph",
    "load_graph",
    "load_run",
    "make_settings",
    "write_folder",
]


def test_public_names() -> None:
    assert sorted(sp.__all__) == sorted(NAMES)
    assert all(hasattr(sp, name) for name in NAMES)


def test_importing_is_light() -> None:
    """The core needs torch and numpy alone; everything else is imported where it is used."""
    heavy = ["pandas", "sklearn", "scipy", "pooch", "typer", "rich", "safetensors", "matplotlib", "triton", "numba"]
    code = f"import sys, staypositive; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
