"""Ids of messages, of network operations on messages, and of inbox contents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import GROW_CONTENTS, KEY_LIMIT, code_of
from kraftcheck.explorer.tables.kernel.resolving.inboxes import CLEARS, LEARNED, QUEUES, intern_content
from kraftcheck.explorer.tables.kernel.resolving.requests import TableFull
from kraftcheck.explorer.tables.learning.growing_tables import GrowingTables, require_below
from kraftcheck.explorer.tables.learning.permutations import Orbits
from kraftcheck.explorer.tables.learning.queries import InboxQueries, InternedList
from kraftcheck.spec.language.network import Network
from kraftcheck.spec.language.state import Permutation, permuted
from kraftcheck.spec.values import Record, Value


class InboxTable:
    """The messages and inbox contents of one protocol; `judge` returns the invariants that a message violates."""

    def __init__(
        self,
        network: Network,
        tables: GrowingTables,
        orbits: Orbits,
        group: list[Permutation],
        slot: Callable[[Value], int],
        judge: Callable[[Record], int],
    ) -> None:
        self.messages = InternedList()
        self.operations = InternedList()
        self.has_groups = False  # whether some operation is on a group of messages, or on a channel
        self.content_values: dict[int, Value] = {}
        self.queries = InboxQueries(tables, self.decode_content)
        self._network, self._tables, self._orbits, self._group = network, tables, orbits, group
        self._slot, self._judge = slot, judge
        self._content_ids: dict[tuple[int, Value], int] = {}
        self._queues: dict[Value, int] = {None: 0}
        self._own_operations = [operation for _, operation, _ in network.own_operations()]

    def message(self, message: Record) -> int:
        """Return the id of a message."""
        found = self.messages.find(message)
        if found is None:
            found = self.messages.add(message, message)
            own = self._queues.setdefault(self._network.queue(message), len(self._queues))
            if (group := self._network.group(message)) is not None:
                own = 1 + self.message(group)
            self._tables.set("messages", found, (self.operation("discard", found), self._judge(message), own))
            operations = [self.operation(operation, found) for operation in self._own_operations]
            table = self._tables.fit_columns("network_operations", found + 1)
            table[: len(operations), found] = operations
            self._orbits.note("permuted_messages", found, message, self.message)
        return found

    def operation(self, name: str, message: int) -> int:
        """Return the id of a network operation on a message."""
        found = self.operations.find((name, message))
        if found is None:
            found = require_below(
                self.operations.add((name, message), (name, message)), KEY_LIMIT, "network operations"
            )
            record = self.messages[message]
            rule = self._network.rule_of(name, record)
            kind = LEARNED if rule is None else CLEARS if rule.clears else QUEUES if rule.queues else rule.absent
            self.has_groups |= kind in (CLEARS, QUEUES)
            counting = (kind, rule.change, rule.least, rule.forgets) if rule else (kind, 0, 0, 0)
            self._tables.set("operations", found, (self._slot(record.dest), message, *counting))
        return found

    def content(self, slot: int, inbox: Value) -> int:
        """Return the id of a slot's inbox content."""
        if inbox == self._network.empty:
            return 0
        network = self._network
        if (slot, inbox) in self._content_ids or network.rule_of("discard", network.known(inbox)[0]) is None:
            return self._learned_content(slot, inbox)
        items = network.to_items(inbox)
        return self.counted_content(slot, [(self.message(message), count) for message, count in items])

    def counted_content(self, slot: int, counts: Iterable[tuple[int, int]]) -> int:
        """Return the id of an inbox content, given (message id, count) pairs."""
        tables, items = self._tables, sorted(counts)
        while True:
            free = int(tables.meta[codes.M_CONTENT_ITEMS])
            if free + len(items) + 2 < len(tables.content_items):
                tables.content_items[free : free + len(items)] = items
                with suppress(TableFull):
                    return int(intern_content(tables, slot, len(items)))
            tables.grow(GROW_CONTENTS)

    def _learned_content(self, slot: int, inbox: Value) -> int:
        """Return the id of an inbox content that is kept as a value, since no counting rule applies."""
        found = self._content_ids.get((slot, inbox))
        if found is not None:
            return found
        tables = self._tables
        deliverable = {self.message(message) for message in self._network.deliverable(inbox)}
        known = {self.message(message) for message in self._network.known(inbox)}
        found, free = int(tables.meta[codes.M_CONTENTS]), int(tables.meta[codes.M_CONTENT_ITEMS])
        while found + 2 >= len(tables.contents) or free + len(known) + 2 >= len(tables.content_items):
            tables.grow(GROW_CONTENTS)
        bad = 0
        for k, message in enumerate(sorted(known)):
            tables.content_items[free + k] = message, int(message in deliverable)
            bad |= int(tables.messages[message, 1])
        tables.slot_contents[slot] += 1
        tables.contents[found] = slot, free, len(known), bad
        tables.inbox_codes[found] = code_of(tables.slot_contents[slot], bad)
        tables.meta[codes.M_CONTENTS] = found + 1
        tables.meta[codes.M_CONTENT_ITEMS] = free + len(known)
        self.note_content(found, slot, inbox)
        for g, permutation in enumerate(self._group if len(self._group) > 1 else ()):
            place = int(tables.permuted_slots[g, slot])
            tables.permuted_contents[found, g] = self._learned_content(place, permuted(inbox, permutation))
        return found

    def note_content(self, content: int, slot: int, inbox: Value) -> None:
        """Store the value of an inbox content that follows no counting rule."""
        self._content_ids[slot, inbox] = content
        self.content_values[content] = inbox

    def slot_of_content(self, content: int) -> int:
        """Return the slot of an inbox content."""
        return int(self._tables.contents[content, codes.C_SLOT])

    def items_of_content(self, content: int) -> list[tuple[int, int]]:
        """Return an inbox content as (message id, count) pairs."""
        _, start, n, _ = self._tables.contents[content].tolist()
        return [(message, count) for message, count in self._tables.content_items[start : start + n].tolist()]

    def decode_content(self, content: int) -> Value:
        """Return the inbox with a content's id."""
        if content == 0:
            return self._network.empty
        if content in self.content_values:
            return self.content_values[content]
        items = self.items_of_content(content)
        return self._network.from_items((self.messages[message], count) for message, count in items)
