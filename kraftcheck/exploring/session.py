"""What the page of `explore` asks for, answered: walks, what states offer, steps taken, files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Any

from kraftcheck.exploring.offers import Judge
from kraftcheck.exploring.saving import FORMS, saved
from kraftcheck.exploring.tree import Node, Tree
from kraftcheck.jobs import blaming
from kraftcheck.reporting.as_json import state_as_json, tool, value_as_json
from kraftcheck.reporting.report import behaviour_as_data, document, packed

SCRIPTS = ("data.js", "diagram.js", "details.js", "pane.js", "explore.js")
"""The page's script: but for its last part, that of a report."""

ASKS = "connect-src 'self'; img-src 'self'; "
"""What the page may ask for: this server, and the icon that browsers ask for by themselves."""


class Session:
    """One protocol that is explored. One question at a time is answered, whoever asks."""

    def __init__(self, tree: Tree, warnings: Sequence[str] = ()) -> None:
        self._tree = tree
        self._judge = Judge(tree)
        self._warnings = list(warnings)
        self._told: dict[int, dict[str, Any]] = {}
        self._lock = Lock()

    def page(self) -> str:
        """Return the page, which asks for the rest."""
        job = self._tree.job
        return document(
            {
                **tool(),
                "model": job.model.name,
                "variant": job.model.protocol.variant,
                "configuration": job.config_name.rpartition("/")[2],
                "constants": {name: value_as_json(value) for name, value in job.protocol.constant_values().items()},
                "starts": [one._asdict() for one in self._tree.starts],
                "forms": FORMS,
                "warnings": self._warnings,
            },
            SCRIPTS,
            ASKS,
        )

    def walk(self, number: int) -> dict[str, Any]:
        """Return the walk to a node, as a report has it."""
        with self._lock, blaming(self._tree.job.model):
            return packed([self._run(self._tree.node(number))])

    def offers(self, number: int) -> dict[str, Any]:
        """Return what a node offers; see `Judge.offers`."""
        with self._lock:
            return self._judge.offers(number)

    def take(self, number: int, choice: int) -> dict[str, Any]:
        """Take a step from a node; return the walk to where it leads."""
        with self._lock, blaming(self._tree.job.model):
            return packed([self._run(self._tree.take(number, choice))])

    def save(self, number: int, name: str) -> bytes:
        """Return a file with the walk to a node."""
        with self._lock, blaming(self._tree.job.model):
            node = self._tree.node(number)
            return saved(self._tree, node, name, lambda: self._run(node), self._judge.broken(node))

    def _run(self, node: Node) -> dict[str, Any]:
        """Return the walk to a node, as `run_as_data` has a search."""
        job, way = self._tree.job, node.way
        states = [self._state(place, one) for place, one in enumerate(way, start=1)]
        broken = self._judge.broken(node)
        told = {
            "property": next(iter(broken), None),
            "why": self._judge.why(node, broken[0]) if broken else None,
            "title": f"Walk, {len(way)} state{'' if len(way) == 1 else 's'}",
            "end": f"violates {', '.join(broken)}" if broken else "",
            **behaviour_as_data(job.protocol, states, [one.step for one in way]),
        }
        return {
            "model": job.model.name,
            "variant": job.model.protocol.variant,
            "configuration": job.config_name,
            "constants": {name: value_as_json(value) for name, value in job.protocol.constant_values().items()},
            "result": "violation" if broken else "walk",
            "checked": [prop.name for prop in job.options.properties],
            "violations": list(dict.fromkeys(name for state in states for name in state["breaks"])),
            "actions": dict(Counter(one.step.action for one in way[1:])),
            "traces": [told],
        }

    def _state(self, place: int, node: Node) -> dict[str, Any]:
        if node.number not in self._told:
            before = None if node.before is None else node.before.step
            found = state_as_json(self._tree.job.protocol, place, before, node.step)
            self._told[node.number] = {**found, "node": node.number, "breaks": self._judge.broken(node)}
        return self._told[node.number]
