"""How fast the service answers under many clients, and `predict` a file of queries.

The server is `staypositive serve` in a process of its own, on loopback; clients share the machine with it. Each
client holds one connection and asks (h, r, ?) of a test fact, ten answers, again and again. FB15k-237AM is trained
for a few epochs first: any weights take the same time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import staypositive as sp
from experiments.context import RESULTS, ExperimentContext, ResultsOption

QUERIES = 10_000


@contextmanager
def served(run: Path | str) -> Iterator[int]:
    """Serve a run on a free port, ready to be asked."""
    command = [sys.executable, "-m", "staypositive", "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as server:
        try:
            assert server.stdout is not None
            found = next(match for line in server.stdout if (match := re.search(r"http://127\.0\.0\.1:(\d+)/", line)))
            yield int(found[1])
        finally:
            server.terminate()


async def request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str, body: bytes
) -> int:
    """Send one request over a held connection, read its whole answer, return the status."""
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", answer)
    assert length is not None
    await reader.readexactly(int(length[1]))
    return int(answer.split()[1])


async def client(port: int, bodies: list[bytes], times: list[float]) -> None:
    """Ask one question after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for body in bodies:
        began = time.perf_counter()
        status = await request(reader, writer, "POST", "/api/predict", body)
        times.append(time.perf_counter() - began)
        assert status == 200, status
    writer.close()


async def load(port: int, questions: list[bytes], clients: int, requests: int) -> tuple[list[float], float]:
    """Return every request's seconds, and the seconds of the whole round."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while await request(reader, writer, "GET", "/ready", b"") != 200:
        await asyncio.sleep(0.1)
    writer.close()
    times: list[float] = []
    draw = np.random.default_rng(0)
    chosen = [[questions[i] for i in draw.integers(len(questions), size=requests)] for _ in range(clients)]
    await asyncio.gather(*(client(port, bodies[:5], []) for bodies in chosen))
    began = time.perf_counter()
    await asyncio.gather(*(client(port, bodies, times) for bodies in chosen))
    return times, time.perf_counter() - began


def under_load(run: sp.Run, folder: Path | str, clients: int, requests: int, rounds: int) -> dict[str, float]:
    """Return latencies and the rate: the median round's."""
    graph = run.graph
    questions = [
        json.dumps({"head": graph.entities[h], "relation": graph.relations[r], "top": 10}).encode()
        for h, r, _ in graph.test.facts.tolist()
    ]
    found: dict[str, list[float]] = {}
    with served(folder) as port:
        for _ in range(rounds):
            times, seconds = asyncio.run(load(port, questions, clients, requests))
            for name, share in (("latency_p50", 0.5), ("latency_p95", 0.95), ("latency_p99", 0.99)):
                found.setdefault(name, []).append(1e3 * float(np.quantile(times, share)))
            found.setdefault("requests_per_second", []).append(len(times) / seconds)
    return {name: statistics.median(values) for name, values in found.items()}


def by_file(run: sp.Run, folder: Path | str, rounds: int) -> dict[str, float]:
    """Return the rate of `staypositive predict --queries` in one thread, loading and writing included."""
    graph, draw = run.graph, np.random.default_rng(0)
    facts = graph.facts()[draw.integers(len(graph.facts()), size=QUERIES)]
    lines = []
    for number, (h, r, t) in enumerate(facts.tolist()):
        head, tail = (graph.entities[h], "?") if number % 2 else ("?", graph.entities[t])
        lines.append(f"{head}\t{graph.relations[r]}\t{tail}\n")
    seconds = []
    with tempfile.TemporaryDirectory() as place:
        asked, answers = Path(place) / "queries.tsv", Path(place) / "answers.tsv"
        asked.write_text("".join(lines), "utf-8")
        command = [sys.executable, "-m", "staypositive", "predict", str(folder), "--queries", str(asked)]
        for _ in range(rounds):
            began = time.perf_counter()
            subprocess.run(
                [*command, "--out", str(answers), "--quiet"], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
            )
            seconds.append(time.perf_counter() - began)
        assert len(answers.read_text("utf-8").splitlines()) == 10 * QUERIES + 1
    return {"file_queries_per_second": QUERIES / statistics.median(seconds)}


def quick_run(name: str, folder: Path) -> sp.Run:
    """Train a dataset for a few epochs; how good the weights are does not matter here."""
    run = sp.fit(
        sp.load_graph(name), model="complex", dim=100, epochs=3, validate_every=3, batch_size=1415, threads=1
    )
    run.calibrate("posterior")
    run.save(folder)
    return run


def service(
    clients: int = 64,
    requests: Annotated[int, typer.Option(help="Of each client, in each round.")] = 50,
    rounds: int = 3,
    results: ResultsOption = RESULTS,
) -> None:
    """Measure how fast the service answers under many clients, and `predict` a file of queries."""
    context = ExperimentContext.start("service", results)
    units = {"file_queries_per_second": "1/s", "requests_per_second": "1/s"}
    with tempfile.TemporaryDirectory() as place:
        runs: dict[Path | str, sp.Run] = {"geo-demo": sp.load_run("geo-demo")}
        runs[Path(place) / "FB15k-237AM"] = quick_run("FB15k-237AM", Path(place) / "FB15k-237AM")
        gc.collect()
        gc.freeze()  # pauses of the clients are not the server's
        for folder, run in runs.items():
            figures = {
                f"{count} client{'s' * (count > 1)}": under_load(run, folder, count, requests, rounds)
                for count in (1, clients)
            }
            figures[f"{QUERIES:,} queries by file, one thread"] = by_file(run, folder, rounds)
            common = context.columns(
                run.graph, model=run.settings.model, objective=run.settings.objective.name, dim=run.settings.dim,
                calibration="posterior", seed=run.settings.seed,
            )  # fmt: skip
            context.add(
                common | {"setting": setting, "metric": metric, "value": value, "unit": units.get(metric, "ms")}
                for setting, found in figures.items()
                for metric, value in found.items()
            )
            for setting, found in figures.items():
                print(run.graph.name, setting, {name: round(value, 2) for name, value in found.items()}, flush=True)
