"""The constants of `registration`, how it starts, and what its log adds up to."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.registration.image import image_of
from kraftcheck.kraft_model.registration.records import SYMBOLS, Admin, Broker, Controller, Image, Registered, Shared
from kraftcheck.spec import (
    Bag,
    ConstantError,
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    bound,
    constant,
    hide,
    ordered,
    projection,
)


class RegistrationBase(Protocol):
    """Constants, bounds, the start, and what several modules use."""

    controllers: frozenset[ModelValue] = constant("Controllers")
    initial_voters: frozenset[ModelValue] = constant("InitialVoters")
    brokers: frozenset[ModelValue] = constant("Brokers", default=frozenset())
    old: frozenset[ModelValue] = constant("Old", default=frozenset())
    old_level: int = constant("OldLevel", default=2, at_least=1)
    newest: int = constant("NewestLevel", default=3, at_least=1)
    initial_level: int = constant("InitialLevel", default=2, at_least=1)
    static: bool = constant("Static", default=False)
    stopped: frozenset[ModelValue] = constant("Stopped", default=frozenset())
    unregistered: frozenset[ModelValue] = constant("Unregistered", default=frozenset())
    serials: int = constant("Serials", default=0, at_least=0)
    upgrades: int = bound("MaxUpgrades")
    unregistrations: int = bound("MaxUnregistrations", default=0)
    careless: int = bound("MaxCareless", default=0)
    removals: int = bound("MaxRemovals", default=0)
    stops: int = bound("MaxStops", default=0)
    starts: int = bound("MaxStarts", default=0)
    returns: int = bound("MaxReturns", default=0)
    replacements: int = bound("MaxReplacements", default=0)
    resignations: int = bound("MaxResignations", default=0)
    timeouts: int = bound("MaxTimeouts", default=0)
    configurations: int = bound("MaxConfigurations", default=0)

    network = Bag()
    symbols = SYMBOLS
    views = {"patient": hide("upgrades")}
    written_only = ("outcome",)  # what the operator is shown

    def check_constants(self) -> None:
        """Refuse sets with nodes that do not exist, and levels that the nodes cannot have."""
        nodes = self.controllers | self.brokers
        for name, chosen, among in (
            ("InitialVoters", self.initial_voters, self.controllers),
            ("Old", self.old, nodes),
            ("Stopped", self.stopped, nodes),
            ("Unregistered", self.unregistered, nodes),
        ):
            if not chosen <= among:
                strangers = ", ".join(map(str, ordered(chosen - among)))
                raise ConstantError(name, f"expected nodes that there are, found {strangers}")
        if not self.initial_voters - self.stopped:
            raise ConstantError("InitialVoters", "expected a voter that runs, found none")
        if self.serials and self.timeouts:
            raise ConstantError("Serials", "expected 0 where MaxTimeouts is not")
        if self.controllers & self.brokers:
            raise ConstantError("Brokers", "expected nodes that are no controllers")
        for name, level in (("InitialLevel", self.initial_level), ("OldLevel", self.old_level)):
            if level > self.newest:
                raise ConstantError(name, f"expected at most NewestLevel = {self.newest}, found {level}")
        if self.old and self.old_level < self.initial_level:
            raise ConstantError("OldLevel", f"expected at least InitialLevel = {self.initial_level}")

    def snapshot(self) -> Image:
        """Return the image at the start: every node is registered, unless Unregistered has it."""
        return Image(
            Map((node, self._registered(node)) for node in ordered(self.controllers - self.unregistered)),
            Map((node, self._registered(node)) for node in ordered(self.brokers - self.unregistered)),
            self.initial_level,
            self.initial_voters,
        )

    def _registered(self, node: ModelValue) -> Registered:
        return Registered(1, self._software(node))

    def _software(self, node: ModelValue) -> int:
        """Return the highest level that a node's software knows at the start."""
        return self.old_level if node in self.old else self.newest

    def initial(self) -> Iterator[State]:
        """Yield the one start: the first voter that runs is active, and nothing is written since the snapshot."""
        nodes = [
            *[Controller(node, node not in self.stopped, self._software(node)) for node in ordered(self.controllers)],
            *[Broker(node, node not in self.stopped, self._software(node)) for node in ordered(self.brokers)],
        ]
        active = ordered(self.initial_voters - self.stopped)[0]
        voters = self.initial_voters if self.static else frozenset()
        yield self.start([*nodes, Admin()], Shared((), 0, active, voters))

    # What the log adds up to

    def image(self, shared: Shared) -> Image:
        """Return the active controller's image: it applies its records before they are committed."""
        return image_of(self.snapshot(), shared.log)

    def voters(self, shared: Shared, kept: int | None = None) -> frozenset[ModelValue]:
        """Return the voters: the latest VotersRecord, committed or not (KIP-853), or those of the configuration."""
        return shared.voters if self.static else image_of(self.snapshot(), shared.log[:kept]).voters

    def committed_image(self, shared: Shared) -> Image:
        """Return what the committed records add up to."""
        return image_of(self.snapshot(), shared.log[: shared.committed])

    def _is_member(self, me: Controller | Broker, shared: Shared) -> bool:
        """Whether a node is registered by the committed records."""
        image = self.committed_image(shared)
        return me.id in (image.controllers if isinstance(me, Controller) else image.brokers)

    @projection
    def running(self, me: Record) -> bool:
        """Whether a node is up."""
        return bool(getattr(me, "running", False))
