"""Models: the contract, the block family, RESCAL, HolE, NTN's bilinear layer, TuckER and squared TransE."""

from staypositive.models.block import TABLES, BlockModel, Table, Term
from staypositive.models.building import ENSEMBLE, MODELS, Ensemble, build_model, combine_models, options_class
from staypositive.models.contract import BOUNDS, BilinearModel, ModelOptions, evaluating
from staypositive.models.hole import HolE
from staypositive.models.moments import LinearMap, RowMoments, ScoreMoments, score_moments
from staypositive.models.prior import CLOSED_WORLD, logit, resolve_prior_score
from staypositive.models.rescal import Ntn, Rescal, Tucker
from staypositive.models.scorer import Scorer
from staypositive.models.transe import TransE

__all__ = [
    "BOUNDS", "CLOSED_WORLD", "ENSEMBLE", "MODELS", "TABLES", "BilinearModel", "BlockModel", "Ensemble", "HolE",
    "LinearMap", "ModelOptions", "Ntn", "Rescal", "RowMoments", "ScoreMoments", "Scorer", "Table", "Term", "TransE",
    "Tucker", "build_model", "combine_models", "evaluating", "logit", "options_class",
    "resolve_prior_score", "score_moments",
]  # fmt: skip
