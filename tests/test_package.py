"""What is shipped: the wheel's and the sdist's contents, and a wheel that works where nothing else is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

from staypositive.version import __version__

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "staypositive"
ASSETS = ("py.typed", "graph/geo/train.txt", "run/packaged/geo-demo/run.json", "service/assets/index.html",
          "reports/style.css")  # fmt: skip


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and sdist, built by the backend without a network."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    code = f"import hatchling.build as b; b.build_wheel({str(folder)!r}); b.build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(shipped: Path) -> None:
    wheel = shipped / f"staypositive-{__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    own = {f"staypositive/{path.relative_to(SOURCE).as_posix()}" for path in SOURCE.rglob("*") if path.is_file()}
    own = {name for name in own if "__pycache__" not in name}
    assert {name for name in names if ".dist-info/" not in name} == own
    assert {f"staypositive/{asset}" for asset in ASSETS} <= names
    assert wheel.stat().st_size < 2_500_000


def test_what_the_wheel_says_of_itself(shipped: Path) -> None:
    with zipfile.ZipFile(shipped / f"staypositive-{__version__}-py3-none-any.whl") as wheel:
        folder = f"staypositive-{__version__}.dist-info"
        said = Parser().parsestr(wheel.read(f"{folder}/METADATA").decode())
        entries = wheel.read(f"{folder}/entry_points.txt").decode()
        assert f"{folder}/licenses/LICENSE" in wheel.namelist()
    assert said["Version"] == __version__
    assert {"fast", "serve", "pykeen", "io", "tune"} <= set(said.get_all("Provides-Extra") or [])
    assert "staypositive = staypositive.__main__:main" in entries
    assert "[pykeen.datasets]" in entries


def test_the_sdist_can_be_tested_and_built(shipped: Path) -> None:
    top = f"staypositive-{__version__}"
    with tarfile.open(shipped / f"{top}.tar.gz") as sdist:
        names = {name.removeprefix(f"{top}/") for name in sdist.getnames()}
    assert {"pyproject.toml", "constraints.txt", "Makefile", "LICENSE", "tests/test_package.py"} <= names
    assert {f"src/staypositive/{asset}" for asset in ASSETS} <= names
    assert not any(name.startswith((".ci", ".venv", "site")) or "__pycache__" in name for name in names)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The programs of a new environment that has the wheel, built by way of the sdist, and what it asks for."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("clean")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, env=bare_environment())
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    programs = folder / "venv" / "bin"
    (wheel,) = folder.glob("*.whl")
    install = [programs / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel]
    subprocess.run(install, check=True, env=bare_environment())
    yield programs
    shutil.rmtree(folder / "venv")  # it has torch in it


def bare_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


@pytest.mark.slow
def test_the_wheel_works_alone(clean: Path, tmp_path: Path) -> None:
    def run(*words: str, program: str = "staypositive", code: int = 0) -> str:
        environment = bare_environment() | {"STAYPOSITIVE_CACHE": str(tmp_path / "cache")}
        done = subprocess.run(
            [clean / program, *words], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8"
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    run("-m", "pip", "check", program="python")
    assert run("--version").strip() == f"staypositive {__version__}"
    answers = json.loads(run("predict", "geo-demo", "--head", "Japan", "--relation", "has_currency", "--json"))
    assert answers[0]["tail"] == "Yen (JPY)"
    trained = json.loads(run("train", "geo", "--dim", "8", "--epochs", "2", "--out", "first", "--json"))
    assert trained["epochs"] == 2
    assert (tmp_path / "first" / "run.json").exists()
    assert "report.html" in run("report", "geo-demo")
    assert "Address to listen on" in run("serve", "--help")
    assert "pip install 'staypositive[serve]'" in run("serve", "geo-demo", code=2)
    loads = "import sys, staypositive; print(*(m for m in ('torch', 'numpy', 'pandas', 'typer') if m in sys.modules))"
    assert run("-c", loads, program="python").strip() == ""
