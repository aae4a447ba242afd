"""The service: a run's answers over HTTP, and the explorer page. Needs the extra `serve` (FastAPI and uvicorn)."""

from staypositive.service.app import create_app
from staypositive.service.limits import Limits
from staypositive.service.server import serve

__all__ = ["Limits", "create_app", "serve"]
