"""Second-moment settings compared on validation; the best trained from more seeds and, with `--keep`, put to test.

Settings and epochs are chosen by validation facts, also where there are labelled triples: by their filtered MRR, or
by the NLL that the posterior expects. No label is looked at before the test.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import typer

from experiments.artifacts import FOLDER, SUFFIX, Artifact, background_artifact, result_artifact
from experiments.context import (
    PROGRAM,
    CommitOption,
    DeviceOption,
    ExperimentContext,
    GraphsOption,
    load,
)
from experiments.paper.packed_runs import Outcome, Schedule, train_runs
from experiments.paper.paper import Cell
from experiments.paper.table2 import about_row, describe
from staypositive.evaluation import RankingTask, ranking_metrics
from staypositive.graph import KnowledgeGraph, Split
from staypositive.inference import Predictor
from staypositive.inference.prediction_sets import measure_prediction_sets
from staypositive.models import ENSEMBLE, BilinearModel, Scorer, build_model
from staypositive.probability import Conformal
from staypositive.run import new_model, training_task
from staypositive.run.ensembles import choose_weights, joined_model
from staypositive.run.measuring import Measure, validation_measure
from staypositive.run.settings import Settings, make_settings
from staypositive.training import build_engine

COVERAGES = (0.5, 0.8, 0.9, 0.95)


def second_moment(
    dataset: str,
    settings: Annotated[list[str], typer.Argument(help="Settings of `fit` as JSON, or @file with one per line.")],
    model: str = "complex",
    epochs: int = 60,
    every: Annotated[int, typer.Option(help="Epochs between validations.")] = 10,
    patience: int | None = None,
    seeds: int = 1,
    search_seconds: Annotated[float, typer.Option(help="Start no further setting after this time.")] = 1e9,
    choose: Literal["mrr", "posterior"] = "mrr",
    valid_facts: int = 3000,
    device: DeviceOption = "auto",
    out: Annotated[Path | None, typer.Option(help="Append what each run reached, as JSON lines.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder of results for figures of the test.")] = None,
    whole: Annotated[
        str | None, typer.Option(help="A dataset of the same training facts, whose test is larger.")
    ] = None,
    join: Annotated[bool, typer.Option("--join", help="Train all settings from each seed, as an ensemble.")] = False,
    alone: Annotated[bool, typer.Option("--alone", help="With --join: keep the first member too; no sets.")] = False,
    until: Annotated[float | None, typer.Option(help="Train to this validation MRR, and tell the seconds.")] = None,
    graphs: GraphsOption = None,
    commit: CommitOption = None,
) -> None:
    """Compare settings of second-moment training on validation; train the best from more seeds; put it to test.

    Examples:
    python -m experiments second-moment WN18AM '{"dim": 500, "n3": 0.01}' '{"dim": 500, "n3": 0.03}' --epochs 30

    python -m experiments second-moment FB15k-237AM @settings.jsonl --seeds 3 --keep results --whole FB15k-237

    python -m experiments second-moment FB15k-237AM '{"dim": 512, "dropout": 0.5}' --until 0.35 --every 2

    python -m experiments second-moment CoDEx-S '{"dim": 512}' '{"dim": 512, "model": "cp"}' --join --seeds 3

    """
    texts = [
        line
        for text in settings
        for line in (Path(text[1:]).read_text("utf-8").splitlines() if text.startswith("@") else [text])
        if line.strip()
    ]
    graph = load(dataset, graphs)
    common = {"model": model, "objective": "second-moment", "batch_size": 1000}
    asked = [make_settings(**common | json.loads(text)) for text in texts]
    options = {
        "model": model, "epochs": epochs, "every": every, "seeds": seeds, "choose": choose if choose != "mrr" else "",
        "patience": patience, "whole": whole, "join": join, "alone": alone, "until": until,
    }  # fmt: skip
    said = [f"--{name}" if given is True else f"--{name} {given}" for name, given in options.items() if given]
    command = f"{PROGRAM} second-moment {dataset} {{settings}} {' '.join(said)}"
    context = ExperimentContext.start("second-moment", keep or Path(), device, commit, command)
    measures = (validation_measure(graph, valid_facts, choose), validation_measure(graph, None, choose))
    schedule = Schedule(epochs, every, patience)
    job = Job(graph, context, asked, texts, schedule, measures, seeds, choose, out, keep, whole, graphs, alone)
    if until is not None:
        job.train_until(until)
    elif join:
        job.train_ensembles()
    else:
        job.train_best(search_seconds)


@dataclass
class Job:
    """One call: what is compared, and where its results go."""

    graph: KnowledgeGraph
    context: ExperimentContext
    """Its command has a place for the settings that a figure is of."""
    settings: list[Settings]
    texts: list[str]
    schedule: Schedule
    measures: tuple[Measure, Measure]
    """Of validation: some facts, which epochs are chosen by, and all of them."""
    seeds: int
    choose: str
    out: Path | None
    keep: Path | None
    whole: str | None
    graphs: Path | None
    alone: bool

    def context_of(self, experiment: str, texts: Sequence[str]) -> ExperimentContext:
        """Return the context of an experiment with some of the settings: what its command names."""
        command = self.context.command.format(settings=shlex.join(texts))
        return dataclasses.replace(self.context, experiment=experiment, command=command)

    def train(self, one: Settings, text: str) -> tuple[float, Outcome]:
        """Train one setting; return what it reaches on all validation facts."""
        (outcome,) = train_runs(self.graph, [one], self.schedule, self.measures[0], self.context.device)
        value = self.measures[1](outcome.model)
        said = {
            "dataset": self.graph.name, "setting": json.loads(text), "seed": one.seed,
            f"valid_{self.choose}": round(value, 4), "best_epoch": outcome.best_epoch,
            "seconds": round(outcome.seconds, 2),
            "curve": [[epoch, round(at, 4)] for epoch, at in outcome.curve],
        }  # fmt: skip
        self.say(said)
        return value, outcome

    def train_best(self, search_seconds: float) -> None:
        """Train every setting, and the best of them from the other seeds."""
        found, best, number, began = None, -math.inf, 0, time.perf_counter()
        for place, (one, text) in enumerate(zip(self.settings, self.texts, strict=True)):
            if found is not None and time.perf_counter() - began > search_seconds:
                print("out of time before", text)
                break
            value, outcome = self.train(one, text)
            if value > best:
                found, best, number = outcome, value, place
            del outcome
        assert found is not None
        context = self.context_of("second-moment", [self.texts[number]])
        for seed in range(self.seeds):
            if seed:
                _, found = self.train(dataclasses.replace(self.settings[number], seed=seed), self.texts[number])
            if self.keep:
                self.keep_results(found, context)

    def train_ensembles(self) -> None:
        """Train all settings for each seed, each from a seed of its own, and keep what they give together."""
        joined, alone = (self.context_of(name, self.texts) for name in ("second-moment-joined", "second-moment"))
        names = [one.model for one in self.settings]
        for seed in range(self.seeds):
            members = [
                self.train(dataclasses.replace(one, seed=seed * len(self.settings) + place), text)[1]
                for place, (one, text) in enumerate(zip(self.settings, self.texts, strict=True))
            ]
            models = [member.model.eval() for member in members]
            choice = choose_weights(models, names, self.measures[0])
            model = joined_model(models, names, choice)
            said = {"dataset": self.graph.name, "joined": seed, "weights": [round(one, 3) for one in choice.weights]}
            said |= {"backward": choice.backward_weight, "alone": [round(value, 4) for value in choice.alone]}
            self.say(said | {f"valid_{self.choose}": round(choice.value, 4)})
            outcome = Outcome(
                dataclasses.replace(self.settings[0], model=ENSEMBLE, dim=model.dim, seed=seed),
                model,
                epochs=max(member.epochs for member in members),
                seconds=sum(member.seconds for member in members),
            )
            if self.keep:
                parts = "; ".join(f"{name}: {describe(one)}" for name, one in zip(names, self.settings, strict=True))
                setting = f"{len(self.settings)} members, weights by validation; {parts}"
                weights = {f"weight_{place}": weight for place, weight in enumerate(choice.weights)}
                self.keep_results(outcome, joined, setting, weights | {"backward_weight": choice.backward_weight})
                if self.alone:
                    first = dataclasses.replace(self.settings[0], seed=seed)
                    self.keep_results(dataclasses.replace(members[0], settings=first), alone)

    def say(self, said: dict[str, Any]) -> None:
        """Print a line of JSON, and append it to the file."""
        print(json.dumps(said), flush=True)
        if self.out:
            with self.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(said) + "\n")

    def keep_results(
        self,
        outcome: Outcome,
        context: ExperimentContext,
        setting: str = "",
        numbers: Mapping[str, float] | None = None,
    ) -> None:
        """Keep what a run gives on the test, and on that of the whole dataset."""
        tests, name = [(self.graph, outcome.model)], outcome.settings.model
        if self.whole:
            whole = load(self.whole, self.graphs)
            tests.append((whole, _moved(self.graph, whole, outcome)))
        for own, model in tests:
            cell = Cell("second-moment", name, "second-moment", own.name)
            chosen_on = "valid-positives" if own.valid.has_negatives else "valid"
            about = about_row(cell, outcome, own, context, chosen_on) | ({"setting": setting} if setting else {})
            seconds = about | {"metric": "training_seconds", "value": outcome.seconds, "unit": "s", "split": "train"}
            rows = [about | {"metric": m, "value": v, "split": "valid"} for m, v in (numbers or {}).items()]
            context.add([*rows, seconds, *([] if self.alone else _sets(own, model, about))])
            keep = background_artifact if own.test.has_negatives else result_artifact
            self.write(keep(own, model, about), context, "")
            if own.test.has_negatives:  # their facts are ranked too
                facts = dataclasses.replace(own, test=Split(own.test.facts))
                self.write(result_artifact(facts, model, about), context, "-ranks")

    def write(self, artifact: Artifact, context: ExperimentContext, suffix: str) -> None:
        """Keep an artifact, and the figures that it gives."""
        about = artifact.about
        path = context.path(FOLDER, f"{about['dataset']}-{about['model']}-{about['seed']}{suffix}", SUFFIX)
        artifact.write(path)
        context.add(artifact.rows(str(path.relative_to(context.results))))

    def train_until(self, until: float) -> None:
        """Train to an MRR; tell the seconds that training took, compiling and capturing among them."""
        graph, device = self.graph, self.context.device
        task = RankingTask(graph.valid.facts, graph.facts(), len(graph.entities), device)
        for (settings, text), seed in itertools.product(
            zip(self.settings, self.texts, strict=True), range(self.seeds)
        ):
            one = dataclasses.replace(settings, seed=seed)
            model = new_model(graph, one).to(device)
            engine = build_engine(one.engine, training_task(graph, one, model))
            spent, value, epoch, first = 0.0, 0.0, 0, 0.0
            while value < until and epoch < self.schedule.epochs:
                begun = time.perf_counter()
                (terms,) = engine.run_epoch()
                assert all(np.isfinite(float(term)) for term in terms.values())  # waits for the device
                spent, epoch = spent + time.perf_counter() - begun, epoch + 1
                first = first or spent
                if epoch % self.schedule.validate_every == 0:
                    model.eval()
                    with torch.no_grad():
                        value = ranking_metrics(task.rank(Scorer(model).asked()))["mrr"]
            said = {"dataset": graph.name, "setting": json.loads(text), "seed": seed, "until": until}
            self.say(said | {"mrr": value, "epochs": epoch, "seconds": spent, "first_epoch": first})
            if self.keep:
                context = self.context_of("second-moment-until", [text])
                cell = Cell("second-moment", one.model, "second-moment", graph.name)
                about = about_row(cell, Outcome(one, model, epochs=epoch), graph, context) | {"split": "valid"}
                ranked = {"filter": "filtered", "ties": "realistic", "side": "both"}
                context.add(
                    [
                        about | {"metric": "seconds", "value": spent, "unit": "s"},
                        about | {"metric": "first_epoch_seconds", "value": first, "unit": "s"},
                        about | {"metric": "epochs", "value": epoch},
                        about | ranked | {"metric": "mrr", "value": value},
                    ]
                )


def _sets(graph: KnowledgeGraph, model: BilinearModel, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Conformal prediction sets of the test facts: how often they hold the true answer, and how large they are."""
    predictor = Predictor(graph, Scorer(model))
    conformal = Conformal.fit(predictor.scorer, graph.valid.facts)
    rows = []
    for coverage, by_relation in itertools.product(COVERAGES, (False, True)):
        found = measure_prediction_sets(
            predictor, conformal, graph.test.facts, graph.facts(), coverage, per_relation=by_relation
        )
        for side, figures in found.items():
            setting = f"coverage {coverage}, {'by relation' if by_relation else 'marginal'}; {about['setting']}"
            is_ensemble = about["model"] in (ENSEMBLE, "joined")  # as older results say
            common = about | {"experiment": "conformal-joined" if is_ensemble else "conformal"}
            common |= {"setting": setting, "split": "test", "side": side}
            rows += [common | {"metric": name, "value": value} for name, value in figures.items()]
    return rows


def _moved(graph: KnowledgeGraph, whole: KnowledgeGraph, outcome: Outcome) -> BilinearModel:
    """Return the model on a graph with more entities, by label; those it was never trained on get rows of zeros."""
    sizes = outcome.model.settings() | {"n_entities": len(whole.entities)}
    model = build_model(outcome.settings.model, **sizes).to(outcome.model.entities.device).eval()
    assert list(graph.relations) == list(whole.relations)
    places = torch.tensor([whole.entities.id(label) for label in graph.entities], device=model.entities.device)
    with torch.no_grad():
        model.entities.zero_()
        model.entities[places] = outcome.model.entities
        model.relations.copy_(outcome.model.relations)
        for name, table in model.shared().items():
            table.copy_(outcome.model.shared()[name])
    return model
