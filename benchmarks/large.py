"""A synthetic graph larger than memory: drawn as shards, ingested, and trained on for one epoch, each step measured.

python benchmarks/large.py --folder large --rows rows.csv      # 100 million triples over 10 million entities
python benchmarks/large.py --folder large --rows rows.csv --triples 1e7 --entities 1e6
python benchmarks/large.py --device cuda --dim 128 --batch-size 65536 --rows rows.csv --commit HASH

Each step is a process of its own, so that its peak of resident memory is its own too, and its processor time (of all
threads, imports and set-up included), which a busy machine does not lengthen much. An entity is number |E|·u² of a
seeded uniform u, a relation likewise: a power law. Drawing needs pyarrow (extra `parquet`), training numba (`fast`).

On a GPU the same triples are drawn as numbers, put into its memory, and trained on there: torch and triton will do.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from staypositive.experiments.index import write_rows

POWER = 2.0
GIGABYTE = 1e9


def shards_of_numbers(chosen: argparse.Namespace) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Draw heads, relations and tails, shard by shard; one seed a shard."""
    for number in range(chosen.shards):
        rows = chosen.triples // chosen.shards + (number < chosen.triples % chosen.shards)
        random = np.random.default_rng([chosen.seed, number])
        counts = (chosen.entities, chosen.relations, chosen.entities)
        yield tuple((count * random.random(rows) ** POWER).astype(np.int64) for count in counts)


def draw(chosen: argparse.Namespace) -> dict[str, Any]:
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


def take_in(chosen: argparse.Namespace) -> dict[str, Any]:
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


def train(chosen: argparse.Namespace) -> dict[str, Any]:
    """Train for one epoch from disk."""
    from staypositive import fit, load_graph, make_settings

    graph = load_graph(chosen.folder / "graph")
    settings = make_settings(
        model=chosen.model, dim=chosen.dim, batch_size=chosen.batch_size, epochs=1, seed=chosen.seed, device="cpu"
    )
    run = fit(graph, settings)
    record = run.history[0]
    return {"epoch": record.seconds, "terms": record.terms, "facts": len(graph.train), **run.provenance}


def train_on_gpu(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Train for two epochs on the same triples in the GPU's memory; return the second's figures as rows."""
    import torch

    from staypositive.models import build_model
    from staypositive.objectives import StayPositive
    from staypositive.run.provenance import code_commit, device_name
    from staypositive.training import AdaGrad, build_engine
    from staypositive.version import __version__

    device, digest = torch.device(chosen.device), hashlib.sha256()
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
    engine = build_engine("auto", model, StayPositive(), optimiser, facts, chosen.batch_size, chosen.seed)
    for _ in range(2):  # the first compiles
        torch.cuda.synchronize()
        start = time.perf_counter()
        terms = {name: float(value) for name, value in engine.run_epoch().items()}
        seconds = time.perf_counter() - start
        print({"seconds": seconds, **terms}, file=sys.stderr, flush=True)
    common = common_columns(chosen) | {
        "device": device_name(device), "version": __version__, "commit": chosen.commit or code_commit(),
        "data_sha256": digest.hexdigest(), "model": chosen.model, "objective": "stay-positive", "dim": chosen.dim,
        "setting": f"{type(engine).__name__}, batch {chosen.batch_size}, in memory", "split": "train",
        "command": f"python benchmarks/large.py --device {chosen.device} {drawn_as(chosen)} --model {chosen.model} "
        f"--dim {chosen.dim} --batch-size {chosen.batch_size}",
    }  # fmt: skip
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
    child = [sys.executable, __file__, "--step", step, *arguments]
    done = subprocess.run(child, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{step}: {json.dumps(found)}", file=sys.stderr)
    return found


def drawn_as(chosen: argparse.Namespace) -> str:
    """Return the options that say which triples are drawn."""
    return f"--triples {chosen.triples} --entities {chosen.entities} --relations {chosen.relations}"


def common_columns(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the columns of the index that all figures share."""
    return {
        "experiment": "large",
        "dataset": f"power-law {chosen.entities:.0e}, {chosen.triples:,} facts",
        "seed": chosen.seed,
        "negatives_drawn": 0,
        "selected_on": "fixed",
    }


def rows(chosen: argparse.Namespace, found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures as rows of the index."""
    taken, trained = found["ingest"], found["train"]
    common = common_columns(chosen) | {
        "device": trained["device"],
        "version": trained["version"],
        "commit": trained["commit"],
        "data_sha256": taken["sha256"],
        "command": f"python benchmarks/large.py {drawn_as(chosen)} --format {chosen.format} --memory {chosen.memory} "
        f"--model {chosen.model} --dim {chosen.dim} --batch-size {chosen.batch_size}",
    }
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


def main() -> None:
    """Run the steps, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where shards and graph go; some 7 GB for 1e8")
    parser.add_argument("--rows", type=Path, help="file to put the figures into")
    for name, default in (("triples", 1e8), ("entities", 1e7), ("relations", 500), ("shards", 50), ("seed", 0)):
        parser.add_argument(f"--{name}", type=lambda text: int(float(text)), default=int(default))
    parser.add_argument("--format", choices=("parquet", "tsv"), default="parquet")
    parser.add_argument("--memory", default="2GB", help="ceiling of ingestion")
    parser.add_argument("--model", default="simple")
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=16384)
    parser.add_argument("--device", default="cpu", help="cuda trains on the same triples in the GPU's memory")
    parser.add_argument("--commit", default="", help="of the code, where git cannot tell")
    parser.add_argument("--step", choices=tuple(STEPS), help="one step alone; prints JSON")
    parser.add_argument("--keep", action="store_true", help="leave shards and graph there")
    chosen = parser.parse_args()
    if chosen.step:
        start = time.perf_counter()
        found = STEPS[chosen.step](chosen)
        spent = {"seconds": time.perf_counter() - start, "cpu": time.process_time()}
        print(json.dumps(spent | {"peak": _peak()} | found))
        return
    if chosen.device != "cpu":
        print(write_rows(chosen.rows, train_on_gpu(chosen)), "rows")
        return
    if chosen.folder is None:
        parser.error("--folder is needed for shards and graph")
    passed = {name: value for name, value in vars(chosen).items() if name not in ("step", "keep", "rows", "commit")}
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in passed.items()]
    found = {step: _in_child(step, arguments) for step in STEPS}
    if chosen.rows:
        print(write_rows(chosen.rows, rows(chosen, found)), "rows")
    if not chosen.keep:
        for name in ("shards", "graph"):
            shutil.rmtree(chosen.folder / name)


if __name__ == "__main__":
    main()
