"""Knowledge-graph completion without negative sampling, with calibrated probabilities.

>>> import staypositive as sp
>>> graph = sp.load_graph("geo")
>>> run = sp.fit(graph, model="distmult", dim=4, epochs=1)
>>> _ = run.calibrate()
>>> run.predict(head="France", relation="borders", top=3).columns.tolist()
['tail', 'probability', 'score', 'known']
"""

# ruff: noqa: F403, F405  # stars, so that names stand in one list: __all__

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from staypositive.version import __version__

if TYPE_CHECKING:  # type checkers find the names of __all__ here, and Python in __getattr__
    from staypositive.errors import *
    from staypositive.graph import *
    from staypositive.inference import *
    from staypositive.models import *
    from staypositive.objectives import *
    from staypositive.probability import *
    from staypositive.run import *
    from staypositive.training import Callback, EpochRecord

__all__ = [
    "CALIBRATORS", "CATALOGUE", "MODELS", "OBJECTIVES", "BilinearModel", "Calibrator", "Callback", "Checkpoint",
    "DataError", "DivergedError", "DownloadError", "EpochRecord", "InputError", "KnowledgeGraph", "ModelOptions",
    "NegativeSampling", "Objective", "OneVsAll", "Predictor", "Query", "RdfTerms", "Run", "RunError", "SecondMoment",
    "SettingError", "Settings", "ShortOfMemoryError", "Sparql", "Split", "StayPositive", "StayPositiveError",
    "StoppedError", "Table", "UnknownLabelError", "Vocabulary", "__version__", "build_ensemble", "build_model",
    "build_objective", "drop_unseen", "fit", "ingest", "inspect_graph", "load_graph", "load_run", "make_settings",
    "write_folder",
]  # fmt: skip

_ROOMS = ("errors", "graph", "models", "objectives", "probability", "training", "inference", "run")
"""Where public names are looked for, the lightest to import first."""


def __getattr__(name: str) -> Any:
    """Find a public name in its room when it is first asked for: importing the package alone costs nothing."""
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    for room in _ROOMS if name in __all__ else ():
        found = getattr(importlib.import_module(f"{__name__}.{room}"), name, None)
        if found is not None:
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
