"""The explorer's files: complete, offline, and safe against what labels may hold."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

import staypositive as sp
from graphs import encode
from service.serving import asking

ASSETS = Path(sp.__file__).parent / "service" / "assets"
EVIL = '<img src=x onerror="alert(1)">'


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_name_only_files_that_are_there(client: httpx.Client, path: str) -> None:
    page = client.get(path)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for target in re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.text):
        reply = client.get(target)
        assert reply.status_code == 200, target
        assert reply.headers["x-content-type-options"] == "nosniff"
        for inner in re.findall(r'from "\./([\w.]+)"', reply.text):
            assert client.get(f"/assets/{inner}").headers["content-type"] == "text/javascript; charset=utf-8"


def test_the_policy_lets_nothing_in_from_elsewhere(client: httpx.Client) -> None:
    for path in ("/", "/api/run", "/nothing", "/docs"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
    assert client.get("/api/run").headers["cache-control"] == "no-store"


def test_no_file_holds_markup_made_of_text_or_a_foreign_address() -> None:
    for path in ASSETS.iterdir():
        text = path.read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            path
        )
        assert not re.search(r"""(?:src|href|url|import|fetch)\W{1,3}(?:https?:)?//""", text), path
        if path.suffix == ".html":
            assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", text), path


def test_labels_travel_as_data(planted: sp.KnowledgeGraph) -> None:
    columns = ((EVIL, "b", "b"), ("r<s>", "r<s>", "r<s>"), ("b", "c", EVIL))
    graph = encode("evil", {"train": columns}, {})
    run = sp.fit(graph, model="distmult", dim=4, epochs=1)
    with asking(run) as client:
        reply = client.post("/api/predict", json={"head": "b", "relation": "r<s>"})
        assert reply.headers["content-type"] == "application/json"
        assert EVIL in {one["tail"] for one in reply.json()["answers"]}
        missing = client.get("/api/similar", params={"entity": EVIL + "?"})
        assert missing.status_code == 404
        assert missing.headers["content-type"] == "application/json"
        assert client.get("/api/facts", params={"entity": EVIL}).json()["total"] == 2


def test_the_schema_documents_every_endpoint(client: httpx.Client) -> None:
    schema = client.get("/openapi.json").json()
    assert set(schema["paths"]) == {
        "/api/run", "/api/relations", "/api/entities", "/api/similar", "/api/facts", "/api/neighbourhood",
        "/api/stats", "/api/discover", "/api/predict", "/api/predict/batch", "/api/score", "/api/prediction-set",
        "/api/explain", "/health", "/ready", "/metrics",
    }  # fmt: skip
    for path, verbs in schema["paths"].items():
        for spec in verbs.values():
            assert spec["description"], path
            if path.startswith("/api"):
                assert {"400", "401", "404", "413", "422", "503", "504"} <= set(spec["responses"])
