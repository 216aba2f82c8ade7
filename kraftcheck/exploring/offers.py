"""What a visited state offers: its enabled steps, why others are not enabled, and which properties hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kraftcheck.explorer.result import DEADLOCK, TraceStep, Violation
from kraftcheck.exploring.tree import Node, Tree
from kraftcheck.jobs import blaming
from kraftcheck.reporting.as_json import value_as_json, violation_as_json
from kraftcheck.reporting.changes import changes, messages
from kraftcheck.reporting.report import anywhere
from kraftcheck.spec.diagnosis.why import ENABLED, Reason, diagnose
from kraftcheck.spec.display import text_of
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.semantics import Transition

KINDS = {"-": "consumed", "+": "sent", "*": "kept"}


class Judge:
    """Says of visited states what they offer, and which properties hold."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._semantics = tree.semantics
        self._job = tree.job
        self._broken: dict[int, list[str]] = {}

    def offers(self, number: int) -> dict[str, Any]:
        """Return what a node offers."""
        node = self._tree.node(number)
        with blaming(self._job.model):
            offered = self._tree.offered(node)
            way = [one.step.state for one in node.way]
            enabled = [
                {**self._step(node, one, way), "node": self._tree.visited(number, choice)}
                for choice, one in enumerate(offered)
            ]
            taken = {one.action for one in offered}
            disabled = [self._disabled(node, action, is_taken=action in taken) for action in self._tree.actions]
        return {
            "node": number,
            "enabled": enabled,
            "disabled": [one for one in disabled if one["reasons"]],
            "properties": list(self._properties(node)),
            "deadlock": not offered and self._job.options.deadlock,
        }

    def broken(self, node: Node) -> list[str]:
        """Return the names of the properties that are false in a node, or of the step to it, and of a deadlock."""
        if node.number not in self._broken:
            before = None if node.before is None else node.before.step
            found = self._false(before, node)
            with suppress(InputError):  # an action that raises is told where its steps are asked for
                if self._job.options.deadlock and not self._tree.offered(node):
                    found.append(DEADLOCK)
            self._broken[node.number] = found
        return self._broken[node.number]

    def why(self, node: Node, name: str) -> dict[str, Any] | None:
        """Return why a property is false in a node, as in a counterexample's JSON; None where it raises an error."""
        last = [one.step for one in node.way[-2:]]
        try:
            return anywhere(violation_as_json(self._job.protocol, Violation(name, tuple(last)))["why"])
        except InputError:
            return None

    # Steps

    def _step(self, node: Node, taken: Transition, way: list[Any]) -> dict[str, Any]:
        protocol, before, after = self._job.protocol, node.step.state, taken.target
        under_way = messages(protocol.network, before, after, taken.message)
        is_own = taken.action in protocol.network.own_actions()
        next_one = Node(-1, node, taken, TraceStep(after))
        return {
            "action": taken.action,
            "by": "the network" if is_own else "the environment" if taken.actor is None else text_of(taken.actor),
            "on": None if taken.message is None else value_as_json(taken.message),
            "changes": [[one.path, one.text] for one in changes(protocol, before, after)],
            "messages": [[KINDS[one.mark], value_as_json(one.message)] for one in under_way if one.mark in KINDS],
            "breaks": self._false(node.step, next_one),
            "outside": list(self._outside(node, taken)),
            "back": next((number for number, state in enumerate(way, start=1) if state == after), None),
        }

    def _outside(self, node: Node, taken: Transition) -> Iterator[str]:
        """Yield the constraints beyond which a search does not go."""
        semantics, options = self._semantics, self._job.options
        yield from (one.name for one in options.constraints if not semantics.holds(one, taken.target))
        over = options.action_constraints
        yield from (one.name for one in over if not semantics.holds_over(one, node.step.state, taken.target))

    def _disabled(self, node: Node, action: str, *, is_taken: bool) -> dict[str, Any]:
        found = [one for one in diagnose(self._semantics, node.step.state, action) if one.kind != ENABLED]
        grouped: dict[tuple[str, str], list[Reason]] = {}
        for reason in found:
            grouped.setdefault((reason.text, _place(reason)), []).append(reason)
        reasons = [
            {"text": text, "place": place, "kind": alike[0].kind, "who": [_who(one) for one in alike]}
            for (text, place), alike in grouped.items()
        ]
        return {"action": action, "reasons": reasons, "others": is_taken}

    # Properties

    def _false(self, before: TraceStep | None, node: Node) -> list[str]:
        """Return the names of the properties that are not true."""
        return [prop.name for prop in self._job.options.properties if self._verdict(prop, before, node) is not True]

    def _verdict(self, prop: Property, before: TraceStep | None, node: Node) -> bool | str:
        """Say whether a property is true of a state, or of the step that leads there; or which error it raises."""
        try:
            with blaming(self._job.model):
                if not prop.over_steps:
                    return self._semantics.holds(prop, node.step.state)
                if before is None or node.transition is None:
                    return True
                return self._semantics.kept_by(prop, before.state, node.transition)
        except InputError as error:
            return str(error)

    def _properties(self, node: Node) -> Iterator[dict[str, Any]]:
        """Yield every property that is looked at, with its verdict; one that raises an error has that."""
        before = None if node.before is None else node.before.step
        options = self._job.options
        for prop in (*options.properties, *options.reachable, *options.constraints):
            verdict = self._verdict(prop, before, node)
            told: dict[str, Any] = {"name": prop.name, "kind": prop.kind.replace("_", " "), "holds": verdict is True}
            told["error"] = verdict if isinstance(verdict, str) else None
            told["why"] = self.why(node, prop.name) if verdict is False and prop in options.properties else None
            if prop.over_steps and before is None:
                told["holds"] = None
            yield told


def _who(reason: Reason) -> list[Any]:
    """Return whom a reason is about: a replica, and a message."""
    who = None if reason.actor is None else text_of(reason.actor)
    return [who, None if reason.message is None else value_as_json(reason.message)]


def _place(reason: Reason) -> str:
    """Return the place in the source that says no, without the folders of the machine."""
    return "" if reason.file is None else f"{'/'.join(reason.file.split('/')[-2:])}:{reason.line}"
