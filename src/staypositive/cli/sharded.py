"""`staypositive train` and `evaluate` under torchrun: the same commands, by several processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from staypositive.cli.common import Speaker
from staypositive.evaluation import Ranks
from staypositive.graph import KnowledgeGraph
from staypositive.interop.trackers import make_tracker
from staypositive.run import Run, Settings
from staypositive.run.measuring import ranking_report, sampled_report
from staypositive.sharded import (
    ShardedRun,
    fit_sharded,
    is_first,
    keep_metrics,
    leave_in_shards,
    open_sharded,
    open_world,
    own_device,
    remove_checkpoints,
    restarts,
    shards_of,
)
from staypositive.training import ProgressBar


def train_sharded(
    graph: KnowledgeGraph,
    settings: Settings,
    folder: Path,
    speaker: Speaker,
    finish: Callable[[Run], None],
    *,
    force: bool = False,
    evaluate: bool = True,
    track: Sequence[str] = (),
) -> None:
    """Train by all processes and rank the test split; process 0 finishes the whole run, where it fits in memory.

    Checkpoints lie beside the run's folder until it is saved. A restart by torchrun goes on from them, forced or not.
    """
    checkpoints = shards_of(folder)
    followed = track if is_first() else ()
    trackers = [make_tracker(text, {"graph": graph.name, **settings.as_dict()}) for text in followed]
    bars = [ProgressBar()] if not speaker.quiet and sys.stderr.isatty() else []
    try:
        with open_world(settings.device) as world:
            speaker.say(f"{world.size} processes by {world.backend}; checkpoints in {checkpoints}")
            trained = fit_sharded(
                graph, settings, world,
                checkpoints=checkpoints, fresh=force and not restarts(), callbacks=[*trackers, *bars],
            )  # fmt: skip
            ranks = trained.rank("test") if evaluate and len(graph.test.facts) else None
            fits = trained.fits()
            run = trained.whole() if fits else None
            if not fits:
                _leave_in_shards(trained, ranks, folder, speaker)
    finally:
        for tracker in trackers:
            tracker.abandon()  # where training was cut short
    if run is not None:
        run.ranks |= {} if ranks is None else {"test": ranks}
        finish(run)
        remove_checkpoints(checkpoints)


def _leave_in_shards(trained: ShardedRun, ranks: Ranks | None, folder: Path, speaker: Speaker) -> None:
    """Keep all of the run but its weights, which stay in the last checkpoint."""
    report = {} if ranks is None else {"test": {"ranking": ranking_report(trained.graph, "test", ranks)}}
    leave_in_shards(trained, folder, report)
    speaker.say(
        f"the whole table does not fit in memory here: {folder} is kept with its weights in shards, in "
        f"{shards_of(folder)}",
        f"next: torchrun ... -m staypositive evaluate or discover {folder}, or staypositive gather {folder}",
    )
    shown = {"run": str(folder), "shards": str(shards_of(folder))}
    speaker.result(shown | {"metrics": report, "provenance": trained.provenance})


def evaluate_sharded(folder: Path, split: str, sampled: int | None, memory: int, speaker: Speaker) -> dict[str, Any]:
    """Rank a split of a run in shards by all processes, and keep the metrics in its folder."""
    with open_world(own_device()) as world:
        held = open_sharded(folder, world)
        facts = held.graph.split(split).facts
        with speaker.progress("ranking", 2 * len(facts)) as advance:
            if sampled is None:
                ranks = held.rank(split, memory, advance)
                report = {"ranking": ranking_report(held.graph, split, ranks)}
            else:
                ranks = held.rank_sampled(split, sampled, memory, advance)
                report = {"sampled_ranking": sampled_report(split, sampled, ranks)}
        if is_first():
            keep_metrics(folder, split, report)
        world.wait()
    return report
