"""Target `checkpoints`: states of stopped trainings with parts mutated, hashes put right; some are resumed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch

from fuzzing.cases import Target, named_refusal
from fuzzing.runs import forge, small_graph
from staypositive.errors import StayPositiveError
from staypositive.run import Checkpoint, make_settings, new_model, training_task
from staypositive.run.checkpoint import CHECKPOINT, CheckpointFolder, epochs_done, identity_of
from staypositive.training import Engine, TrainingState, build_engine, train

KINDS: tuple[dict[str, Any], ...] = (
    {"model": "distmult", "engine": "reference"},
    {"model": "complex", "objective": "second-moment", "gram_update_interval": 3},
    {"model": "tucker", "optimiser": "adam", "engine": "reference"},
    {"model": "transe", "precision": "bfloat16", "optimiser": "adagrad-rowwise"},
    {"model": "simple", "objective": "negative-sampling", "engine": "auto"},
)
ORIGIN = {"version": "0", "torch": "0", "device": "cpu", "threads": 1, "started": "today"}
EPOCHS = 3


class Unsaved(CheckpointFolder):
    """Reads a state and keeps no other in its place."""

    def save(self, state: TrainingState) -> None: ...


class Base:
    """A training that was stopped, and what it is when nobody has touched it."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.folder, self.graph = folder, small_graph()
        self.settings = make_settings(dim=2, epochs=EPOCHS, batch_size=8, device="cpu", **options)
        checkpointer = self.checkpointer(None, CheckpointFolder)
        train(self.engine(), 2, validate=_validate, validate_every=1, checkpointer=checkpointer)
        self.manifest = json.loads((folder / CHECKPOINT.manifest).read_text("utf-8"))
        self.contents = CHECKPOINT.load(folder)
        self.kept = self.engine()

    def engine(self) -> Engine:
        model = new_model(self.graph, self.settings).to(getattr(torch, self.settings.precision))
        return build_engine(self.settings.engine, training_task(self.graph, self.settings, model))

    def checkpointer(self, engine: Engine | None, kind: type[CheckpointFolder] = Unsaved) -> CheckpointFolder:
        found = identity_of(self.settings, self.graph)
        return kind(Checkpoint(self.folder, 2), found, dict(ORIGIN), engine)


class Checkpoints(Target):
    """Each case changes a part or two of a state, and loads it; now and then training goes on from it."""

    def __init__(self, folder: Path) -> None:
        self.bases = [Base(folder / str(number), options) for number, options in enumerate(KINDS)]

    def case(self, draw: random.Random) -> str:
        base = draw.choice(self.bases)
        forge(draw, base.folder, CHECKPOINT.manifest, base.manifest, base.contents)
        try:
            if draw.random() < 0.1:
                return f"{epochs_done(base.folder)} epochs"
            if draw.random() < 0.03:
                engine = base.engine()
                train(engine, EPOCHS, validate=_validate, validate_every=1, checkpointer=base.checkpointer(engine))
                return "gone on with"
            state = base.checkpointer(base.kept).load()
        except StayPositiveError as error:
            return named_refusal(error, str(base.folder), "the loss became NaN")
        assert state is not None
        base.kept.restore(state.engine)
        return "loaded"


def _validate(model: Any) -> dict[str, float]:
    return {"mrr": 0.5}
