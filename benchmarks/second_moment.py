"""Second-moment settings compared on validation; the best trained from more seeds and, with `--keep`, put to test.

    python benchmarks/second_moment.py WN18AM '{"dim": 500, "n3": 0.01}' '{"dim": 500, "n3": 0.03}' --epochs 30
    python benchmarks/second_moment.py FB15k-237AM @settings.jsonl --seeds 3 --keep results --whole FB15k-237
    python benchmarks/second_moment.py FB15k-237AM '{"dim": 512, "dropout": 0.5}' --until 0.35 --every 2
    python benchmarks/second_moment.py CoDEx-S '{"dim": 512}' '{"dim": 512, "model": "cp"}' --join --seeds 3

Each argument after the dataset is a JSON object of settings of `fit`, or `@file` with one a line. Settings and
epochs are chosen by validation facts, also where there are labelled triples: by their filtered MRR, or with `--choose
posterior` by the NLL that the posterior expects. No label is looked at before the test. With `--join` the settings
are members: all are trained, each from seeds of its own, and joined by weights that the same measure chooses, a
joined model a seed; `--alone` keeps the first member by itself too, and leaves out prediction sets. `--whole` names a
dataset with the same training facts whose larger test is measured too. `--until` tells how many seconds of training
it takes to that MRR, filtered by the facts of all splits. With `--graphs`, datasets are read from encoded files.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from staypositive.evaluation import RankingTask, ranking_metrics
from staypositive.experiments.index import write_rows
from staypositive.experiments.kept import keep_background, keep_result
from staypositive.experiments.many import Outcome, Schedule, train_many
from staypositive.experiments.paper import Cell
from staypositive.experiments.table2 import Lab, about_row, describe
from staypositive.graph import KnowledgeGraph, Split, load_graph
from staypositive.inference import Predictor
from staypositive.inference.prediction_sets import measure_prediction_sets
from staypositive.models import ENSEMBLE, BilinearModel, Scorer, build_model
from staypositive.probability import Conformal
from staypositive.run.ensembles import choose_weights, joined_model
from staypositive.run.fitting import new_engine, new_model, resolve_device, training_facts
from staypositive.run.measuring import validation_measure
from staypositive.run.settings import Settings, make_settings

COVERAGES = (0.5, 0.8, 0.9, 0.95)


def main() -> None:
    """Compare, choose, train again, keep."""
    chosen = _arguments()
    texts = [
        line
        for text in chosen.settings
        for line in (Path(text[1:]).read_text("utf-8").splitlines() if text.startswith("@") else [text])
        if line.strip()
    ]
    graph = _graph(chosen, chosen.dataset)
    common = {"model": chosen.model, "objective": "second-moment", "batch_size": 1000}
    settings = [make_settings(**common | json.loads(text)) for text in texts]
    device = resolve_device(chosen.device)
    if chosen.until:
        for one, text in zip(settings, texts, strict=True):
            _seconds_until(chosen, graph, one, text, device)
        return
    some, whole = (validation_measure(graph, count, chosen.choose) for count in (chosen.valid_facts, None))
    schedule = Schedule(chosen.epochs, chosen.every, chosen.patience)

    def train(one: Settings, text: str) -> tuple[float, Outcome]:
        (outcome,) = train_many(graph, [one], schedule, some, device)
        value = whole(outcome.model)
        said = {
            "dataset": graph.name, "setting": json.loads(text), "seed": one.seed,
            f"valid_{chosen.choose}": round(value, 4), "best_epoch": outcome.best_epoch,
            "seconds": round(outcome.seconds, 2),
            "curve": [[epoch, round(at, 4)] for epoch, at in outcome.curve],
        }  # fmt: skip
        _say(said, chosen.out)
        return value, outcome

    if chosen.join:
        _join(chosen, graph, settings, texts, train, device)
        return
    found, best, began = None, -math.inf, time.perf_counter()
    for place, (one, text) in enumerate(zip(settings, texts, strict=True)):
        if found is not None and time.perf_counter() - began > chosen.search_seconds:
            print("out of time before", text)
            break
        value, outcome = train(one, text)
        if value > best:
            found, best, number = outcome, value, place
        del outcome
    assert found is not None
    command = _command(chosen, [texts[number]])
    lab = Lab(chosen.keep or Path(), device, command, chosen.commit, "second-moment")
    for seed in range(chosen.seeds):
        if seed:
            _, found = train(dataclasses.replace(settings[number], seed=seed), texts[number])
        if chosen.keep:
            _keep(chosen, graph, found, lab)


def _command(chosen: argparse.Namespace, texts: list[str]) -> str:
    """Return the command that gives what is kept."""
    return (
        f"python benchmarks/second_moment.py {chosen.dataset} {' '.join(map(repr, texts))} --model {chosen.model} "
        f"--epochs {chosen.epochs} --every {chosen.every} --seeds {chosen.seeds}"
        + (f" --choose {chosen.choose}" if chosen.choose != "mrr" else "")
        + (f" --patience {chosen.patience}" if chosen.patience else "")
        + (f" --whole {chosen.whole}" if chosen.whole else "")
        + (" --join" if chosen.join else "")
        + (" --alone" if chosen.alone else "")
    )


def _join(
    chosen: argparse.Namespace,
    graph: KnowledgeGraph,
    settings: list[Settings],
    texts: list[str],
    train: Callable[[Settings, str], tuple[float, Outcome]],
    device: torch.device,
) -> None:
    """Train all settings for each seed, and keep what they give together."""
    command = _command(chosen, texts)
    lab, alone = (
        Lab(chosen.keep or Path(), device, command, chosen.commit, experiment)
        for experiment in ("second-moment-joined", "second-moment")
    )
    measure, names = validation_measure(graph, chosen.valid_facts, chosen.choose), [one.model for one in settings]
    for seed in range(chosen.seeds):
        members = [
            train(dataclasses.replace(one, seed=seed * len(settings) + place), text)[1]
            for place, (one, text) in enumerate(zip(settings, texts, strict=True))
        ]
        models = [member.model.eval() for member in members]
        choice = choose_weights(models, names, measure)
        model = joined_model(models, names, choice)
        said = {"dataset": graph.name, "joined": seed, "weights": [round(weight, 3) for weight in choice.weights]}
        said |= {"backward": choice.backward_weight, "alone": [round(value, 4) for value in choice.alone]}
        _say(said | {f"valid_{chosen.choose}": round(choice.value, 4)}, chosen.out)
        outcome = Outcome(
            dataclasses.replace(settings[0], model=ENSEMBLE, dim=model.dim, seed=seed),
            model,
            epochs=max(member.epochs for member in members),
            seconds=sum(member.seconds for member in members),
        )
        if chosen.keep:
            parts = "; ".join(f"{name}: {describe(one)}" for name, one in zip(names, settings, strict=True))
            setting = f"{len(settings)} members, weights by validation; {parts}"
            weights = {f"weight_{place}": weight for place, weight in enumerate(choice.weights)}
            _keep(chosen, graph, outcome, lab, setting, weights | {"backward_weight": choice.backward_weight})
            if chosen.alone:
                first = dataclasses.replace(members[0], settings=dataclasses.replace(settings[0], seed=seed))
                _keep(chosen, graph, first, alone)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("settings", nargs="+")
    parser.add_argument("--graphs", type=Path)
    parser.add_argument("--model", default="complex")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--patience", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--search-seconds", type=float, default=1e9, help="after so many, no other setting is begun")
    parser.add_argument("--choose", choices=("mrr", "posterior"), default="mrr")
    parser.add_argument("--valid-facts", type=int, default=3000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path, help="folder of results to keep the best setting's test ranks in")
    parser.add_argument("--whole", help="a dataset of the same training facts with a larger test")
    parser.add_argument("--join", action="store_true", help="train all settings, and join what they give")
    parser.add_argument("--alone", action="store_true", help="with --join, keep the first member by itself too")
    parser.add_argument("--until", type=float, help="train to this MRR of validation, and tell the seconds")
    return parser.parse_args()


def _graph(chosen: argparse.Namespace, name: str) -> KnowledgeGraph:
    return load_graph(chosen.graphs / f"{name}.npz" if chosen.graphs else name)


def _say(said: dict[str, object], out: Path | None) -> None:
    print(json.dumps(said), flush=True)
    if out:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(said) + "\n")


def _keep(
    chosen: argparse.Namespace,
    graph: KnowledgeGraph,
    outcome: Outcome,
    lab: Lab,
    setting: str = "",
    chosen_numbers: Mapping[str, float] | None = None,
) -> None:
    """Keep what the run gives on the test, and on that of the whole dataset."""
    tests, name = [(graph, outcome.model)], outcome.settings.model
    if chosen.whole:
        whole = _graph(chosen, chosen.whole)
        tests.append((whole, _moved(graph, whole, outcome)))
    for own, model in tests:
        cell = Cell("second-moment", name, "second-moment", own.name)
        about = about_row(cell, outcome, own, lab, "valid-positives" if own.valid.has_negatives else "valid")
        about |= {"setting": setting} if setting else {}
        seconds = about | {"metric": "training_seconds", "value": outcome.seconds, "unit": "s", "split": "train"}
        numbers = (chosen_numbers or {}).items()
        rows = [about | {"metric": metric, "value": value, "split": "valid"} for metric, value in numbers]
        rows += [seconds, *([] if chosen.alone else _sets(own, model, about))]
        write_rows(lab.path("rows", f"{own.name}-{name}-{outcome.settings.seed}", ".csv"), rows)
        keep = keep_background if own.test.has_negatives else keep_result
        path = lab.path("kept", f"{own.name}-{name}-{outcome.settings.seed}", ".npz")
        keep(own, model, about).write(path)
        if own.test.has_negatives:  # their facts are ranked too
            facts = dataclasses.replace(own, test=Split(own.test.facts))
            path = lab.path("kept", f"{own.name}-{name}-{outcome.settings.seed}-ranks", ".npz")
            keep_result(facts, model, about).write(path)


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
            common = about | {"experiment": "conformal-joined" if about["model"] == ENSEMBLE else "conformal"}
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


def _seconds_until(
    chosen: argparse.Namespace, graph: KnowledgeGraph, settings: Settings, text: str, device: torch.device
) -> None:
    """Train to an MRR; tell the seconds that training took, compiling and capturing among them."""
    task = RankingTask(graph.valid.facts, graph.facts(), len(graph.entities), device)
    for seed in range(chosen.seeds):
        one = dataclasses.replace(settings, seed=seed)
        model = new_model(graph, one).to(device)
        engine = new_engine(model, one, training_facts(graph, model, device))
        spent, value, epoch, first = 0.0, 0.0, 0, 0.0
        while value < chosen.until and epoch < chosen.epochs:
            begun = time.perf_counter()
            terms = engine.run_epoch()
            assert all(np.isfinite(float(term)) for term in terms.values())  # waits for the device
            spent, epoch = spent + time.perf_counter() - begun, epoch + 1
            first = first or spent
            if epoch % chosen.every == 0:
                model.eval()
                with torch.no_grad():
                    value = ranking_metrics(task.rank(Scorer(model).asked()))["mrr"]
        said = {"dataset": graph.name, "setting": json.loads(text), "seed": seed, "until": chosen.until}
        _say(said | {"mrr": value, "epochs": epoch, "seconds": spent, "first_epoch": first}, chosen.out)
        if chosen.keep:
            command = (
                f"python benchmarks/second_moment.py {chosen.dataset} '{text}' --until {chosen.until} "
                f"--every {chosen.every} --seeds {chosen.seeds}"
            )
            lab = Lab(chosen.keep, device, command, chosen.commit, "second-moment-until")
            cell = Cell("second-moment", one.model, "second-moment", graph.name)
            about = about_row(cell, Outcome(one, model, epochs=epoch), graph, lab) | {"split": "valid"}
            rows = [
                about | {"metric": "seconds", "value": spent, "unit": "s"},
                about | {"metric": "first_epoch_seconds", "value": first, "unit": "s"},
                about | {"metric": "epochs", "value": epoch},
                about | {"metric": "mrr", "value": value, "filter": "filtered", "ties": "realistic", "side": "both"},
            ]
            write_rows(lab.path("rows", f"{graph.name}-{seed}", ".csv"), rows)


if __name__ == "__main__":
    main()
