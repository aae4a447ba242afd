"""Requests need the extra `serve`."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("fastapi") else ["requests.py"]
