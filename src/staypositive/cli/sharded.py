"""`staypositive train` under torchrun: the same command, by several processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from staypositive.cli.common import Speaker
from staypositive.distributed import (
    ShardedRun,
    fit_sharded,
    is_first,
    open_world,
    remove_checkpoints,
    restarts,
)
from staypositive.evaluation import Ranks
from staypositive.files import write_atomic
from staypositive.graph import KnowledgeGraph
from staypositive.run import Run, Settings
from staypositive.run.measuring import ranking_report
from staypositive.trackers import make_tracker
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
    checkpoints = folder.with_name(f"{folder.name}.shards")
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
    finally:
        for tracker in trackers:
            tracker.abandon()  # where training was cut short
    if run is not None:
        run.ranks |= {} if ranks is None else {"test": ranks}
        finish(run)
        remove_checkpoints(checkpoints)
    elif not fits and is_first():
        _leave_in_shards(trained, ranks, checkpoints, speaker)


def _leave_in_shards(trained: ShardedRun, ranks: Ranks | None, checkpoints: Path, speaker: Speaker) -> None:
    """Keep the metrics beside the last checkpoint, which is all that there will be."""
    report = {} if ranks is None else {"test": {"ranking": ranking_report(trained.graph, "test", ranks)}}
    write_atomic(checkpoints / "metrics.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    speaker.say(f"the whole table does not fit in memory here: the run stays in shards, in {checkpoints}")
    speaker.result({"shards": str(checkpoints), "metrics": report, "provenance": trained.provenance})
