"""How large, how deep and how tangled the product may be. A ceiling is lowered when the product falls below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import grimp
import networkx as nx
import pytest

from tests.support.sources import KERNELS, ROOT, trees

# Of the whole product
MODULES, LONGEST_CHAIN, WIDEST_FAN_OUT, INTO_ENGINES = 330, 18, 14, 0
COMPLEX_FUNCTIONS, COMPLEX_KERNELS, LARGE_CLASSES = 60, 4, 0
# Of a function or a class, from which it counts as complex or large
COMPLEXITY, KERNEL_COMPLEXITY, ATTRIBUTES = 10, 20, 15
WORST = 15  # no function outside kernels is more complex than that

BRANCHES = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.comprehension),
    *(ast.ExceptHandler, ast.match_case, ast.Assert),
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def complexity(function: ast.AST) -> int:
    """Return McCabe's number of a function, without those within it."""
    number, waiting = 1, list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            number += isinstance(node, BRANCHES)
            number += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
            waiting += ast.iter_child_nodes(node)
    return number


def attributes(cls: ast.ClassDef) -> int:
    """Return how many attributes of itself a class sets."""
    nodes = (node for node in ast.walk(cls) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return len({node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "self"})


def complex_functions(found: dict[Path, ast.Module], *, in_kernels: bool) -> Iterator[str]:
    """Yield the functions over the limit of kernels, or of all else."""
    most = KERNEL_COMPLEXITY if in_kernels else COMPLEXITY
    for path, tree in found.items():
        if any(kernel in path.parents for kernel in KERNELS) == in_kernels:
            for node in ast.walk(tree):
                if isinstance(node, FUNCTIONS) and complexity(node) > most:
                    yield f"{path.relative_to(ROOT)}: {node.name} {complexity(node)}"


@pytest.fixture(scope="module")
def imports() -> nx.DiGraph:
    graph = grimp.build_graph("kraftcheck", exclude_type_checking_imports=False, cache_dir=None)
    found = nx.DiGraph()
    for name in graph.modules:
        found.add_edges_from((name, other) for other in graph.find_modules_directly_imported_by(name))
    return found


def longest_chain(imports: nx.DiGraph) -> list[str]:
    return list(nx.dag_longest_path(imports))


def widest(imports: nx.DiGraph) -> int:
    return max(count for _, count in imports.out_degree)


def into_engines(imports: nx.DiGraph) -> list[tuple[str, str]]:
    """Return the imports, from outside the explorer, of what is inside one of its rooms."""
    rooms = tuple(f"kraftcheck.explorer.{path.parent.name}." for path in (ROOT / "explorer").glob("*/__init__.py"))
    return [
        (name, other)
        for name, other in imports.edges
        if other.startswith(rooms) and not name.startswith("kraftcheck.explorer")
    ]


def test_the_house_grows_no_further(imports: nx.DiGraph) -> None:
    found = trees()
    assert len(found) <= MODULES
    chain = longest_chain(imports)
    assert len(chain) <= LONGEST_CHAIN, chain
    assert widest(imports) <= WIDEST_FAN_OUT, max(imports.out_degree, key=lambda one: one[1])
    inside = into_engines(imports)
    assert len(inside) <= INTO_ENGINES, inside


def test_functions_and_classes_grow_no_more_complex() -> None:
    found = trees()
    ours, kernels = (list(complex_functions(found, in_kernels=one)) for one in (False, True))
    assert len(ours) <= COMPLEX_FUNCTIONS, ours
    worst = [one for one in ours if int(one.rpartition(" ")[2]) > WORST]
    assert worst == []
    assert len(kernels) <= COMPLEX_KERNELS, kernels
    classes = [node for tree in found.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    large = [cls.name for cls in classes if attributes(cls) > ATTRIBUTES]
    assert len(large) <= LARGE_CLASSES, large


def test_what_is_measured() -> None:
    tree = ast.parse(
        "class A:\n    def f(self, x):\n        self.a = self.b = x.c = 1\n        if x and x or [y for y in x if y]:\n"
        "            return lambda: 1 if x else 2\n        def inner():\n            assert x\n"
        "        while x:\n            pass\n"
    )
    cls = tree.body[0]
    assert isinstance(cls, ast.ClassDef)
    assert attributes(cls) == 2
    assert complexity(cls.body[0]) == 6
    chain = nx.DiGraph([("kraftcheck.cli", "kraftcheck.explorer.tables.x"), ("kraftcheck.explorer.tables.x", "z")])
    assert longest_chain(chain) == ["kraftcheck.cli", "kraftcheck.explorer.tables.x", "z"]
    assert into_engines(chain) == [("kraftcheck.cli", "kraftcheck.explorer.tables.x")]
    assert widest(chain) == 1
