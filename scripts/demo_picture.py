"""Draw `docs/images/demo.svg`: the real output of the demo, as the terminal shows it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from rich.console import Console

from staypositive.cli import console

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Run the demo with a recording console."""
    recorder = Console(record=True, width=92, highlight=False)
    console.RichConsole = lambda **_: recorder  # type: ignore[assignment,misc]  # the demo prints through it
    sys.argv = ["examples/demo.py"]
    runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="__main__")
    out = ROOT / "docs" / "images" / "demo.svg"
    out.parent.mkdir(parents=True, exist_ok=True)
    recorder.save_svg(str(out), title="make demo")


if __name__ == "__main__":
    main()
