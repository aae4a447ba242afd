"""Turn the `.npz` files of `results/kept` into artifacts; goes when that is done."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np

from experiments.artifacts import Artifact
from experiments.paper.table2 import add_records
from experiments.store import write_results


def read_npz(path: Path) -> Artifact:
    """Read a file of the former format."""
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as held:
        arrays = {name: held[name] for name in held.files if name != "about"}
        about = json.loads(held["about"].tobytes())
    kept = {name: rows for name, rows in arrays.items() if not name.startswith("rivals_") or "scores" not in name}
    return Artifact(about, kept)


def convert_tables(results: Path) -> None:
    """Write the two tables of the one, and a file per round of the grid search."""
    rows = list(csv.DictReader(io.StringIO((results / "index.csv").read_text("utf-8"), newline="")))
    for row in rows:
        row["file"] = row["file"].replace("kept/", "artifacts/").replace(".npz", ".xz")
    write_results(results, rows)
    for kind in ("grid", "finals"):
        for path in sorted((results / kind).glob("*.csv")):
            experiment, _, cell = path.stem.partition("-")
            records = list(csv.DictReader(io.StringIO(path.read_text("utf-8"), newline="")))
            add_records(results, kind, [{"experiment": experiment, "cell": cell} | record for record in records])


if __name__ == "__main__":
    source, target, part, of = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    if part == 0:
        convert_tables(source.parent)
    for path in sorted(source.glob("*.npz"))[part::of]:
        out = target / f"{path.stem}.xz"
        if out.exists():
            continue
        tight = read_npz(path).packed_tightly()
        tight.write(out)
        print(path.name, path.stat().st_size, out.stat().st_size, dict(tight.dropped), flush=True)
