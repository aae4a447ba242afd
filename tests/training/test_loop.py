"""The loop: best epoch, patience, divergence, callbacks, progress."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import pytest
import torch
from rich.console import Console

from conftest import tiny_model
from staypositive.errors import DivergedError, RunError, SettingError, StoppedError
from staypositive.models import BilinearModel
from staypositive.training import (
    Callback,
    Engine,
    EpochRecord,
    ProgressBar,
    TrainingResult,
    TrainingState,
    train,
)


class Counter(Engine):
    """Each epoch adds 1 to every weight; the loss is NaN from epoch `bad` on."""

    def __init__(self, bad: int = 10**9) -> None:
        self.models = [tiny_model("distmult", "identity")]
        torch.nn.init.zeros_(self.model.entities)
        self.epoch, self.bad = 0, bad

    def run_epoch(self) -> list[dict[str, torch.Tensor]]:
        self.epoch += 1
        if self.epoch >= self.bad:
            return [{"facts": torch.tensor(math.nan)}]
        self.model.entities.data += 1
        return [{"facts": torch.tensor(1.0 / self.epoch)}]


def value(model: BilinearModel) -> float:
    return float(model.entities[0, 0].detach())


class Log(Callback):
    def __init__(self) -> None:
        self.events: list[object] = []

    def on_start(self, epochs: int) -> None:
        self.events.append(epochs)

    def on_resume(self, history: tuple[EpochRecord, ...]) -> None:
        self.events.append(f"{len(history)} done")

    def on_epoch(self, record: EpochRecord) -> None:
        self.events.append(record.epoch)

    def on_end(self, result: TrainingResult) -> None:
        self.events.append(result.stopped)


def test_the_best_epoch_is_kept() -> None:
    engine, log = Counter(), Log()
    result = train(
        engine, 9, validate=lambda m: {"mrr": -abs(value(m) - 4)}, validate_every=2, monitor="mrr", callbacks=[log]
    )
    assert (result.best_epoch, value(engine.model), result.stopped) == (4, 4.0, "epochs")
    assert [r.epoch for r in result.history if r.validation] == [2, 4, 6, 8, 9]  # the last one always
    assert [r.epoch for r in result.history if r.is_best] == [2, 4]
    assert log.events == [9, *range(1, 10), "epochs"]
    assert result.seconds >= 0
    assert result.history[1].flat().keys() == {"epoch", "seconds", "loss_facts", "mean_score", "valid_mrr"}


def test_nll_is_minimised_and_patience_stops() -> None:
    engine = Counter()
    result = train(
        engine, 50, validate=lambda m: {"nll": abs(value(m) - 3)}, validate_every=1, monitor="nll", patience=4
    )
    assert (result.best_epoch, len(result.history), result.stopped) == (3, 7, "patience")
    assert value(engine.model) == 3.0


def test_without_validation_the_last_epoch_counts() -> None:
    engine = Counter()
    assert train(engine, 3).best_epoch == 3
    assert value(engine.model) == 3.0


@pytest.mark.parametrize(("validated", "kept"), [(True, 2.0), (False, 4.0)])
def test_divergence_keeps_what_was_trained(validated: bool, kept: float) -> None:
    engine = Counter(bad=5)
    with pytest.raises(DivergedError, match=r"epoch 5 \(in: facts\).*smaller learning rate") as caught:
        train(engine, 9, validate=(lambda m: {"mrr": 1.0}) if validated else None, validate_every=2)
    assert value(engine.model) == kept
    assert len(caught.value.run.history) == 4
    assert caught.value.run.stopped == "diverged"


def test_an_epoch_that_explodes_without_a_bad_loss_is_undone() -> None:
    class Exploding(Counter):
        def run_epoch(self) -> dict[str, torch.Tensor]:
            terms = super().run_epoch()
            if self.epoch == 3:
                self.model.entities.data.fill_(1e200)
            return terms

    engine = Exploding()
    engine.model.relations.data.fill_(1.0)
    with pytest.raises(DivergedError, match="mean score"):
        train(engine, 9)
    assert value(engine.model) == 2.0


@pytest.mark.parametrize("change", [{"epochs": 0}, {"validate_every": 0}, {"patience": 0}])
def test_bad_settings(change: dict[str, int]) -> None:
    with pytest.raises(SettingError, match="at least 1"):
        train(Counter(), **{"epochs": 1, **change})


def test_unknown_monitor() -> None:
    with pytest.raises(SettingError, match="mrr, nll"):
        train(Counter(), 1, monitor="hits")


def test_progress_shows_terms_mean_score_and_validation() -> None:
    text = io.StringIO()
    bar = ProgressBar(Console(file=text, width=160, force_terminal=True))
    train(Counter(), 2, validate=lambda m: {"mrr": 0.25}, validate_every=1, callbacks=[bar])
    shown = text.getvalue()
    assert "facts 0.5" in shown
    assert "mean score" in shown
    assert "valid mrr 0.2500" in shown
    assert "2/2" in shown


class Resumable(Counter):
    """A counter whose state is its weights and its epoch."""

    def state(self) -> dict[str, torch.Tensor]:
        return {"entities": self.model.entities.detach(), "epoch": torch.tensor(self.epoch)}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        self.model.entities.data.copy_(state["entities"])
        self.epoch = int(state["epoch"])


class Shelf:
    """A checkpointer in memory, due every `every` epochs; saves beyond `room` fail."""

    def __init__(self, every: int = 1, room: int = 10**9) -> None:
        self.every, self.room, self.kept, self.saved = every, room, None, []

    def load(self) -> TrainingState | None:
        return self.kept

    def is_due(self, epoch: int) -> bool:
        return epoch % self.every == 0

    def save(self, state: TrainingState) -> None:
        if len(self.saved) >= self.room:
            raise RunError("no room")
        copies = ({n: t.clone() for n, t in part.items()} for part in (state.engine, state.best_weights))
        self.kept = TrainingState(*copies, state.history)
        self.saved.append(len(state.history))


def asked_after(epochs: int) -> Callable[[], bool]:
    answers = iter([False] * (epochs - 1) + [True])
    return lambda: next(answers)


def plain(history: tuple[EpochRecord, ...]) -> list[tuple[object, ...]]:
    return [(r.epoch, r.terms, r.mean_score, r.validation, r.is_best) for r in history]


@pytest.mark.parametrize("cut", range(1, 9))
def test_training_goes_on_as_if_it_had_never_stopped(cut: int) -> None:
    options = {"validate": lambda m: {"mrr": -abs(value(m) - 5)}, "validate_every": 2, "patience": 2}
    whole = Resumable()
    expected = train(whole, 12, **options)
    assert (expected.best_epoch, expected.stopped) == (4, "patience")  # |4 − 5| = |6 − 5|: the first of equals
    shelf, log = Shelf(every=3), Log()
    with pytest.raises(StoppedError, match=f"after epoch {cut} of 12") as caught:
        train(Resumable(), 12, **options, checkpointer=shelf, should_stop=asked_after(cut))
    assert len(caught.value.run.history) == cut
    assert caught.value.run.stopped == "interrupted"
    engine = Resumable()
    result = train(engine, 12, **options, checkpointer=shelf, callbacks=[log])
    assert plain(result.history) == plain(expected.history)
    assert (result.best_epoch, result.stopped) == (expected.best_epoch, expected.stopped)
    assert torch.equal(engine.model.entities, whole.model.entities)
    assert log.events == [12, f"{cut} done", *range(cut + 1, 9), "patience"]


def test_the_state_is_kept_when_due_and_at_the_end() -> None:
    shelf = Shelf(every=3)
    train(Resumable(), 7, checkpointer=shelf)
    assert shelf.saved == [3, 6, 7]
    result = train(Resumable(), 7, checkpointer=shelf)  # nothing is left to do, and nothing is written again
    assert (len(result.history), shelf.saved) == (7, [3, 6, 7])


def test_a_divergence_after_going_on_keeps_the_last_good_epoch() -> None:
    shelf = Shelf()
    with pytest.raises(StoppedError):
        train(Resumable(), 9, checkpointer=shelf, should_stop=asked_after(4))
    engine = Resumable(bad=5)
    with pytest.raises(DivergedError):
        train(engine, 9, checkpointer=shelf)
    assert value(engine.model) == 4.0


def test_a_save_that_fails_does_not_end_training_unless_it_must(caplog: pytest.LogCaptureFixture) -> None:
    shelf = Shelf(room=2)
    assert len(train(Resumable(), 5, checkpointer=shelf).history) == 5
    assert shelf.saved == [1, 2]
    assert caplog.messages == ["no room; training continues, and the last checkpoint stays as it was"] * 3
    with pytest.raises(RunError, match="no room"):
        train(Resumable(), 9, checkpointer=shelf, should_stop=asked_after(1))


def test_progress_begins_where_training_goes_on() -> None:
    shelf, text = Shelf(), io.StringIO()
    with pytest.raises(StoppedError):
        train(Resumable(), 4, checkpointer=shelf, should_stop=asked_after(3))
    bar = ProgressBar(Console(file=text, width=160, force_terminal=True))
    train(Resumable(), 4, checkpointer=shelf, callbacks=[bar])
    assert "4/4" in text.getvalue()
