"""Packed arrays: nothing that a figure needs is lost, and files that are small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from experiments import packing
from experiments.__main__ import app
from experiments.artifacts import Artifact, agree
from experiments.store import add_rows

DRAW = np.random.default_rng(0)
N = 2000


def labelled(columns: tuple[str, ...], **more: NDArray[Any]) -> packing.Arrays:
    arrays: packing.Arrays = {}
    for split in ("valid", "test"):
        signs = np.where(DRAW.random(N) < 0.5, 1, -1)
        arrays |= {f"{split}_signs": signs.astype(np.int8), f"{split}_relations": DRAW.integers(3, size=N)}
        arrays |= {f"{split}_{name}": (DRAW.normal(size=N) + signs).astype(np.float32) for name in columns}
    return arrays | more


def rows_of(arrays: packing.Arrays, *names: str) -> list[tuple[float, ...]]:
    """Rows of some columns, in an order of their own."""
    return sorted(zip(*(arrays[name].tolist() for name in names), strict=True))


def test_ranks_keep_every_rank_of_each_side() -> None:
    names = ("better", "ties", "raw_better", "raw_ties")
    arrays = {name: DRAW.integers(50, size=N) for name in names}
    found = packing.unpack(packing.pack(arrays, {}), {})
    for pair in (names[:2], names[2:]):
        for half in (slice(N // 2), slice(N // 2, N)):
            own, kept = ({name: one[name][half] for name in pair} for one in (arrays, found))
            assert rows_of(kept, *pair) == rows_of(own, *pair)


def test_triples_keep_labels_and_scores_together() -> None:
    arrays = labelled(("logits",))
    arrays["test_logits"][:4] = [0.0, -0.0, 1e-30, -1e30]
    found = packing.unpack(packing.pack(arrays, {}), {})
    for split in ("valid", "test"):
        names = [f"{split}_{name}" for name in ("relations", "signs", "logits")]
        assert rows_of(found, *names) == rows_of(arrays, *names)


def test_dropped_bits_leave_a_share_of_each_number() -> None:
    arrays = labelled(("logits",))
    found = packing.unpack(packing.pack(arrays, {"logits": 13}), {"logits": 13})
    values, kept = (np.sort(one["test_logits"]) for one in (arrays, found))
    np.testing.assert_allclose(kept, values, rtol=2.0**-11)  # as float16 has it
    assert len(np.unique(kept)) < len(np.unique(values))


def test_backgrounds_keep_both_scores_and_rivals() -> None:
    columns = ("tail_scores", "head_scores", "tail_z", "head_z")
    rivals = {f"rivals_{name}": DRAW.normal(size=N).astype(np.float32) for name in columns[2:]}
    rivals |= {"rivals_relations": np.zeros(N, dtype=np.int64), "rivals_correlations": np.full(N, 0.25)}
    shared = {f"{split}_correlations": np.full(N, 0.5, dtype=np.float32) for split in ("valid", "test")}
    arrays = labelled(columns, **rivals, **shared)
    found = packing.unpack(packing.pack(arrays, {}), {})
    assert set(found) == set(arrays)
    for name in ("test_tail_scores", "test_head_scores", "test_head_z", "rivals_tail_z", "rivals_correlations"):
        np.testing.assert_allclose(np.sort(found[name]), np.sort(arrays[name]), atol=1e-6)


def test_integers_come_back_from_their_bytes() -> None:
    columns = {"small": np.arange(5), "large": np.array([0, 2**32 - 1, 65536]), "none": np.array([], dtype=np.int64)}
    layout, data = packing.to_bytes(columns)
    assert len(data) == 5 + 3 * 4
    found = packing.from_bytes(layout, data)
    assert all((found[name] == values).all() for name, values in columns.items())
    with pytest.raises(ValueError, match="expected 17 bytes of columns, found 18"):
        packing.from_bytes(layout, data + b"x")


def test_packing_tightly_leaves_every_figure_as_shown(tmp_path: Path) -> None:
    artifact = Artifact({"experiment": "x", "seed": 0}, labelled(("logits",))).packed({})
    path = tmp_path / "artifacts" / "x-0.xz"
    artifact.write(path)
    add_rows(tmp_path, artifact.rows("artifacts/x-0.xz"))
    before = path.stat().st_size
    for command in ("check", "pack", "check"):
        done = CliRunner().invoke(app, ["results", command, "--results", str(tmp_path)])
        assert done.exit_code == 0, done.output
    assert path.stat().st_size < 0.8 * before
    tight = Artifact.read(path)
    assert tight.dropped["logits"] > 4
    assert tight.figures_as_shown() == artifact.figures_as_shown()
    assert tight.rows() == Artifact.read(path).rows()


def test_figures_agree_to_the_digits_that_were_kept() -> None:
    assert agree(0.123456, 0.1234561, None)
    assert not agree(0.1231, 0.1234, None)
    assert agree(0.1231, 0.1234, 3)
    assert not agree(0.1231, 0.1236, 3)
