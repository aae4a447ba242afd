"""What was run: settings, data, code and machine, and the command that does it again."""

from __future__ import annotations

from typing import Any

from staypositive.reports.html import Html, section, tag
from staypositive.reports.report_data import ReportData
from staypositive.typed import fits


def provenance_section(data: ReportData) -> Html:
    """Return settings and origins in two columns, and the command."""
    run = data.run
    values = run.settings.as_dict()
    objective = dict(values.pop("objective"))
    settings = {"objective": objective.pop("name"), **objective}
    settings |= {name: value for name, value in values.items() if value is not None}
    origin = {key: value for key, value in run.provenance.items() if key not in ("sources", "members", "validation")}
    found: Any = run.provenance.get("validation")
    if fits(found, dict[str, Any]) and fits(found.get("alone"), tuple[float, ...]):
        alone = ", ".join(f"{value:.4f}" for value in found["alone"])
        origin["validation"] = f"{found.get('joined')!s:.6} joined; each alone {alone}"
    files = [f"{source.name}, {source.rows:,} rows, SHA-256 {source.sha256[:16]}…" for source in run.graph.sources]
    files += [f"note: {note}" for note in run.graph.notes]
    read = [tag("p", line, class_="note") for line in files]
    columns = tag(
        "div",
        tag("div", tag("h3", "Settings"), _list(settings)),
        tag("div", tag("h3", "Origin"), _list(origin), tag("h3", "Files read"), *read),
        class_="pair",
    )
    again = [tag("pre", tag("code", command)) for command in run.commands()]
    lead = "What made this run, and the commands that make it again."
    return section("Settings and provenance", lead, columns, *again, name="provenance")


def _list(values: dict[str, Any]) -> Html:
    words = {True: "yes", False: "no"}
    lines = [(key, words[value] if isinstance(value, bool) else value) for key, value in values.items()]
    return tag("dl", *(part for key, value in lines for part in (tag("dt", key), tag("dd", value))))
