"""What all measurements share: where results go, what ran and where, and the options that say so."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from experiments.store import add_rows
from staypositive.graph import KnowledgeGraph, load_graph
from staypositive.run.provenance import code_commit, device_name
from staypositive.training import resolve_device
from staypositive.version import __version__

PROGRAM = "python -m experiments"
NOT_OF_THE_COMMAND = ("--results", "--plots", "--graphs", "--commit", "--out", "-o", "--seconds", "--keep")
"""Options, each with a value, that say where things are: no part of what is measured."""

ResultsOption = Annotated[Path, typer.Option("--results", help="Folder of results to add figures to.")]
GraphsOption = Annotated[
    Path | None, typer.Option("--graphs", help="Folder of encoded graphs, NAME.npz, to read for named datasets.")
]
CommitOption = Annotated[str | None, typer.Option("--commit", help="Commit of the code, where git cannot tell.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
RESULTS = Path("results")


@dataclass(frozen=True)
class ExperimentContext:
    """Where an experiment runs, what it is called, and where its results go."""

    results: Path
    device: torch.device
    command: str
    commit: str | None = None
    """The code that runs, where git cannot tell."""
    experiment: str = "table2"

    @classmethod
    def start(
        cls, experiment: str, results: Path, device: str = "cpu", commit: str | None = None, command: str = ""
    ) -> ExperimentContext:
        """Return the context of the command that runs."""
        return cls(results, resolve_device(device), command or own_command(), commit, experiment)

    def path(self, kind: str, name: str, suffix: str) -> Path:
        """Return the file of a kind of result."""
        return self.results / kind / f"{self.experiment}-{name}{suffix}"

    def origin(self) -> dict[str, str]:
        """Return the columns that tell where a result was computed."""
        commit = code_commit() if self.commit is None else self.commit
        return {"device": device_name(self.device), "version": __version__, "commit": commit}

    def columns(self, graph: KnowledgeGraph | None = None, **more: Any) -> dict[str, Any]:
        """Return the columns that an experiment's figures share, with these in place of usual ones."""
        of_graph = {} if graph is None else {"dataset": graph.name, "data_sha256": graph.fingerprint}
        usual = {"experiment": self.experiment, "seed": 0, "negatives_drawn": 0, "selected_on": "fixed"}
        return usual | of_graph | self.origin() | {"command": self.command} | more

    def add(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """Add figures to the results."""
        return add_rows(self.results, rows)


def load(name: str, graphs: Path | None = None) -> KnowledgeGraph:
    """Load a dataset, by name or from a folder of encoded graphs."""
    return load_graph(graphs / f"{name}.npz" if graphs else name)


def own_command(program: str = PROGRAM, without: tuple[str, ...] = NOT_OF_THE_COMMAND) -> str:
    """Return the command that runs, less options that only say where things are."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in without:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in without)):
            kept.append(word)
    return f"{program} {shlex.join(kept)}".strip()
