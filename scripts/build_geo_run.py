"""Build the run that the package holds, `geo-demo`: the embedded graph, learnt by second moments in a minute.

    python scripts/build_geo_run.py [--out FOLDER]

One thread and one seed, so that the same machine and versions give the same bytes again but for times and provenance.
Weights are rounded to 16 bits before calibration, so that what is measured is what is kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import staypositive as sp

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "src" / "staypositive" / "run" / "packaged" / "geo-demo"
MOST_BYTES = 3_000_000
SETTINGS = {"dim": 64, "seed": 0, "threads": 1, "device": "cpu"}  # beside the default preset


def build(folder: Path) -> sp.Run:
    """Train, round, calibrate, measure and save."""
    run = sp.fit(sp.load_graph("geo"), **SETTINGS)  # type: ignore[arg-type]
    with torch.no_grad():
        for weights in run.model.parameters():
            weights.copy_(weights.half())
    run.calibrate("none")  # probabilities from facts alone: nothing in this run has seen a falsehood
    run.evaluate("test")
    run.save(folder, precision="float16")
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > MOST_BYTES:
        raise SystemExit(f"the run has {size:,} bytes; the package takes {MOST_BYTES:,} at most")
    mrr = run.metrics["test"]["ranking"]["filtered"]["realistic"]["both"]["mrr"]
    print(f"{folder.name}: {size:,} bytes, test MRR {mrr:.3f}")
    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FOLDER)
    build(parser.parse_args().out)
