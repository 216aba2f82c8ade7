"""Imports point down: no circles, and the layers that `pyproject.toml` gives to import-linter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import grimp
import networkx as nx
import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]
KERNEL = "kraftcheck.explorer.tables.kernel"
NATIVE = "kraftcheck.explorer.native"


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("kraftcheck", exclude_type_checking_imports=False, cache_dir=None)


def circles(graph: grimp.ImportGraph) -> set[frozenset[str]]:
    """Return the sets of modules that import each other, `if TYPE_CHECKING` included."""
    found: nx.DiGraph = nx.DiGraph(
        (module, imported) for module in graph.modules for imported in graph.find_modules_directly_imported_by(module)
    )
    return {frozenset(part) for part in nx.strongly_connected_components(found) if len(part) > 1}


def test_no_modules_import_each_other(graph: grimp.ImportGraph) -> None:
    assert circles(graph) == set()


def test_a_circle_is_seen(graph: grimp.ImportGraph) -> None:
    graph = grimp.build_graph("kraftcheck", exclude_type_checking_imports=False, cache_dir=None)
    graph.add_import(importer="kraftcheck.files", imported="kraftcheck.cli")
    graph.add_import(importer="kraftcheck.cli", imported="kraftcheck.files")
    assert any({"kraftcheck.files", "kraftcheck.cli"} <= circle for circle in circles(graph))


@pytest.mark.parametrize("contract", ["layers", "rooms"])
def test_the_contracts_of_the_project(
    contract: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code = lint_imports(config_filename="pyproject.toml", limit_to_contracts=(contract,), no_cache=True)
    assert code == 0, capsys.readouterr().out


def test_the_kernel_imports_nothing_of_the_engine(graph: grimp.ImportGraph) -> None:
    modules = {KERNEL} | graph.find_descendants(KERNEL)
    assert len(modules) > 3
    modules |= graph.find_descendants(NATIVE)
    for module in modules:
        assert graph.find_modules_directly_imported_by(module) <= modules, module


def declares_arrays(source: str) -> bool:
    """Whether a class of a module declares arrays, whose places compiled code has as constants."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "declare_array"
        for cls in ast.walk(ast.parse(source))
        if isinstance(cls, ast.ClassDef)
        for statement in cls.body
        if isinstance(statement, ast.Assign)
        for node in [statement.value]
    )


def test_groups_of_arrays_are_declared_in_kernels_whose_sources_name_the_cache() -> None:
    found = [path.relative_to(ROOT) for path in (ROOT / "explorer").rglob("*.py") if declares_arrays(path.read_text())]
    assert len(found) >= 6
    assert [path for path in found if "kernel" not in path.parts] == []


# Tests


def imports_of_tests(source: str) -> Iterator[str]:
    """Yield the modules of `tests` that a source imports, and the names that it imports from them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "tests")
        elif isinstance(node, ast.ImportFrom) and (node.level or str(node.module).split(".")[0] == "tests"):
            yield from (f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names)


def test_tests_import_of_tests_only_what_is_for_all() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for folder in ("tests", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imports_of_tests(path.read_text())
        if not name.startswith("tests.support.")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "source", ["import tests.test_docs", "from tests.test_docs import ROOT", "from .test_docs import ROOT"]
)
def test_an_import_of_a_test_module_is_seen(source: str) -> None:
    (name,) = imports_of_tests(source)
    assert not name.startswith("tests.support.")
