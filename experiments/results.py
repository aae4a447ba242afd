"""`python -m experiments results`: the committed figures: add to them, recompute them, write them as one table."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from typing import Any

import typer

from experiments.artifacts import DIGITS, FOLDER, Artifact, agree, artifact_files
from experiments.context import PROGRAM, RESULTS, ResultsOption
from experiments.paper.paper import load_paper
from experiments.paper.table2 import add_records, all_records, rows_of_cell
from experiments.store import COLUMNS, Row, add_rows, csv_text, read_results
from staypositive.cli.console import Console, JsonFlag, QuietFlag
from staypositive.errors import InputError
from staypositive.files import write_atomic

app = typer.Typer(help="The committed figures: add, recompute, write as one table.", no_args_is_help=True)
PLACES = ("metric", "side", "filter", "ties", "calibration", "unseen")
COUNTED = {"kills", "fuzz", "soak"}
TIMED = {"bench", "bench-gpu", "bench-growth", "busy", "figure2", "service", "sharded", "table1", "theorems"}


@app.command("add")
def add(folder: Path, results: ResultsOption = RESULTS) -> None:
    """Add everything of another folder of results: figures, the grid's records, artifacts. Or a CSV of figures.

    What another machine measured with --results FOLDER gets here that way.
    """
    if folder.is_file():
        given = csv.DictReader(io.StringIO(folder.read_text("utf-8"), newline=""))
        print(f"{add_rows(results, given)} figures of {folder} added to {results}")
        return
    rows = read_results(folder)
    if not rows and not (folder / FOLDER).is_dir():
        raise InputError(f"{folder} holds no results")
    count = add_rows(results, rows)
    for kind in ("grid", "finals"):
        add_records(results, kind, all_records(folder, kind))
    files = artifact_files(folder)
    for path in files:
        (results / FOLDER).mkdir(parents=True, exist_ok=True)
        write_atomic(results / FOLDER / path.name, path.read_bytes())
    print(f"{count} figures and {len(files)} artifacts of {folder} added to {results}")


@app.command("collect")
def collect(results: ResultsOption = RESULTS, as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """Add the figures that every artifact gives."""
    console = Console(as_json, quiet)
    cells = {cell.slug: cell for cell in load_paper().cells()}
    rows: list[dict[str, Any]] = []
    files = artifact_files(results)
    with console.progress("artifacts", len(files)) as done:
        for path in files:
            slug = path.stem.partition("-")[2].rpartition("-")[0]
            artifact, file = Artifact.read(path), str(path.relative_to(results))
            of_paper = slug in cells and path.stem.startswith(("table2", "extended"))
            rows += rows_of_cell(cells[slug], [(file, artifact)]) if of_paper else artifact.rows(file)
            done(1)
    count = add_rows(results, rows)
    console.say(f"{count} figures of {len(files)} artifacts")
    console.result({"figures": count, "files": len(files)})


@app.command("pack")
def pack(results: ResultsOption = RESULTS, quiet: QuietFlag = False) -> None:
    """Drop bits of log-odds in artifacts that have all of them, while every figure stays as tables show it."""
    console = Console(False, quiet, warnings=False)
    files = artifact_files(results)
    before = sum(path.stat().st_size for path in files)
    with console.progress("artifacts", len(files)) as done:
        for path in files:
            artifact = Artifact.read(path)
            if artifact.kind != "ranking" and not artifact.dropped:
                artifact.packed_tightly().write(path)
            done(1)
    after = sum(path.stat().st_size for path in files)
    console.say(f"{len(files)} artifacts: {before:,} bytes before, {after:,} after")


@app.command("flat")
def flat(out: Path, results: ResultsOption = RESULTS) -> None:
    """Write all figures as one CSV, each with the columns of its run."""
    rows = read_results(results)
    write_atomic(out, csv_text(COLUMNS, rows))
    print(f"{len(rows)} rows written to {out}")


@app.command("check")
def check(results: ResultsOption = RESULTS, as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """Recompute every figure that has an artifact, and compare. Needs neither GPU nor data."""
    console = Console(as_json, quiet, warnings=False)
    rows = read_results(results)
    held: dict[str, list[Row]] = {}
    for row in rows:
        if row["file"]:
            held.setdefault(row["file"], []).append(row)
    wrong = []
    with console.progress("artifacts", len(held)) as done:
        for file, own in held.items():
            wrong += _differing(results / file, own)
            done(1)
    count = sum(map(len, held.values()))
    unknown = sorted({str(path.relative_to(results)) for path in artifact_files(results)} - set(held))
    if wrong:
        console.table("Not what the artifacts give", list(wrong[0]), [list(one.values()) for one in wrong[:50]])
    console.say(
        f"{count - len(wrong)} of {count} figures of {len(held)} artifacts recomputed and equal: ranks to six "
        f"significant digits, probabilities to {DIGITS} decimals at least"
    )
    others = Counter((row["experiment"], why_not(row)) for row in rows if not row["file"])
    lines = [[experiment, figures, why] for (experiment, why), figures in sorted(others.items())]
    title = f"{others.total()} of {len(rows)} figures cannot be recomputed from the repository"
    console.table(title, ["experiment", "figures", "why"], lines)
    for file in unknown:
        console.say(f"{file} has no figures in the results: {PROGRAM} results collect")
    console.result(
        {
            "figures": len(rows), "recomputed": count - len(wrong), "wrong": wrong, "not_in_results": unknown,
            "not_recomputed": [dict(zip(("experiment", "figures", "why"), line, strict=True)) for line in lines],
        }
    )  # fmt: skip
    if wrong or unknown or not count:
        raise typer.Exit(1)


def _differing(path: Path, rows: list[Row]) -> list[dict[str, Any]]:
    """Return the figures of an artifact that are not what it gives."""
    artifact = Artifact.read(path)
    digits = DIGITS if artifact.dropped else None
    fresh = {tuple(str(row.get(p, "")) for p in PLACES): row["value"] for row in artifact.rows()}
    found = []
    for row in rows:
        value = fresh.get(tuple(row[p] for p in PLACES))
        if value is None or not agree(float(row["value"]), value, digits):
            found.append({"file": row["file"], "metric": row["metric"], "shown": row["value"], "recomputed": value})
    return found


def why_not(row: Row) -> str:
    """Return why a figure without an artifact cannot be recomputed."""
    if row["experiment"] in COUNTED:
        return "counts what happened in one run of a program"
    if row["experiment"] in TIMED or row["unit"] not in ("", "rank") or row["metric"].endswith("seconds"):
        return "time, memory or traffic of one machine"
    return "needs the trained model, which is not kept"
