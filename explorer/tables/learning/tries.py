"""Tries of questions and answers: what a handler or a property read, and where that leads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kraftcheck.explorer.tables.kernel.codes import (
    KIND,
    LEAF,
    LOCAL_QUESTION,
    ME,
    MISSING,
    PEER,
    SHARED,
    SHARED_QUESTION,
    SIZE,
    UNKNOWN,
)
from kraftcheck.explorer.tables.kernel.tries import child_of, lay
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.questions import InboxQuestions
from kraftcheck.explorer.tables.learning.recording import Question


class Impure(Exception):  # noqa: N818 - it says what somebody else does wrong
    """On the same input something else was read than before."""


class Tries:
    """The tries of one learner."""

    def __init__(self, interner: Interner, inbox_questions: InboxQuestions) -> None:
        self._interner = interner
        self._tables = interner.tables
        self._inbox_questions = inbox_questions
        self._first: dict[int, set[int]] = {}  # by root, the answers to its question

    def node(self) -> int:
        """Return a new node, of which nothing is known."""
        return self._tables.append("nodes", (UNKNOWN, 0, 0, 0, 0, 0))

    def set_leaf(self, node: int, value: int, count: int = 0) -> None:
        """Make a node a leaf."""
        self._tables.nodes[node] = LEAF, value, 0, count, 0, 0

    def has_leaf(self, root: int, row: int, me: int, peer: int, inboxes: list[int]) -> bool:
        """Return whether a trie leads to a leaf."""
        node = root
        while node >= 0:
            kind, a, b, *_ = self._tables.nodes[node].tolist()
            if kind in (UNKNOWN, LEAF):
                return bool(kind == LEAF)
            if kind == SHARED:
                answer = int(self._tables.rows[row, a])
            elif kind == SHARED_QUESTION:
                questions = self._interner.shared_questions[b - len(self._interner.bounds)]
                answer = questions.answer(a, int(self._tables.rows[row, b]))
            elif kind == LOCAL_QUESTION:
                local = me if b == ME else peer if b == PEER else int(self._tables.rows[row, self._interner.base + b])
                answer = self._interner.questions.answer(a, local)
            else:
                answer = self._inbox_questions.answer(a, inboxes[b] if b < len(inboxes) else 0)
            node = child_of(self._tables, node, answer)
        return False

    def insert(self, root: int, path: Mapping[Question, int]) -> int:
        """Lay a path of questions and answers; return the node at its end."""
        tables, node = self._tables, root
        if path:
            laid = np.array([(*question, answer) for question, answer in path.items()], np.int64)
            self._first.setdefault(root, set()).add(int(laid[0, 3]))
            nodes, jumps = tables.room_for_path(len(laid))
            node, nodes, jumps = lay(tables, root, laid, nodes, jumps)
            tables.note_used(nodes=nodes, jumps=jumps)
        if node < 0 or tables.nodes[node, KIND] not in (UNKNOWN, LEAF):
            raise Impure
        return node

    def forget(self, root: int) -> None:
        """Forget where a trie leads."""
        for answer in self._first.pop(root, ()):
            self._tables.put("branches", root << 32 | answer, int(MISSING))
        self._tables.nodes[root, KIND] = UNKNOWN
        self._tables.nodes[root, SIZE] = 0
