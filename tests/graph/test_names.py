"""Names that files may have, and what becomes of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import staypositive as sp


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes there")
def test_a_file_name_that_is_no_text_can_be_kept(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.tsv"))
    path.write_text("a\tr\tb\nb\tr\tc\nc\tr\ta\n", "utf-8")
    graph = sp.load_graph(path)
    assert graph.name == "??"
    run = sp.fit(graph, dim=2, epochs=1)
    assert sp.load_run(run.save(tmp_path / "run")).graph.sources[0].name == "??.tsv"
