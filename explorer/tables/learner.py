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

from explorer.identity import permutation_group, permuted
from explorer.tables import layout as at
from explorer.tables import learning
from explorer.tables.hot import MISSING, REFUSED
from explorer.tables.layout import INBOX_VIEW, LEAF, ME, PEER, SHARED, UNKNOWN, VIEW, Tables, grown, new_map
from explorer.tables.recording import LocalReader, Path, Question, SharedReader
from spec.action import Action
from spec.errors import ActionError, ProtocolError
from spec.property import Property
from spec.protocol import Protocol
from spec.signature import Projection
from spec.state import State
from spec.step import Step
from spec.values import Map, Record, Value, encode, field_names

MISS_ROOM = 1 << 14
WHOLE = 0  # the view that is the local state itself
COLUMNS = {
    "nodes": 4,
    "lists": 2,
    "outcomes": 5,
    "deltas": 4,
    "assignments": 2,
    "spendings": 2,
    "operations": 6,
    "messages": 2,
    "contents": 5,
    "content_items": 2,
    "row_info": 5,
    "row_items": 3,
    "bundle_items": 3,
    "properties": 3,
    "step_properties": 2,
    "network_steps": 2,
    "rows": 1,
    "misses": 6,
}
ROOM = {"rows": 10, "row_info": 10, "row_items": 12, "contents": 11, "content_items": 14, "bundle_items": 14}
MAPS = {
    "branches": at.M_BRANCHES,
    "roots": at.M_ROOTS,
    "operated": at.M_OPERATIONS,
    "changed": at.M_DELTAS,
    "bundle_of": at.M_BUNDLES,
}


class Root(NamedTuple):
    """What a trie decides: an action on a message by a replica, or a property."""

    action: Action | None
    me: Value
    message: Value
    prop: Property | None


class View(NamedTuple):
    """A function of a local state whose values are numbered: a field, a projection, the class, or the whole."""

    name: str
    function: Callable[[Record], Value]
    ids: dict[Value, int]


class Learner:
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
        self.protocol = protocol
        self.network = protocol.network
        self.check_actions = check_actions
        self.actions = list(protocol.actions.values())
        self.action_names = [*protocol.actions, *self.network.own_actions()]
        self.action_index = {name: i for i, name in enumerate(self.action_names)}
        self.handler_calls: Counter[str] = Counter()
        self.judged = (*properties, *constraints)
        self.step_judged = (*step_properties, *action_constraints)
        self.message_properties = message_properties
        self.message_bits = [len(self.judged) + i for i in range(len(message_properties))]
        self.bounds = list(protocol.bounds)
        self.shared_type: type[Record] | None = None
        self.shared_names: tuple[str, ...] = ()
        self.shared_ids: list[dict[Value, int]] = []
        self.shared_values: list[list[Value]] = []
        self.slots: dict[Value, int] = {}
        self.locals: list[Any] = [None]
        self.local_ids: dict[Value, int] = {}
        self.messages: list[Any] = []
        self.message_ids: dict[Value, int] = {}
        self.operations: dict[tuple[str, int], int] = {}
        self.operation_names: list[tuple[str, int]] = []
        self.deltas: dict[tuple[Any, ...], int] = {}
        self.views: dict[Any, int] = {}
        self.view_list: list[View] = []
        self.inbox_views: dict[str, int] = {}
        self.inbox_view_list: list[tuple[Projection, dict[Value, int]]] = []
        self.learned_contents: dict[tuple[int, Value], int] = {}
        self.content_values: dict[int, Value] = {}
        self.roots: dict[int, Root] = {}
        self.branches: dict[tuple[int, int], int] = {}
        self.reads_replicas: set[int] = set()
        self._view_name = view
        sets = protocol.symmetry_sets(symmetry) if symmetry is not None else ()
        self.group = permutation_group(sets)
        self._width_changed = False
        self._make_arrays()
        self.tables = self._tuple()
        self._add_view(("whole", ""), lambda record: record)
        for i, prop in enumerate(self.judged):
            kind = 2 if "peer" in prop.asks else int("me" in prop.asks)
            self._set("properties", i, (self._property_root(prop), kind, int(i >= len(properties))))
        for i, prop in enumerate(self.step_judged):
            self._set("step_properties", i, (self._property_root(prop), int(i >= len(step_properties))))
        self.meta[at.M_PROPERTIES] = len(self.judged)
        self.meta[at.M_STEP_PROPERTIES] = len(self.step_judged)
        self._delta((), ())
        own = list(self.network.own_operations())
        self.meta[at.M_NETWORK_STEPS] = len(own)
        self.a["network_operations"] = np.zeros((max(1, len(own)), 64), np.int32)
        for j, (name, _, spends) in enumerate(own):
            outcome = self._outcome(self.action_index[name], 0, False, [])
            self._set("network_steps", j, (outcome, self._delta((), self._spending(Step(spends=spends)))))
        self.network_operations = [operation for _, operation, _ in own]
        self.refresh()

    def _property_root(self, prop: Property) -> int:
        node = self._node()
        self.roots[node] = Root(None, None, None, prop)
        if prop.reads:
            self.reads_replicas.add(node)
        return node

    # Arrays

    def _make_arrays(self) -> None:
        self.a: dict[str, NDArray[Any]] = {}
        for name, kind in Tables.__annotations__.items():
            size = 1 << ROOM.get(name, 6)
            shape = (size, COLUMNS[name]) if name in COLUMNS else (size,)
            self.a[name] = np.zeros(shape, np.int64 if "Longs" in str(kind) else np.int32)
        for name in MAPS:
            self.a[name] = new_map(1 << 10)
        for name in ("row_table", "content_table"):
            self.a[name] = np.full(1 << 12, -1, np.int32)
        self.meta = self.a["meta"] = np.zeros(at.META_SIZE, np.int64)
        self.a["views"] = np.zeros((1, 64), np.int32)
        self.a["inbox_views"] = np.full((1, len(self.a["contents"])), -1, np.int32)
        self.a["misses"] = np.zeros((MISS_ROOM, COLUMNS["misses"]), np.int64)
        self.meta[at.M_CONTENTS] = 1  # content 0 is the empty inbox
        order = len(self.group)
        self.meta[at.M_PERMUTATIONS] = order
        self.a["permuted_rows"] = np.full((len(self.a["rows"]), order), -1, np.int32)
        self.a["permuted_contents"] = np.full((len(self.a["contents"]), order), -1, np.int32)
        for name in ("permuted_slots", "permuted_locals", "permuted_messages", "permuted_shared"):
            self.a[name] = np.zeros((order, 64), np.int32)
        self.used: Counter[str] = Counter()

    def _tuple(self) -> Tables:
        return Tables(**self.a)

    def refresh(self) -> None:
        """Give the kernel the arrays as they are now."""
        self.tables = self._tuple()

    def _set(self, name: str, index: int, value: Any) -> None:
        """Set a row of an array, which grows as needed."""
        array = self.a[name]
        if index >= len(array):
            array = self.a[name] = grown(array, index + 1)
        array[index] = value

    def _append(self, name: str, row: Any) -> int:
        """Append a row to an array; return where it stands."""
        index = self.used[name]
        self._set(name, index, row)
        self.used[name] = index + 1
        return index

    def _extend(self, name: str, rows: Any) -> int:
        """Append rows to an array; return where they start."""
        start = self.used[name]
        for row in rows:
            self._append(name, row)
        return start

    def _put(self, name: str, key: int, value: int) -> None:
        """Set a map's value."""
        if (self.meta[MAPS[name]] + 2) * 2 > len(self.a[name]):
            self._grow_map(name)
        if learning.store(self.a[name], np.int64(key), np.int64(value)):
            self.meta[MAPS[name]] += 1

    def _grow_map(self, name: str) -> None:
        larger = new_map(4 * len(self.a[name]))
        learning.copy_map(self.a[name], larger)
        self.a[name] = larger

    def grow(self) -> None:
        """Make room where the kernel said that something is full."""
        wanted = int(self.meta[at.M_GROW])
        self.meta[at.M_GROW] = 0
        a = self.a
        if wanted & at.GROW_MAP:
            for name, count in MAPS.items():
                if (self.meta[count] + 2) * 2 > len(a[name]):
                    self._grow_map(name)
        if wanted & at.GROW_ITEMS:
            self._double("row_items")
        if wanted & at.GROW_ROWS:
            if len(a["rows"]) < 4 * self.meta[at.M_ROWS] + 16:
                self._double("rows", "row_info", "permuted_rows")
            if len(a["row_table"]) < 2 * len(a["rows"]):
                a["row_table"] = np.full(2 * len(a["row_table"]), -1, np.int32)
                learning.rehash_rows(self._tuple())
        if wanted & at.GROW_CONTENTS:
            if len(a["contents"]) < 4 * self.meta[at.M_CONTENTS] + 16:
                self._double("contents", "permuted_contents")
                wider = np.full((len(a["inbox_views"]), len(a["contents"])), -1, np.int32)
                wider[:, : a["inbox_views"].shape[1]] = a["inbox_views"]
                a["inbox_views"] = wider
            self._double("content_items")
            if len(a["content_table"]) < 2 * len(a["contents"]):
                a["content_table"] = np.full(2 * len(a["content_table"]), -1, np.int32)
                learning.rehash_contents(self._tuple())
        if wanted & at.GROW_BUNDLES:
            self._double("bundle_items")
        self.refresh()

    def _double(self, *names: str) -> None:
        for name in names:
            self.a[name] = grown(self.a[name], 2 * len(self.a[name]))

    # Interning

    def slot(self, key: Value) -> int:
        """Return the slot of a replica's id; a new one widens every row."""
        found = self.slots.get(key)
        if found is None:
            found = self.slots[key] = len(self.slots)
            self._set("slot_contents", found, 0)
            self.meta[at.M_SLOTS] = len(self.slots)
            self._widen()
            self._images("permuted_slots", 0, found, key, self.slot)
        return found

    def _images(self, name: str, first: int, index: int, value: Value, intern: Callable[[Value], int]) -> None:
        """Note the ids of a value's images under every permutation, in rows `first`, `first + 1` ... of an array."""
        if len(self.group) == 1:
            return
        for g, permutation in enumerate(self.group):
            image = intern(permuted(value, permutation)) if g else index
            array = self.a[name]
            if index >= array.shape[1]:
                wider = np.zeros((len(array), 2 * max(index, array.shape[1])), np.int32)
                wider[:, : array.shape[1]] = array
                array = self.a[name] = wider
            array[first + g, index] = image

    def _widen(self) -> None:
        """Add a column for a new slot; what was learned of all replicas no longer covers it."""
        rows = self.a["rows"]
        columns = len(self.bounds) + len(self.shared_names) + len(self.slots)
        if columns > rows.shape[1]:
            wider = np.zeros((len(rows), columns), np.int32)
            wider[:, : rows.shape[1]] = rows
            self.a["rows"] = wider
            self.a["hidden"] = grown(self.a["hidden"], columns)
            self.a["row_table"][:] = -1
            learning.rehash_rows(self._tuple())
        for node in self.reads_replicas:
            self._forget(node)
        self._width_changed = True

    def _forget(self, root: int) -> None:
        for (node, answer), _ in list(self.branches.items()):
            if node == root:
                del self.branches[node, answer]
                self._put("branches", node << 32 | answer, int(MISSING))
        self.a["nodes"][root, at.KIND] = UNKNOWN

    @property
    def width(self) -> int:
        """Columns of a state's row: its control row and one inbox for each slot."""
        return 1 + len(self.slots)

    def local(self, record: Record) -> int:
        """Return the id of a local state."""
        found = self.local_ids.get(record)
        if found is None:
            found = self.local_ids[record] = len(self.locals)
            self.locals.append(record)
            views = self.a["views"]
            if found >= views.shape[1]:
                wider = np.zeros((len(views), 2 * views.shape[1]), np.int32)
                wider[:, : views.shape[1]] = views
                views = self.a["views"] = wider
            for index, view in enumerate(self.view_list):
                views[index, found] = self._viewed(view, record)
            self._images("permuted_locals", 0, found, record, self.local)
        return found

    def _add_view(self, key: Any, function: Callable[[Record], Value]) -> int:
        found = self.views.get(key)
        if found is None:
            found = self.views[key] = len(self.view_list)
            view = View(str(key), function, {})
            self.view_list.append(view)
            views = self.a["views"]
            if found >= len(views):
                views = self.a["views"] = grown(views, found + 1)
            for index, record in enumerate(self.locals):
                if index:
                    views[found, index] = self._viewed(view, record)
        return found

    def _viewed(self, view: View, record: Record) -> int:
        value = view.function(record)
        keyed = (type(value), value)  # 1 and True are equal keys, and not the same value
        return view.ids.setdefault(keyed, len(view.ids) + 1)

    def shared_id(self, column: int, value: Value) -> int:
        """Return the id of a shared field's value."""
        ids = self.shared_ids[column]
        keyed = (type(value), value)
        found = ids.get(keyed)
        if found is None:
            found = ids[keyed] = len(ids)
            self.shared_values[column].append(value)
            if len(self.group) > 1:
                self._shared_images(column, found, value)
        return found

    def _shared_images(self, column: int, index: int, value: Value) -> None:
        columns = len(self.shared_names)
        for g, permutation in enumerate(self.group):
            image = self.shared_id(column, permuted(value, permutation)) if g else index
            table = self.a["permuted_shared"]
            if index >= table.shape[1]:
                wider = np.zeros((len(table), 2 * table.shape[1]), np.int32)
                wider[:, : table.shape[1]] = table
                table = self.a["permuted_shared"] = wider
            table[g * columns + column, index] = image

    def message(self, message: Record) -> int:
        """Return the id of a message."""
        found = self.message_ids.get(message)
        if found is None:
            found = self.message_ids[message] = len(self.messages)
            self.messages.append(message)
            bad = 0
            for bit, prop in zip(self.message_bits, self.message_properties, strict=True):
                if isinstance(message, prop.kinds("message")) and not prop.holds(self.protocol, {"message": message}):
                    bad |= 1 << bit
            self._set("messages", found, (self.operation("discard", found), bad))
            table = self.a["network_operations"]
            if found >= table.shape[1]:
                wider = np.zeros((len(table), 2 * table.shape[1]), np.int32)
                wider[:, : table.shape[1]] = table
                table = self.a["network_operations"] = wider
            for j, operation in enumerate(self.network_operations):
                self.a["network_operations"][j, found] = self.operation(operation, found)
            self._images("permuted_messages", 0, found, message, self.message)
        return found

    def operation(self, name: str, message: int) -> int:
        """Return the id of a network operation on a message."""
        found = self.operations.get((name, message))
        if found is None:
            found = self.operations[name, message] = len(self.operation_names)
            self.operation_names.append((name, message))
            record = self.messages[message]
            rule = self.network.rule(name, record)
            counting = (rule.absent, rule.change, rule.least, rule.forgets) if rule else (learning.LEARNED, 0, 0, 0)
            self._set("operations", found, (self.slot(record.dest), message, *counting))
        return found

    def content(self, slot: int, inbox: Value) -> int:
        """Return the id of an inbox content."""
        if inbox == self.network.empty:
            return 0
        counted = self.network.rule("discard", self.network.known(inbox)[0]) is not None
        if not counted:
            return self._learned_content(slot, inbox)
        items = sorted((self.message(m), c) for m, c in self.network.to_counts(inbox).items())
        while True:
            free = int(self.meta[at.M_CONTENT_ITEMS])
            if free + len(items) + 2 < len(self.a["content_items"]):
                self.a["content_items"][free : free + len(items)] = items
                found = int(learning.intern_content(self._tuple(), slot, len(items)))
                if found >= 0:
                    return found
            self.meta[at.M_GROW] |= at.GROW_CONTENTS
            self.grow()

    def _learned_content(self, slot: int, inbox: Value) -> int:
        found = self.learned_contents.get((slot, inbox))
        if found is not None:
            return found
        deliverable = {self.message(message) for message in self.network.deliverable(inbox)}
        known = {self.message(message) for message in self.network.known(inbox)}
        found, free = int(self.meta[at.M_CONTENTS]), int(self.meta[at.M_CONTENT_ITEMS])
        while found + 2 >= len(self.a["contents"]) or free + len(known) + 2 >= len(self.a["content_items"]):
            self.meta[at.M_GROW] |= at.GROW_CONTENTS
            self.grow()
        bad = 0
        for k, message in enumerate(sorted(known)):
            self.a["content_items"][free + k] = message, int(message in deliverable)
            bad |= int(self.a["messages"][message, 1])
        self.a["slot_contents"][slot] += 1
        self.a["contents"][found] = slot, self.a["slot_contents"][slot], free, len(known), bad
        if len(self.group) > 1:
            raise ProtocolError(f"symmetry is not supported with the network discipline {type(self.network).__name__}")
        self.meta[at.M_CONTENTS] = found + 1
        self.meta[at.M_CONTENT_ITEMS] = free + len(known)
        self.learned_contents[slot, inbox] = found
        self.content_values[found] = inbox
        return found

    # States

    def encode_state(self, state: State) -> list[int]:
        """Return a state's row: the id of its control row, then of each slot's inbox content."""
        if self.shared_type is None:
            self.shared_type = type(state.shared)
            self.shared_names = field_names(self.shared_type)
            self.shared_ids = [{} for _ in self.shared_names]
            self.shared_values = [[] for _ in self.shared_names]
            base = len(self.bounds) + len(self.shared_names)
            self.meta[at.M_SLOT_BASE] = base
            self.meta[at.M_BOUNDS] = len(self.bounds)
            self.a["permuted_shared"] = np.zeros((max(1, len(self.group) * len(self.shared_names)), 64), np.int32)
            self.a["rows"] = np.zeros((len(self.a["rows"]), base), np.int32)
            for column, name in enumerate(self.bounds):
                self._set("limits", column, self.protocol.bounds[name])
            self._hide(base)
        for key in [*state.replicas, *state.inboxes]:
            self.slot(key)
        inboxes = [(self.slots[key], self.content(self.slots[key], inbox)) for key, inbox in state.inboxes.items()]
        row = [state.spent[name] for name in self.bounds]
        row += [self.shared_id(i, getattr(state.shared, name)) for i, name in enumerate(self.shared_names)]
        replicas = [0] * len(self.slots)
        for key, replica in state.replicas.items():
            replicas[self.slots[key]] = self.local(replica)
        result = [self._row(row + replicas)] + [0] * len(self.slots)
        for slot, content in inboxes:
            result[1 + slot] = content
        return result

    def _hide(self, base: int) -> None:
        self.a["hidden"] = np.zeros(max(base, 1), np.int32)
        if self._view_name is not None:
            hidden = self.protocol.hidden(self._view_name)
            for column, name in enumerate((*self.bounds, *self.shared_names)):
                names = hidden.bounds if column < len(self.bounds) else hidden.shared
                self.a["hidden"][column] = int(name in names)

    def _row(self, values: list[int]) -> int:
        while True:
            fresh = int(self.meta[at.M_ROWS])
            if fresh < len(self.a["rows"]):
                self.a["rows"][fresh] = values
                found = int(learning.intern_row(self._tuple(), fresh))
                if found >= 0:
                    return found
            self.meta[at.M_GROW] |= at.GROW_ROWS
            self.grow()

    def decode_state(self, row: Any) -> State:
        """Return the state of a row."""
        control = self.a["rows"][row[0]].tolist()
        first, base = len(self.bounds), len(self.bounds) + len(self.shared_names)
        assert self.shared_type is not None
        shared = self.shared_type(*[self.shared_values[i][control[first + i]] for i in range(len(self.shared_names))])
        replicas = {key: self.locals[control[base + s]] for key, s in self.slots.items() if control[base + s]}
        inboxes = {key: self.decode_content(int(row[1 + s])) for key, s in self.slots.items() if row[1 + s]}
        return State(Map(replicas), Map(inboxes), shared, Map(zip(self.bounds, control, strict=False)))

    def decode_content(self, content: int) -> Value:
        """Return the inbox of a content's id."""
        if content == 0:
            return self.network.empty
        if content in self.content_values:
            return self.content_values[content]
        _, _, start, n, _ = self.a["contents"][content].tolist()
        items = self.a["content_items"][start : start + n].tolist()
        return self.network.from_counts(Map((self.messages[message], count) for message, count in items))

    # Answers

    def answer(self, states: NDArray[np.int32]) -> None:
        """Answer every miss that the kernel noted.

        Parameters
        ----------
        states
            The rows that were being expanded; a miss that depends on inboxes names one of them.
        """
        n = int(self.meta[at.M_MISSES])
        asked = dict.fromkeys(map(tuple, self.a["misses"][:n].tolist()))
        self.meta[at.M_MISSES] = 0
        for kind, a, b, c, d, e in asked:
            if kind == at.MISS_ROOTS:
                self._answer_roots(a, b)
            elif kind == at.MISS_PATH:
                self._answer_path(a, b, c, d, e, states)
            elif kind == at.MISS_OPERATION:
                self._answer_operation(a, b)
        self.refresh()

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
                nodes.append(node)
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
        before = _encoded(me, message) if self.check_actions else b""
        steps = action.call(self.protocol, me, message, given)
        if self.check_actions:
            again = action.call(self.protocol, me, message, given)
            if _encoded(me, message) != before:
                raise ActionError(action, self.protocol, me, message, "changes its input")
            if set(map(encode, steps)) != set(map(encode, again)):
                problem = "is not pure: called twice on the same input, it yielded other steps"
                raise ActionError(action, self.protocol, me, message, problem)
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
        return prop.holds(self.protocol, given)

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
                    content = int(states[index][1 + slot])
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
                answer = self._inbox_answer(a, int(states[index][1 + b]))
            node = self.branches.get((node, answer))
        return False

    def _insert(self, root: int, path: Path, about: Root) -> int:
        """Lay a path of questions and answers; return the node at its end."""
        node = root
        for (kind, a, b), answer in path:
            current = self.a["nodes"][node].tolist()
            if current[at.KIND] == UNKNOWN:
                self.a["nodes"][node] = kind, a, b, 0
            elif current[:3] != [kind, a, b]:
                self._impure(about)
            child = self.branches.get((node, answer))
            if child is None:
                child = self.branches[node, answer] = self._node()
                self._put("branches", node << 32 | answer, child)
            node = child
        if self.a["nodes"][node, at.KIND] not in (UNKNOWN, LEAF):
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
            first = self._extend("assignments", assigned)
            spent = self._extend("spendings", spending)
            self._set("deltas", found, (first, len(assigned), spent, len(spending)))
        return found

    def _outcome(self, action: int, delta: int, consumes: bool, operations: list[int]) -> int:
        first = self._extend("outcome_operations", operations)
        return self._append("outcomes", (action, delta, int(consumes), first, len(operations)))

    def take_width_change(self) -> bool:
        """Return whether a slot was added since the last call."""
        changed, self._width_changed = self._width_changed, False
        return changed


class Reads(BaseException):
    """An action reads the shared state."""


def _refuse(name: str) -> Value:
    raise Reads


def _projecting(protocol: Protocol, read: Projection) -> Callable[[Record], Value]:
    return lambda record: read.function(protocol, record)


def _encoded(*values: Any) -> bytes:
    return b"".join(encode(value) for value in values if value is not None)
