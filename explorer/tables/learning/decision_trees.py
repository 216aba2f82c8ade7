"""Decision trees of a call's reads: each path of observed values leads to the memoized result.

A leaf of a handler's tree has the effects of its steps as integers. These are outcomes of an action, a delta of the
control row, and operations on inboxes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kraftcheck.explorer.calls.conjuncts import NeedsWholeError, reads_parts
from kraftcheck.explorer.calls.proxies import DeltaStep, SetChange
from kraftcheck.explorer.calls.type_inspection import note_types
from kraftcheck.explorer.tables.kernel.codes import (
    KEY_LIMIT,
    KIND,
    LEAF,
    LOCAL_QUERY,
    ME,
    MISSING,
    PEER,
    SHARED,
    SHARED_QUERY,
    SIZE,
    UNKNOWN,
)
from kraftcheck.explorer.tables.kernel.tree_walk import child_of, insert_path
from kraftcheck.explorer.tables.learning.growing_tables import require_below
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.queries import Query
from kraftcheck.explorer.tables.learning.shared_sets import Passes, may_pass
from kraftcheck.explorer.transition_system import LabelTable
from kraftcheck.spec.language.declarations import Action, Property
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Value

MOST_READ = 1 << 15  # inputs of a property over whole states from which on they must repeat
SOME = 64  # calls of a property before the policy checks whether its results repeat across replicas


class ImpureCallError(Exception):
    """A call on the same input read other values than before."""


class DecisionTrees:
    """The decision trees of one learner, in the tables that the kernel walks."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        self._tables = interner.tables
        self._first: dict[int, set[int]] = {}  # root -> answers to its query
        # exploded set -> root -> key -> test of an element; None where the call iterated over the whole set
        self._awaiting: defaultdict[int, dict[int, dict[Value, Passes | None]]] = defaultdict(dict)

    def node(self) -> int:
        """Return a new, UNKNOWN node."""
        return self._tables.append("nodes", (UNKNOWN, 0, 0, 0, 0, 0))

    def set_leaf(self, node: int, value: int, count: int = 0) -> None:
        """Make a node a leaf that holds `value`, with the `count` of outcomes if `value` is the first of several."""
        self._tables.nodes[node] = LEAF, value, 0, count, 0, 0

    def has_leaf(self, root: int, row: int, me: int, peer: int, inboxes: list[int]) -> bool:
        """Return whether a decision tree has a result for a control row, local states and inboxes."""
        node = root
        while node >= 0:
            kind, a, b, *_ = self._tables.nodes[node].tolist()
            if kind in (UNKNOWN, LEAF):
                return bool(kind == LEAF)
            if kind == SHARED:
                answer = int(self._tables.rows[row, a])
            elif kind == SHARED_QUERY:
                queries = self._interner.shared.queries[b - len(self._interner.bounds)]
                answer = queries.answer(a, int(self._tables.rows[row, b]))
            elif kind == LOCAL_QUERY:
                local = me if b == ME else peer if b == PEER else int(self._tables.rows[row, self._interner.base + b])
                answer = self._interner.queries.answer(a, local)
            else:
                answer = self._interner.inboxes.queries.answer(a, inboxes[b] if b < len(inboxes) else 0)
            node = child_of(self._tables, node, answer)
        return False

    def insert(self, root: int, path: Mapping[Query, int]) -> int:
        """Insert a path of reads; return its last node."""
        tables, node = self._tables, root
        if path:
            laid = np.array([(*query, answer) for query, answer in path.items()], np.int64)
            self._first.setdefault(root, set()).add(int(laid[0, 3]))
            nodes, jumps = tables.room_for_path(len(laid))
            node, nodes, jumps = insert_path(tables, root, laid, nodes, jumps)
            tables.note_used(nodes=nodes, jumps=jumps)
        if node < 0 or tables.nodes[node, KIND] not in (UNKNOWN, LEAF):
            raise ImpureCallError
        return node

    def forget(self, root: int) -> None:
        """Reset a tree to an UNKNOWN root."""
        for answer in self._first.pop(root, ()):
            self._tables.put("branches", root << 32 | answer, int(MISSING))
        self._tables.nodes[root, KIND] = UNKNOWN
        self._tables.nodes[root, SIZE] = 0

    def await_elements(self, root: int, awaited: Mapping[tuple[int, Value], Passes | None]) -> None:
        """Record the element tests of a tree's calls; a new element of the set that passes one resets the tree."""
        for (field, key), passes in awaited.items():
            self._awaiting[field].setdefault(root, {})[key] = passes

    def forget_awaiting(self, field: int, element: Value) -> None:
        """Reset the trees that a new element of an exploded set may affect."""
        for root, tests in list(self._awaiting[field].items()):
            if any(passes is None or may_pass(passes, element) for passes in tests.values()):
                self.forget(root)
                del self._awaiting[field][root]

    def forget_all(self, roots: Iterable[int]) -> None:
        """Reset all trees."""
        self._awaiting.clear()
        for root in roots:
            self.forget(root)


class ProxyPolicy:
    """Decides whether a call gets read-tracking proxies or plain records.

    A property of one replica gets a proxy as long as its results repeat across replicas, as in `registration`.
    """

    def __init__(self, interner: Interner, trees: DecisionTrees) -> None:
        self.opaque = note_types(interner.protocol)  # names of actions and properties that need plain records
        self.misses: dict[int, int] = {}  # root of a property of one replica -> number of calls
        self._interner, self._trees = interner, trees
        self._whole: set[tuple[int, bool]] = set()
        self._of_states: Counter[str] = Counter()

    def of(self, root: int, owner: Action | Property) -> tuple[bool, bool]:
        """Return whether to track field reads, and whether those of `me`; a switch to plain records resets the tree.

        Raises an error for a property over whole states whose inputs do not repeat.
        """
        name = owner.name
        if isinstance(owner, Property) and reads_parts(owner):
            self._of_states[name] += 1
            if self._of_states[name] > max(MOST_READ, self._interner.totals()[-1] // 2):
                raise NeedsWholeError(name)
        misses = self.misses.get(root)
        if misses is not None:
            self.misses[root] = misses = misses + 1
        opaque = name in self.opaque
        opaque_me = opaque or (root, False) in self._whole  # a switch to plain records is final
        opaque_me |= (misses or 0) > max(SOME, len(self._interner.locals) // 2)
        if opaque_me and (root, opaque) not in self._whole:
            self._whole.add((root, opaque))
            self._trees.forget(root)
        return not opaque, not opaque_me


Pairs = tuple[tuple[int, int], ...]
FlaggedSteps = list[tuple[Step, int]]
"""Steps, each with the flags of the properties that it violates."""


class EffectTable:
    """Interned outcomes of one protocol's steps."""

    def __init__(self, interner: Interner, action_names: list[str]) -> None:
        self.labels = LabelTable(interner.protocol, action_names, ())
        self._interner = interner
        self._tables = interner.tables
        self._deltas: dict[tuple[Pairs, Pairs], int] = {}
        self._count = self._moved = 0
        self._delta((), ())  # delta 0 changes nothing

    def add(self, action: Action, me: Any, message: Any, steps: FlaggedSteps) -> int:
        """Add an action's outcomes, with their labels and flags; return the index of the first."""
        labels = [self.labels.number(action.name, me, message, step) for step, _ in steps]
        made = zip(labels, [(*self._made(me, step), flags) for step, flags in steps], strict=True)
        return self._tables.extend("outcomes", [self._row(label, *one) for label, one in made])

    def add_network_step(self, name: str, spends: tuple[str, ...]) -> None:
        """Add the outcome of a step of the network itself, such as the loss of a message."""
        label = self.labels.number(name, None, None, Step())
        outcome = self._tables.append("outcomes", self._row(label, 0, False, []))
        self._tables.append("network_steps", (outcome, self._delta((), self._spending(Step(spends=spends)))))

    def _made(self, me: Any, step: Step) -> tuple[int, bool, list[int]]:
        """Return a step's delta id, whether the step consumes the message, and the ids of its inbox operations."""
        interner, inboxes = self._interner, self._interner.inboxes
        operations = [inboxes.operation(name, inboxes.message(message)) for name, message in step.sends]
        put = self._put(step) if step.puts else ()
        written = step.writes if step.me == () or step.me == me else (step.me, *step.writes)
        slots = [(interner.slot(replica.id), interner.local(replica)) for replica in written]
        assigned = {interner.base + slot: local for slot, local in slots}
        for key, fields in step.peers if isinstance(step, DeltaStep) else ():
            assigned[interner.base + interner.slot(key)] = ~interner.change(fields)
        for column, value in put:
            if isinstance(value, SetChange):
                assigned.update(interner.shared.sets.assigned(column, value))
            else:
                assigned[len(interner.bounds) + column] = interner.shared.id_of(column, value)
        return self._delta(tuple(sorted(assigned.items())), self._spending(step)), step.consumes, operations

    def _put(self, step: Step) -> list[tuple[int, Any]]:
        """Return a step's writes to shared fields as (field number, value), with a `SetChange` for an exploded set."""
        sets, names = self._interner.shared.sets, self._interner.shared.names
        put, changes = [], dict(step.sets) if isinstance(step, DeltaStep) else {}
        for name, value in step.puts:
            column = names.index(name)
            if column in sets.elements:
                value = changes.get(name, SetChange(value, None))
                for element in value.added:
                    sets.column(column, element)  # now, since a new column moves the others
            put.append((column, value))
        return put

    def _spending(self, step: Step) -> Pairs:
        if not step.spends and not step.needs:
            return ()
        bounds = self._interner.bounds
        spent = [(bounds.index(name), amount) for name, amount in Counter(step.spends).items()]
        return tuple(sorted(spent + [(bounds.index(name), 0) for name in step.needs]))

    def _delta(self, assigned: Pairs, spending: Pairs) -> int:
        """Return the id of a delta, which assigns columns of the control row and spends bounds."""
        if self._moved != self._interner.shared.sets.changes:
            self._moved = self._interner.shared.sets.changes
            self._deltas = {((), ()): 0}
        found = self._deltas.get((assigned, spending))
        if found is None:
            found = self._deltas[assigned, spending] = require_below(self._count, KEY_LIMIT, "different changes")
            self._count += 1
            first = self._tables.extend("assignments", assigned)
            spent = self._tables.extend("spendings", spending)
            self._tables.set("deltas", found, (first, len(assigned), spent, len(spending)))
        return found

    def _row(self, action: int, delta: int, consumes: bool, operations: list[int], flags: int = 0) -> tuple[int, ...]:
        first = self._tables.extend("outcome_operations", operations)
        return action, delta, int(consumes), first, len(operations), flags
