"""Numbers the answers to questions about local states and inboxes; each question is a function, asked once for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kraftcheck.explorer.tables.learning.growing_tables import UNASKED, GrowingTables
from kraftcheck.spec.values import Record, Value

Key = tuple[str, str]
WHOLE: Key = ("whole", "")  # the local state itself
CLASS: Key = ("class", "")  # its class
PRESENT: Key = ("present", "")  # whether there is a replica


class NumberedFunction(NamedTuple):
    """A function of a local state, or of an inbox, and its values with their numbers."""

    function: Callable[[Any], Value]
    values: list[Any]
    ids: dict[Any, int]

    def number(self, value: Any) -> int:
        """Return the number of the function's value."""
        answer = self.function(value)
        key = type(answer), answer  # 1 and True are equal, and not the same
        found = self.ids.get(key)
        if found is None:
            found = self.ids[key] = len(self.values)
            self.values.append(answer)
        return found


class LocalQuestions:
    """The questions about local states.

    Parameters
    ----------
    tables
        Where the answers are noted.
    records
        The local states by id; the first is None.
    """

    def __init__(self, tables: GrowingTables, records: Sequence[Any]) -> None:
        self._tables = tables
        self._records = records
        self._numbers: dict[Key, int] = {}
        self._questions: list[NumberedFunction] = []

    def number(self, key: Key, function: Callable[[Record], Value]) -> int:
        """Return the number of a question."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._questions)
            question = NumberedFunction(function, [None], {None: 0})  # 0: no replica
            self._questions.append(question)
            self._tables.set("local_answers", found, 0)
            for local, record in enumerate(self._records[1:], 1):
                self._tables.local_answers[found, local] = question.number(record)
        return found

    def add_record(self, local: int, record: Record) -> None:
        """Note the answers of a new local state."""
        table = self._tables.fit_columns("local_answers", local + 1)
        for number, question in enumerate(self._questions):
            table[number, local] = question.number(record)

    def answer(self, question: int, local: int) -> int:
        """Return the number of a question's answer about a local state."""
        return int(self._tables.local_answers[question, local])

    def value(self, question: int, answer: int) -> Any:
        """Return the answer to a question that has some number."""
        return self._questions[question].values[answer]


class InboxQuestions:
    """The questions about inboxes.

    Parameters
    ----------
    tables
        Where the answers are noted.
    decode
        Returns the inbox of an inbox content's id.
    """

    def __init__(self, tables: GrowingTables, decode: Callable[[int], Value]) -> None:
        self._tables = tables
        self._decode = decode
        self._numbers: dict[str, int] = {}
        self._questions: list[NumberedFunction] = []

    def number(self, name: str, function: Callable[[Value], Value]) -> int:
        """Return the number of a question."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._questions)
            self._questions.append(NumberedFunction(function, [], {}))
            self._tables.set("inbox_answers", found, UNASKED, UNASKED)
        return found

    def answer(self, question: int, content: int) -> int:
        """Return the number of a question's answer, evaluating it once."""
        table = self._tables.inbox_answers
        if table[question, content] < 0:
            table[question, content] = self._questions[question].number(self._decode(content))
        return int(table[question, content])

    def value(self, question: int, answer: int) -> Any:
        """Return the answer to a question that has some number."""
        return self._questions[question].values[answer]
