"""Reports: a run as one page to look at, and the charts it is drawn with."""

from staypositive.reports.provenance import train_command
from staypositive.reports.report import render_report, write_report

__all__ = ["render_report", "train_command", "write_report"]
