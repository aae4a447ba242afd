"""A service under load for minutes, with everything going wrong around it.

`staypositive serve` runs as a process of its own on loopback, from a copy of geo-demo. Clients ask good questions;
others send broken, oversized and endless requests, dawdle byte by byte, or leave early; a vandal replaces, damages
and deletes the folder that is served. Memory, open files, threads and latency are sampled. It fails if the service
ends, answers with a 5xx other than 503, or grows.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx
import numpy as np
import typer

import staypositive as sp
from experiments.context import ExperimentContext
from staypositive.run.folder import find_run

PATIENCE = 10.0
"""The service's own limit on a request, short so that many slow ones come to their end."""
MOST_GROWTH = 1.10
"""Memory at the end over memory when warm."""
ALLOWED = {200, 400, 404, 408, 413, 422, 503}
JSON = {"content-type": "application/json"}
POST = b"POST /api/%b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


@dataclass
class Tally:
    """What happened, gathered from all threads."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    samples: list[dict[str, float]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, kind: str, status: int | str, seconds: float | None = None) -> None:
        """Count one request, and its time if it was a good one."""
        with self.lock:
            self.statuses[f"{kind} {status}"] += 1
            if seconds is not None:
                self.seconds.append(seconds)
            if isinstance(status, int) and status not in ALLOWED:
                self.faults.append(f"{kind} was answered with {status}")


@dataclass
class Soak:
    """One service, its clients, and when it all ends."""

    address: str
    folder: Path
    run: sp.Run
    end: float
    tally: Tally

    @property
    def is_over(self) -> bool:
        """Whether clients should stop."""
        return time.monotonic() > self.end

    # -- clients ------------------------------------------------------------------------------------------------

    def ask_well(self, draw: random.Random) -> None:
        """Ask what users ask, over one connection that is kept."""
        graph = self.run.graph
        facts = graph.facts()
        with httpx.Client(base_url=self.address, timeout=30) as client:
            while not self.is_over:
                h, r, t = facts[draw.randrange(len(facts))].tolist()
                head, relation, tail = graph.entities[h], graph.relations[r], graph.entities[t]
                path, body = draw.choice(_questions(head, relation, tail))
                began = time.perf_counter()
                reply = client.get(path, params=body) if path in _GETS else client.post(path, json=body)
                self.tally.record("good", reply.status_code, time.perf_counter() - began)
                if reply.status_code not in (200, 503):
                    self.tally.faults.append(f"a good request was refused: {path} {body} {reply.text[:200]}")
                time.sleep(draw.uniform(0.0, 0.1))

    def ask_badly(self, draw: random.Random) -> None:
        """Send what cannot be answered, and more than may be sent."""
        bodies = (
            b"", b"{", b"[" * 50_000, b"\xff\xfe", b'{"head": 7}', b'{"head": "Nowhere", "relation": "borders"}',
            b'{"head": "\\ud800", "relation": "x"}', b"x" * (2**20 + 1), b'{"queries": [' + b"{}," * 5000,
        )  # fmt: skip
        with httpx.Client(base_url=self.address, timeout=30) as client:
            while not self.is_over:
                path = draw.choice(("/api/predict", "/api/predict/batch", "/api/score", "/api/discover"))
                try:
                    reply = client.post(path, content=draw.choice(bodies), headers=JSON)
                    self.tally.record("bad", reply.status_code)
                except httpx.TransportError as error:
                    self.tally.record("bad", type(error).__name__)
                time.sleep(draw.uniform(0.05, 0.3))

    def dawdle(self, draw: random.Random) -> None:
        """Send a head or a body a byte now and then, or never take the answer."""
        head = POST % (b"predict", 99)
        big = json.dumps({"queries": [{"head": "Germany", "relation": "borders"}] * 40, "top": 1000}).encode()
        while not self.is_over:
            kind = draw.choice(("slow head", "slow body", "slow reader", "silent"))
            with contextlib.suppress(OSError), self._connected() as held:
                if kind == "slow reader":
                    held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    held.sendall(POST % (b"predict/batch", len(big)) + big)
                    time.sleep(min(20.0, max(0.0, self.end - time.monotonic())))
                elif kind != "silent":
                    held.sendall(head[:20] if kind == "slow head" else head)
                    for _ in range(10):
                        held.sendall(b"a")
                        time.sleep(1)
                self.tally.record(kind, _status(held))
                continue
            self.tally.record(kind, "closed")

    def leave(self, draw: random.Random) -> None:
        """Go away in the middle."""
        body = b'{"head": "Germany", "relation": "borders"}'
        while not self.is_over:
            whole = POST % (b"predict", len(body)) + body
            with contextlib.suppress(OSError), self._connected() as held:
                held.sendall(whole[: draw.randrange(1, len(whole) + 1)])
            self.tally.record("left", "early")
            time.sleep(draw.uniform(0.02, 0.2))

    def vandalise(self, draw: random.Random) -> None:
        """Replace, damage, delete and restore the folder that is served."""
        for way in itertools.cycle(("replace", "damage", "delete", "restore")):
            if self.is_over:
                return
            if way in ("replace", "restore"):
                shutil.rmtree(self.folder, ignore_errors=True)
                self.run.save(self.folder, precision="float16" if way == "replace" else "float32")
            elif way == "damage":
                for path in self.folder.iterdir():
                    path.write_bytes(b"\0" * draw.randrange(100))
            else:
                shutil.rmtree(self.folder)
            self.tally.record("folder", way)
            time.sleep(draw.uniform(1.0, 3.0))

    def _connected(self) -> socket.socket:
        host, _, port = self.address.removeprefix("http://").strip("/").partition(":")
        return socket.create_connection((host, int(port)), timeout=60)

    # -- the service --------------------------------------------------------------------------------------------

    def watch(self, process: subprocess.Popen[str], every: float) -> None:
        """Sample the process until the end, or until it is gone."""
        began = time.monotonic()
        while not self.is_over:
            if process.poll() is not None:
                self.tally.faults.append(f"the service ended with {process.returncode}")
                self.end = 0.0
                return
            self.tally.samples.append({"at": time.monotonic() - began, **_sample(process.pid)})
            time.sleep(every)


_GETS = {
    "/api/entities",
    "/api/similar",
    "/api/facts",
    "/api/neighbourhood",
    "/api/relations",
    "/api/run",
    "/metrics",
}


def _questions(head: str, relation: str, tail: str) -> list[tuple[str, dict[str, Any]]]:
    asked = {"head": head, "relation": relation}
    whole = asked | {"tail": tail}
    return [
        ("/api/predict", asked | {"top": 10}),
        ("/api/predict", {"relation": relation, "tail": tail, "exclude_known": True}),
        ("/api/predict", asked | {"coverages": True}), ("/api/predict/batch", {"queries": [asked] * 5, "top": 20}),
        ("/api/score", {"triples": [whole] * 3}), ("/api/prediction-set", asked | {"coverage": 0.8, "top": 50}),
        ("/api/explain", whole), ("/api/entities", {"search": head[:3]}), ("/api/similar", {"entity": head}),
        ("/api/facts", {"entity": tail}), ("/api/neighbourhood", {"entity": tail}), ("/api/relations", {}),
        ("/api/run", {}), ("/metrics", {}),
    ]  # fmt: skip


def _status(held: socket.socket) -> int | str:
    """Return the status that came, or that the connection was closed without one."""
    try:
        found = re.match(rb"HTTP/1\.1 (\d+)", held.recv(65536))
    except OSError:
        return "closed"
    return int(found[1]) if found else "closed"


def _sample(pid: int) -> dict[str, float]:
    said = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines() if ":" in line
    )
    return {
        "rss_mb": int(said["VmRSS"].split()[0]) / 1024,
        "threads": int(said["Threads"]),
        "files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
    }


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the service as a user would; give the process and its address."""
    command = [sys.executable, "-m", "staypositive", "serve", str(folder), "--port", "0", "--timeout", str(PATIENCE)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8")
        try:
            assert process.stdout is not None
            address = next(line.split()[1] for line in process.stdout if line.startswith("explore"))
            while httpx.get(f"{address}ready").status_code != 200:
                time.sleep(0.1)
            yield process, address.rstrip("/")
        finally:
            process.terminate()
            process.wait(20)
            errors.seek(0)
            print(f"what the service logged: {errors.read()[-2000:] or 'nothing'}", file=sys.stderr)


def run_soak(minutes: float, clients: int, seed: int, folder: Path) -> Tally:
    """Run it all and return what happened, faults included."""
    shutil.copytree(find_run("geo-demo"), folder)
    run, tally = sp.load_run(folder), Tally()
    with served(folder) as (process, address):
        held = Soak(address, folder, run, time.monotonic() + 60 * minutes, tally)
        kinds: list[Callable[[random.Random], None]] = [
            *[held.ask_well] * clients, held.ask_badly, *[held.dawdle] * (2 * clients), held.leave, held.vandalise,
        ]  # fmt: skip
        threads = [
            threading.Thread(target=_reporting, args=(kind, tally, random.Random(f"{seed}/{number}")))
            for number, kind in enumerate(kinds)
        ]
        for thread in threads:
            thread.start()
        held.watch(process, max(0.5, 0.5 * minutes))
        for thread in threads:
            thread.join(60)
        if process.poll() is None:
            _look_back(process, address, tally)
    return tally


def _reporting(kind: Callable[[random.Random], None], tally: Tally, draw: random.Random) -> None:
    try:
        kind(draw)
    except Exception as error:  # a client that cannot go on is what this looks for
        tally.faults.append(f"{kind.__name__}: {type(error).__name__}: {error}")


def _look_back(process: subprocess.Popen[str], address: str, tally: Tally) -> None:
    """Compare the service with itself when it was warm, once the connections have had time to end."""
    time.sleep(2)
    if httpx.get(f"{address}/health").status_code != 200:
        tally.faults.append("the service does not answer any more")
    warm = tally.samples[len(tally.samples) // 4 : len(tally.samples) // 2] or tally.samples
    late = tally.samples[-(len(tally.samples) // 4) :] or tally.samples
    before, after = (statistics.median(sample["rss_mb"] for sample in part) for part in (warm, late))
    if after > MOST_GROWTH * before:
        tally.faults.append(f"memory grew from {before:.0f} to {after:.0f} MB")
    for what in ("threads", "files"):
        most = max(sample[what] for sample in warm)
        if statistics.median(sample[what] for sample in late) > 1.2 * most + 5:
            tally.faults.append(f"{what} grew from {most:.0f} to {late[-1][what]:.0f}")


def figures(tally: Tally) -> dict[str, tuple[float, str]]:
    """Return what was measured, with units."""
    first, last = tally.samples[0], tally.samples[-1]
    p50, p99 = np.percentile(np.array(tally.seconds) * 1000, [50, 99]).tolist()
    good = sum(count for kind, count in tally.statuses.items() if kind.startswith("good"))
    server_errors = sum(n for kind, n in tally.statuses.items() if re.search(r" 5\d\d$", kind) and " 503" not in kind)
    return {
        "rss_first_mb": (first["rss_mb"], "MB"), "rss_last_mb": (last["rss_mb"], "MB"),
        "rss_most_mb": (max(sample["rss_mb"] for sample in tally.samples), "MB"),
        "files_first": (first["files"], ""), "files_last": (last["files"], ""),
        "files_most": (max(sample["files"] for sample in tally.samples), ""), "threads_last": (last["threads"], ""),
        "p50_ms": (p50, "ms"), "p99_ms": (p99, "ms"), "requests": (sum(tally.statuses.values()), ""),
        "good_requests": (good, ""), "server_errors": (server_errors, ""), "faults": (len(tally.faults), ""),
    }  # fmt: skip


def soak(
    minutes: float = 8.0,
    clients: Annotated[int, typer.Option(help="Clients with good questions; twice as many dawdle.")] = 4,
    seed: int = 0,
    results: Annotated[Path | None, typer.Option(help="Folder of results to add figures to.")] = None,
) -> None:
    """Put a service under load for minutes, with everything going wrong around it, and say how it went."""
    with tempfile.TemporaryDirectory() as place:
        tally = run_soak(minutes, clients, seed, Path(place) / "run")
    for kind, count in sorted(tally.statuses.items()):
        print(f"{count:>9,}  {kind}")
    found = figures(tally)
    tenths = np.array_split([sample["rss_mb"] for sample in tally.samples], 10)
    print("memory by tenths of the time, MB:", *(f"{np.median(part):.0f}" for part in tenths if len(part)))
    print(json.dumps({name: round(value, 2) for name, (value, _) in found.items()}, indent=1))
    if results is not None:
        context = ExperimentContext.start("soak", results)
        setting = f"{minutes:g} minutes, {clients} clients, faults"
        common = context.columns(dataset="geo", model="complex", dim=64, seed=seed, setting=setting)
        context.add(common | {"metric": name, "value": v, "unit": unit} for name, (v, unit) in found.items())
    if tally.faults:
        sys.exit("\n".join(f"FAULT {fault}" for fault in tally.faults[:20]))
    print("no crash, no 5xx but 503, no growth")
