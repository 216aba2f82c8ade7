"""The constants of `registration`, its initial state, and the images of its log."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.registration.records import (
    SYMBOL_TYPES,
    UNREGISTRATION_LEVEL,
    Admin,
    Broker,
    Controller,
    FeatureLevelRecord,
    Image,
    LogRecord,
    Node,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    Registered,
    Shared,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
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


def image_after_record(image: Image, record: LogRecord) -> Image:
    if isinstance(record, RegisterControllerRecord):
        registered = Registered(record.incarnation, record.supports)
        return image.but(controllers=image.controllers.put(record.controller, registered))
    if isinstance(record, UnregisterControllerRecord):
        return image.but(controllers=image.controllers.without(record.controller))
    if isinstance(record, RegisterBrokerRecord):
        registered = Registered(record.incarnation, record.supports)
        return image.but(brokers=image.brokers.put(record.broker, registered))
    if isinstance(record, UnregisterBrokerRecord):
        return image.but(brokers=image.brokers.without(record.broker))
    if isinstance(record, FeatureLevelRecord):
        return image.but(level=record.level)
    return image.but(voters=record.voters)


def image_after_log(snapshot: Image, log: tuple[LogRecord, ...]) -> Image:
    """Return the image after the records of a log are applied to the image `snapshot`."""
    for record in log:
        snapshot = image_after_record(snapshot, record)
    return snapshot


def version_to_read_record(record: LogRecord) -> int:
    """Return the metadata.version that a node's software must support to read a record."""
    if isinstance(record, FeatureLevelRecord):
        return record.level
    return UNREGISTRATION_LEVEL if isinstance(record, UnregisterControllerRecord) else 1


def includes_majority_of_voters(some: frozenset[ModelValue], voters: frozenset[ModelValue]) -> bool:
    """Return whether the nodes form a majority of the voters."""
    return 2 * len(some & voters) > len(voters)


class RegistrationBase(Protocol):
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
    symbols = SYMBOL_TYPES
    views = {"patient": hide("upgrades")}
    written_only = ("outcome",)  # output of the command line tools

    def check_constants(self) -> None:
        """Reject sets with unknown nodes, and levels that contradict each other."""
        nodes = self.controllers | self.brokers
        for name, chosen, among in (
            ("InitialVoters", self.initial_voters, self.controllers),
            ("Old", self.old, nodes),
            ("Stopped", self.stopped, nodes),
            ("Unregistered", self.unregistered, nodes),
        ):
            if not chosen <= among:
                strangers = ", ".join(map(str, ordered(chosen - among)))
                raise ConstantError(name, f"expected nodes of Controllers and Brokers, found {strangers}")
        newest, first, old = self.newest, self.initial_level, self.old_level
        for name, is_wrong, expected in (
            ("InitialVoters", self.initial_voters <= self.stopped, "a voter that runs, found none"),
            ("Serials", self.serials and self.timeouts, "0 where MaxTimeouts is not"),
            ("Brokers", self.controllers & self.brokers, "nodes that are no controllers"),
            ("InitialLevel", first > newest, f"at most NewestLevel = {newest}, found {first}"),
            ("OldLevel", old > newest, f"at most NewestLevel = {newest}, found {old}"),
            ("OldLevel", self.old and old < first, f"at least InitialLevel = {first}"),
        ):
            if is_wrong:
                raise ConstantError(name, f"expected {expected}")

    def snapshot(self) -> Image:
        """Return the initial image: all nodes except those in Unregistered are registered."""
        return Image(
            Map((node, self._registered(node)) for node in ordered(self.controllers - self.unregistered)),
            Map((node, self._registered(node)) for node in ordered(self.brokers - self.unregistered)),
            self.initial_level,
            self.initial_voters,
        )

    def _registered(self, node: ModelValue) -> Registered:
        return Registered(1, self._software(node))

    def _software(self, node: ModelValue) -> int:
        """Return the highest level that a node's initial software supports."""
        return self.old_level if node in self.old else self.newest

    def initial(self) -> Iterator[State]:
        """Yield the initial state: the first running voter is active, and the log after the snapshot is empty."""
        nodes = [
            *[Controller(node, node not in self.stopped, self._software(node)) for node in ordered(self.controllers)],
            *[Broker(node, node not in self.stopped, self._software(node)) for node in ordered(self.brokers)],
        ]
        active = ordered(self.initial_voters - self.stopped)[0]
        voters = self.initial_voters if self.static else frozenset()
        yield self.start([*nodes, Admin()], Shared((), 0, active, voters))

    # Images of the log

    def image(self, shared: Shared) -> Image:
        """Return the active controller's image: it applies its records before they are committed."""
        return image_after_log(self.snapshot(), shared.log)

    def voters(self, shared: Shared, kept: int | None = None) -> frozenset[ModelValue]:
        """Return the voters: the latest VotersRecord, committed or not (KIP-853), or the static configuration."""
        return shared.voters if self.static else image_after_log(self.snapshot(), shared.log[:kept]).voters

    def committed_image(self, shared: Shared) -> Image:
        """Return the image of the committed records."""
        return image_after_log(self.snapshot(), shared.log[: shared.committed])

    def _is_member(self, me: Node, shared: Shared) -> bool:
        """Whether the committed records register a node."""
        image = self.committed_image(shared)
        return me.id in (image.controllers if isinstance(me, Controller) else image.brokers)

    @projection
    def running(self, me: Record) -> bool:
        """Whether a node runs."""
        return bool(getattr(me, "running", False))
