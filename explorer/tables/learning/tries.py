"""Tries of questions and answers: what a handler or a property read, and where that leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftcheck.explorer.tables.kernel.codes import (
    JUMPS,
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
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.questions import InboxQuestions
from kraftcheck.explorer.tables.learning.recording import Question

LEAST_JUMPS, MOST_JUMPS = 4, 64  # answers of a node for which there is a place in a table


class Impure(Exception):  # noqa: N818 - it says what somebody else does wrong
    """On the same input something else was read than before."""


class Tries:
    """The tries of one learner.

    Parameters
    ----------
    interner, inbox_questions
        What numbers the answers.
    """

    def __init__(self, interner: Interner, inbox_questions: InboxQuestions) -> None:
        self._interner = interner
        self._tables = interner.tables
        self._inbox_questions = inbox_questions
        self._branches: dict[tuple[int, int], int] = {}
        self._first: dict[int, set[int]] = {}  # by root, the answers to its question

    def node(self) -> int:
        """Return a new node, of which nothing is known."""
        return self._tables.append("nodes", (UNKNOWN, 0, 0, 0, 0, 0))

    def set_leaf(self, node: int, value: int, count: int = 0) -> None:
        """Make a node a leaf."""
        self._tables.nodes[node] = LEAF, value, 0, count, 0, 0

    def has_leaf(self, root: int, row: int, me: int, peer: int, inboxes: list[int] | None) -> bool:
        """Return whether a trie leads to a leaf; without inboxes it stops at a question about them."""
        node: int | None = root
        while node is not None:
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
            elif inboxes is None:
                return False
            else:
                answer = self._inbox_questions.answer(a, inboxes[b] if b < len(inboxes) else 0)
            node = self._branches.get((node, answer))
        return False

    def insert(self, root: int, path: Mapping[Question, int]) -> int:
        """Lay a path of questions and answers; return the node at its end.

        Raises
        ------
        Impure
            Where another question stands on the way.
        """
        node, nodes = root, self._tables
        if path:
            self._first.setdefault(root, set()).add(next(iter(path.values())))
        for question, answer in path.items():
            current: Any = nodes.nodes[node].tolist()
            if current[KIND] == UNKNOWN:
                nodes.nodes[node] = *question, 0, 0, 0
            elif current[:3] != [*question]:
                raise Impure
            child = self._branches.get((node, answer))
            if child is None:
                child = self._branches[node, answer] = self.node()
                self._tables.put("branches", node << 32 | answer, child)
                self._note_jump(node, answer, child)
            node = child
        if nodes.nodes[node, KIND] not in (UNKNOWN, LEAF):
            raise Impure
        return node

    def _note_jump(self, node: int, answer: int, child: int) -> None:
        """Note where an answer leads where that is found without a map; only for small answers."""
        tables, size = self._tables, int(self._tables.nodes[node, SIZE])
        if size <= answer < MOST_JUMPS:
            more = max(LEAST_JUMPS, 1 << answer.bit_length())
            start = tables.extend("jumps", [self._branches.get((node, one), int(MISSING)) for one in range(more)])
            tables.nodes[node, JUMPS], tables.nodes[node, SIZE] = start, more
        elif answer < size:
            tables.jumps[tables.nodes[node, JUMPS] + answer] = child

    def forget(self, root: int) -> None:
        """Forget where a trie leads."""
        for answer in self._first.pop(root, ()):
            if self._branches.pop((root, answer), None) is not None:
                self._tables.put("branches", root << 32 | answer, int(MISSING))
        self._tables.nodes[root, KIND] = UNKNOWN
        self._tables.nodes[root, SIZE] = 0
