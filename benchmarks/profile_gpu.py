"""Where a GPU epoch goes: time by kernel, for the cases of `benchmarks/gpu.py`. Needs a CUDA device and torch alone.

python benchmarks/profile_gpu.py --arrays FB15k-237AM.npz [--large 1e7]
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import torch
from gpu import workload
from torch.profiler import ProfilerActivity, profile

from staypositive.experiments import bench
from staypositive.objectives import StayPositive


def show(case: str, work: bench.Workload, model: str, batch: int, **options: object) -> None:
    """Print the kernels of one epoch after two that warm up."""
    device = torch.device("cuda")
    engine = bench.new_engine(work, model, StayPositive(), "fused", 200, batch, device, **options)
    engine.run_epoch(), engine.run_epoch()
    seconds = bench.time_calls(engine.run_epoch, device, 3)
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        engine.run_epoch()
        torch.cuda.synchronize()
    times, counts = Counter(), Counter()
    for event in trace.events():
        times[event.name] += event.device_time
        counts[event.name] += 1
    print(f"{case}: epoch {1e3 * seconds:.2f} ms, {len(work.facts) / seconds / 1e6:.0f} M facts/s", flush=True)
    for name, spent in times.most_common(8):
        print(f"  {spent / 1e3:9.3f} ms {counts[name]:6d} × {name[:90]}")


def main() -> None:
    """Profile small and large graphs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrays", type=Path)
    parser.add_argument("--large", type=float, default=1e7)
    chosen = parser.parse_args()
    work = workload(chosen.arrays)
    for model in ("distmult", "simple", "complex"):
        for batch in (1415, 65536):
            show(f"{work.name} {model} {batch}", work, model, batch)
    large = bench.Workload.synthetic(int(chosen.large), 4_000_000, power=1.0)
    show(f"{large.name} distmult 65536", large, "distmult", 65536)


if __name__ == "__main__":
    main()
