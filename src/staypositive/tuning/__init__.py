"""Tuning: a search over settings by validation, on Optuna (extra `tune`), that can be stopped and resumed."""

from staypositive.tuning.page import write_best, write_study_page
from staypositive.tuning.search import Tuned, tune
from staypositive.tuning.space import Range, Space, choose_space, default_space, paper_space, read_space

__all__ = [
    "Range", "Space", "Tuned", "choose_space", "default_space", "paper_space", "read_space", "tune", "write_best",
    "write_study_page",
]  # fmt: skip
