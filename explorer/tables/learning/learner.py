"""What the engine knows of a protocol, as integer tables, and how it learns more.

Values become dense ids. A handler is called once for each distinct input that it really reads; what it yields becomes
outcome rows. The kernel notes what it misses; `Learner.answer` answers a batch of misses at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.purity import PurityTest
from kraftcheck.explorer.tables.kernel.layout import (
    INBOX_VIEW,
    KEY_LIMIT,
    KIND,
    LEAF,
    M_MISSES,
    M_NETWORK_STEPS,
    M_PROPERTIES,
    M_STEP_PROPERTIES,
    ME,
    MISS_OPERATION,
    MISS_PATH,
    MISS_ROOTS,
    MISSING,
    MOST_PROPERTIES,
    MOST_STEP_PROPERTIES,
    PEER,
    REFUSED,
    SHARED,
    UNKNOWN,
    VIEW,
    grown,
)
from kraftcheck.explorer.tables.learning.interner import WHOLE, Vocabulary, within
from kraftcheck.explorer.tables.learning.reads import LocalReader, Path, Question, SharedReader
from kraftcheck.spec.errors import ActionError
from kraftcheck.spec.language.action import Action
from kraftcheck.spec.language.calling import call_action, evaluate_property
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.signature import Projection
from kraftcheck.spec.language.step import Step
from kraftcheck.spec.values import Map, Record, Value


class Root(NamedTuple):
    """What a trie decides: an action on a message by a replica, or a property."""

    action: Action | None
    me: Value
    message: Value
    prop: Property | None


class Learner(Vocabulary):
    """Learns one protocol.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    properties
        Properties to evaluate on control rows: those that read replicas and shared fields only.
    constraints
        State constraints of the same kind.
    step_properties, action_constraints
        Properties of steps.
    message_properties
        Invariants that read one message only.
    view, symmetry
        Names of one of the protocol's views and symmetries, or None.
    check_actions
        Whether to call handlers twice and compare.
    """

    def __init__(
        self,
        protocol: Protocol,
        properties: tuple[Property, ...] = (),
        constraints: tuple[Property, ...] = (),
        step_properties: tuple[Property, ...] = (),
        action_constraints: tuple[Property, ...] = (),
        message_properties: tuple[Property, ...] = (),
        view: str | None = None,
        symmetry: str | None = None,
        check_actions: bool = False,
    ) -> None:
        self.judged = (*properties, *constraints)
        self.step_judged = (*step_properties, *action_constraints)
        within(len(self.judged) + len(message_properties), MOST_PROPERTIES, "properties of states")
        within(len(self.step_judged), MOST_STEP_PROPERTIES, "properties of steps")
        self.in_order = (*self.judged, *message_properties)
        super().__init__(protocol, tuple(enumerate(self.in_order))[len(self.judged) :], view, symmetry)
        self.purity = PurityTest(protocol) if check_actions else None
        self.actions = list(protocol.actions.values())
        self.action_names = [*protocol.actions, *self.network.own_actions()]
        self.action_index = {name: i for i, name in enumerate(self.action_names)}
        self.handler_calls: Counter[str] = Counter()
        self.deltas: dict[tuple[Any, ...], int] = {}
        self.roots: dict[int, Root] = {}
        self.branches: dict[tuple[int, int], int] = {}
        self.reads_replicas: set[int] = set()
        for i, prop in enumerate(self.judged):
            kind = 2 if "peer" in prop.asks else int("me" in prop.asks)
            self._set("properties", i, (self._property_root(prop), kind, int(i >= len(properties))))
        for i, prop in enumerate(self.step_judged):
            self._set("step_properties", i, (self._property_root(prop), int(i >= len(step_properties))))
        self.meta[M_PROPERTIES] = len(self.judged)
        self.meta[M_STEP_PROPERTIES] = len(self.step_judged)
        self._delta((), ())
        own = list(self.network.own_operations())
        self.meta[M_NETWORK_STEPS] = len(own)
        for j, (name, _, spends) in enumerate(own):
            outcome = self._outcome(self.action_index[name], 0, False, [])
            self._set("network_steps", j, (outcome, self._delta((), self._spending(Step(spends=spends)))))

    def _property_root(self, prop: Property) -> int:
        node = self._node()
        self.roots[node] = Root(None, None, None, prop)
        if prop.reads:
            self.reads_replicas.add(node)
        return node

    def slot_added(self) -> None:
        """Forget what was learned of all replicas: it does not cover the new slot."""
        for node in self.reads_replicas:
            self._forget(node)

    def _forget(self, root: int) -> None:
        for (node, answer), _ in list(self.branches.items()):
            if node == root:
                del self.branches[node, answer]
                self._put("branches", node << 32 | answer, int(MISSING))
        self.a["nodes"][root, KIND] = UNKNOWN

    # Answers

    def answer(self, states: NDArray[np.int32]) -> None:
        """Answer every miss that the kernel noted.

        Parameters
        ----------
        states
            The rows that were being expanded; a miss that depends on inboxes names one of them.
        """
        n = int(self.meta[M_MISSES])
        asked = dict.fromkeys(map(tuple, self.a["misses"][:n].tolist()))
        self.meta[M_MISSES] = 0
        for kind, a, b, c, d, e in asked:
            if kind == MISS_ROOTS:
                self._answer_roots(a, b)
            elif kind == MISS_PATH:
                self._answer_path(a, b, c, d, e, states)
            elif kind == MISS_OPERATION:
                self._answer_operation(a, b)

    def _answer_roots(self, local: int, number: int) -> None:
        me = self.locals[local]
        message = self.messages[number - 1] if number else None
        nodes = []
        for action in self.actions:
            if not self._applies(action, me, message):
                continue
            steps = self._call_alone(action, me, message)
            if steps is None:
                node = self._node()
                self.roots[node] = Root(action, me, message, None)
                if action.reads:
                    self.reads_replicas.add(node)
                nodes.append(~node if any(read.of_inbox for read in action.reads) else node)
            elif steps:
                node = self._node()
                self._leaf(node, action, me, steps)
                nodes.append(node)
        index = self._append("lists", (self._extend("list_nodes", nodes), len(nodes)))
        self._put("roots", local << 32 | number, index)

    def _applies(self, action: Action, me: Any, message: Any) -> bool:
        if me is None:
            return action.kind == "environment"
        if not isinstance(me, action.actors):
            return False
        if message is None:
            return action.kind == "internal"
        return action.kind == "on" and isinstance(message, action.messages) and self.protocol.receives(me, message)

    def _call_alone(self, action: Action, me: Any, message: Any) -> tuple[Step, ...] | None:
        """Return the steps of an action that reads nothing else, or None where it does."""
        if action.reads:
            return None
        assert self.shared_type is not None
        try:
            return self._call(action, me, message, {"shared": SharedReader(self.shared_type, _refuse)})
        except Reads:
            return None

    def _call(self, action: Action, me: Any, message: Any, given: dict[str, Value]) -> tuple[Step, ...]:
        self.handler_calls[action.name] += 1
        test = self.purity
        if test is None:
            steps = call_action(self.protocol, action, me, message, given)
        else:
            steps = test.call(action, me, message, given)
        bounds = self.protocol.bounds
        return tuple(
            step
            for step in steps
            if not any(step.spends.count(name) > bounds[name] for name in step.spends)
            and not any(bounds[name] == 0 for name in step.needs)
        )

    def _answer_path(
        self, root: int, row: int, me: int, peer: int, index: int, states: NDArray[np.int32], slot: int = -1
    ) -> None:
        about = self.roots[root]
        if self._resolved(root, row, me, peer, index, states):
            return
        path: Path = []
        seen: set[Question] = set()

        def note(question: Question, answer: int) -> None:
            if question not in seen:
                seen.add(question)
                path.append((question, answer))

        control = self.a["rows"][row].tolist()
        given = self._projections(about, control, index, states, note)
        first = len(self.bounds)

        def read_shared(name: str) -> Value:
            column = self.shared_names.index(name)
            note((SHARED, first + column, 0), control[first + column])
            return self.shared_values[column][control[first + column]]

        assert self.shared_type is not None
        given["shared"] = SharedReader(self.shared_type, read_shared)
        if about.action is not None:
            steps = self._call(about.action, about.me, about.message, given)
            leaf = self._insert(root, path, about)
            self._leaf(leaf, about.action, about.me, steps)
        else:
            assert about.prop is not None
            holds = self._judge(about.prop, me, peer, given, note)
            leaf = self._insert(root, path, about)
            self.a["nodes"][leaf] = LEAF, int(holds), 0, 0

    def _judge(
        self, prop: Property, me: int, peer: int, given: dict[str, Value], note: Callable[[Question, int], None]
    ) -> bool:
        names = {ME: "before", PEER: "after"} if prop.over_steps else {ME: "me", PEER: "peer"}
        for role, local in ((ME, me), (PEER, peer)):
            name = names[role]
            if name not in prop.asks:
                continue
            record = self.locals[local]
            if "peer" not in prop.asks and not prop.over_steps:
                note((VIEW, WHOLE, role), self._answer_of(WHOLE, local))
                given[name] = record
            else:
                given[name] = LocalReader(record, self._noter(role, local, note))
                kind = self._add_view(("class", ""), lambda r: type(r).__qualname__)
                note((VIEW, kind, role), self._answer_of(kind, local))
            if not isinstance(record, prop.kinds(name)):
                return True
        return evaluate_property(self.protocol, prop, given)

    def _noter(
        self, role: int, local: int, note: Callable[[Question, int], None]
    ) -> Callable[[str | None], None]:
        def read(name: str | None) -> None:
            view = WHOLE if name is None else self._add_view(("field", name), lambda r: getattr(r, name, ()))
            note((VIEW, view, role), self._answer_of(view, local))

        return read

    def _answer_of(self, view: int, local: int) -> int:
        return int(self.a["views"][view, local])

    def _projections(
        self,
        about: Root,
        control: list[int],
        index: int,
        states: NDArray[np.int32],
        note: Callable[[Question, int], None],
    ) -> dict[str, Value]:
        owner = about.action or about.prop
        assert owner is not None
        given: dict[str, Value] = {}
        base = len(self.bounds) + len(self.shared_names)
        for read in owner.reads:
            if read.name not in owner.asks:
                continue
            values = {}
            for key, slot in self.slots.items():
                local = control[base + slot]
                if read.of_inbox:
                    number = self._inbox_view(read)
                    content = int(states[index][1 + slot]) if 1 + slot < states.shape[1] else 0
                    note((INBOX_VIEW, number, slot), self._inbox_answer(number, content))
                    if local:
                        inbox = self.decode_content(content)
                        values[key] = read.function(self.protocol, self.network.deliverable(inbox))
                    continue
                view = self._add_view(("projection", read.name), _projecting(self.protocol, read))
                note((VIEW, view, slot), self._answer_of(view, local))
                if local:
                    values[key] = read.function(self.protocol, self.locals[local])
            given[read.name] = Map(values)
        return given

    def _inbox_view(self, read: Projection) -> int:
        found = self.inbox_views.get(read.name)
        if found is None:
            found = self.inbox_views[read.name] = len(self.inbox_view_list)
            self.inbox_view_list.append((read, {}))
            table = self.a["inbox_views"]
            if found >= len(table):
                self.a["inbox_views"] = grown(table, found + 1, -1)
        return found

    def _inbox_answer(self, number: int, content: int) -> int:
        table = self.a["inbox_views"]
        if table[number, content] < 0:
            read, ids = self.inbox_view_list[number]
            value = read.function(self.protocol, self.network.deliverable(self.decode_content(content)))
            table[number, content] = ids.setdefault((type(value), value), len(ids))
        return int(table[number, content])

    def _answer_operation(self, content: int, op: int) -> None:
        name, message = self.operation_names[op]
        after = self.network.apply(name, self.decode_content(content), self.messages[message])
        slot = int(self.a["operations"][op, 0])
        result = int(REFUSED) if after is None else self.content(slot, after)
        self._put("operated", content << 24 | op, result)

    # Tries

    def _node(self) -> int:
        return self._append("nodes", (UNKNOWN, 0, 0, 0))

    def _resolved(
        self, root: int, row: int, me: int, peer: int, index: int, states: NDArray[np.int32]
    ) -> bool:
        """Whether the trie leads to a leaf by now: another miss of the same batch may have answered this one."""
        base = len(self.bounds) + len(self.shared_names)
        node: int | None = root
        while node is not None:
            kind, a, b, _ = self.a["nodes"][node].tolist()
            if kind in (UNKNOWN, LEAF):
                return bool(kind == LEAF)
            if kind == SHARED:
                answer = int(self.a["rows"][row, a])
            elif kind == VIEW:
                local = me if b == ME else peer if b == PEER else int(self.a["rows"][row, base + b])
                answer = self._answer_of(a, local)
            elif index < 0:
                return False
            else:
                answer = self._inbox_answer(a, int(states[index][1 + b]) if 1 + b < states.shape[1] else 0)
            node = self.branches.get((node, answer))
        return False

    def _insert(self, root: int, path: Path, about: Root) -> int:
        """Lay a path of questions and answers; return the node at its end."""
        node = root
        for (kind, a, b), answer in path:
            current = self.a["nodes"][node].tolist()
            if current[KIND] == UNKNOWN:
                self.a["nodes"][node] = kind, a, b, 0
            elif current[:3] != [kind, a, b]:
                self._impure(about)
            child = self.branches.get((node, answer))
            if child is None:
                child = self.branches[node, answer] = self._node()
                self._put("branches", node << 32 | answer, child)
            node = child
        if self.a["nodes"][node, KIND] not in (UNKNOWN, LEAF):
            self._impure(about)
        return node

    def _impure(self, about: Root) -> None:
        problem = "is not pure: on the same input it read something else than before"
        if about.action is not None:
            raise ActionError(about.action, self.protocol, about.me, about.message, problem)
        raise AssertionError(f"property {about.prop and about.prop.name} {problem}")

    # Outcomes

    def _leaf(self, node: int, action: Action, me: Any, steps: tuple[Step, ...]) -> None:
        made = [self._made(action, me, step) for step in steps]
        start = self.used["outcomes"]
        for outcome in made:
            self._outcome(*outcome)
        self.a["nodes"][node] = LEAF, start, 0, len(made)

    def _made(self, action: Action, me: Any, step: Step) -> tuple[int, int, bool, list[int]]:
        operations = [self.operation(name, self.message(message)) for name, message in step.sends]
        assigned: dict[int, int] = {}
        written = [*step.writes] if step.me == () or step.me == me else [step.me, *step.writes]
        slots = [(self.slot(replica.id), self.local(replica)) for replica in written]
        base, first = len(self.bounds) + len(self.shared_names), len(self.bounds)
        for slot, local in slots:
            assigned[base + slot] = local
        for name, value in step.puts:
            column = self.shared_names.index(name)
            assigned[first + column] = self.shared_id(column, value)
        delta = self._delta(tuple(sorted(assigned.items())), self._spending(step))
        return self.action_index[action.name], delta, step.consumes, operations

    def _spending(self, step: Step) -> tuple[tuple[int, int], ...]:
        amounts = Counter(step.spends)
        spent = [(self.bounds.index(name), amount) for name, amount in amounts.items()]
        return tuple(sorted(spent + [(self.bounds.index(name), 0) for name in step.needs]))

    def _delta(self, assigned: tuple[tuple[int, int], ...], spending: tuple[tuple[int, int], ...]) -> int:
        found = self.deltas.get((assigned, spending))
        if found is None:
            found = self.deltas[assigned, spending] = len(self.deltas)
            within(found, KEY_LIMIT, "different changes")
            first = self._extend("assignments", assigned)
            spent = self._extend("spendings", spending)
            self._set("deltas", found, (first, len(assigned), spent, len(spending)))
        return found

    def _outcome(self, action: int, delta: int, consumes: bool, operations: list[int]) -> int:
        first = self._extend("outcome_operations", operations)
        return self._append("outcomes", (action, delta, int(consumes), first, len(operations)))


class Reads(BaseException):
    """An action reads the shared state."""


def _refuse(name: str) -> Value:
    raise Reads


def _projecting(protocol: Protocol, read: Projection) -> Callable[[Record], Value]:
    return lambda record: read.function(protocol, record)
