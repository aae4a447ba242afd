"""One writer a folder: who is refused, who is not, and what a killed one leaves."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import staypositive as sp
from staypositive import files
from staypositive.errors import RunError
from staypositive.files import LOCK, locked

HOLD = """
import sys
from pathlib import Path
from staypositive.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_another_process_is_refused_until_it_dies(
    holder: subprocess.Popen[str], tmp_path: Path, planted_run: sp.Run
) -> None:
    with pytest.raises(RunError, match=rf"written to by another process \(pid {holder.pid}\); wait"):
        planted_run.save(tmp_path)
    with pytest.raises(RunError, match="written to by another process"):
        sp.fit(planted_run.graph, dim=2, epochs=1, checkpoint=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    holder.kill()
    holder.wait()
    assert (tmp_path / LOCK).exists()  # left behind, and of no account
    planted_run.save(tmp_path)
    assert sp.load_run(tmp_path).settings == planted_run.settings
    assert not (tmp_path / LOCK).exists()


def test_the_same_thread_may_ask_again_and_another_may_not(tmp_path: Path) -> None:
    said: list[str] = []

    def other() -> None:
        try:
            with locked(tmp_path):
                said.append("in")
        except RunError as error:
            said.append(str(error))

    with locked(tmp_path), locked(tmp_path):
        assert (tmp_path / LOCK).read_text("utf-8") == f"{os.getpid()}\n"
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "another thread of this process" in said[0]
    other()
    assert said[1] == "in"


def test_a_lock_that_was_removed_between_two_calls_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = files.fcntl.flock, []

    def flock(handle: int, how: int) -> None:
        real(handle, how)
        calls.append(handle)
        if len(calls) == 1:
            (tmp_path / LOCK).unlink()

    monkeypatch.setattr(files.fcntl, "flock", flock)
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text("utf-8") == f"{os.getpid()}\n"
    assert len(calls) == 2


@pytest.mark.parametrize("system", ["none", "disk"])
def test_where_there_are_no_locks_nobody_is_kept_out(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if system == "none":
        monkeypatch.setattr(files, "fcntl", None)
    else:
        monkeypatch.setattr(files.fcntl, "flock", flock)
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot write to .*gone: No such file"), locked(tmp_path / "gone"):
        pass
