"""Says what to write instead of an import of a package's old name.

`spec`, `kraft_model`, `explorer` and `traces` once were packages of their own. They are in `kraftcheck` now, and many
of their modules have moved. The new name is searched for, so that nobody has to keep a table of names.
"""

from __future__ import annotations

import ast
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

OLD_PACKAGES = ("spec", "kraft_model", "explorer", "traces")
KRAFTCHECK = Path(__file__).parents[2]


def old_import(error: ImportError) -> str | None:
    """Return the message for an import that failed because it uses an old name."""
    package = (error.name or "").partition(".")[0]
    if package not in OLD_PACKAGES or getattr(sys.modules.get(package), "__file__", None) is not None:
        return None
    refusing = (KRAFTCHECK / package / "__init__.py").resolve()
    calls = [
        call
        for call in traceback.extract_tb(error.__traceback__)
        if not call.filename.startswith("<frozen ") and Path(call.filename).resolve() != refusing
    ]
    module, names = _imported(Path(calls[-1].filename), calls[-1].lineno or 0, package)
    moved = new_name(module, names)
    if module == package and not all(_has(_modules(package), moved, name) for name in names):
        module = f"{package}.{names[0]}"  # `from kraft_model import quorum_base`
        moved = new_name(module)
    return f"{calls[-1].filename}:{calls[-1].lineno}: cannot be imported: {module} is an old name; expected {moved}"


def new_name(module: str, names: Sequence[str] = ()) -> str:
    """Return the name that a module has now; if nothing like it is found, that of the nearest package.

    Examples
    --------
    >>> new_name("kraft_model.quorum_base")
    'kraftcheck.kraft_model.quorum.base'
    >>> new_name("spec.tla", ["parse_value"])
    'kraftcheck.spec.tla.parsing'
    >>> new_name("spec.nothing_of_that_name")
    'kraftcheck.spec'
    """
    package, _, rest = module.partition(".")
    known, old = _modules(package), _words(rest)

    def likeness(name: str) -> tuple[bool, bool, bool, int, int]:
        words = _words(name.removeprefix(f"kraftcheck.{package}"))
        left = iter(words)
        alike = words[-1:] == old[-1:] and all(word in left for word in old)  # some words more, none less
        has_names = all(_has(known, name, wanted) for wanted in names)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(words, old, strict=False)))
        return has_names, alike and old != [], name == f"kraftcheck.{module}", shared, -len(words)

    best = max(sorted(known), key=likeness)
    has_names, alike, *_ = likeness(best)
    if alike or (names and has_names):
        return best
    while rest and f"kraftcheck.{package}.{rest}" not in known:
        rest = re.sub(r"(^|[._])[^._]*$", "", rest)
    return ".".join(filter(None, ["kraftcheck", package, rest]))


def _words(path: str) -> list[str]:
    return re.findall(r"[^._]+", path)


def _imported(file: Path, line: int, package: str) -> tuple[str, list[str]]:
    """Return the module that the statement of a line imports from a package, and the names that it takes from it."""
    try:
        statements = list(ast.walk(ast.parse(file.read_bytes())))
    except (OSError, SyntaxError, ValueError):
        statements = []
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom) and statement.lineno == line:
            names = [alias.name for alias in statement.names]
            if isinstance(statement, ast.ImportFrom):
                return statement.module or package, names
            return next(name for name in names if name.partition(".")[0] == package), []
    return package, []


@cache
def _modules(package: str) -> dict[str, str]:
    """Return the source of every module of a package of kraftcheck, by the module's name."""
    found = {}
    for file in (KRAFTCHECK / package).rglob("*.py"):
        parts = file.relative_to(KRAFTCHECK).with_suffix("").parts
        found[".".join(["kraftcheck", *parts]).removesuffix(".__init__")] = file.read_text(encoding="utf-8")
    return found


def _has(modules: Mapping[str, str], module: str, name: str) -> bool:
    """Whether a module defines a name, lists it under `__all__`, or has a module of that name below it."""
    defined = rf'^(?:(?:class|def) {name}\b|{name}\b[^=\n]*=|    "{name}",$)'
    return f"{module}.{name}" in modules or re.search(defined, modules[module], re.MULTILINE) is not None
