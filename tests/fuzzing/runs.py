"""Target `runs`: run folders with parts mutated, hashes put right again so that what lies behind them is reached."""

from __future__ import annotations

import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np

import staypositive as sp
from fuzzing.cases import Target, named_refusal
from fuzzing.drawing import NUMBERS, anything, as_json, mutated_bytes, mutated_json
from graphs import encode
from staypositive.errors import StayPositiveError
from staypositive.files import sha256_bytes, to_json

KINDS = (
    ("distmult", "platt"), ("complex", "posterior"), ("tucker", "isotonic"), ("transe", "temperature"),
    ("ntn", "beta"), ("rescal", "null-logistic"), ("simple", "none"), ("hole", "platt"),
)  # fmt: skip


def small_graph() -> sp.KnowledgeGraph:
    """Eight people in a ring, each with a neighbour on either side; labelled falsehoods in valid and test."""
    people = [f"p{i}" for i in range(8)]
    facts = [(people[i], ("left", "right")[step > 0], people[(i + step) % 8]) for i in range(8) for step in (1, -1)]
    false = [(head, relation, head) for head, relation, _ in facts]
    held = tuple(zip(*(facts + false), strict=True))
    signs = np.repeat([1, -1], len(facts)).astype(np.int8)
    parts = {"train": tuple(zip(*facts, strict=True)), "valid": held, "test": held}
    return encode("ring", parts, {"valid": signs, "test": signs})


def larger_graph() -> sp.KnowledgeGraph:
    """Forty people, each near three on either side: with so many validation facts that probabilities are fitted."""
    facts = [
        (f"p{i}", ("left", "right")[step > 0], f"p{(i + step) % 40}") for i in range(40) for step in range(-3, 4)
    ]
    facts = [facts[i] for i in np.random.default_rng(0).permutation(len(facts)) if facts[i][0] != facts[i][2]]
    splits = {"train": facts[60:], "valid": facts[:60], "test": facts[60:70]}
    return encode("larger", {name: tuple(zip(*own, strict=True)) for name, own in splits.items()}, {})


class Runs(Target):
    """Small runs of several models and calibrators; each case changes a part or two of one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, graph = folder, small_graph()
        self.bases: list[tuple[Path, dict[str, Any], dict[str, bytes]]] = []
        for model, calibrator in (*KINDS, ("distmult", "unknown")):
            if calibrator == "unknown":  # probabilities of unknown triples alone
                graph, calibrator = larger_graph(), "auto"
            run = sp.fit(graph, model=model, dim=2, epochs=2, validate_every=1, batch_size=8, engine="reference")
            if calibrator != "none":
                run.calibrate(calibrator)
            run.evaluate("test")
            place = run.save(folder / f"{model}-{calibrator}")
            manifest = json.loads((place / "run.json").read_text("utf-8"))
            contents = {role: (place / entry["file"]).read_bytes() for role, entry in manifest["files"].items()}
            self.bases.append((place, manifest, contents))

    def case(self, draw: random.Random) -> str:
        self.folder, manifest, contents = draw.choice(self.bases)
        forge(draw, self.folder, "run.json", manifest, contents)
        return self._checked(draw)

    def _checked(self, draw: random.Random) -> str:
        try:
            run = sp.load_run(self.folder)
        except StayPositiveError as error:
            return named_refusal(error, str(self.folder))
        repr(run).encode("utf-8")
        query = sp.Query(run.graph.entities[0], run.graph.relations[0], None)
        try:
            found = run.predictor.find([query], top=3)
            log_odds = run.predictor.labelled_log_odds(found.rows[:, 2:])
            if draw.random() < 0.02:
                run.evaluate("test")
                run.prediction_set(query.head, query.relation, coverage=0.5)
                run.similar(query.head, 2)
        except StayPositiveError as error:
            return f"asked: {type(error).__name__}"
        assert np.isfinite(found.scores).all()
        assert np.isfinite(log_odds).all()
        assert run.posterior is None or np.isfinite(found.log_odds).all()
        if draw.random() < 0.02:
            again = run.save(self.folder.with_name("again"))
            assert sp.load_run(again).graph.fingerprint == run.graph.fingerprint
        return "loaded"


def forge(draw: random.Random, folder: Path, name: str, manifest: dict[str, Any], contents: dict[str, bytes]) -> None:
    """Change a part or two of a hashed folder, and at times its manifest; hashes are right more often than not."""
    manifest = json.loads(json.dumps(manifest))
    for role in draw.sample(sorted(contents), draw.choice((0, 1, 1, 1, 2))):
        data = mutated_part(draw, role, contents[role])
        file = f"{role.split('.')[0]}.mutated"
        (folder / file).write_bytes(data)
        manifest["files"][role] = {"file": file, "sha256": sha256_bytes(data), "bytes": len(data)}
    if draw.random() < 0.2:
        manifest = mutated_json(draw, manifest)
    write_manifest(draw, folder / name, manifest)


def mutated_part(draw: random.Random, name: str, data: bytes) -> bytes:
    """A file of tensors or of JSON, mutated as such."""
    if "safetensors" in name:
        return mutated_tensors(draw, data)
    return as_json(draw, mutated_json(draw, json.loads(data)) if draw.random() < 0.95 else anything(draw))


def write_manifest(draw: random.Random, path: Path, manifest: Any) -> str:
    """Write a manifest, nearly always with the hash that it should state; return that hash."""
    digest = "0"
    if isinstance(manifest, dict) and draw.random() < 0.95:
        manifest.pop("sha256", None)
        try:
            digest = sha256_bytes(to_json(manifest))
        except ValueError:
            digest = "0"
        manifest["sha256"] = digest
    written = json.dumps(manifest).encode("utf-8", "surrogatepass")
    damaged = draw.random() < 0.1
    path.write_bytes(as_json(draw, manifest) if damaged else written)
    return digest


def mutated_tensors(draw: random.Random, data: bytes) -> bytes:
    """A safetensors file with another header, or with other numbers, or with some of its bytes changed."""
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    way = draw.randrange(6)
    if way == 0:
        return mutated_bytes(draw, data, data)
    if way == 1:
        body = mutated_bytes(draw, body, body)
    elif way == 2:
        name = draw.choice(list(header))
        header[name] = {**header[name], "shape": [draw.choice(NUMBERS[:20]) for _ in range(draw.randrange(4))]}
    elif way == 3:  # numbers of another kind, as many as fit
        name = draw.choice(list(header))
        kind, width = draw.choice(
            (("F64", 8), ("F16", 2), ("BF16", 2), ("I64", 8), ("BOOL", 1), ("U8", 1), ("F8_E4M3", 1))
        )
        count = math.prod(header[name]["shape"])
        header = {name: {"dtype": kind, "shape": header[name]["shape"], "data_offsets": [0, count * width]}}
        body = draw.randbytes(count * width)
    elif way == 4 and len(body) >= 4:
        at = draw.randrange(len(body) // 4) * 4
        body = body[:at] + struct.pack("<f", draw.choice((math.nan, math.inf, -1.0, 3e38, 1e-45))) + body[at + 4 :]
    else:
        header = mutated_json(draw, header)
    written = json.dumps(header).encode("utf-8", "surrogatepass")
    stated = draw.choice((2**63, 2**40, 0, 7)) if draw.random() < 0.03 else len(written)
    return struct.pack("<Q", stated) + written + body
