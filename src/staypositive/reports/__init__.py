"""Reports: a run as one page to look at."""

from staypositive.reports.report import render_report, write_report

__all__ = ["render_report", "write_report"]
