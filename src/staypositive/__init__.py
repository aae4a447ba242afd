"""Knowledge-graph completion without negative sampling, with probabilities one can trust.

>>> import staypositive as sp
>>> graph = sp.load_graph("geo")
>>> run = sp.fit(graph, model="distmult", dim=4, epochs=1)
>>> run.predict(head="France", relation="borders", top=3).columns.tolist()
['tail', 'probability', 'score', 'known']
"""

from staypositive.calibration import CALIBRATORS
from staypositive.errors import (
    DataError,
    DivergedError,
    DownloadError,
    InputError,
    RunError,
    SettingError,
    StayPositiveError,
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
from staypositive.objectives import OBJECTIVES, NegativeSampling, Objective, OneVsAll, StayPositive, build_objective
from staypositive.run import Run, Settings, fit, load_run, make_settings
from staypositive.training import Callback, EpochRecord
from staypositive.version import __version__

__all__ = [
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
