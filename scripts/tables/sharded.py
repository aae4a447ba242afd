"""The table of sharded training."""

from __future__ import annotations

from tables.common import Rows, markdown

_COLUMNS = ("bytes_rows", "bytes_sums", "bytes_relations", "bytes_per_step")


def sharded(rows: Rows) -> str:
    """Bytes that a process hands to collectives in a step, and seconds of an epoch, by objective."""
    own: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        if row["experiment"] == "sharded":
            name, _, place = row["setting"].partition("; ")
            where = f"{row['dataset']}, {row['model']} {row['dim']}, {place}, {row['device']}"
            own.setdefault((where, f"{row['objective']}, {name}"), {})[row["metric"]] = float(row["value"])
    lines = [
        [where, what, *(f"{cell[column] / 1e3:,.1f}" for column in _COLUMNS), f"{cell['epoch_seconds']:.3g}"]
        for (where, what), cell in sorted(own.items(), key=lambda item: (item[0][0], item[1]["bytes_per_step"]))
    ]
    return markdown(["where", "objective", "rows, kB", "sums, kB", "relations, kB", "all, kB", "s an epoch"], lines)
