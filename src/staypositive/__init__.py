"""Knowledge-graph completion without negative sampling, with probabilities one can trust.

>>> import staypositive as sp
>>> graph = sp.load_graph("geo")
>>> run = sp.fit(graph, model="distmult", dim=4, epochs=1)
>>> run.predict(head="France", relation="borders", top=3).columns.tolist()
['tail', 'probability', 'score', 'known']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from staypositive.version import __version__

if TYPE_CHECKING:
    from staypositive.errors import (
        DataError,
        DivergedError,
        DownloadError,
        InputError,
        RunError,
        SettingError,
        ShortOfMemoryError,
        StayPositiveError,
        StoppedError,
        UnknownLabelError,
    )
    from staypositive.graph import (
        CATALOGUE,
        KnowledgeGraph,
        RdfTerms,
        Sparql,
        Split,
        Vocabulary,
        drop_unseen,
        ingest,
        inspect_graph,
        load_graph,
        write_folder,
    )
    from staypositive.inference import Predictor, Query
    from staypositive.models import MODELS, BilinearModel, build_model
    from staypositive.objectives import (
        OBJECTIVES,
        NegativeSampling,
        Objective,
        OneVsAll,
        StayPositive,
        build_objective,
    )
    from staypositive.probability import CALIBRATORS
    from staypositive.run import Checkpoint, Run, Settings, build_ensemble, fit, load_run, make_settings
    from staypositive.training import Callback, EpochRecord

__all__ = [
    "CALIBRATORS",
    "CATALOGUE",
    "MODELS",
    "OBJECTIVES",
    "BilinearModel",
    "Callback",
    "Checkpoint",
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
    "ShortOfMemoryError",
    "Sparql",
    "Split",
    "StayPositive",
    "StayPositiveError",
    "StoppedError",
    "UnknownLabelError",
    "Vocabulary",
    "__version__",
    "build_ensemble",
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

_ROOMS = ("errors", "graph", "models", "objectives", "probability", "training", "inference", "run")


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
    return sorted({*globals(), *__all__, *_ROOMS})
