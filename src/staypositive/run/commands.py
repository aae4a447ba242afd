"""The commands that make a run again."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Any

from staypositive.models import ENSEMBLE
from staypositive.objectives import objective_options
from staypositive.run.settings import Settings, unused
from staypositive.typed import fits

if TYPE_CHECKING:
    from staypositive.run.run import Run


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
