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


def test_the_check_looks_at_the_whole_package() -> None:
    assert len(FILES) > 150
    bad = ast.parse("import pickle\nnp.load(x)\nsubprocess.run('x', shell=True)")
    assert [name for name, _ in calls(bad)] == ["np.load", "subprocess.run"]


def test_no_file_of_the_package_is_a_pickle_or_an_archive() -> None:
    endings = {path.suffix for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert not endings & {".pkl", ".pickle", ".pt", ".pth", ".zip", ".tar", ".tgz", ".npz", ".onnx", ".so", ".joblib"}
