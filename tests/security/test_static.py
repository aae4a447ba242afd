"""What the source may not hold: anything that runs, or writes where, what it reads."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import staypositive as sp

SOURCE = Path(sp.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "yaml",
    "tarfile",
    "xml",
}
"""Modules that run what they read, unpack archives to where these say, or expand entities."""
CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "os.execv", "torch.load", "torch.save",
    "torch.jit.load",
    "torch.hub.load", "pd.read_pickle", "numexpr.evaluate", "onnx.load", "zipfile.Path", "input",
}  # fmt: skip
UNPACKING = {"extract", "extractall", "unpack_archive", "to_pickle", "read_pickle"}


WRITING = {
    "write_text", "write_bytes", "touch", "savefig", "save_file", "tofile", "copyfile", "copytree", "copy2",
    "mkstemp", "TemporaryFile", "NamedTemporaryFile", "rmtree", "memmap", "connect",
}  # fmt: skip
WRITERS = {
    "files.py": "what the others use: temporary files of its own that take a name in the end",
    "sealed_folder.py": "by `files.replacing`; a file without a name, to see whether a folder can be written to",
    "sharded/checkpoint.py": "no linked folder is removed",
    "tensors.py": "by `files.replacing`",
    "graph/on_disk/graph.py": "the new folder of an ingestion, which is no link",
    "graph/on_disk/passes.py": "within the new folder of an ingestion",
    "graph/on_disk/storage.py": "within the new folder of an ingestion",
    "graph/on_disk/vocabulary.py": "within the new folder of an ingestion; and a map to read from",
    "tuning/search.py": "SQLite, on files that are no links",
}
"""Files that write otherwise than by `files.write_atomic`, and why nothing in them follows a link."""


def calls(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    return [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_read_is_ever_run(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    assert not imported & MODULES
    for name, call in calls(tree):
        assert name not in CALLS, ast.unparse(call)
        assert name.split(".")[-1] not in UNPACKING, ast.unparse(call)
        given = {word.arg: ast.unparse(word.value) for word in call.keywords if word.arg}
        if name in ("np.load", "numpy.load", "np.save", "np.savez", "np.savez_compressed"):
            assert given.get("allow_pickle") == "False", ast.unparse(call)
        assert given.get("shell", "False") == "False", ast.unparse(call)
        assert given.get("processor") is None, "a download is a file, never unpacked"
        if name.startswith("subprocess."):
            assert isinstance(call.args[0], ast.List), "a command is a list of words"


def writes(tree: ast.AST) -> list[str]:
    """Return the calls that may make, change or remove a file other than by the helpers of `files`."""
    found = []
    for name, call in calls(tree):
        last = name.split(".")[-1]
        given = [*call.args, *(word.value for word in call.keywords)]
        modes = [part.value for part in given if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        is_open = last in ("open", "fdopen") and any(set(mode) & set("wax+") and len(mode) < 4 for mode in modes)
        is_array = last in ("save", "savez", "savez_compressed") and name.startswith(("np.", "numpy."))
        in_memory = is_array and ast.unparse(call.args[0]) == "stream"
        through_helper = last == "fdopen" and "handle" in ast.unparse(call)
        if (is_open or is_array or last in WRITING or name == "os.open") and not in_memory and not through_helper:
            found.append(ast.unparse(call))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_are_written_by_one_helper(path: Path) -> None:
    found = writes(ast.parse(path.read_text("utf-8")))
    assert not found or path.relative_to(SOURCE).as_posix() in WRITERS, found


def test_the_check_sees_what_writes() -> None:
    assert all(writes(ast.parse((SOURCE / name).read_text("utf-8"))) for name in WRITERS)
    bad = "path.open('w')\nopen(path, mode='ab')\npath.write_text('x')\nnp.save(path, rows)\nshutil.rmtree(path)"
    assert len(writes(ast.parse(bad))) == 5
    assert writes(ast.parse("path.open('rb')\nnp.save(stream, rows)\nwrite_atomic(path, data)")) == []


def test_the_check_looks_at_the_whole_package() -> None:
    assert len(FILES) > 150
    bad = ast.parse("import pickle\nnp.load(x)\nsubprocess.run('x', shell=True)")
    assert [name for name, _ in calls(bad)] == ["np.load", "subprocess.run"]


def test_no_file_of_the_package_is_a_pickle_or_an_archive() -> None:
    endings = {path.suffix for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert not endings & {".pkl", ".pickle", ".pt", ".pth", ".zip", ".tar", ".tgz", ".npz", ".onnx", ".so", ".joblib"}
