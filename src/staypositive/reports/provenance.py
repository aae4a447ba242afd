"""What was run: settings, data, code and machine, and the command that does it again."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from staypositive.models import ENSEMBLE
from staypositive.objectives import objective_options
from staypositive.reports.html import Html, section, tag
from staypositive.reports.report_data import Material
from staypositive.run import Run, Settings
from staypositive.run.settings import unused
from staypositive.typed import fits


def train_command(data: str, settings: Settings) -> str:
    """Return the `staypositive train` command that has these settings; what is default is not said."""
    usual = {field.name: field.default for field in dataclasses.fields(Settings)}
    words = ["staypositive", "train", data]
    objective = settings.objective
    changes: dict[str, Any] = {
        name: getattr(settings, name) for name, default in usual.items() if getattr(settings, name) != default
    }
    changes["objective"] = objective.name
    for name, option in objective_options(objective.name).items():
        if getattr(objective, name) != option.default:
            changes[name] = getattr(objective, name)
    for name in unused(settings, changes):  # an earlier version may have kept what has no effect
        del changes[name]
    for name, value in changes.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{flag}")
        else:
            words += [f"--{flag}={value}"] if str(value).startswith("-") else [f"--{flag}", str(value)]
    return shlex.join(words)


def commands(run: Run) -> list[str]:
    """Return what makes a run again: its training, or those of its members and how they are joined."""
    if run.settings.model != ENSEMBLE:
        return [train_command(run.graph.name, run.settings)]
    members: Any = run.provenance.get("members")
    if not fits(members, tuple[dict[str, Any], ...]) or not all(fits(m.get("weight"), float) for m in members):
        return []  # anybody may have written it
    folders = [f"runs/member-{place}" for place in range(len(members))]
    made = [
        f"{train_command(run.graph.name, Settings.from_dict(member.get('settings', {})))} --out {folder}"
        for member, folder in zip(members, folders, strict=True)
    ]
    words = [
        "staypositive",
        "ensemble",
        *folders,
        "--weights",
        ",".join(f"{member['weight']:.4g}" for member in members),
    ]
    if run.model.backward_weight:
        words += ["--backward-weight", f"{run.model.backward_weight:g}"]
    return [*made, shlex.join([*words, "--out", "runs/joined"])]


def provenance_section(material: Material) -> Html:
    """Return settings and origins in two columns, and the command."""
    run = material.run
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
    again = [tag("pre", tag("code", command)) for command in commands(run)]
    lead = "What made this run, and the commands that make it again."
    return section("Settings and provenance", lead, columns, *again, name="provenance")


def _list(values: dict[str, Any]) -> Html:
    return tag(
        "dl",
        *(
            part
            for key, value in values.items()
            for part in (
                tag("dt", key),
                tag("dd", {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value),
            )
        ),
    )
