"""Decides properties that read inboxes: once for each distinct input, for a whole batch of states at a time.

What such a property reads of a state is a few numbers: of the control row, the columns that it reads; of each inbox,
the number of its projections, or of the messages that the property is about. States where these are equal have equal
verdicts. The numbers of a batch stand in one array, a row for each thing that is read and a column for each state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftcheck.explorer.tables.learning.learner import Learner
from kraftcheck.explorer.tables.states.packing import Indices, Rows
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.calling import assignments, evaluate_property
from kraftcheck.spec.language.property import SPENT, Property
from kraftcheck.spec.values import Map, Record, Value

ENOUGH = 1 << 14
"""Inputs after which it is seen whether they repeat."""


class Verdicts:
    """Says of which states a property holds."""

    def __init__(self, learner: Learner, prop: Property, holds: Callable[[Any], bool]) -> None:
        self._learner = learner
        self._prop = prop
        self._holds = holds
        self._known: dict[bytes, bool] = {}
        self._asked = 0
        self._repeats = "state" not in prop.asks
        self._is_of_parts = not {"state", "shared", SPENT, "message"} & {*prop.asks}
        self.evaluated = 0
        self.last: Any = None

    def of(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each state whether the property holds."""
        inputs = self._inputs(rows) if self._repeats and len(rows) else None
        if inputs is None:
            return np.array([self._judge(row) for row in rows], bool)
        first, which = _distinct(inputs)
        found = np.zeros(len(first), bool)
        for number, index in enumerate(first.tolist()):
            key = inputs[:, index].tobytes()
            verdict = self._known.get(key)
            if verdict is None:
                verdict = self._known[key] = self._judge(rows[index])
            found[number] = verdict
        self._asked += len(rows)
        if self._asked >= ENOUGH and 2 * len(self._known) > self._asked:
            self._known.clear()
            self._repeats = False
        verdicts: NDArray[np.bool_] = found[which]
        return verdicts

    def _judge(self, row: Any) -> bool:
        self.evaluated += 1
        self.last = row
        return self._holds_of_parts(row) if self._is_of_parts else self._holds(row)

    def _holds_of_parts(self, row: Any) -> bool:
        """Evaluate the property on replicas and projections, as they are known by their numbers."""
        interner, prop, protocol = self._learner.interner, self._prop, self._learner.protocol
        (control,), (inboxes,) = (part.tolist() for part in interner.parts_of(row[None]))
        base = interner.base
        here = {key: slot for key, slot in interner.slots.items() if control[base + slot]}
        known: dict[str, Value] = {}
        for read in prop.reads:
            questions: Any = self._learner.inbox_questions if read.of_inbox else interner.questions
            question = questions.number(
                read.name if read.of_inbox else ("projection", read.name), self._projecting(read)
            )
            seen = inboxes if read.of_inbox else control[base:]
            answers = ((key, questions.answer(question, seen[slot])) for key, slot in here.items())
            known[read.name] = Map((key, questions.value(question, answer)) for key, answer in answers)
        replicas = [interner.locals[control[base + slot]] for slot in here.values()]
        return all(evaluate_property(protocol, prop, {**known, **about}) for about in assignments(prop, replicas, ()))

    def _inputs(self, rows: Rows) -> Rows | None:
        """Return what the property reads of states, a column of numbers each; None where that cannot be read."""
        try:
            control, contents = (np.ascontiguousarray(part.T) for part in self._learner.interner.parts_of(rows))
            return np.concatenate([*self._of_control(control), *self._of_inboxes(contents)])
        except RaisedError:  # the property will raise it, of some state
            return None

    def _of_control(self, control: Rows) -> list[Rows]:
        interner, prop = self._learner.interner, self._prop
        tables: Any = interner.tables
        bounds, base = len(interner.bounds), interner.base
        replicas = control[base:]
        of_replicas = [read for read in prop.reads if not read.of_inbox]
        parts = [control[:bounds]] if SPENT in prop.asks else []
        parts += [control[bounds:base]] if "shared" in prop.asks else []
        if "me" in prop.asks or "peer" in prop.asks:
            parts.append(replicas)
        else:
            parts.append((replicas != 0).astype(np.int32))
            for read in of_replicas:
                question = interner.questions.number(("projection", read.name), self._projecting(read))
                parts.append(tables.local_answers[question][replicas])
        return parts

    def _of_inboxes(self, contents: Rows) -> list[Rows]:
        prop, inboxes = self._prop, self._learner.inbox_questions
        tables: Any = self._learner.tables
        parts = []
        questions = [inboxes.number(read.name, self._projecting(read)) for read in prop.reads if read.of_inbox]
        if "message" in prop.asks:
            kinds = prop.kinds("message")
            questions.append(inboxes.number(f"known to {prop.name}", partial(self._messages, kinds)))
        for question in questions:
            answers = tables.inbox_answers[question][contents]
            if (answers < 0).any():
                for content in np.unique(contents[answers < 0]).tolist():
                    inboxes.answer(question, content)
                answers = tables.inbox_answers[question][contents]
            parts.append(answers)
        return parts

    def _projecting(self, read: Any) -> Callable[[Any], Value]:
        return partial(self._learner.protocol.projected, read)

    def _messages(self, kinds: tuple[type[Record], ...], inbox: Any) -> Value:
        """Return the messages of some classes that an inbox knows."""
        known = self._learner.protocol.network.known(inbox)
        return tuple(message for message in known if isinstance(message, kinds))


def _distinct(inputs: Rows) -> tuple[Indices, Indices]:
    """Return where each distinct column stands first, and for each column which of these it equals."""
    lowest = inputs.min(axis=1).tolist()
    ranges = [high + 1 - low for high, low in zip(inputs.max(axis=1).tolist(), lowest, strict=True)]
    if prod(ranges) >= 1 << 63:  # a number cannot tell them apart
        whole = np.ascontiguousarray(inputs.T).view(np.dtype((np.void, len(inputs) * inputs.itemsize))).ravel()
        return np.unique(whole, return_index=True, return_inverse=True)[1:]
    keys = np.zeros(inputs.shape[1], np.int64)
    for row, low, each in zip(inputs, lowest, ranges, strict=True):
        if each > 1:
            keys *= each
            keys += row
            keys -= low
    if prod(ranges) > 4 * len(keys):
        return np.unique(keys, return_index=True, return_inverse=True)[1:]
    places = np.full(prod(ranges), -1, np.int64)
    places[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    found = np.flatnonzero(places >= 0)
    first = places[found]
    places[found] = np.arange(len(found))
    return first, places[keys]
