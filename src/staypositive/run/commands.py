"""The commands that make a run again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from staypositive.models import ENSEMBLE
from staypositive.run.settings import Settings, settings_from, unused
from staypositive.typed import fits

if TYPE_CHECKING:
    from staypositive.run.run import Run


def train_command(data: str, settings: Settings) -> str:
    """Return the `staypositive train` command that has these settings; what is default is not said."""
    words = ["staypositive", "train", data]
    usual = settings_from({"model": settings.model, "objective": settings.objective.name}).keywords()
    usual |= {"model": Settings.model, "objective": None}
    changes = {name: value for name, value in settings.keywords().items() if value != usual[name]}
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
