"""Warns of actions whose calls grow with the number of states: they read too much."""

from __future__ import annotations

from math import log

FEWEST_STATES = 1_000  # before there is anything to compare
FEWEST_CALLS = 1_000  # that are worth a warning
STEEP = 0.8  # calls grow as the number of states to this power, or faster


class CallGrowth:
    """Samples the calls of each action whenever the number of states has doubled."""

    def __init__(self) -> None:
        self._samples: list[tuple[int, dict[str, int]]] = []

    def sample(self, states: int, calls: dict[str, int]) -> None:
        """Note the calls of each action, if there are twice as many states as the last time."""
        if states >= (2 * self._samples[-1][0] if self._samples else FEWEST_STATES):
            self._samples.append((states, dict(calls)))

    def notes(self, states: int, calls: dict[str, int]) -> list[str]:
        """Return a warning for each action whose calls still grow about as fast as the number of states."""
        earlier = [sample for sample in self._samples if 2 * sample[0] <= states]
        if not earlier:
            return []
        then, before = earlier[-1]
        return [
            f"{name} was called {times:,} times in Python, and its calls grow with the number of states: "
            "it reads, or is told, what differs from state to state"
            for name, times in calls.items()
            if times >= FEWEST_CALLS and log(times / max(1, before.get(name, 0))) >= STEEP * log(states / then)
        ]
