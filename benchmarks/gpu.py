"""The GPU's figures: fused and reference engines, growth with |E|, ranking. Needs a CUDA device and torch alone.

    python benchmarks/gpu.py --arrays FB15k-237AM.npz --out figures.json

`--arrays` is a file of int arrays train, valid and test (n, 3) and n = [entities, relations]; without it the named
dataset is loaded.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from staypositive.experiments import bench
from staypositive.graph import load_graph
from staypositive.objectives import NegativeSampling, OneVsAll


def workload(arrays: Path | None) -> bench.Workload:
    """Load FB15k-237AM from arrays, or by name."""
    if arrays is None:
        return bench.Workload.of_graph(load_graph("FB15k-237AM"))
    data = np.load(arrays)
    splits = [data[name].astype(np.int64) for name in ("train", "valid", "test")]
    return bench.Workload("FB15k-237AM", splits[0], *map(int, data["n"]), splits[2], np.concatenate(splits))


def main() -> None:
    """Run every case, and write figures as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrays", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--large", type=float, default=1e7, help="entities of the largest synthetic graph")
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    device = torch.device("cuda")
    bandwidth = bench.copy_bandwidth(device, 4096)
    figures: list[bench.Figure] = [{"device": torch.cuda.get_device_name(), "bandwidth": bandwidth}]
    print(figures[0], flush=True)

    def keep(figure: bench.Figure) -> None:
        figures.append(figure)
        chosen.out.write_text(json.dumps(figures, indent=1), "utf-8")
        print({k: round(v, 5) if isinstance(v, float) else v for k, v in figure.items()}, flush=True)

    fb = workload(chosen.arrays)
    for batch in (65536, 1415):
        for model in ("distmult", "simple", "complex"):
            keep(bench.bench_engine(fb, model, "fused", 200, batch, device, bandwidth, repeats=chosen.repeats))
        keep(bench.bench_engine(fb, "distmult", "fused", 200, batch, device, bandwidth, dropout=0.4))
        keep(bench.bench_engine(fb, "distmult", "reference", 200, batch, device, bandwidth))
    draws = NegativeSampling(negatives=10)
    for engine in ("fused", "reference"):
        keep(bench.bench_engine(fb, "distmult", engine, 200, 1415, device, bandwidth, objective=draws))
    for engine in ("auto", "reference"):
        keep(bench.bench_engine(fb, "complex", engine, 200, 1415, device, bandwidth, objective=OneVsAll()))
    keep(bench.bench_eager(fb, "distmult", 200, 1415, device, 3))
    keep(bench.bench_ranking(fb, "distmult", 200, device, 3))
    sizes = [size for size in (1e5, 1e6, 1e7) if size <= chosen.large]
    for size in sizes:
        graph = bench.Workload.synthetic(int(size), 4_000_000, power=1.0)
        for batch in (65536, 1415 * 8):
            keep(bench.bench_engine(graph, "distmult", "fused", 200, batch, device, bandwidth))
    for lighter in ({"optimiser": "adagrad-rowwise"}, {"precision": "bfloat16"},
                    {"optimiser": "adagrad-rowwise", "precision": "bfloat16"}):  # fmt: skip
        keep(bench.bench_engine(graph, "distmult", "fused", 200, 65536, device, bandwidth, **lighter))
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
