"""A synthetic graph larger than memory: drawn as shards, ingested, and trained on for one epoch, each step measured.

Each step is a process of its own, so that its peak of resident memory is its own too, and its processor time (of all
threads, imports and set-up included), which a busy machine does not lengthen much. An entity is number |E|·u² of a
seeded uniform u, a relation likewise: a power law. Drawing needs pyarrow (extra `parquet`), training numba (`fast`).

On a GPU the same triples are drawn as numbers, put into its memory, and trained on there: torch and triton will do.
"""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from experiments.context import PROGRAM, CommitOption, ExperimentContext

POWER = 2.0
GIGABYTE = 1e9


@dataclass(frozen=True)
class Drawn:
    """What is drawn, and how it is ingested and trained on."""

    folder: Path
    triples: int
    entities: int
    relations: int
    shards: int
    seed: int
    format: str
    memory: str
    model: str
    dim: int
    batch_size: int


def shards_of_numbers(chosen: Drawn) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Draw heads, relations and tails, shard by shard; one seed a shard."""
    for number in range(chosen.shards):
        rows = chosen.triples // chosen.shards + (number < chosen.triples % chosen.shards)
        random = np.random.default_rng([chosen.seed, number])
        counts = (chosen.entities, chosen.relations, chosen.entities)
        yield tuple((count * random.random(rows) ** POWER).astype(np.int64) for count in counts)


def draw(chosen: Drawn) -> dict[str, Any]:
    """Write the shards."""
    import pyarrow
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet

    shards = chosen.folder / "shards"
    shards.mkdir(parents=True, exist_ok=True)
    for number, numbers in enumerate(shards_of_numbers(chosen)):
        columns = {}
        for name, letter, ids in zip(("head", "relation", "tail"), "ere", numbers, strict=True):
            text = pyarrow.array(ids).cast(pyarrow.string())
            columns[name] = pyarrow.compute.binary_join_element_wise(letter, text, "")
        table, path = pyarrow.table(columns), shards / f"{number:04}.{chosen.format}"
        if chosen.format == "parquet":
            pyarrow.parquet.write_table(table, path, compression="zstd")
        else:
            options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
            pyarrow.csv.write_csv(table, path, options)
    return {"bytes": sum(path.stat().st_size for path in shards.iterdir())}


def take_in(chosen: Drawn) -> dict[str, Any]:
    """Ingest the shards."""
    from staypositive.graph import ingest
    from staypositive.graph.on_disk import parse_size

    started = _peak()
    graph = ingest(
        chosen.folder / "shards",
        chosen.folder / "graph",
        memory=parse_size(chosen.memory),
        hold_out=10_000,
        force=True,
    )
    size = sum(path.stat().st_size for path in graph.folder.iterdir())
    return {"counts": graph.counts() | graph.about, "sha256": graph.fingerprint, "started": started, "bytes": size}


def train(chosen: Drawn) -> dict[str, Any]:
    """Train for one epoch from disk."""
    from staypositive import fit, load_graph, make_settings

    graph = load_graph(chosen.folder / "graph")
    settings = make_settings(
        model=chosen.model, dim=chosen.dim, batch_size=chosen.batch_size, epochs=1, seed=chosen.seed, device="cpu"
    )
    run = fit(graph, settings)
    record = run.history[0]
    return {"epoch": record.seconds, "terms": record.terms, "facts": len(graph.train), **run.provenance}


def train_on_gpu(chosen: Drawn, context: ExperimentContext) -> list[dict[str, Any]]:
    """Train for two epochs on the same triples in the GPU's memory; return the second's figures as rows."""
    import torch

    from staypositive.models import build_model
    from staypositive.objectives import StayPositive
    from staypositive.training import AdaGrad, TrainingTask, build_engine

    device, digest = context.device, hashlib.sha256()
    facts = torch.empty(chosen.triples, 3, dtype=torch.int64, device=device)
    end = 0
    for numbers in shards_of_numbers(chosen):
        shard = np.stack(numbers, 1)
        digest.update(shard.tobytes())
        facts[end : end + len(shard)] = torch.from_numpy(shard).to(device)
        end += len(shard)
    with device:
        model = build_model(chosen.model, chosen.entities, chosen.relations, chosen.dim)
        model.initialise(torch.Generator(device).manual_seed(chosen.seed))
    optimiser = AdaGrad({name: table.data for name, table in model.named_parameters()}, 0.1)
    task = TrainingTask(model, StayPositive(), optimiser, facts, chosen.batch_size, chosen.seed)
    engine = build_engine("auto", task)
    for _ in range(2):  # the first compiles
        torch.cuda.synchronize()
        start = time.perf_counter()
        terms = {name: float(value) for name, value in engine.run_epoch()[0].items()}
        seconds = time.perf_counter() - start
        print({"seconds": seconds, **terms}, file=sys.stderr, flush=True)
    common = context.columns(
        dataset=name_of(chosen), seed=chosen.seed, data_sha256=digest.hexdigest(), model=chosen.model,
        objective="stay-positive", dim=chosen.dim, split="train",
        setting=f"{engine.name}, batch {chosen.batch_size}, in memory",
        command=f"{context.command} {drawn_as(chosen)} {trained_as(chosen)}",
    )  # fmt: skip
    figures = [
        ("epoch_seconds", seconds, "s"),
        ("triples_per_second", chosen.triples / seconds, "1/s"),
        ("peak_gb", torch.cuda.max_memory_allocated() / GIGABYTE, "GB"),
    ]
    return [common | {"metric": metric, "value": value, "unit": unit} for metric, value, unit in figures]


STEPS = {"draw": draw, "ingest": take_in, "train": train}


def _peak() -> int:
    """Return the most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _in_child(step: str, arguments: list[str]) -> dict[str, Any]:
    child = [sys.executable, "-m", "experiments", "large", "--step", step, *arguments]
    done = subprocess.run(child, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{step}: {json.dumps(found)}", file=sys.stderr)
    return found


def drawn_as(chosen: Drawn) -> str:
    """Return the options that say which triples are drawn."""
    return f"--triples {chosen.triples} --entities {chosen.entities} --relations {chosen.relations}"


def trained_as(chosen: Drawn) -> str:
    """Return the options that say what is trained."""
    return f"--model {chosen.model} --dim {chosen.dim} --batch-size {chosen.batch_size}"


def name_of(chosen: Drawn) -> str:
    """Return the drawn graph's name in the results."""
    return f"power-law {chosen.entities:.0e}, {chosen.triples:,} facts"


def rows(chosen: Drawn, found: dict[str, dict[str, Any]], context: ExperimentContext) -> list[dict[str, Any]]:
    """Return the figures as rows of the results."""
    taken, trained = found["ingest"], found["train"]
    common = context.columns(
        dataset=name_of(chosen), seed=chosen.seed, data_sha256=taken["sha256"],
        command=f"{context.command} {drawn_as(chosen)} --format {chosen.format} --memory {chosen.memory} "
        f"{trained_as(chosen)}",
    )  # fmt: skip
    reading = common | {"setting": f"ingest, {chosen.format}, memory {chosen.memory}"}
    epoch = common | {
        "model": chosen.model,
        "objective": "stay-positive",
        "dim": chosen.dim,
        "setting": f"{trained['engine']}, batch {chosen.batch_size}, streamed, {trained['threads']} threads",
        "split": "train",
    }
    figures = [
        (reading, "ingest_seconds", taken["seconds"], "s"),
        (reading, "cpu_seconds", taken["cpu"], "s"),
        (reading, "triples_per_second", chosen.triples / taken["seconds"], "1/s"),
        (reading, "peak_gb", taken["peak"] / GIGABYTE, "GB"),
        (reading, "peak_gb_at_start", taken["started"] / GIGABYTE, "GB"),
        (reading, "disk_gb", taken["bytes"] / GIGABYTE, "GB"),
        (epoch, "epoch_seconds", trained["epoch"], "s"),
        (epoch, "triples_per_second", trained["facts"] / trained["epoch"], "1/s"),
        (epoch, "cpu_seconds", trained["cpu"], "s"),
        (epoch, "peak_gb", trained["peak"] / GIGABYTE, "GB"),
    ]
    return [place | {"metric": metric, "value": value, "unit": unit} for place, metric, value, unit in figures]


def large(
    folder: Annotated[Path, typer.Option(help="Where shards and graph go; 7 GB for 1e8 triples.")] = Path("large"),
    triples: float = 1e8,
    entities: float = 1e7,
    relations: int = 500,
    shards: int = 50,
    seed: int = 0,
    format: Literal["parquet", "tsv"] = "parquet",
    memory: Annotated[str, typer.Option(help="Ceiling of ingestion.")] = "2GB",
    model: str = "simple",
    dim: int = 32,
    batch_size: int = 16384,
    device: Annotated[str, typer.Option(help="cuda trains on the same triples in the GPU's memory.")] = "cpu",
    keep: Annotated[bool, typer.Option("--keep", help="Leave shards and graph there.")] = False,
    results: Annotated[Path | None, typer.Option(help="Folder of results to add figures to.")] = None,
    commit: CommitOption = None,
    step: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Draw a graph larger than memory, ingest it, train an epoch from disk; or train on it in a GPU's memory.

    Examples:
    python -m experiments large --results results                                  # 100 million triples

    python -m experiments large --results results --triples 1e7 --entities 1e6

    python -m experiments large --device cuda --dim 128 --batch-size 65536 --results out --commit HASH

    """
    chosen = Drawn(
        folder, int(triples), int(entities), relations, shards, seed, format, memory, model, dim, batch_size
    )
    if step:
        start = time.perf_counter()
        found = STEPS[step](chosen)
        spent = {"seconds": time.perf_counter() - start, "cpu": time.process_time()}
        print(json.dumps(spent | {"peak": _peak()} | found))
        return
    command = f"{PROGRAM} large" + (f" --device {device}" if device != "cpu" else "")
    context = ExperimentContext.start("large", results or Path(), device, commit, command)
    if device != "cpu":
        figures = train_on_gpu(chosen, context)
    else:
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in asdict(chosen).items()]
        figures = rows(chosen, {name: _in_child(name, arguments) for name in STEPS}, context)
    if results:
        print(context.add(figures), "rows")
    for name in ("shards", "graph"):
        if not keep and device == "cpu":
            shutil.rmtree(folder / name)
