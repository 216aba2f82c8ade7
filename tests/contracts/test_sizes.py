"""No module, no function and no list of parameters is too long to read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import KERNELS, ROOT, trees

API = ROOT / "kraftcheck" / "api.py"
MODULE, FUNCTION, COMPILED_FUNCTION, PARAMETERS = 800, 80, 120, 10


def too_long(path: Path, source: str, tree: ast.Module) -> Iterator[str]:
    """Yield what is too long in a module, by name."""
    module = path.relative_to(ROOT)
    lines = len(source.splitlines())
    if lines > MODULE:
        yield f"{module}: {lines} lines"
    compiled = any(kernel in path.parents for kernel in KERNELS)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > (COMPILED_FUNCTION if compiled else FUNCTION):
            yield f"{module}: {function.name}: {lines} lines"
        given = function.args
        parameters = len(given.posonlyargs) + len(given.args) + (0 if path == API else len(given.kwonlyargs))
        if parameters > PARAMETERS and not compiled:
            yield f"{module}: {function.name}: {parameters} parameters"


def test_nothing_is_too_long() -> None:
    found = [breach for path, tree in trees().items() for breach in too_long(path, path.read_text(), tree)]
    assert found == []


def test_all_modules_are_measured() -> None:
    names = {str(path.relative_to(ROOT)) for path in trees()}
    assert {"kraftcheck/files.py", "spec/values.py", "explorer/result.py"} <= names
    assert not any(name.startswith("kraftcheck/spec/") for name in names)


def seen(path: Path, source: str) -> list[str]:
    return list(too_long(path, source, ast.parse(source)))


def test_what_is_too_long_is_seen() -> None:
    long = "def f(a, b, c, d, e, f, g, h, i, j, *, k):\n" + "    pass\n" * 900
    breaches = ["901 lines", "f: 901 lines", "f: 11 parameters"]
    assert seen(ROOT / "spec" / "new.py", long) == [f"spec/new.py: {breach}" for breach in breaches]
    assert len(seen(API, long)) == 2
    short = "def f():\n" + "    pass\n" * 100
    for kernel in KERNELS:
        assert len(seen(kernel / "new.py", long)) == 2
        assert seen(kernel / "new.py", short) == []
    assert len(seen(ROOT / "spec" / "new.py", short)) == 1
