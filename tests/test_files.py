"""Writing whole files or nothing, and hashes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from staypositive.files import sha256_bytes, sha256_file, write_atomic


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 21) + 17])
def test_sha256_is_that_of_hashlib(tmp_path, size):
    data = bytes(i % 251 for i in range(1009)) * (size // 1009 + 1)
    data = data[:size]
    (tmp_path / "x").write_bytes(data)
    assert sha256_file(tmp_path / "x") == sha256_bytes(data) == hashlib.sha256(data).hexdigest()
    assert sha256_file(str(tmp_path / "x")) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("given", "stored"), [(b"\x00\xff\r\n", b"\x00\xff\r\n"), ("é\u2028\n", "é\u2028\n".encode())]
)
def test_bytes_and_text_are_written_as_they_are(tmp_path, given, stored):
    assert write_atomic(str(tmp_path / "x"), given) == tmp_path / "x"
    assert (tmp_path / "x").read_bytes() == stored


def test_parent_folders_are_made(tmp_path):
    write_atomic(tmp_path / "a" / "b" / "x", "new")
    assert (tmp_path / "a" / "b" / "x").read_text("utf-8") == "new"
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["x"]


def test_an_old_file_is_replaced_and_nothing_else_is_left(tmp_path):
    (tmp_path / "x").write_text("a longer old content", "utf-8")
    write_atomic(tmp_path / "x", "new")
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == {"x": "new"}


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "stopped"]
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, error, step):
    def fail(*_: object) -> None:
        raise error

    (tmp_path / "x").write_text("old", "utf-8")
    if step == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(type(error)) as caught:
        write_atomic(tmp_path / "x", "new")
    assert caught.value is error
    with pytest.raises(type(error)):
        write_atomic(tmp_path / "y", "new")
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == {"x": "old"}


def test_the_content_is_on_disk_before_the_name_is_taken(tmp_path, monkeypatch):
    seen = []
    real = os.fsync

    def look(handle: int) -> None:
        real(handle)
        seen.append((os.fstat(handle).st_size, (tmp_path / "x").read_text("utf-8")))

    (tmp_path / "x").write_text("old", "utf-8")
    monkeypatch.setattr(os, "fsync", look)
    write_atomic(tmp_path / "x", "newer")
    assert seen == [(5, "old")]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0o000, 0o666)])
def test_permissions_follow_the_umask(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_atomic(tmp_path / "x", "new")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == mode
