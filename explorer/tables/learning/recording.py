"""Gives a handler or a property what it asks for, and records the questions with their answers: a path in a trie."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kraftcheck.explorer.tables.kernel.codes import INBOX_QUESTION, LOCAL_QUESTION, ME, PEER, SHARED
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.questions import CLASS, WHOLE, InboxQuestions
from kraftcheck.explorer.tables.learning.reads import LocalReader, SharedReader
from kraftcheck.spec.language.action import Action
from kraftcheck.spec.language.calling import evaluate_property
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.signature import Projection
from kraftcheck.spec.values import Map, Record, Value

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

    def _projection(self, read: Projection) -> Value:
        interner, protocol, values = self._interner, self._interner.protocol, {}
        for key, slot in interner.slots.items():
            local = self._control[interner.base + slot]
            if read.of_inbox:
                content = self._inboxes[slot] if slot < len(self._inboxes) else 0
                question = self._inbox_questions.number(read.name, self._of_inbox(read))
                self._note((INBOX_QUESTION, question, slot), self._inbox_questions.answer(question, content))
                if local:
                    values[key] = self._of_inbox(read)(interner.decode_content(content))
                continue
            question = interner.questions.number(("projection", read.name), partial(protocol.projected, read))
            self._note((LOCAL_QUESTION, question, slot), interner.questions.answer(question, local))
            if local:
                values[key] = protocol.projected(read, interner.locals[local])
        return Map(values)

    def _of_inbox(self, read: Projection) -> Callable[[Value], Value]:
        protocol = self._interner.protocol
        return lambda inbox: protocol.projected(read, inbox)

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
