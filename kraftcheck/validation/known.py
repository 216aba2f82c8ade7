"""Use of Kafka's known differences by a replay: how many units the model without a difference does not take.

The methods of the differences are watched. Only where the model without a difference returns something else is the
unit replayed once more, without it. So the count is exact, and the other units cost little.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from kraftcheck.kraft_model.quorum.base import QuorumBase

PARKED, ITSELF, RETRIES = "parked-fetches", "fetches-from-itself", "retries-at-bootstrap-servers"
ONE_REQUEST = "one-request-at-a-time"
"""Differences whose use the replay knows where it takes the step."""

SEEN_THERE = ("servers", "retry")
"""Their methods, which are frequent."""

LATE = {"refuses-while-it-stops": "stopped_by"}
"""Differences that only add steps behind those of the model, by a helper that is called where none of these fits."""

IN_FLIGHT = ("responses_to_pending", "dropped_with_mode")
"""Methods for messages in flight, which a log does not show."""


class KnownUses:
    """Counts the units that need a known difference, by name; `noted` has those that may have changed this unit.

    `known` are the differences of the protocol from the class `plain`, and `make` returns a protocol without one.
    """

    def __init__(
        self,
        protocol: QuorumBase,
        plain: type[QuorumBase],
        known: Mapping[str, type[QuorumBase]],
        make: Callable[[str], QuorumBase],
    ) -> None:
        self.names = tuple(known)
        self.counts: Counter[str] = Counter()
        self.noted: set[str] = set()
        self._make = make
        self._others: dict[str, QuorumBase] = {}
        for name, helper in LATE.items():
            if name in self.names:
                setattr(protocol, helper, self._noting(name, getattr(protocol, helper)))
        for method, found in _overridden(known, plain).items():
            setattr(protocol, method, self._watched(protocol, method, found))

    def _noting(self, name: str, helper: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.noted.add(name)
            return helper(*arguments)

        return call

    def without(self, name: str) -> QuorumBase:
        """Return the model without a difference."""
        if name not in self._others:
            self._others[name] = self._make(name)
        return self._others[name]

    def _watched(self, protocol: QuorumBase, method: str, found: Collection[_Override]) -> Any:
        """Return a method that notes the differences by which it returns something else."""
        whole = getattr(protocol, method)

        def call(*arguments: Any, **options: Any) -> Any:
            for name, last, own in found:
                if name not in self.noted:
                    plain = getattr(super(last, protocol), method)
                    if _all(own(protocol, *arguments, **options)) != _all(plain(*arguments, **options)):
                        self.noted.add(name)
            return whole(*arguments, **options)

        return call


def _all(result: Any) -> Any:
    return list(result) if isinstance(result, Iterator) else result


class _Override(NamedTuple):
    """A method of a known difference."""

    name: str
    last: type[QuorumBase]  # the class behind which the methods without it begin
    own: Any


def _overridden(known: Mapping[str, type[QuorumBase]], plain: type[QuorumBase]) -> dict[str, list[_Override]]:
    """Return the methods of the model that known differences override."""
    unwatched = {*SEEN_THERE, *IN_FLIGHT, "replica_type"}
    if ONE_REQUEST in known:
        unwatched.add("next_request")  # it sends all of a replica's own requests
    found: dict[str, list[_Override]] = defaultdict(list)
    for name, part in known.items():
        parts = [] if name in LATE else [one for one in part.__mro__ if one not in plain.__mro__]
        methods = {method for one in parts for method, value in vars(one).items() if callable(value)}
        for method in methods - unwatched:
            if callable(getattr(plain, method, None)):
                found[method].append(_Override(name, parts[-1], getattr(part, method)))
    return found
