"""The state of a training, kept in a folder now and then, so that a kill costs minutes and changes nothing.

A `Checkpoint` is what a caller gives to `fit`; a `CheckpointFolder` is what `fit` makes of it and gives to the loop.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from staypositive.errors import RunError, SettingError, ran_out_of_memory
from staypositive.files import parsed, to_json
from staypositive.graph import KnowledgeGraph
from staypositive.models import BilinearModel
from staypositive.run.checking import require_bounded
from staypositive.run.folder import history_json, read_history
from staypositive.run.settings import Settings
from staypositive.sealed_folder import FolderKind
from staypositive.tensors import tensors_from_bytes, tensors_to_bytes
from staypositive.training import Engine, State, TrainingState
from staypositive.typed import fits

log = logging.getLogger(__name__)

STATE, BEST, HISTORY, TRAINING = "state.safetensors", "best.safetensors", "history.json", "training.json"
CHECKPOINT = FolderKind(
    name="checkpoint",
    manifest="checkpoint.json",
    format=1,
    how_to_make="one is made while training",
    roles=(STATE, BEST, HISTORY, TRAINING),
)
DEFAULT_EVERY = "10m"
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Checkpoint:
    """Where to keep the state of a training, and how often: `every` some epochs (`5`) or some time (`"10m"`).

    Training resumes from what is in the folder, if anything is; else it begins.
    """

    folder: str | os.PathLike[str]
    every: int | str = DEFAULT_EVERY

    def __post_init__(self) -> None:
        self.interval()

    def interval(self) -> tuple[int | None, float | None]:
        """Return after how many epochs to save, or after how many seconds.

        >>> Checkpoint("x", 5).interval(), Checkpoint("x", "1.5h").interval()
        ((5, None), (None, 5400.0))
        """
        found = re.fullmatch(r"(\d+)|(\d+(?:\.\d+)?)([smh])", str(self.every).strip())
        if found is None or not float(found[1] or found[2]) > 0:
            raise SettingError(
                f"expected a number of epochs such as 5, or a time such as 30s, 10m or 2h, got {self.every!r}"
            )
        return (int(found[1]), None) if found[1] else (None, float(found[2]) * _SECONDS[found[3]])


class CheckpointFolder:
    """Keeps the state of one training, of which `identity` says which it is, and `origin` how it came to be."""

    kind: ClassVar[FolderKind] = CHECKPOINT
    free: ClassVar[tuple[str, ...]] = ()
    """Settings that may differ when a training is resumed, whatever is done."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        identity: Mapping[str, Any],
        origin: dict[str, Any],
        engine: Engine | None = None,
        monitor: str = "mrr",
    ) -> None:
        self.folder = Path(checkpoint.folder)
        self.identity, self.origin = json.loads(to_json(identity)), origin
        self.engine, self.monitor = engine, monitor
        self.epochs_between, self.seconds_between = checkpoint.interval()
        self.last_save = time.monotonic()

    def is_due(self, epoch: int) -> bool:
        if self.epochs_between is not None:
            return epoch % self.epochs_between == 0
        assert self.seconds_between is not None
        return time.monotonic() - self.last_save >= self.seconds_between

    def save(self, state: TrainingState) -> None:
        """Replace what is in the folder, in one step."""
        about = to_json({"identity": self.identity, "origin": self.origin})
        self._write(state, {HISTORY: history_json(state.history), TRAINING: about})
        self.last_save = time.monotonic()
        log.info("checkpoint after epoch %d in %s", len(state.history), self.folder)

    def load(self) -> TrainingState | None:
        """Return what is in the folder; None if nothing is; an error if it is of another training."""
        place = self._place()
        if place is None:
            return None
        contents = self.kind.load(place, self.kind.roles)
        with readable(place):
            about, history = parsed(contents[TRAINING]), read_history(contents[HISTORY])
            is_told = fits(about, dict[str, dict[str, Any]]) and about.keys() >= {"identity", "origin"}
            if not is_told or not fits(about["identity"].get("epochs"), int):
                raise RunError(f"{TRAINING} does not say of which training it is")
            require_same(self.folder, about["identity"], self.identity, len(history), self.free)
            state = TrainingState(*self._tensors(place, contents), history)
            if self.engine is not None:
                self._require_state(state, self.engine)
            self._resume_from(about["origin"], len(history))
        return state

    def _write(self, state: TrainingState, contents: dict[str, bytes]) -> None:
        kept = {STATE: tensors_to_bytes(state.engine), BEST: tensors_to_bytes(state.best_weights)}
        self.kind.save(self.folder, kept | contents, self.origin["version"])

    def _place(self) -> Path | None:
        return self.folder if self.kind.is_in(self.folder) else None

    def _tensors(self, place: Path, contents: Mapping[str, bytes]) -> tuple[State, State]:
        return tensors_from_bytes(contents[STATE]), tensors_from_bytes(contents[BEST])

    def _require_bounded(self, model: BilinearModel) -> None:
        require_bounded(model)

    @torch.no_grad()
    def _require_state(self, state: TrainingState, engine: Engine) -> None:
        """Refuse a state that does not fit an engine, which is left with it; what it raises says why."""
        best = [record for record in state.history if record.is_best]
        if bool(best) != bool(state.best_weights) or (best and self.monitor not in best[-1].validation):
            raise RunError(f"the best epoch must have weights and a validation by {self.monitor}")
        model = engine.model
        if best:
            _require_like(state.best_weights, model.state_dict())
            model.load_state_dict(state.best_weights)
            self._require_bounded(model)
        engine.restore(state.engine)
        _require_like(state.engine, engine.state())
        self._require_bounded(model)
        steps, batches = int(state.engine["steps"]), getattr(engine, "batches", None)
        if steps < 0 or (batches is not None and steps != len(state.history) * batches):
            raise RunError(f"{steps} steps do not go with {len(state.history)} epochs of {batches}")
        if int(state.engine.get("optimiser.steps", steps)) != steps:
            raise RunError(f"{steps} steps do not go with {int(state.engine['optimiser.steps'])} of the optimiser")

    def _resume_from(self, before: dict[str, Any], done: int) -> None:
        """Take over what was said of the training before; say what may make the last bits of weights differ."""
        resumed, named = before.get("resumed_after", []), ("version", "torch", "device", "threads")
        if not fits(resumed, tuple[int, ...]) or not fits(before["started"], str):
            raise RunError(f"{TRAINING} does not say when it was begun and resumed")
        other = [f"{key} {before[key]}, now {self.origin[key]}" for key in named if before[key] != self.origin[key]]
        if other:
            log.warning("the resumed training had %s: weights may differ in their last bits", "; ".join(other))
        self.origin |= {"resumed_after": [*resumed, done], "started": before["started"]}


def _require_like(kept: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Refuse tensors of other names, shapes or types than our own, or with numbers that are not finite."""
    kinds = [{name: (tuple(of.shape), of.dtype) for name, of in tensors.items()} for tensors in (kept, own)]
    for name in kinds[0].keys() | kinds[1].keys():
        came, expected = kinds[0].get(name, "nothing"), kinds[1].get(name, "nothing")
        if came != expected:
            raise RunError(f"expected {expected} of {name}, got {came}")
        if kept[name].is_floating_point() and not bool(torch.isfinite(kept[name]).all()):
            raise RunError(f"the numbers of {name} are not finite")


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Say in one error what a checkpoint that is none leads to: hashes say that it is whole, not what it is."""
    try:
        yield
    except (SettingError, OSError):
        raise
    except Exception as error:  # JSON and tensors of any shape
        if ran_out_of_memory(error):
            raise
        said = str(error) if isinstance(error, RunError) else f"{type(error).__name__}: {error}"
        raise RunError(f"{folder} is not a readable checkpoint: {said}") from error


def epochs_done(folder: Path) -> int:
    """Return after which epoch the checkpoint in a folder was made; 0 where there is none."""
    if not CHECKPOINT.is_in(folder):
        return 0
    contents = CHECKPOINT.load(folder, (HISTORY,))
    with readable(folder):
        return len(read_history(contents[HISTORY]))


def identity_of(settings: Settings, graph: KnowledgeGraph, **found: Any) -> dict[str, Any]:
    """Return what must be alike for a training to be resumed: the graph and every setting but the number of threads.

    `found` takes the place of settings that leave a choice, such as the device.
    """
    kept = {name: value for name, value in settings.as_dict().items() if name != "threads"}
    return {**kept, **found, "graph (SHA-256)": graph.fingerprint[:12]}


def require_same(
    folder: Path, there: Mapping[str, Any], here: Mapping[str, Any], done: int, free: tuple[str, ...] = ()
) -> None:
    """Refuse to resume another training; what is `free` may change, and epochs while both numbers lie ahead."""
    there = {**there, **{name: here[name] for name in free}}
    if done < min(there["epochs"], here["epochs"]):
        there["epochs"] = here["epochs"]
    elif differences(there, here) == differences({"epochs": there["epochs"]}, {"epochs": here["epochs"]}) != []:
        raise SettingError(f"{done} of {there['epochs']} epochs are done in {folder}; give a number above {done}")
    if found := differences(there, here):
        raise SettingError(
            f"{folder} is of another training: {'; '.join(found)}. "
            "Give what it was begun with, choose another folder, or use --force to begin anew"
        )


def differences(there: Mapping[str, Any], here: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return what differs, in words.

    >>> differences({"dim": 4, "objective": {"l2": 0}}, {"dim": 5, "objective": {"l2": 1}})
    ['dim is 4 there and 5 here', 'objective.l2 is 0 there and 1 here']
    """
    found = []
    for name in dict.fromkeys([*there, *here]):
        old, new = there.get(name), here.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{prefix}{name}.")
        elif old != new:
            found.append(f"{prefix}{name} is {old} there and {new} here")
    return found
