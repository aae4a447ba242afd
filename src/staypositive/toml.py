"""TOML, by the standard library or, before Python 3.11, by `tomli`, which is the same parser."""

import sys

if sys.version_info >= (3, 11):
    from tomllib import loads as parse_toml  # novm: the branch below serves 3.10
else:
    from tomli import loads as parse_toml

__all__ = ["parse_toml"]
