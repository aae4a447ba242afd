"""What a training will cost before it is started: a model fitted to measured runs."""

from staypositive.planning.costs import COSTS_FILE, Costs, cost_terms, stored, stored_costs
from staypositive.planning.plan import Plan, Shape, Training, distinct_rows, plan_training, sent_bytes

__all__ = [
    "COSTS_FILE", "Costs", "Plan", "Shape", "Training", "cost_terms", "distinct_rows", "plan_training", "sent_bytes",
    "stored", "stored_costs",
]  # fmt: skip
