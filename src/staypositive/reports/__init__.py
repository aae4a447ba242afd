"""Reports: a run as one page to look at, and the charts it is drawn with."""

from staypositive.reports.report import render_report as render_report
from staypositive.reports.report import write_report as write_report
