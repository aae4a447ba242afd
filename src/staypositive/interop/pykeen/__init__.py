"""PyKEEN plug-in (extra `pykeen`). Importing it registers with PyKEEN's resolvers, so that names work in a pipeline.

`training_loop="stay-positive"` and `"second-moment"`, `regularizer="stay-positive"`, `callbacks="stay-positive"`.
"""

from pykeen.regularizers import regularizer_resolver
from pykeen.training import callback_resolver, training_loop_resolver

from staypositive.interop.pykeen.reading import from_pykeen, graph_of
from staypositive.interop.pykeen.rows import RowView, save_weights
from staypositive.interop.pykeen.training import (
    ClosedFormTrainingLoop,
    SecondMomentTrainingLoop,
    StayPositiveRegularizer,
    StayPositiveTrainingCallback,
    StayPositiveTrainingLoop,
)

training_loop_resolver.register(StayPositiveTrainingLoop, raise_on_conflict=False)
training_loop_resolver.register(SecondMomentTrainingLoop, raise_on_conflict=False)
regularizer_resolver.register(StayPositiveRegularizer, raise_on_conflict=False)
callback_resolver.register(StayPositiveTrainingCallback, raise_on_conflict=False)

__all__ = [
    "ClosedFormTrainingLoop", "RowView", "SecondMomentTrainingLoop", "StayPositiveRegularizer",
    "StayPositiveTrainingCallback", "StayPositiveTrainingLoop", "from_pykeen", "graph_of", "save_weights",
]  # fmt: skip
