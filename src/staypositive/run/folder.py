"""A run on disk: one folder, which holds all of it, the graph included (see `staypositive.sealed_folder`).

Of a streamed graph it holds where that lies and what its fingerprint is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from staypositive.errors import InputError, RunError, SettingError
from staypositive.files import parsed, to_json
from staypositive.graph import KnowledgeGraph, StreamedGraph, StreamedSplit, open_streamed
from staypositive.models import BilinearModel
from staypositive.probability import Calibrator, TriplePosterior, calibrator_from_dict
from staypositive.run.checking import filled_model, outline, require_bounded, require_whole
from staypositive.run.settings import Settings
from staypositive.sealed_folder import Contents, FolderKind
from staypositive.tensors import tensors_from_bytes, tensors_to_bytes
from staypositive.training import EpochRecord
from staypositive.typed import checked, fits, misfit_of
from staypositive.version import __version__

PACKAGED = Path(__file__).parent / "packaged"
"""The runs that come with the package: something to ask a minute after installing."""


def packaged_runs() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in PACKAGED.glob("*/run.json")))


def is_packaged(name: str | os.PathLike[str]) -> bool:
    """Whether a name means a run of the package: a file or folder of that name comes first."""
    return not Path(name).exists() and str(name) in packaged_runs()


def find_run(name: str | os.PathLike[str]) -> Path:
    """Return the folder of a run given by its folder or by a packaged name."""
    return PACKAGED / str(name) if is_packaged(name) else Path(name)


CHECKPOINT_ROOM = "checkpoint"
"""The subfolder of a run's folder in which the state of its training is kept."""
WEIGHTS, SHARDS = "weights.safetensors", "shards.json"
"""The weights, or in their place where a training by several processes left them: the run is then *in shards*."""
GRAPH, STREAMED = "graph.safetensors", "streamed.json"
"""The graph, or in its place where a streamed one lies."""
RUN = FolderKind(
    name="run",
    manifest="run.json",
    format=3,  # 2 has `streamed.json` in place of a graph, 3 `shards.json` of weights; a run without is written as 1
    how_to_make=f"`staypositive train --out` makes one, and the package holds {', '.join(packaged_runs())}",
    roles=(
        WEIGHTS, SHARDS, GRAPH, "labels.json", STREAMED, "settings.json", "history.json", "metrics.json",
        "provenance.json", "calibrator.json", "posterior.json",
    ),
    rooms=(CHECKPOINT_ROOM,),
)  # fmt: skip
MANIFEST, require_writable = RUN.manifest, RUN.require_writable
KEPT_PRECISIONS = ("float32", "float16")


@dataclass(eq=False)
class RunParts:
    """What a run folder holds."""

    graph: KnowledgeGraph
    model: BilinearModel
    settings: Settings
    history: tuple[EpochRecord, ...]
    best_epoch: int
    provenance: dict[str, Any]
    metrics: dict[str, Any] = field(default_factory=dict, kw_only=True)
    """What `evaluate` measured, by split."""
    posterior: TriplePosterior | None = field(default=None, kw_only=True)
    """What gives triples that are not in the graph their probabilities."""
    calibrator: Calibrator | None = field(default=None, kw_only=True)
    """What gives triples like those of a labelled split theirs."""
    hashes: dict[str, str] = field(default_factory=dict, kw_only=True)
    """The SHA-256 of each file that it was read from or saved to last, by role."""

    @checked
    def save(self, folder: str | os.PathLike[str], precision: str = "float32") -> Path:
        """Write the run to a folder, whole or not at all; a run already there is replaced.

        `precision="float16"` halves the weights on disk; they are computed with in 32 bits again.
        """
        if precision not in KEPT_PRECISIONS:
            raise SettingError(f"weights are kept as {' or '.join(KEPT_PRECISIONS)}, got {precision!r}")
        weights = {name: weight.to(getattr(torch, precision)) for name, weight in self.model.state_dict().items()}
        try:
            require_bounded(self.model)
            for name, weight in weights.items():
                if not bool(torch.isfinite(weight).all()):
                    raise RunError(f"the weights of {name} are too large for {precision}")
        except RunError as error:
            raise RunError(f"the run is not written to {folder}: {error}") from None
        written = save_with(folder, self, {WEIGHTS: tensors_to_bytes(weights)})
        self.hashes = _hashes(RUN.files(written))
        return written

    def save_results(self, folder: str | os.PathLike[str]) -> None:
        """Write metrics, posterior and calibrator to the folder of this run, as it was read or saved last."""
        try:
            contents = _results(self)
        except ValueError as error:
            raise RunError(f"results are not written to {folder}: {error}") from error
        RUN.update(Path(folder), contents, __version__, {WEIGHTS: self.hashes.get(WEIGHTS, "")})


def save_with(folder: str | os.PathLike[str], parts: RunParts, weights: Contents) -> Path:
    """Write parts of which the model may be an outline, and the weights, or what stands in their place."""
    folder = Path(folder)
    provenance = parts.provenance | {"best_epoch": parts.best_epoch, "graph_notes": list(parts.graph.notes)}
    try:
        contents: dict[str, bytes | Iterable[bytes]] = {
            **weights,
            **_graph_contents(parts.graph, folder),
            "settings.json": to_json({"settings": parts.settings.as_dict(), "model": parts.model.settings()}),
            "history.json": history_json(parts.history),
            "provenance.json": to_json(provenance),
            **_results(parts),
        }
    except ValueError as error:  # what JSON cannot hold could not be read again
        raise RunError(f"the run is not written to {folder}: {error}") from error
    format = 3 if SHARDS in contents else 2 if STREAMED in contents else 1
    RUN.save(folder, contents, provenance.get("version", ""), format)
    return folder


def history_json(history: Sequence[EpochRecord]) -> bytes:
    return to_json([vars(record) for record in history])


def _results(parts: RunParts) -> dict[str, bytes]:
    contents = {"metrics.json": to_json(parts.metrics)}
    if parts.calibrator is not None:
        contents["calibrator.json"] = to_json(parts.calibrator.as_dict())
    if parts.posterior is not None:
        contents["posterior.json"] = to_json(parts.posterior.as_dict())
    return contents


def _graph_contents(graph: KnowledgeGraph, folder: Path) -> dict[str, bytes]:
    if isinstance(graph, StreamedGraph) and isinstance(graph.train, StreamedSplit):
        beside = os.path.relpath(graph.folder, folder.resolve())
        stated = {"folder": str(graph.folder), "beside": beside, "fingerprint": graph.fingerprint}
        return {STREAMED: to_json(stated)}
    arrays = {name: torch.from_numpy(array) for name, array in graph.arrays().items()}
    labels = {"entities": graph.entities.labels, "relations": graph.relations.labels}
    return {GRAPH: tensors_to_bytes(arrays), "labels.json": to_json(labels)}


def load_parts(folder: str | os.PathLike[str]) -> RunParts:
    folder = Path(folder)
    files = RUN.files(folder)  # before the contents: a save that comes between makes results be refused, not mixed up
    if SHARDS in files:
        raise RunError(
            f"the weights of {folder} are in shards, since they did not fit in one process's memory: `staypositive "
            "gather` makes it a run as any other, and under torchrun `evaluate` and `discover` take it as it is"
        )
    contents = RUN.load(folder)

    def filled(name: str, settings: dict[str, Any]) -> BilinearModel:
        return filled_model(name, settings, tensors_from_bytes(contents[WEIGHTS]))

    return replace(_read_parts(folder, contents, filled), hashes=_hashes(files))


def _hashes(files: dict[str, Any]) -> dict[str, str]:
    return {role: entry["sha256"] for role, entry in files.items()}


def load_in_shards(folder: Path) -> tuple[RunParts, dict[str, Any]]:
    """Read and check a run in shards: all parts, the model an outline, and where it says that its weights are."""
    if not is_in_shards(folder):
        raise RunError(
            f"{folder} is not in shards: it is a run as any other, and needs neither torchrun nor gathering"
        )
    contents = RUN.load(folder)
    parts = _read_parts(folder, contents, outline)
    try:
        stated = parsed(contents[SHARDS])
    except ValueError as error:
        raise RunError(f"{folder} is not a readable run: {SHARDS}: {error}") from None
    if not fits(stated, dict[str, str]) or stated.keys() != {"folder", "checkpoint", "sha256"}:
        raise RunError(f"{folder} is not a readable run: {SHARDS} does not say where its weights are")
    return parts, stated


def is_in_shards(folder: Path) -> bool:
    return RUN.is_in(folder) and SHARDS in RUN.files(folder)


def _read_parts(
    folder: Path, contents: dict[str, bytes], model_of: Callable[[str, dict[str, Any]], BilinearModel]
) -> RunParts:
    try:
        provenance = parsed(contents["provenance.json"])
        graph = _read_graph(contents, provenance, folder)
        settings = parsed(contents["settings.json"])
        chosen = Settings.from_dict(settings["settings"])
        model = model_of(chosen.model, settings["model"])
        history = read_history(contents["history.json"])
        metrics = parsed(contents["metrics.json"])
        stored, fitted = contents.get("calibrator.json"), contents.get("posterior.json")
        best_epoch = int(provenance.pop("best_epoch"))
        calibrator = None if stored is None else calibrator_from_dict(parsed(stored))
        posterior = None if fitted is None else TriplePosterior.from_dict(parsed(fitted))
        parts = RunParts(
            graph, model, chosen, history, best_epoch, provenance, metrics=metrics, calibrator=calibrator,
            posterior=posterior,
        )  # fmt: skip
        require_whole(parts)
    except Exception as error:  # hashes say that it is whole, not that it was ever a run
        said = str(error) if isinstance(error, RunError) else f"{type(error).__name__}: {error}"
        raise RunError(f"{folder} is not a readable run: {said}") from error
    return parts


def read_history(data: bytes) -> tuple[EpochRecord, ...]:
    """Return the history that `history_json` wrote, from the first epoch on; `ValueError` where it did not."""
    stated = parsed(data)
    if not fits(stated, tuple[dict[str, Any], ...]):
        raise ValueError("a history is a list of epochs")
    try:
        history = tuple(EpochRecord(**record) for record in stated)
    except TypeError as error:
        raise ValueError(str(error)) from None
    for number, record in enumerate(history, 1):
        wrong = misfit_of(record) or ("" if record.epoch == number else f"it is numbered {record.epoch}")
        if wrong:
            raise ValueError(f"epoch {number} of the history: {wrong}")
    return history


def _read_graph(contents: Mapping[str, bytes], provenance: dict[str, Any], folder: Path) -> KnowledgeGraph:
    notes = provenance.pop("graph_notes")
    if STREAMED in contents:
        return _open_streamed(parsed(contents[STREAMED]), folder)
    labels = parsed(contents["labels.json"])
    return KnowledgeGraph.from_arrays(
        provenance["graph"],
        (labels["entities"], labels["relations"]),
        {name: tensor.numpy() for name, tensor in tensors_from_bytes(contents[GRAPH]).items()},
        provenance["sources"],
        notes,
    )


def _open_streamed(stated: dict[str, str], folder: Path) -> StreamedGraph:
    places = [Path(stated["folder"]), folder.resolve() / stated["beside"]]
    place = next((place for place in places if place.is_dir()), None)
    if place is None:
        raise RunError(
            f"it was trained on the streamed graph in {stated['folder']}, which is not there. A run refers to "
            "such a graph rather than copying it: put it back, or ingest it again to that folder"
        )
    try:
        graph = open_streamed(place)
    except InputError as error:
        raise RunError(f"it was trained on a streamed graph that cannot be read: {error}") from error
    if graph.fingerprint != stated["fingerprint"]:
        raise RunError(
            f"it was trained on another graph than the one in {place}: expected the fingerprint "
            f"{stated['fingerprint']}, found {graph.fingerprint}"
        )
    return graph
