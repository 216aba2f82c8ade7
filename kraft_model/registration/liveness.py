"""What every fair behaviour of `registration` does in the end. Each property names its source.

Fair is what nodes do by themselves, and an operator who asks for the upgrade again and again. Other tools, stops and
starts, replacements and changes of the configuration are not. `Serials = 1` has the operator's requests look alike, so
that what repeats is a cycle; there must be no timeouts then.
"""

from __future__ import annotations

from kraftcheck.kraft_model.registration.base import RegistrationBase
from kraftcheck.kraft_model.registration.image import is_majority
from kraftcheck.kraft_model.registration.records import Controller, Name, Shared
from kraftcheck.spec import (
    Formula,
    Map,
    ModelValue,
    at,
    every,
    infinitely_often,
    leads_to,
    ordered,
    predicate,
    temporal,
    weak,
)

NODES = (
    "ApplyRecord",
    "FailOnRecord",
    "Register",
    "HandleRegistrationResponse",
    "RefuseNotController",
    "HandleRegistration",
    "HandleUnregisterController",
    "HandleUnregisterBroker",
    "HandleRemoveVoter",
    "HandleUpdateFeatures",
    "Commit",
    "HandleResponse",
    "RunUpgrade",
)
FAIR = (*(weak(name, each="replica") for name in NODES), weak("ElectActive"))
"""What nodes do by themselves, and an operator who wants the upgrade."""


class RegistrationLiveness(RegistrationBase):
    """What happens in the end."""

    @predicate
    def is_upgraded(self, shared: Shared) -> bool:
        """An upgrade was made."""
        return self.committed_image(shared).level > self.initial_level

    @predicate(reads=RegistrationBase.running)
    def is_blocked(self, shared: Shared, running: Map[ModelValue | Name, bool]) -> bool:
        """Something blocks the next upgrade: who is registered and does not support it, or too few voters that run.

        In a static quorum also a voter that is down and has no registration.
        """
        image = self.image(shared)
        members = [*image.brokers.values(), *image.controllers.values()]
        missing = [one for one in shared.voters - frozenset(image.controllers) if not running[one]]
        up = frozenset(one for one in self.controllers if running[one])
        old = any(member.supports <= self.initial_level for member in members)
        return old or bool(missing) or not is_majority(up, self.voters(shared))

    @temporal(fairness=FAIR)
    def upgrades_happen(self) -> Formula:
        """An upgrade that nothing blocks happens. Motivation."""
        return infinitely_often(self.is_upgraded | self.is_blocked)

    @temporal(fairness=FAIR)
    def upgrades_happen_without_help(self) -> Formula:
        """An upgrade happens, though nobody brings up another node or changes the configuration. Motivation."""
        return infinitely_often(self.is_upgraded)

    @predicate
    def is_unregistered(self, me: Controller, shared: Shared) -> bool:
        """A controller that runs has no registration."""
        return me.running and me.id not in self.committed_image(shared).controllers

    @predicate(reads=RegistrationBase.running)
    def nobody_commits(self, shared: Shared, running: Map[ModelValue | Name, bool]) -> bool:
        """Too few voters run for anything to be committed."""
        up = frozenset(one for one in self.controllers if running[one])
        return not is_majority(up, self.voters(shared))

    @temporal(fairness=FAIR)
    def controllers_register(self) -> Formula:
        """A controller that runs, and was unregistered by accident, is registered again. Motivation."""
        return every(
            [
                leads_to(at(one, self.is_unregistered), ~at(one, self.is_unregistered) | self.nobody_commits)
                for one in ordered(self.controllers)
            ]
        )


__all__ = ["RegistrationLiveness"]
