"""How far probabilities of unknown triples hold where facts are hidden, and what labels add."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import staypositive as sp
from experiments.context import RESULTS, ResultsOption, own_command
from experiments.store import add_rows, columns_of_run
from staypositive.evaluation import negative_log_likelihood
from staypositive.graph.knowledge_graph import Split
from staypositive.models import Scorer
from staypositive.probability import Labelled
from staypositive.run.measuring import Hiding
from staypositive.run.provenance import code_commit

KeptOption = Annotated[Path | None, typer.Option("--keep", help="Folder of trained runs, to use and to add to.")]
SeedsOption = Annotated[int, typer.Option(help="Seeds 0, 1, ... of training.")]
EpochsOption = Annotated[int | None, typer.Option(help="Epochs, all without validation; by default the preset's.")]
DRAWS = 20
SIZES = (20, 100, 500)
HIDDEN = (0.05, 0.1, 0.2, 0.4)


def discovery(
    datasets: list[str], seeds: SeedsOption = 3, epochs: EpochsOption = None, keep: KeptOption = None,
    results: ResultsOption = RESULTS,
) -> None:  # fmt: skip
    """Hide the test facts, and then, in a second measurement, the validation facts in their place.

    Examples:
      python -m experiments discovery geo CoDEx-S
      python -m experiments discovery FB15k-237AM --epochs 20

    """
    for name, seed in ((name, seed) for name in datasets for seed in range(seeds)):
        run, graph = trained(name, seed, epochs, keep), None
        about = columns_of_run(run, own_command()) | {
            "experiment": "discovery",
            "commit": code_commit(),
            "selected_on": "valid",
        }
        mrr = run.metric("mrr")
        for split in ("test", "valid"):
            graph = run.graph if split == "test" else replace(run.graph, valid=run.graph.test, test=run.graph.valid)
            begun = time.perf_counter()
            hiding = Hiding(graph, Scorer(run.model, exact=True), "test", seed)
            seconds = time.perf_counter() - begun
            found = dict(figures(hiding.report())) | {"fit_seconds": seconds, "mrr": mrr}
            add_rows(
                results, (about | {"split": split, "metric": key, "value": value} for key, value in found.items())
            )
            print(
                name,
                seed,
                split,
                {key: round(value, 3) for key, value in found.items() if "bin" not in key},
                flush=True,
            )


def labels(
    datasets: list[str], seeds: SeedsOption = 3, keep: KeptOption = None, results: ResultsOption = RESULTS
) -> None:
    """Give few labels and many: NLL of labelled test triples, whose facts are hidden; 20 draws of each number.

    Beside it stand a coin, and what knows only the share of true validation labels of each relation.

    Example: python -m experiments labels CoDEx-S
    """
    for name, seed in ((name, seed) for name in datasets for seed in range(seeds)):
        run = trained(name, seed, None, keep)
        hiding = Hiding(run.graph, Scorer(run.model, exact=True), "test", seed)
        valid, test = run.graph.valid, run.graph.test
        (of_valid, odds, relations), asked = (judged(hiding, split) for split in (valid, test))
        truth = valid.signs > 0
        found = {"coin": np.log(2), "relations": relation_shares(relations, truth, asked[2], test.signs > 0)}
        for size in (*SIZES, len(truth)):
            losses = []
            for draw in range(DRAWS if size < len(truth) else 1):
                chosen = np.random.default_rng(draw).permutation(len(truth))[:size]
                fitted = Labelled.fit_evidence(odds[chosen], of_valid[chosen], relations[chosen], truth[chosen])
                losses.append(
                    negative_log_likelihood(fitted.apply_evidence(asked[1], asked[0], asked[2]), test.signs)
                )
            found["all" if size == len(truth) else str(size)] = float(np.mean(losses))
        about = columns_of_run(run, own_command()) | {
            "experiment": "labels",
            "commit": code_commit(),
            "selected_on": "valid",
        }
        rows = (
            {"split": "test", "metric": "nll", "calibration": key, "value": value} for key, value in found.items()
        )
        add_rows(results, (about | row for row in rows))
        print(name, seed, {key: round(value, 3) for key, value in found.items()}, flush=True)


def completeness(datasets: list[str], seed: int = 0, results: ResultsOption = RESULTS) -> None:
    """Hide 5%, 10%, 20% and 40% of all facts, and compare what all probabilities sum to with the number hidden.

    Example: python -m experiments completeness geo CoDEx-S
    """
    for name in datasets:
        whole = sp.load_graph(name)
        facts = np.random.default_rng(seed).permutation(np.unique(whole.facts(), axis=0))
        for share in HIDDEN:
            hidden, known = np.split(facts, [round(share * len(facts))])
            train, valid = np.split(known, [round(0.9 * len(known))])
            graph = replace(whole, train=Split(train), valid=Split(valid), test=Split(hidden))
            run = sp.fit(graph, seed=seed, device="cpu")
            report = Hiding(graph, Scorer(run.model, exact=True), "test", seed).report()
            about = columns_of_run(run, own_command()) | {"experiment": "completeness", "commit": code_commit()}
            about["selected_on"] = "valid"
            about |= {"dataset": whole.name, "data_sha256": whole.fingerprint, "setting": f"hide {share:.0%}"}
            found = {key: float(report[key]) for key in ("hidden", "sum", "sum_before_offset", "log_loss")}
            add_rows(
                results, (about | {"split": "test", "metric": key, "value": value} for key, value in found.items())
            )
            print(name, share, {key: round(value, 3) for key, value in found.items()}, report["tops"], flush=True)


def trained(name: str, seed: int, epochs: int | None, keep: Path | None) -> sp.Run:
    """Return a run of the default preset, from where it was kept or trained now."""
    folder = None if keep is None else keep / f"{Path(name).name.lower()}-{seed}"
    if folder is not None and (folder / "run.json").exists():
        return sp.load_run(folder)
    changes: dict[str, Any] = {} if epochs is None else {"epochs": epochs, "validate_every": epochs}
    run = sp.fit(name, seed=seed, device="cpu", **changes)
    run.evaluate("test")
    if folder is not None:
        run.save(folder)
    return run


def judged(hiding: Hiding, split: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the features, posterior log-odds and relations of a split's triples."""
    features = hiding.evidence.features(split.triples)
    return features, hiding.posterior.of_features(features, split.triples), split.triples[:, 1]


def relation_shares(known: np.ndarray, truth: np.ndarray, asked: np.ndarray, asked_truth: np.ndarray) -> float:
    """Return the NLL of each relation's share of true labels, smoothed by one label of either kind."""
    count, true = (np.bincount(known, weights, asked.max() + 1) for weights in (None, truth.astype(float)))
    share = ((true + 1) / (count + 2))[asked]
    return float(-np.log(np.where(asked_truth, share, 1 - share)).mean())


def figures(report: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the figures of a discovery report by name."""
    for key in ("hidden", "sum", "sum_before_offset", "offset", "log_loss"):
        yield key, float(report[key])
    for top, name in zip(report["tops"], ("100", "1000", "hidden"), strict=True):
        yield f"stated@{name}", top["stated"]
        yield f"true@{name}", top["true"]
    for key in ("median", "low", "high"):
        yield f"relations_{key}", report["relations"][key]
    for own in report["bins"]:
        for key in ("triples", "stated", "true", "low", "high"):
            yield f"bin_{own['from']:g}_{key}", own[key]
