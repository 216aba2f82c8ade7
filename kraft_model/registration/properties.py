"""The properties of `registration`, with their sources.

Temporal properties assume fairness of the nodes' own steps, and of an operator who repeats the upgrade. Other tools,
stops and starts, replacements and changes of the configuration are not fair. With `Serials = 1` the operator's requests
are equal, so that repetitions form a cycle; it excludes timeouts.
"""

from __future__ import annotations

from kraftcheck.kraft_model.registration.base import (
    RegistrationBase,
    image_after_log,
    includes_majority_of_voters,
    version_to_read_record,
)
from kraftcheck.kraft_model.registration.records import (
    UNREGISTRATION_LEVEL,
    Admin,
    Command,
    Controller,
    Error,
    FeatureLevelRecord,
    Image,
    LogRecord,
    Name,
    Nil,
    Node,
    Outcome,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    Shared,
    Tool,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    VotersRecord,
)
from kraftcheck.spec import (
    Formula,
    Map,
    ModelValue,
    at,
    every,
    infinitely_often,
    invariant,
    leads_to,
    ordered,
    predicate,
    reachable,
    step_invariant,
    temporal,
    weak,
)

ACTIONS_FAIR_BY_NODE = (
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
FAIRNESS = (*(weak(name, each="replica") for name in ACTIONS_FAIR_BY_NODE), weak("ElectActive"))
"""Fairness of the nodes' own steps, and of an operator who repeats the upgrade."""


REFUSAL_ERRORS = (Error.BROKER_ID_NOT_REGISTERED, Error.VOTER_NOT_FOUND, Error.INVALID_UPDATE_VERSION)
"""Errors that depend on the metadata."""


class RegistrationProperties(RegistrationBase):
    """Invariants, reachability goals (AG EF) and temporal properties."""

    @invariant
    def no_member_below_finalized_level(self, me: Node, shared: Shared) -> bool:
        """Every running node with a committed registration supports the finalized level.

        Motivation ("determining if all cluster members support a feature level during upgrades").
        """
        image = self.committed_image(shared)
        return not me.running or me.supports >= image.level or not self._is_member(me, shared)

    @invariant
    def voters_support_finalized_level(self, me: Controller, shared: Shared) -> bool:
        """Every running voter supports the finalized level. KAFKA-20865; Motivation."""
        image = self.committed_image(shared)
        voters = shared.voters if self.static else image.voters
        return not me.running or me.supports >= image.level or me.id not in voters

    @invariant
    def records_are_understood(self, me: Node, shared: Shared) -> bool:
        """Every running registered node can read every record. Rejected Alternatives ("it is unsafe")."""
        ahead = shared.log[me.cursor : shared.committed]
        unreadable = any(
            version_to_read_record(record) > me.supports
            for record in ahead
            if not isinstance(record, FeatureLevelRecord)
        )
        return not me.running or not unreadable or not self._is_member(me, shared)

    @invariant
    def told_is_kept(self, shared: Shared) -> bool:
        """A record reported to the operator as committed stays in the committed log.

        CLI changes, kafka-cluster, step 3 ("When this record is committed, return a response").
        """
        log = shared.log[: shared.committed]
        return all(log[offset - 1 : offset] == (record,) for offset, record in shared.told)

    @invariant
    def records_replay(self, shared: Shared) -> bool:
        """Each record applies to the image before it: no double unregistration, rising levels, at least one voter.

        Kafka, ClusterControlManager.replay ("no controller registration found for that id"); KIP-584.
        """
        return all(self._fits(shared, place) for place in range(len(shared.log)))

    def _fits(self, shared: Shared, place: int) -> bool:
        image, record = image_after_log(self.snapshot(), shared.log[:place]), shared.log[place]
        if isinstance(record, UnregisterControllerRecord):
            return record.controller in image.controllers
        if isinstance(record, UnregisterBrokerRecord):
            return record.broker in image.brokers
        if isinstance(record, VotersRecord):
            return bool(record.voters)
        return not isinstance(record, FeatureLevelRecord) or record.level > image.level

    @invariant
    def removed_before_unregistered(self, me: Admin, shared: Shared) -> bool:
        """`remove-controller --unregister` unregisters no voter. kafka-metadata-quorum, step 4."""
        if not isinstance(me.command, Command) or me.command.tool is not Tool.REMOVE_AND_UNREGISTER:
            return True
        image = self.committed_image(shared)
        return not me.unregistering or me.command.target not in image.voters

    @invariant
    def registrations_say_what_nodes_are(self, me: Node, shared: Shared) -> bool:
        """A registration matches an incarnation of its node, and the level of that incarnation. KIP-919; KIP-631."""
        kind = RegisterControllerRecord if isinstance(me, Controller) else RegisterBrokerRecord
        for record in shared.log:
            if (
                isinstance(record, RegisterControllerRecord | RegisterBrokerRecord)
                and _node_of_registration_record(record) == me.id
            ):
                if type(record) is not kind or record.incarnation > me.incarnation:
                    return False
                if record.incarnation == me.incarnation and record.supports != me.supports:
                    return False
        return True

    @invariant
    def nodes_are_registered_once(self, shared: Shared) -> bool:
        """An incarnation is registered at most once at a time. Kafka, ControllerRegistrationManager.

        A node registers again after NOT_CONTROLLER of a resigned controller, although its successor may have kept the
        record. The property does not hold there (`large`).
        """
        standing: dict[tuple[type, ModelValue], int] = {}
        for record in shared.log:
            if isinstance(record, RegisterControllerRecord | RegisterBrokerRecord):
                key = (type(record), _node_of_registration_record(record))
                if standing.get(key) == record.incarnation:
                    return False
                standing[key] = record.incarnation
            elif isinstance(record, UnregisterControllerRecord):
                standing.pop((RegisterControllerRecord, record.controller), None)
            elif isinstance(record, UnregisterBrokerRecord):
                standing.pop((RegisterBrokerRecord, record.broker), None)
        return True

    @invariant
    def unregistered_as_asked(self, shared: Shared) -> bool:
        """Only nodes that the operator unregisters are unregistered. New RPC, UnregisterControllerRequest."""
        asked = shared.decommissioned
        return all(
            (not isinstance(record, UnregisterControllerRecord) or record.controller in asked)
            and (not isinstance(record, UnregisterBrokerRecord) or record.broker in asked)
            for record in shared.log
        )

    @invariant
    def only_the_active_controller_writes(self, me: Controller, shared: Shared) -> bool:
        """Only the running active controller holds responses to uncommitted records. New RPC ("NOT_CONTROLLER")."""
        return not me.due or (me.running and shared.active == me.id)

    @invariant
    def only_committed_records_are_applied(self, me: Node, shared: Shared) -> bool:
        """No node has applied an uncommitted record. CLI changes, kafka-cluster, step 4."""
        return me.cursor <= shared.committed <= len(shared.log)

    @invariant
    def success_is_committed(self, me: Admin, shared: Shared) -> bool:
        """The change of a tool that ends without an error is committed. CLI changes, kafka-cluster, step 3."""
        if not isinstance(me.outcome, Outcome) or me.outcome.error is not Error.NONE:
            return True
        command, log = me.outcome.command, shared.log[: shared.committed]
        if command.tool is Tool.UPGRADE:
            return FeatureLevelRecord(command.target) in log  # type: ignore[arg-type]
        if command.tool is Tool.UNREGISTER_BROKER:
            return UnregisterBrokerRecord(command.target) in log  # type: ignore[arg-type]
        unregistered = UnregisterControllerRecord(command.target) in log  # type: ignore[arg-type]
        removed = any(isinstance(record, VotersRecord) and command.target not in record.voters for record in log)
        removes = command.tool in (Tool.REMOVE_CONTROLLER, Tool.REMOVE_AND_UNREGISTER)
        return (removed or not removes) and (unregistered or command.tool is Tool.REMOVE_CONTROLLER)

    @invariant
    def tools_end_as_their_requests_may(self, me: Admin) -> bool:
        """A tool ends with an error of its RPCs. New RPC, Errors; KIP-853, RemoveRaftVoter; KIP-584, UpdateFeatures."""
        if not isinstance(me.outcome, Outcome):
            return True
        tool = me.outcome.command.tool
        errors = {Error.NONE, Error.NOT_CONTROLLER, Error.REQUEST_TIMED_OUT, Error.DISCONNECTED}
        if tool is Tool.UPGRADE:
            errors |= {Error.INVALID_UPDATE_VERSION}
        if tool in (Tool.UNREGISTER_CONTROLLER, Tool.UNREGISTER_BROKER, Tool.REMOVE_AND_UNREGISTER):
            errors |= {Error.BROKER_ID_NOT_REGISTERED}
        if tool in (Tool.REMOVE_CONTROLLER, Tool.REMOVE_AND_UNREGISTER):
            errors |= {Error.VOTER_NOT_FOUND, Error.INVALID_REQUEST}
        if tool is Tool.UNREGISTER_CONTROLLER and self.initial_level < UNREGISTRATION_LEVEL:
            errors |= {Error.UNSUPPORTED_VERSION}
        if tool in (Tool.REMOVE_CONTROLLER, Tool.REMOVE_AND_UNREGISTER) and (
            self.static or self.initial_level < UNREGISTRATION_LEVEL
        ):
            errors |= {Error.UNSUPPORTED_VERSION}
        return me.outcome.error in errors

    @invariant
    def refusals_had_a_reason(self, me: Admin, shared: Shared) -> bool:
        """Every rejection is justified by some prefix of the log. New RPC, Errors; KIP-853; KIP-584."""
        if not isinstance(me.outcome, Outcome) or me.outcome.error not in REFUSAL_ERRORS:
            return True
        images = [image_after_log(self.snapshot(), shared.log[:end]) for end in range(len(shared.log) + 1)]
        return any(self._is_reason(me.outcome, image, shared) for image in images)

    def _is_reason(self, outcome: Outcome, image: Image, shared: Shared) -> bool:
        """Whether an image of the log justifies the error with which a tool ended."""
        target = outcome.command.target
        if outcome.error is Error.BROKER_ID_NOT_REGISTERED:
            of_broker = outcome.command.tool is Tool.UNREGISTER_BROKER
            return target not in (image.brokers if of_broker else image.controllers)
        voters = self.initial_voters if self.static else image.voters
        if outcome.error is Error.VOTER_NOT_FOUND:
            return target not in voters
        assert isinstance(target, int)
        members = [*image.controllers.values(), *image.brokers.values()]
        unknown = self.static and not voters <= frozenset(image.controllers)
        return unknown or target <= image.level or any(member.supports < target for member in members)

    @invariant
    def advice_after_a_removal_that_failed(self, me: Admin) -> bool:
        """Only a removal with an error ends with advice to the operator. kafka-metadata-quorum, step 6."""
        if not isinstance(me.outcome, Outcome) or not me.outcome.advice:
            return True
        return me.outcome.command.tool is Tool.REMOVE_AND_UNREGISTER and me.outcome.error is not Error.NONE

    @invariant
    def active_controller_runs(self, me: Controller, shared: Shared) -> bool:
        """The active controller is a running controller. KIP-595, the leader's endpoints."""
        return shared.active != me.id or me.running

    @invariant
    def tools_that_run_have_no_outcome(self, me: Admin, shared: Shared) -> bool:
        """A running tool has no outcome; a node that it unregisters is in `decommissioned`. CLI changes."""
        if not isinstance(me.command, Command):
            return not me.unregistering
        unregisters = me.command.tool not in (Tool.REMOVE_CONTROLLER, Tool.UPGRADE)
        return me.outcome is Nil.NIL and (not unregisters or me.command.target in shared.decommissioned)

    @step_invariant
    def starts_are_new_incarnations(self, before: Node, after: Node) -> bool:
        """A stopped node starts as the next incarnation, with empty state and no older software.

        KIP-919 ("IncarnationId"); Compatibility ("bring up another controller node").
        """
        if after.supports < before.supports:
            return False
        if after.running and not before.running:
            fresh = after.cursor == 0 and not after.registering
            return fresh and after.incarnation == before.incarnation + 1
        return after.incarnation == before.incarnation and after.supports == before.supports

    @invariant
    def active_is_voter(self, shared: Shared) -> bool:
        """The active controller is in the committed voter set: a removed one has resigned.

        KIP-853, "RemoveVoter", step 7.
        """
        voters = shared.voters if self.static else self.committed_image(shared).voters
        return isinstance(shared.active, Nil) or shared.active in voters

    @invariant
    def unregistered_nodes_are_down(self, me: Node, shared: Shared) -> bool:
        """A node to be unregistered does not run, unless the operator is careless. kafka-cluster ("is stopped").

        A node that comes back, or is replaced, runs again.
        """
        again = self.careless or self.returns or self.replacements
        return bool(again) or not me.running or me.id not in shared.decommissioned

    @invariant
    def elected_is_voter(self, me: Controller, shared: Shared) -> bool:
        """The active controller is a voter of its log, unless it removed itself. KIP-853, "RemoveVoter", step 7."""
        changes = [place for place, record in enumerate(shared.log, 1) if isinstance(record, VotersRecord)]
        if shared.active != me.id or self.static or not changes:
            return True
        latest = shared.log[changes[-1] - 1]
        assert isinstance(latest, VotersRecord)
        return me.id in latest.voters or changes[-1] in [due.offset for due in me.due]

    @invariant(reads=RegistrationBase.running)
    def majorities_commit(self, shared: Shared, running: Map[ModelValue | Name, bool]) -> bool:
        """A majority of the voters holds every committed record. KIP-595, Leader Progress; KIP-853.

        The state does not store the nodes that ran at a commit: up to MaxStops voters count as stopped since.
        """
        return shared.committed == 0 or self._may_have_decided(shared.log[: shared.committed], running)

    @invariant(reads=RegistrationBase.running)
    def majorities_elect(self, shared: Shared, running: Map[ModelValue | Name, bool]) -> bool:
        """Every active controller but the first has been elected by a majority of the voters. KIP-595; KIP-853."""
        if shared.active in (Nil.NIL, ordered(self.initial_voters - self.stopped)[0]):
            return True
        ends = range(shared.committed, len(shared.log) + 1)
        return any(self._may_have_decided(shared.log[:end], running) for end in ends)

    def _may_have_decided(self, log: tuple[LogRecord, ...], running: Map[ModelValue | Name, bool]) -> bool:
        """Whether a majority of a log's voters may have run at some time, given that at most MaxStops have stopped."""
        changes = [record for record in log if isinstance(record, VotersRecord)]
        voters = changes[-1].voters if changes else self.initial_voters
        return self.static or 2 * (sum(running[node] for node in voters) + self.stops) > len(voters)

    @invariant
    def not_found_is_no_voter(self, me: Admin, shared: Shared) -> bool:
        """VOTER_NOT_FOUND is the outcome only for a node outside the voter set. KIP-853, "RemoveVoter".

        No action adds a voter here, so the node stays outside.
        """
        if not isinstance(me.outcome, Outcome) or me.outcome.error is not Error.VOTER_NOT_FOUND:
            return True
        return me.outcome.command.target not in self.committed_image(shared).voters

    @reachable
    def controllers_can_be_registered(self, me: Controller, shared: Shared) -> bool:
        """A running controller that was unregistered by accident can be registered again. Motivation."""
        return not me.running or me.id in self.committed_image(shared).controllers

    @reachable(without=["Replace", "ChangeConfiguration"])
    def upgrades_need_no_help(self, shared: Shared) -> bool:
        """An upgrade is possible without a replaced node or a changed configuration. Motivation."""
        return self.committed_image(shared).level > self.initial_level

    @predicate
    def is_upgraded(self, shared: Shared) -> bool:
        """The committed metadata.version is above its initial level."""
        return self.committed_image(shared).level > self.initial_level

    @predicate(reads=RegistrationBase.running)
    def is_blocked(self, shared: Shared, running: Map[ModelValue | Name, bool]) -> bool:
        """The next upgrade is blocked by a registered node without support, or by too few running voters.

        In a static quorum, so does a stopped voter without a registration.
        """
        image = self.image(shared)
        members = [*image.brokers.values(), *image.controllers.values()]
        missing = [one for one in shared.voters - frozenset(image.controllers) if not running[one]]
        up = frozenset(one for one in self.controllers if running[one])
        old = any(member.supports <= self.initial_level for member in members)
        return old or bool(missing) or not includes_majority_of_voters(up, self.voters(shared))

    @temporal(fairness=FAIRNESS)
    def upgrades_happen(self) -> Formula:
        """Unless it stays blocked, an upgrade eventually happens. Motivation."""
        return infinitely_often(self.is_upgraded | self.is_blocked)

    @temporal(fairness=FAIRNESS)
    def upgrades_happen_without_help(self) -> Formula:
        """An upgrade eventually happens, without a replaced node or a changed configuration. Motivation."""
        return infinitely_often(self.is_upgraded)

    @predicate
    def is_unregistered(self, me: Controller, shared: Shared) -> bool:
        """A running controller has no committed registration."""
        return me.running and me.id not in self.committed_image(shared).controllers

    @predicate(reads=RegistrationBase.running)
    def nobody_commits(self, shared: Shared, running: Map[ModelValue | Name, bool]) -> bool:
        """Too few voters run for any record to be committed."""
        up = frozenset(one for one in self.controllers if running[one])
        return not includes_majority_of_voters(up, self.voters(shared))

    @temporal(fairness=FAIRNESS)
    def controllers_register(self) -> Formula:
        """A running controller that was unregistered by accident is eventually registered again. Motivation."""
        return every(
            [
                leads_to(at(one, self.is_unregistered), ~at(one, self.is_unregistered) | self.nobody_commits)
                for one in ordered(self.controllers)
            ]
        )


def _node_of_registration_record(record: RegisterControllerRecord | RegisterBrokerRecord) -> ModelValue:
    return record.controller if isinstance(record, RegisterControllerRecord) else record.broker
