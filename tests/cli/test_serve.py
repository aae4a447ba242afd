"""`staypositive serve` as a user starts it."""

from __future__ import annotations

import builtins
import json
import re
import subprocess
import sys
import urllib.request
from typing import Any

import pytest
from typer.testing import CliRunner

from staypositive.cli import app
from staypositive.errors import InputError


def test_it_serves_until_it_is_stopped() -> None:
    pytest.importorskip("fastapi")
    command = [sys.executable, "-m", "staypositive", "serve", "geo-demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as server:
        try:
            address = next(found[1] for line in server.stdout if (found := re.search(r"explore\s+(http\S+)", line)))
            with urllib.request.urlopen(f"{address}api/run", timeout=60) as reply:
                assert json.load(reply)["name"] == "geo"
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        finally:
            server.terminate()
            server.communicate(timeout=120)


def test_beyond_loopback_it_wants_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi")
    monkeypatch.delenv("STAYPOSITIVE_TOKEN", raising=False)
    done = CliRunner().invoke(app, ["serve", "geo-demo", "--host", "0.0.0.0", "--port", "0"])
    assert isinstance(done.exception, InputError)
    assert "give a token" in str(done.exception)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("staypositive.service"):
            raise ImportError(name="fastapi")
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    done = CliRunner().invoke(app, ["serve", "geo-demo"])
    assert str(done.exception) == "serving needs fastapi: pip install 'staypositive[serve]'"
