"""Put the figures that `benchmarks/gpu.py` wrote into the index of results.

python benchmarks/record_gpu.py figures.json --commit HASH
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from staypositive.experiments import write_rows
from staypositive.experiments.bench import rows_of_figures

INDEX = Path(__file__).resolve().parents[1] / "results" / "index.csv"


def main() -> None:
    """Read, convert, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path)
    parser.add_argument("--commit", required=True, help="the code that ran")
    parser.add_argument("--index", type=Path, default=INDEX)
    chosen = parser.parse_args()
    about, *figures = json.loads(chosen.figures.read_text("utf-8"))
    command = "python benchmarks/gpu.py --out figures.json"
    rows = rows_of_figures(figures, about["device"], command, experiment="bench-gpu", commit=chosen.commit)
    print(write_rows(chosen.index, rows), "rows")


if __name__ == "__main__":
    main()
