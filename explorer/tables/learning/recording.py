"""Gives a handler or a property what it asks for, and records the questions with their answers: a path in a trie."""

from __future__ import annotations

from functools import partial
from typing import Any

from kraftcheck.explorer.tables.kernel.codes import INBOX_QUESTION, LOCAL_QUESTION, ME, PEER, SHARED
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.questions import CLASS, PRESENT, WHOLE, InboxQuestions
from kraftcheck.explorer.tables.learning.reads import ABSENT, LocalReader, MapReader, SharedReader
from kraftcheck.spec.language.action import Action
from kraftcheck.spec.language.calling import evaluate_property
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.signature import Projection
from kraftcheck.spec.values import Record, Value

Question = tuple[int, int, int]  # kind of trie node, and its two arguments


class Recording:
    """Records what is read on the way to one answer.

    Parameters
    ----------
    interner, inbox_questions
        What numbers the answers.
    row
        The control row that is read.
    inboxes
        The inbox content of each replica, as far as there are any.
    """

    def __init__(self, interner: Interner, inbox_questions: InboxQuestions, row: int, inboxes: list[int]) -> None:
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
        self._note((SHARED, column, 0), self._control[column])
        return interner.shared_values[index][self._control[column]]

    def _projection(self, read: Projection) -> MapReader:
        """Return a stand-in for a projection of all replicas."""
        project = partial(self._interner.protocol.projected, read)
        if read.of_inbox:
            question = self._inbox_questions.number(read.name, project)
            return MapReader(self._interner.slots, partial(self._read_inbox, question))
        question = self._interner.questions.number(("projection", read.name), project)
        return MapReader(self._interner.slots, partial(self._read_replica, question))

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
        """Return whether a property holds.

        Parameters
        ----------
        prop
            The property.
        me, peer
            Ids of the local states that it is about; those before and after a step, for a property of steps.
        """
        given = self.given(prop)
        names = {ME: "before", PEER: "after"} if prop.over_steps else {ME: "me", PEER: "peer"}
        questions = self._interner.questions
        for role, local in ((ME, me), (PEER, peer)):
            name = names[role]
            if name not in prop.asks:
                continue
            record = self._interner.locals[local]
            if "peer" not in prop.asks and not prop.over_steps:
                self._read_local(role, local, None)
                given[name] = record
            else:
                given[name] = LocalReader(record, partial(self._read_local, role, local))
                kind = questions.number(CLASS, lambda r: type(r).__qualname__)
                self._note((LOCAL_QUESTION, kind, role), questions.answer(kind, local))
            if not isinstance(record, prop.kinds(name)):
                return True
        return evaluate_property(self._interner.protocol, prop, given)

    def _read_local(self, role: int, local: int, field: str | None) -> None:
        question = self._question_about(field)
        self._note((LOCAL_QUESTION, question, role), self._interner.questions.answer(question, local))

    def _question_about(self, field: str | None) -> int:
        if field is None:
            return self._interner.questions.number(WHOLE, lambda record: record)
        return self._interner.questions.number(("field", field), lambda record: _field(record, field))


def _field(record: Record, name: str) -> Value:
    value: Value = getattr(record, name, ())
    return value
