"""Reports: a run as one page to look at, and the charts and markup that pages are made of."""

from staypositive.reports.charts import Point, Series, dot_chart, line_chart
from staypositive.reports.html import Html, figure, join, number, percent, section, table, tag
from staypositive.reports.report import page, render_report, write_report

__all__ = [
    "Html", "Point", "Series", "dot_chart", "figure", "join", "line_chart", "number", "page", "percent",
    "render_report", "section", "table", "tag", "write_report",
]  # fmt: skip
