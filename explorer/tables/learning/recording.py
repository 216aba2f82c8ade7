"""Gives a handler or a property what it asks for, and records the questions with their answers: a path in a trie."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kraftcheck.explorer.tables.kernel.codes import INBOX_QUESTION, LOCAL_QUESTION, ME, PEER, SHARED, SHARED_QUESTION
from kraftcheck.explorer.tables.learning.filters import filtered
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.questions import CLASS, ITSELF, PRESENT, WHOLE, InboxQuestions, Key
from kraftcheck.explorer.tables.learning.reads import ABSENT, LocalReader, MapReader, PeerReader, SharedReader
from kraftcheck.explorer.tables.learning.shared_sets import Candidates, Passes, SharedSet
from kraftcheck.spec.language.declarations import Action, Projection, Property
from kraftcheck.spec.language.semantics import evaluate_property
from kraftcheck.spec.values import Map, Record, Value

Question = tuple[int, int, int]  # kind of trie node, and its two arguments


class Recording:
    """Records what is read on the way to one answer."""

    def __init__(
        self,
        interner: Interner,
        inbox_questions: InboxQuestions,
        row: int,
        inboxes: list[int],
        by_field: bool = True,
        me_by_field: bool = True,
    ) -> None:
        self.by_field, self._me_by_field = by_field, me_by_field
        self._whole = interner.questions.number(WHOLE, lambda record: record)
        self.lent = False
        self.sets: dict[int, SharedSet] = {}
        self.awaited: dict[tuple[int, Value], Passes | None] = {}
        self.path: dict[Question, int] = {}
        self._interner = interner
        self._inbox_questions = inbox_questions
        self._control = interner.values_of_control_row(row)
        self._inboxes = inboxes

    def _note(self, question: Question, answer: int) -> None:
        self.path.setdefault(question, answer)

    def given(self, owner: Action | Property) -> dict[str, Value]:
        """Return the shared state and the projections that an action or a property asks for."""
        given: dict[str, Value] = {read.name: self._projection(read) for read in owner.reads if read.name in owner.asks}
        given["shared"] = self.shared()
        return given

    def shared(self) -> Any:
        """Return a stand-in for the shared state."""
        assert self._interner.shared_type is not None
        return SharedReader(self._interner.shared_type, self._read_shared)

    def _read_shared(self, name: str) -> Value:
        interner = self._interner
        index = interner.shared_names.index(name)
        column = len(interner.bounds) + index
        if index in interner.sets.elements:
            self._note((SHARED, column, 0), self._control[column])  # what is noted of a set is never nothing
            found = self._set(index)
            return found if self.by_field else frozenset(found)
        value = interner.shared_values[index][self._control[column]]
        if self.by_field and index in interner.shared_records:
            self._note_shared(index, CLASS, _class)  # which also tells whether it is a record
            if isinstance(value, Record):
                self.lent = True
                return LocalReader(value, partial(self._read_shared_part, index))
        self._note((SHARED, column, 0), self._control[column])
        return value

    def _set(self, index: int) -> SharedSet:
        """Return a stand-in for a shared set that is taken apart."""
        if index not in self.sets:
            sets, self.lent = self._interner.sets, True

            def has(element: Value) -> bool:
                column = sets.column(index, element)
                self._note((SHARED, column, 0), self._control[column])
                return self._control[column] == 1

            def note(key: Value, passes: Passes | None) -> None:
                self.awaited.setdefault((index, key), passes)

            self.sets[index] = SharedSet(Candidates(sets, index, note), has)
        return self.sets[index]

    def set_of(self, name: str) -> SharedSet | None:
        """Return the stand-in that was given for a shared field, by its name; None where there is none."""
        return self.sets.get(self._interner.shared_names.index(name))

    def _read_shared_part(self, index: int, field: str | None) -> None:
        column = len(self._interner.bounds) + index
        if field is None:
            self._note((SHARED, column, 0), self._control[column])
        elif (SHARED, column, 0) not in self.path:
            self._note_shared(index, ("field", field), partial(_field, field))

    def _note_shared(self, index: int, key: Key, function: Callable[[Any], Value]) -> None:
        questions, column = self._interner.shared_questions[index], len(self._interner.bounds) + index
        question = questions.number(key, function)
        self._note((SHARED_QUESTION, question, column), questions.answer(question, self._control[column]))

    def _projection(self, read: Projection) -> MapReader:
        """Return a stand-in for a projection of all replicas."""
        project = partial(self._interner.protocol.projected, read)
        if read.of_inbox:
            question = self._inbox_questions.number(read.name, project)
            return MapReader(self._interner.slots, partial(self._read_inbox, question))
        if self.by_field:
            question = self._interner.questions.number(("own", read.name), partial(_unless_itself, project))
            return MapReader(self._interner.slots, partial(self._read_part, question))
        question = self._interner.questions.number(("projection", read.name), project)
        return MapReader(self._interner.slots, partial(self._read_replica, question))

    def _read_part(self, question: int, key: Value) -> Any:
        """Do the same as `_read_replica`; but of a replica itself only its fields are noted, when they are read."""
        answer = self._read_replica(question, key)
        if answer is not ITSELF:
            return answer
        slot = self._interner.slots[key]
        local = self._control[self._interner.base + slot]
        kind = self._interner.questions.number(CLASS, _class)
        self._note((LOCAL_QUESTION, kind, slot), self._interner.questions.answer(kind, local))
        self.lent = True
        return PeerReader(key, self._interner.locals[local], partial(self._read_local, slot, local))

    def _read_replica(self, question: int, key: Value) -> Any:
        """Return the answer to a question about a replica, or `ABSENT`."""
        questions, slot = self._interner.questions, self._interner.slots[key]
        local = self._control[self._interner.base + slot]
        answer = questions.answer(question, local)
        self._note((LOCAL_QUESTION, question, slot), answer)
        return questions.value(question, answer) if local else ABSENT

    def _read_inbox(self, question: int, key: Value) -> Any:
        """Return the answer to a question about a replica's inbox, or `ABSENT`."""
        questions, slot = self._inbox_questions, self._interner.slots[key]
        if self._read_replica(self._interner.questions.number(PRESENT, lambda _: True), key) is ABSENT:
            return ABSENT
        answer = questions.answer(question, self._inboxes[slot] if slot < len(self._inboxes) else 0)
        self._note((INBOX_QUESTION, question, slot), answer)
        return questions.value(question, answer)

    def holds(self, prop: Property, me: int, peer: int) -> bool:
        """Return whether a property holds."""
        given = self.given(prop)
        names = {ME: "before", PEER: "after"} if prop.over_steps else {ME: "me", PEER: "peer"}
        questions = self._interner.questions
        for role, local in ((ME, me), (PEER, peer)):
            name = names[role]
            if name not in prop.asks:
                continue
            record = self._interner.locals[local]
            if not self.by_field or not (self._me_by_field or "peer" in prop.asks or prop.over_steps):
                self._read_local(role, local, None)
                given[name] = record
            else:
                self.lent = True
                given[name] = LocalReader(record, partial(self._read_local, role, local))
                kind = questions.number(CLASS, _class)
                self._note((LOCAL_QUESTION, kind, role), questions.answer(kind, local))
            if not isinstance(record, prop.kinds(name)):
                return True
        protocol = self._interner.protocol
        if not self.by_field or not self._interner.sets.elements:
            return evaluate_property(protocol, prop, given)
        holds = evaluate_property(protocol, filtered(prop), given)
        if prop.name in protocol.probes:  # who looks at how a property is evaluated sees it without stand-ins
            evaluate_property(protocol, prop, self._plain(prop, me, peer))
        return holds

    def _plain(self, prop: Property, me: int, peer: int) -> dict[str, Value]:
        """Return what a property asks for, without stand-ins, and note nothing."""
        roles = (("before", me), ("me", me), ("after", peer), ("peer", peer))
        return self.whole(prop) | {name: self._interner.locals[local] for name, local in roles}

    def whole(self, owner: Action | Property) -> dict[str, Value]:
        """Return the shared state and the projections that it asks for, without stand-ins, and note nothing."""
        interner, control = self._interner, self._control
        given: dict[str, Value] = {"shared": interner.shared_of(control)}
        inboxes = self._inboxes + [0] * len(interner.slots)
        here = [(key, slot, local) for key, slot in interner.slots.items() if (local := control[interner.base + slot])]
        for read in owner.reads:
            sources = [
                interner.decode_content(inboxes[s]) if read.of_inbox else interner.locals[at] for _, s, at in here
            ]
            found = [interner.protocol.projected(read, source) for source in sources]
            given[read.name] = Map(zip([key for key, _, _ in here], found, strict=True))
        return given

    def _read_local(self, role: int, local: int, field: str | None) -> None:
        if (LOCAL_QUESTION, self._whole, role) in self.path:
            return  # a helper that remembers may, or may not, read more
        question = self._question_about(field)
        self._note((LOCAL_QUESTION, question, role), self._interner.questions.answer(question, local))

    def _question_about(self, field: str | None) -> int:
        if field is None:
            return self._interner.questions.number(WHOLE, lambda record: record)
        return self._interner.questions.number(("field", field), partial(_field, field))


def _field(name: str, record: Record) -> Value:
    value: Value = getattr(record, name, ())
    return value


def _class(record: Record) -> Value:
    return f"{type(record).__module__}.{type(record).__qualname__}"


def _unless_itself(project: Callable[[Record], Value], record: Record) -> Value:
    """Return what a projection gives; of a projection that gives the whole replica, that it does."""
    value = project(record)
    return ITSELF if value is record else value
