"""The loop: best epoch, patience, divergence, callbacks, progress."""

from __future__ import annotations

import io
import math

import pytest
import torch
from rich.console import Console

from conftest import tiny_model
from staypositive.errors import DivergedError, SettingError
from staypositive.models import BilinearModel
from staypositive.training import Callback, Engine, EpochRecord, ProgressBar, TrainingResult, train


class Counter(Engine):
    """Each epoch adds 1 to every weight; the loss is NaN from epoch `bad` on."""

    def __init__(self, bad: int = 10**9) -> None:
        self.model: BilinearModel = tiny_model("distmult", "identity")
        torch.nn.init.zeros_(self.model.entities)
        self.epoch, self.bad = 0, bad

    def run_epoch(self) -> dict[str, torch.Tensor]:
        self.epoch += 1
        if self.epoch >= self.bad:
            return {"facts": torch.tensor(math.nan)}
        self.model.entities.data += 1
        return {"facts": torch.tensor(1.0 / self.epoch)}


def value(model: BilinearModel) -> float:
    return float(model.entities[0, 0].detach())


class Log(Callback):
    def __init__(self) -> None:
        self.events: list[object] = []

    def on_start(self, epochs: int) -> None:
        self.events.append(epochs)

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
