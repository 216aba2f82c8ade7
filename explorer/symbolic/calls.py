"""Calls of a protocol's handlers: each once for each distinct input that it really reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from typing import Any, NamedTuple

from kraftcheck.explorer.purity import PurityTest
from kraftcheck.explorer.symbolic.parts import Apart, Unsplittable
from kraftcheck.explorer.symbolic.variables import Layout
from kraftcheck.explorer.tables.learning.reads import SharedReader
from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.declarations import Action, Projection
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import call_action
from kraftcheck.spec.language.state import Step, is_within
from kraftcheck.spec.values import Map, Record, Value, field_names, keyed


class Question(NamedTuple):
    """What a handler reads besides its replica and its message."""

    field: str | None  # the name of a shared field, or None
    read: Projection | None = None  # the projection that is read, or None
    replica: Value = None  # whose projection or set it is
    # a field of a replica and an element: whether it is in that set, which is taken apart. Or None.
    part: tuple[str, Value] | None = None


Answers = Callable[[Question], Any]
"""Answers a question; of a replica that is not there, None. It raises what ends the call, where it does not know."""
Path = tuple[tuple[Question, Any], ...]


class Leaf(NamedTuple):
    """What a call comes to."""

    path: Path  # what was read: each question with its answer
    steps: tuple[Step, ...]


class _Node:
    """A question of a handler, and where each answer leads."""

    __slots__ = ("branches", "question")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.branches: dict[Any, _Node | Leaf] = {}


class Calls:
    """The handler calls of one protocol, memoised."""

    def __init__(self, protocol: Protocol, shared_type: type[Record]) -> None:
        self.protocol = protocol
        self.counts: Counter[str] = Counter()
        self.purity = PurityTest(protocol, thorough=False)
        self._shared_type = shared_type
        self._fields = {name: Question(name) for name in field_names(shared_type)}
        self._replicas: list[Value] = []
        self._sets: dict[Value, dict[str, list[Value]]] = {}
        self._known: dict[tuple[str, Value, Value], _Node | Leaf] = {}

    def arrange(self, layout: Layout) -> None:
        """Take note of the replicas that a projection may have, and of sets; forget what calls know of others."""
        sets: dict[Value, dict[str, list[Value]]] = {}
        for (replica, field), elements in layout.parts.items():
            sets.setdefault(replica, {})[field] = list(elements)
        if sets != self._sets:
            self._sets, self._known = sets, {}
        replicas = layout.replicas
        if replicas != self._replicas:
            self._replicas = list(replicas)
            reading = {name for name, action in self.protocol.actions.items() if action.reads}
            self._known = {key: node for key, node in self._known.items() if key[0] not in reading}

    def leaf(self, action: Action, me: Any, message: Any, answers: Answers) -> Leaf:
        """Return what a call comes to, under what is answered."""
        key = (action.name, me, message)
        node = self._known.get(key)
        while isinstance(node, _Node):
            answer = answers(node.question)
            node = node.branches.get(keyed(answer))
        return node if node is not None else self._call(key, action, me, message, answers)

    def _call(self, key: tuple[str, Value, Value], action: Action, me: Any, message: Any, answers: Answers) -> Leaf:
        path: dict[Question, Any] = {}

        def ask(question: Question) -> Any:
            if question not in path:
                path[question] = answers(question)
            return path[question]

        given: dict[str, Value] = {}
        for read in action.reads:
            if read.name in action.asks:
                found = {replica: ask(Question(None, read, replica)) for replica in self._replicas}
                given[read.name] = Map((replica, one[0]) for replica, one in found.items() if one is not None)
        given["shared"] = SharedReader(self._shared_type, lambda name: ask(self._fields[name]))
        self.counts[action.name] += 1
        sets = self._sets.get(me.id) if me is not None else None
        if sets is None:
            call = self.purity.call if self.purity.is_due(action) else partial(call_action, self.protocol)
            steps = call(action, me, message, given)
        else:
            steps = self._call_apart(
                action, Apart(me, sets, lambda *part: ask(Question(None, None, me.id, part))), message, given
            )
        leaf = Leaf(tuple(path.items()), tuple(step for step in steps if is_within(step, self.protocol.bounds)))
        self._lay(key, leaf)
        return leaf

    def _call_apart(self, action: Action, apart: Apart, message: Any, given: dict[str, Value]) -> tuple[Step, ...]:
        """Return the steps of a replica of which sets are taken apart."""
        followed = copy(action)
        vars(followed)["asks"] = action.asks

        def function(*arguments: Any) -> Any:
            made = action.function(*arguments)
            return apart.steps(made) if isinstance(made, Iterable) else made

        vars(followed)["function"] = function
        try:
            return call_action(self.protocol, followed, apart.me, message, given)
        except ProtocolError as error:
            raise Unsplittable(next(iter(self._sets[apart.me.id]))) from error

    def _lay(self, key: tuple[str, Value, Value], leaf: Leaf) -> None:
        """Lay the path of questions and answers that leads to a leaf."""
        if not leaf.path:
            self._known[key] = leaf
            return
        node = self._known.setdefault(key, _Node(leaf.path[0][0]))
        for place, (question, answer) in enumerate(leaf.path):
            if not isinstance(node, _Node) or node.question != question:
                raise AssertionError(f"action {key[0]} is not pure: on the same input it read something else")
            end = place + 1 == len(leaf.path)
            other: _Node | Leaf = leaf if end else _Node(leaf.path[place + 1][0])
            node = node.branches.setdefault(keyed(answer), other)
