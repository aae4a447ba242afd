"""The explorer's own files, read once from the package: there is no path to wander off on."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PLACES = {"index.html": "/", "docs.html": "/docs"}


def build_pages() -> APIRouter:
    """Return one route a file of `assets`."""
    router = APIRouter(include_in_schema=False)
    for path in sorted((Path(__file__).parent / "assets").iterdir()):
        router.get(_PLACES.get(path.name, f"/assets/{path.name}"))(_page(path))
    return router


def _page(path: Path):  # type: ignore[no-untyped-def]  # a coroutine function, as the router wants it
    content, kind = path.read_bytes(), f"{_KINDS[path.suffix]}; charset=utf-8"

    async def page() -> Response:
        return Response(content, headers={"content-type": kind, "cache-control": "no-cache"})

    return page
