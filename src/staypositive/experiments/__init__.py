"""Experiments: measured figures as data, each with the command that made it."""

from staypositive.experiments.index import COLUMNS, read_index, rows_of_run, write_rows

__all__ = ["COLUMNS", "read_index", "rows_of_run", "write_rows"]
