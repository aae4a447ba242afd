"""What a training will cost before it is started: a model fitted to measured runs."""

from staypositive.planning.costs import Costs, stored, stored_costs
from staypositive.planning.model import Plan, Shape, Training, distinct_rows, plan_training

__all__ = ["Costs", "Plan", "Shape", "Training", "distinct_rows", "plan_training", "stored", "stored_costs"]
