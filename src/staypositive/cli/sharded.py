"""`staypositive train` under torchrun: the same command, by several processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from staypositive.cli.common import Speaker
from staypositive.distributed import fit_sharded, is_first, open_world, remove_checkpoints, restarts
from staypositive.evaluation import Ranks
from staypositive.files import write_atomic
from staypositive.graph import KnowledgeGraph
from staypositive.run import Run, Settings
from staypositive.run.measuring import ranking_report
from staypositive.training import Callback


def train_sharded(
    graph: KnowledgeGraph,
    settings: Settings,
    folder: Path,
    speaker: Speaker,
    finish: Callable[[Run, Ranks | None], None],
    *,
    callbacks: Sequence[Callback] = (),
    evaluate: bool = True,
    force: bool = False,
) -> None:
    """Train by all processes and rank the test split; process 0 finishes the whole run, where it fits in memory.

    Checkpoints lie beside the run's folder until it is saved. A restart by torchrun goes on from them, forced or not.
    """
    checkpoints = folder.with_name(f"{folder.name}.shards")
    ranks = run = None
    with open_world(settings.device) as world:
        speaker.say(f"{world.size} processes by {world.backend}; checkpoints in {checkpoints}")
        trained = fit_sharded(
            graph, settings, world, checkpoints=checkpoints, fresh=force and not restarts(), callbacks=callbacks
        )
        if evaluate and len(graph.test.facts):
            ranks = trained.rank("test")
        fits = trained.fits()
        run = trained.whole() if fits else None
    if run is not None:
        finish(run, ranks)
        remove_checkpoints(checkpoints)
    elif not fits and is_first():
        report = {} if ranks is None else {"test": {"ranking": ranking_report(graph, "test", ranks)}}
        write_atomic(checkpoints / "metrics.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        speaker.say(f"the whole table does not fit in memory here: the run stays in shards, in {checkpoints}")
        speaker.result({"shards": str(checkpoints), "metrics": report, "provenance": trained.provenance})
