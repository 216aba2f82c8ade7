"""Memoized handler calls: one call for each distinct value of its reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kraftcheck.explorer.calls.handlers import HandlerCaller
from kraftcheck.explorer.calls.inspection import find_proxy_revealing_methods
from kraftcheck.explorer.calls.proxies import SharedRecordProxy
from kraftcheck.explorer.symbolic.variables import LocalStateWithSetProxies, OpaqueSetRequired, VariableLayout
from kraftcheck.spec.errors import ProtocolError
from kraftcheck.spec.language.declarations import Action, Projection, Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Map, Record, Value, field_names, type_distinguishing_key


class HandlerRead(NamedTuple):
    """A value that a handler reads beyond its arguments: a shared field, a projection or a set membership."""

    field: str | None  # the name of a shared field, or None
    projection: Projection | None = None  # the projection that is read, or None
    replica: Value = None  # the replica that has the projection or set
    # (field, element) for a membership test in an exploded set of the replica, or None
    member: tuple[str, Value] | None = None


AnswerRead = Callable[[HandlerRead], Any]
"""Returns the value of a read, or None if the replica does not exist; raises `MissingRead` if it is unknown."""
DecisionPath = tuple[tuple[HandlerRead, Any], ...]


class CallResult(NamedTuple):
    """Result of a handler call, its reads and its steps; a leaf of a decision tree."""

    path: DecisionPath  # the reads, with their values, in order
    steps: tuple[Step, ...]


class _DecisionNode(NamedTuple):
    """Inner node of a decision tree: a read, and the subtree for each of its values."""

    read: HandlerRead
    branches: dict[Any, _DecisionNode | CallResult]


class HandlerCache(HandlerCaller):
    """Memoized calls of one protocol, as decision trees over their reads."""

    def __init__(self, protocol: Protocol, shared_type: type[Record]) -> None:
        super().__init__(protocol)
        find_proxy_revealing_methods(protocol)
        self._shared_type = shared_type
        self._fields = {name: HandlerRead(name) for name in field_names(shared_type)}
        self._replicas: list[Value] = []
        self._sets: dict[Value, dict[str, list[Value]]] = {}
        self._known: dict[tuple[str, Value, Value], _DecisionNode | CallResult] = {}

    def set_layout(self, layout: VariableLayout) -> None:
        """Take over a layout's exploded sets and replicas; drop the memoized calls that depend on a change."""
        sets: dict[Value, dict[str, list[Value]]] = {}
        for (replica, field), elements in layout.exploded.items():
            sets.setdefault(replica, {})[field] = list(elements)
        if sets != self._sets:
            self._sets, self._known = sets, {}
        replicas = layout.in_order
        if replicas != self._replicas:
            self._replicas = replicas
            reading = {name for name, action in self.protocol.actions.items() if action.reads}
            self._known = {key: node for key, node in self._known.items() if key[0] not in reading}

    def result(self, action: Action, me: Any, message: Any, answers: AnswerRead) -> CallResult:
        """Return the memoized result of a handler call; `answers` gives the value of each read."""
        key = (action.name, me, message)
        node = self._known.get(key)
        while isinstance(node, _DecisionNode):
            node = node.branches.get(type_distinguishing_key(answers(node.read)))
        return node if node is not None else self._call(key, action, me, message, answers)

    def _call(
        self, key: tuple[str, Value, Value], action: Action, me: Any, message: Any, answers: AnswerRead
    ) -> CallResult:
        self._require_tracked(action)
        path: dict[HandlerRead, Any] = {}

        def ask(read: HandlerRead) -> Any:
            if read not in path:
                path[read] = answers(read)
            return path[read]

        given: dict[str, Value] = {}
        for projection in action.reads:
            if projection.name in action.asks:
                found = {replica: ask(HandlerRead(None, projection, replica)) for replica in self._replicas}
                given[projection.name] = Map((replica, one[0]) for replica, one in found.items() if one is not None)
        given["shared"] = SharedRecordProxy(self._shared_type, lambda name: ask(self._fields[name]))
        sets = self._sets.get(me.id) if me is not None else None
        if sets is None:
            steps = self.steps(action, me, message, given)
        else:
            exploded = LocalStateWithSetProxies(me, sets, lambda *part: ask(HandlerRead(None, None, me.id, part)))
            try:
                steps = self.steps(action, exploded.me, message, given, settle=exploded.steps)
            except ProtocolError as error:
                raise OpaqueSetRequired(next(iter(sets))) from error
        result = CallResult(tuple(path.items()), tuple(steps))
        self._insert(key, result)
        return result

    def holds(
        self, prop: Property, given: Mapping[str, Value], whole: Callable[[], Mapping[str, Value]] | None = None
    ) -> bool:
        """Whether a property holds of local states that may have exploded sets."""
        self._require_tracked(prop)
        try:
            return super().holds(prop, given, whole)
        except ProtocolError as error:
            for sets in self._sets.values():
                raise OpaqueSetRequired(next(iter(sets))) from error
            raise

    def _require_tracked(self, owner: Action | Property) -> None:
        """Raise OpaqueSetRequired if there are exploded sets, and a method may tell their proxies from sets."""
        for sets in self._sets.values() if owner.method_name in self.protocol.by_type else ():
            raise OpaqueSetRequired(next(iter(sets)))

    def _insert(self, key: tuple[str, Value, Value], result: CallResult) -> None:
        """Insert the path of reads that leads to a result."""
        if not result.path:
            self._known[key] = result
            return
        node = self._known.setdefault(key, _DecisionNode(result.path[0][0], {}))
        for place, (read, answer) in enumerate(result.path):
            if not isinstance(node, _DecisionNode) or node.read != read:
                raise AssertionError(f"action {key[0]} is not pure: two calls on the same input read different values")
            end = place + 1 == len(result.path)
            other: _DecisionNode | CallResult = result if end else _DecisionNode(result.path[place + 1][0], {})
            node = node.branches.setdefault(type_distinguishing_key(answer), other)
