"""PyKEEN plug-in (extra `pykeen`). Importing it registers with PyKEEN's resolvers, so that names work in a pipeline.

`training_loop="stay-positive"` and `"second-moment"`, `regularizer="stay-positive"`, `callbacks="stay-positive"`.
"""

from pykeen.regularizers import regularizer_resolver
from pykeen.training import callback_resolver, training_loop_resolver

from staypositive.interop.pykeen.loops import (
    ClosedFormTrainingLoop,
    SecondMomentTrainingLoop,
    StayPositiveTrainingLoop,
)
from staypositive.interop.pykeen.penalty import StayPositiveRegularizer, StayPositiveTrainingCallback
from staypositive.interop.pykeen.reading import from_pykeen, graph_of
from staypositive.interop.pykeen.rows import INTERACTIONS, RowView
from staypositive.interop.pykeen.weights import save_weights
from staypositive.interop.pykeen_datasets import FB13, WN11, WN18AM, CoDExS, FB15k237AM, Geo

for _resolver, _kind in (
    (training_loop_resolver, StayPositiveTrainingLoop),
    (training_loop_resolver, SecondMomentTrainingLoop),
    (regularizer_resolver, StayPositiveRegularizer),
    (callback_resolver, StayPositiveTrainingCallback),
):
    _resolver.register(_kind, raise_on_conflict=False)

__all__ = [
    "FB13",
    "INTERACTIONS",
    "WN11",
    "WN18AM",
    "ClosedFormTrainingLoop",
    "CoDExS",
    "FB15k237AM",
    "Geo",
    "RowView",
    "SecondMomentTrainingLoop",
    "StayPositiveRegularizer",
    "StayPositiveTrainingCallback",
    "StayPositiveTrainingLoop",
    "from_pykeen",
    "graph_of",
    "save_weights",
]
