"""Target `configs`: settings as JSON, as keywords, as TOML spaces, and the command line's arguments."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer

import staypositive as sp
from fuzzing.cases import Target, named_refusal
from fuzzing.drawing import HOSTILE, anything, mutated_bytes, mutated_json, scalar, text
from fuzzing.runs import small_graph
from staypositive.cli import app, main
from staypositive.errors import SettingError, StayPositiveError
from staypositive.objectives import OBJECTIVES, objective_options
from staypositive.run import Settings, make_settings
from staypositive.run.fitting import blank_model
from staypositive.tuning.space import read_space

TOML = b"""[settings]
model = "complex"
objective = "second-moment"
epochs = 5
seed = 3

[space]
dim = [8, 16]
learning_rate = { low = 0.01, high = 1.0, log = true }
n3 = { low = 0, high = 1 }
"""
VERBS = (
    ["predict", "RUN", "--head", "p0", "--relation", "left", "--top", "3"], ["predict", "RUN", "--similar", "p1"],
    ["predict", "RUN", "--queries", "FILE"], ["predict", "RUN", "-r", "left", "-t", "p2", "--candidates", "range"],
    ["evaluate", "RUN", "--split", "valid", "--json"], ["stats", "RUN", "--samples", "5", "--seed", "1"],
    ["discover", "RUN", "--relations", "left", "--top", "2"], ["explain", "RUN", "-h", "p0", "-r", "left",
    "-t", "p1"],
    ["datasets", "show", "FILE", "--no-header"], ["datasets", "list"], ["datasets", "clean", "FILE", "--out", "OUT"],
    ["export", "RUN", "--what", "graph", "--out", "OUT"], ["extend", "RUN", "FILE", "--out", "OUT"],
    ["train", "FILE", "--epochs", "1", "--dim", "2", "--out", "OUT", "--force"], ["--version"], ["calibrate", "RUN"],
    ["export", "RUN", "--what", "embeddings", "--format", "word2vec", "--out", "OUT"],
)  # fmt: skip
LONG = {"--samples", "--epochs", "--dim", "--points", "--slices", "--page", "--batch-size"}
"""Options whose value is how much work is done: a large one is no fault, but takes its time."""


class Configs(Target):
    """One setting, file or command a case."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.graph = folder, small_graph()
        run = sp.fit(self.graph, model="distmult", dim=2, epochs=1, batch_size=8, engine="reference")
        run.calibrate()
        self.run = run.save(folder / "RUN")
        self.stated = run.settings.as_dict()
        self.command = typer.main.get_command(app)
        core = list(Settings.__dataclass_fields__)
        self.names = [*core, *(option for name in OBJECTIVES for option in objective_options(name))]

    def case(self, draw: random.Random) -> str:
        ways = (*(self.from_dict, self.from_keywords, self.from_toml) * 3, self.from_shell)
        return draw.choice(ways)(draw)

    def from_dict(self, draw: random.Random) -> str:
        data = mutated_json(draw, self.stated) if draw.random() < 0.9 else anything(draw)
        return self._settings(lambda: Settings.from_dict(data))

    def from_keywords(self, draw: random.Random) -> str:
        chosen = {draw.choice(self.names): scalar(draw) for _ in range(draw.randrange(1, 4))}
        if draw.random() < 0.3:
            chosen["objective"] = draw.choice([*OBJECTIVES, text(draw)])
        if draw.random() < 0.1:
            chosen[text(draw)] = scalar(draw)
        return self._settings(lambda: make_settings(**chosen))

    def from_toml(self, draw: random.Random) -> str:
        path = self.folder / "space.toml"
        if draw.random() < 0.5:
            path.write_bytes(mutated_bytes(draw, TOML, TOML))
        else:
            lines = [f"{draw.choice((*self.names, text(draw)))} = {json.dumps(scalar(draw))}" for _ in range(3)]
            data = "\n".join([draw.choice(("[settings]", "[space]", "")), *lines])
            path.write_bytes(data.encode("utf-8", "surrogatepass"))
        try:
            space = read_space(path)
        except StayPositiveError as error:
            return named_refusal(error, "space.toml")
        try:
            space.checked()
        except SettingError:
            return "checked: SettingError"
        return "space"

    def from_shell(self, draw: random.Random) -> str:
        (self.folder / "FILE").write_bytes(mutated_bytes(draw, b"p0\tleft\tp1\np1\tleft\tp2\n?\tleft\tp0\n"))
        words = list(draw.choice(VERBS))
        for _ in range(draw.choice((0, 1, 1, 2))):
            self._mutate(draw, words)
        places = {name: str(self.folder / name) for name in ("RUN", "FILE", "OUT")}
        words = [places.get(word, word) for word in words]
        said, exits = io.StringIO(), 0
        with (
            contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), _inside(self.folder),
            patch("sys.argv", ["staypositive", *words]), patch("staypositive.cli.app", self._call),
        ):  # fmt: skip
            try:
                main()
            except SystemExit as done:
                exits = done.code if isinstance(done.code, int) else 1
        assert exits in (0, 1, 2), exits
        assert "Traceback" not in said.getvalue(), said.getvalue()
        return f"command: {exits}"

    def _call(self) -> None:
        """Stand in for the app, which would build its commands again each time."""
        self.command.main(sys.argv[1:], "staypositive")

    def _mutate(self, draw: random.Random, words: list[str]) -> None:
        at = draw.randrange(1, len(words)) if len(words) > 1 else len(words) - 1
        if at < 0:
            words.append(_word(draw))
            return
        way = draw.randrange(5)
        long = at > 0 and words[at - 1] in LONG
        if way == 0:
            del words[at]
        elif way == 1 and not long:
            words[at] = _word(draw)
        elif way == 2 and not long:
            words.insert(at, _word(draw))
        elif way == 3:
            words.append(_word(draw))
        elif not long:
            words[at] = words[at] + _word(draw)

    def _settings(self, make: Any) -> str:
        try:
            settings = make()
        except SettingError:
            return "settings: refused"
        assert Settings.from_dict(json.loads(json.dumps(settings.as_dict(), allow_nan=False))) == settings
        try:
            blank_model(self.graph, settings)
        except SettingError:
            return "model: refused"
        return "settings"


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Be in a folder for a while: commands write to where they are."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _word(draw: random.Random) -> str:
    flags = (
        "--json",
        "--quiet",
        "-v",
        "--top",
        "--completeness",
        "--coverage",
        "--head",
        "--split",
        "--seed",
        "--threshold",
        "--dropout",
    )
    word = draw.choice((draw.choice(HOSTILE), text(draw), str(scalar(draw))[:50], draw.choice(flags), "geo-demo"))
    return word.replace("\0", "")  # which no argument can hold
