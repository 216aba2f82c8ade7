"""A walk as a file: a trace, a scenario, or a report. The name's ending says which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kraftcheck.explorer.result import Violation
from kraftcheck.exploring.tree import Node, Tree
from kraftcheck.reporting.files import REPORTS, write_counterexamples
from kraftcheck.reporting.report import write_report
from kraftcheck.reporting.scenarios import Telling
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.scenarios import Block, beginning, command_of, quoted, write_blocks

FORMS = {
    "walk.out": "trace, as TLC prints it",
    "walk.itf.json": "trace, ITF",
    "walk.json": "trace, TLC's JSON",
    "walk.txt": "scenario",
    "walk.html": "page to share",
    "walk.md": "Mermaid, for a pull request",
}
"""The names under which a walk is saved, and what each is."""


def saved(tree: Tree, node: Node, name: str, run: Callable[[], dict[str, Any]], broken: Sequence[str]) -> bytes:
    """Return a file with the walk to a node."""
    if name not in FORMS:
        raise InputError(f"expected a file called {', '.join(FORMS)}, found {name}")
    if name == "walk.txt":
        return scenario(tree, node).encode()
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        if path.suffix in REPORTS:
            write_report(path, [run()])
        else:
            trace = tuple(one.step for one in node.way)
            write_counterexamples(tree.job.protocol, [Violation(next(iter(broken), ""), trace)], path)
        return path.read_bytes()


def scenario(tree: Tree, node: Node) -> str:
    """Return the walk to a node as a scenario: a command for each step, and what it does."""
    job, way = tree.job, node.way
    telling = Telling()
    variant = job.model.protocol.variant
    words = ["start", quoted(job.model.name)]
    words += [quoted(f"variant={variant}")] if variant else []
    words += [] if job.config_name == "none" else [quoted(f"config={job.config_name}")]
    words += map(quoted, tree.settings)
    telling.run(" ".join(words))
    then = beginning(telling.stage, job.options.init, way[0].step.state)
    start = " ".join([*words, *(["->", *then] if then else [])])
    blocks = [Block(1, [f"# A walk through {job.model.name}."], [start], telling.run(start))]
    for one in way[1:]:
        assert one.transition is not None
        command = command_of(telling.stage, one.transition)
        blocks.append(Block(1, [], [command], telling.run(command)))
    return write_blocks(blocks, [])
