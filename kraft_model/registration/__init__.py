"""Unregistering controllers: who is a member of the cluster, and which feature levels its members support.

Controllers, one of them active, brokers, and an operator with the command line tools. Source: the KIP "Support
unregistering controllers" (KAFKA-20395), still being voted on in the text that is modelled here. What it leaves open is
as in Kafka: KIP-919 (a controller registers itself), KIP-631 (brokers), KIP-853 (the voter set), KIP-584 (features).
Every action says which section it comes from; `docs/coverage.md` has the statements one by one, `docs/findings.md`
where they disagree, with each other and with what Kafka then adopted.

KRaft is what it must be for that and no more: a log with a committed part, an active controller that may be another one
tomorrow and may then lack what was not committed. `quorum` is the model of KRaft itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.registration.active import ActiveControllerActions
from kraftcheck.kraft_model.registration.image import image_of, needed_level
from kraftcheck.kraft_model.registration.nodes import NodeActions
from kraftcheck.kraft_model.registration.records import (
    SYMBOLS,
    Admin,
    Broker,
    Command,
    Controller,
    FeatureLevelRecord,
    Image,
    Registered,
    Shared,
    Tool,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from kraftcheck.kraft_model.registration.tools import ToolActions
from kraftcheck.spec import Bag, ConstantError, Map, ModelValue, Protocol, State, bound, constant, invariant, ordered


class Registration(ToolActions, NodeActions, ActiveControllerActions, Protocol):
    """Unregistering controllers (KAFKA-20395): members, voters and finalized feature levels."""

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

    def check_constants(self) -> None:
        """Refuse sets of nodes that are not among the nodes, and levels that the nodes cannot have."""
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
        if self.controllers & self.brokers:
            raise ConstantError("Brokers", "expected nodes that are no controllers")
        for name, level in (("InitialLevel", self.initial_level), ("OldLevel", self.old_level)):
            if level > self.newest:
                raise ConstantError(name, f"expected at most NewestLevel = {self.newest}, found {level}")
        if self.old and self.old_level < self.initial_level:
            raise ConstantError("OldLevel", f"expected at least InitialLevel = {self.initial_level}")

    def snapshot(self) -> Image:
        """Return the image that everyone starts with: every node is registered, unless it is said not to be."""
        return Image(
            Map((node, self._registered(node)) for node in ordered(self.controllers - self.unregistered)),
            Map((node, self._registered(node)) for node in ordered(self.brokers - self.unregistered)),
            self.initial_level,
            self.initial_voters,
        )

    def _registered(self, node: ModelValue) -> Registered:
        return Registered(1, self._software(node))

    def _software(self, node: ModelValue) -> int:
        """The highest level that the software of a node knows at first."""
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

    # Properties

    @invariant
    def no_member_below_finalized_level(self, me: Controller | Broker, shared: Shared) -> bool:
        """Nobody who is registered, by what is committed, and runs is below the finalized level.

        Motivation ("determining if all cluster members support a feature level during upgrades").
        """
        image = image_of(self.snapshot(), shared.log[: shared.committed])
        return not me.running or me.supports >= image.level or not self._is_member(me, shared)

    @invariant
    def voters_support_finalized_level(self, me: Controller, shared: Shared) -> bool:
        """No voter that runs is below the finalized level. KAFKA-20865; Motivation."""
        image = image_of(self.snapshot(), shared.log[: shared.committed])
        voters = shared.voters if self.static else image.voters
        return not me.running or me.supports >= image.level or me.id not in voters

    @invariant
    def records_are_understood(self, me: Controller | Broker, shared: Shared) -> bool:
        """Whoever is registered and runs can read every record. Rejected Alternatives ("it is unsafe")."""
        ahead = shared.log[me.cursor : shared.committed]
        unreadable = any(
            needed_level(record) > me.supports for record in ahead if not isinstance(record, FeatureLevelRecord)
        )
        return not me.running or not unreadable or not self._is_member(me, shared)

    @invariant
    def told_is_kept(self, shared: Shared) -> bool:
        """What the operator was told to be done stays in the log.

        CLI changes, kafka-cluster, step 3 ("When this record is committed, return a response").
        """
        return all(shared.log[offset - 1 : offset] == (record,) for offset, record in shared.told)

    @invariant
    def records_replay(self, shared: Shared) -> bool:
        """Each record fits the state that it is applied to: a registration ends once, a level only rises.

        Kafka, ClusterControlManager.replay ("no controller registration found for that id"); KIP-584.
        """
        return all(self._fits(shared, place) for place in range(len(shared.log)))

    def _fits(self, shared: Shared, place: int) -> bool:
        image, record = image_of(self.snapshot(), shared.log[:place]), shared.log[place]
        if isinstance(record, UnregisterControllerRecord):
            return record.controller in image.controllers
        if isinstance(record, UnregisterBrokerRecord):
            return record.broker in image.brokers
        return not isinstance(record, FeatureLevelRecord) or record.level > image.level

    @invariant
    def removed_before_unregistered(self, me: Admin, shared: Shared) -> bool:
        """`remove-controller --unregister` unregisters nobody who is still a voter. kafka-metadata-quorum, step 4."""
        if not isinstance(me.command, Command) or me.command.tool is not Tool.REMOVE_AND_UNREGISTER:
            return True
        image = image_of(self.snapshot(), shared.log[: shared.committed])
        return not me.unregistering or me.command.target not in image.voters
