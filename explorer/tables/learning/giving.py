"""How records are given to handlers and properties: as stand-ins that note what is read of them, or whole."""

from __future__ import annotations

from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.tries import Tries

SOME = 64  # times that Python is asked of a property before it is seen whether that tells of many replicas


class HowGiven:
    """Decides it, by root of a trie.

    A property of one replica is asked about by fields as long as an answer tells of many replicas.
    """

    def __init__(self, interner: Interner, tries: Tries, wholly: set[str]) -> None:
        self.wholly = wholly
        self.asked: dict[int, int] = {}
        self._interner, self._tries = interner, tries
        self._whole: set[tuple[int, bool]] = set()

    def of(self, root: int, name: str) -> tuple[bool, bool]:
        """Return whether records are given by field, and a property's only replica; else forget what fields told."""
        asked = self.asked.get(root)
        if asked is not None:
            self.asked[root] = asked = asked + 1
        wholly = name in self.wholly
        whole_me = wholly or (root, False) in self._whole  # it stays so, also once there are many more replicas
        whole_me |= (asked or 0) > max(SOME, len(self._interner.locals) // 2)
        if whole_me and (root, wholly) not in self._whole:
            self._whole.add((root, wholly))
            self._tries.forget(root)
        return not wholly, not whole_me
