"""The properties of `registration`. Each names its source.

The temporal ones say what every fair behaviour does in the end. Fair is what nodes do by themselves, and an operator
who asks for the upgrade again and again. Other tools, stops and starts, replacements and changes of the configuration
are not. `Serials = 1` has the operator's requests look alike, so that what repeats is a cycle; there must be no
timeouts then.
"""

from __future__ import annotations

from kraftcheck.kraft_model.registration.base import RegistrationBase, image_of, is_majority, needed_level
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


REFUSALS = (Error.BROKER_ID_NOT_REGISTERED, Error.VOTER_NOT_FOUND, Error.INVALID_UPDATE_VERSION)
"""Errors that say something of the metadata."""


class RegistrationProperties(RegistrationBase):
    """The invariants, what should stay reachable, and what happens in the end."""

    @invariant
    def no_member_below_finalized_level(self, me: Node, shared: Shared) -> bool:
        """No running node that is registered by the committed records is below the finalized level.

        Motivation ("determining if all cluster members support a feature level during upgrades").
        """
        image = self.committed_image(shared)
        return not me.running or me.supports >= image.level or not self._is_member(me, shared)

    @invariant
    def voters_support_finalized_level(self, me: Controller, shared: Shared) -> bool:
        """No voter that runs is below the finalized level. KAFKA-20865; Motivation."""
        image = self.committed_image(shared)
        voters = shared.voters if self.static else image.voters
        return not me.running or me.supports >= image.level or me.id not in voters

    @invariant
    def records_are_understood(self, me: Node, shared: Shared) -> bool:
        """Every running node that is registered can read every record. Rejected Alternatives ("it is unsafe")."""
        ahead = shared.log[me.cursor : shared.committed]
        unreadable = any(
            needed_level(record) > me.supports for record in ahead if not isinstance(record, FeatureLevelRecord)
        )
        return not me.running or not unreadable or not self._is_member(me, shared)

    @invariant
    def told_is_kept(self, shared: Shared) -> bool:
        """A record that the operator was told is committed is, and stays in the log.

        CLI changes, kafka-cluster, step 3 ("When this record is committed, return a response").
        """
        log = shared.log[: shared.committed]
        return all(log[offset - 1 : offset] == (record,) for offset, record in shared.told)

    @invariant
    def records_replay(self, shared: Shared) -> bool:
        """Each record fits the state that it is applied to: a registration ends once, a level rises, voters remain.

        Kafka, ClusterControlManager.replay ("no controller registration found for that id"); KIP-584.
        """
        return all(self._fits(shared, place) for place in range(len(shared.log)))

    def _fits(self, shared: Shared, place: int) -> bool:
        image, record = image_of(self.snapshot(), shared.log[:place]), shared.log[place]
        if isinstance(record, UnregisterControllerRecord):
            return record.controller in image.controllers
        if isinstance(record, UnregisterBrokerRecord):
            return record.broker in image.brokers
        if isinstance(record, VotersRecord):
            return bool(record.voters)
        return not isinstance(record, FeatureLevelRecord) or record.level > image.level

    @invariant
    def removed_before_unregistered(self, me: Admin, shared: Shared) -> bool:
        """`remove-controller --unregister` unregisters nobody who is still a voter. kafka-metadata-quorum, step 4."""
        if not isinstance(me.command, Command) or me.command.tool is not Tool.REMOVE_AND_UNREGISTER:
            return True
        image = self.committed_image(shared)
        return not me.unregistering or me.command.target not in image.voters

    @invariant
    def registrations_say_what_nodes_are(self, me: Node, shared: Shared) -> bool:
        """A registration has an incarnation of its node, and what that supports. KIP-919; KIP-631."""
        kind = RegisterControllerRecord if isinstance(me, Controller) else RegisterBrokerRecord
        for record in shared.log:
            if isinstance(record, RegisterControllerRecord | RegisterBrokerRecord) and _node_of(record) == me.id:
                if type(record) is not kind or record.incarnation > me.incarnation:
                    return False
                if record.incarnation == me.incarnation and record.supports != me.supports:
                    return False
        return True

    @invariant
    def nodes_are_registered_once(self, shared: Shared) -> bool:
        """No incarnation is registered anew while its registration stands. Kafka, ControllerRegistrationManager.

        A node that was told NOT_CONTROLLER by one that resigned asks again, though the next may have kept its record:
        there it does not hold (`large`).
        """
        standing: dict[tuple[type, ModelValue], int] = {}
        for record in shared.log:
            if isinstance(record, RegisterControllerRecord | RegisterBrokerRecord):
                key = (type(record), _node_of(record))
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
        """Nobody is unregistered whom the operator did not want to be. New RPC, UnregisterControllerRequest."""
        asked = shared.decommissioned
        return all(
            (not isinstance(record, UnregisterControllerRecord) or record.controller in asked)
            and (not isinstance(record, UnregisterBrokerRecord) or record.broker in asked)
            for record in shared.log
        )

    @invariant
    def only_the_active_controller_writes(self, me: Controller, shared: Shared) -> bool:
        """Nobody but the active controller, which runs, has written what it will answer. New RPC ("NOT_CONTROLLER")."""
        return not me.due or (me.running and shared.active == me.id)

    @invariant
    def only_committed_records_are_applied(self, me: Node, shared: Shared) -> bool:
        """No node has applied a record that is not committed. CLI changes, kafka-cluster, step 4."""
        return me.cursor <= shared.committed <= len(shared.log)

    @invariant
    def success_is_committed(self, me: Admin, shared: Shared) -> bool:
        """A tool that ends without an error has done what it is for. CLI changes ("when this record is committed")."""
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
        """What an operator was refused was wrong by some state of the log. New RPC, Errors; KIP-853; KIP-584."""
        if not isinstance(me.outcome, Outcome) or me.outcome.error not in REFUSALS:
            return True
        images = [image_of(self.snapshot(), shared.log[:end]) for end in range(len(shared.log) + 1)]
        return any(self._is_reason(me.outcome, image, shared) for image in images)

    def _is_reason(self, outcome: Outcome, image: Image, shared: Shared) -> bool:
        """Whether a state of the log is a reason for an error."""
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
        """Who could not remove a voter is told of the other tool, and nobody else. kafka-metadata-quorum, step 6."""
        if not isinstance(me.outcome, Outcome) or not me.outcome.advice:
            return True
        return me.outcome.command.tool is Tool.REMOVE_AND_UNREGISTER and me.outcome.error is not Error.NONE

    @invariant
    def active_controller_runs(self, me: Controller, shared: Shared) -> bool:
        """The active controller is up, and nobody but a controller is active. KIP-595, the leader's endpoints."""
        return shared.active != me.id or me.running

    @invariant
    def tools_that_run_have_no_outcome(self, me: Admin, shared: Shared) -> bool:
        """A tool that runs has not ended, and names a node that the operator means to unregister. CLI changes."""
        if not isinstance(me.command, Command):
            return not me.unregistering
        unregisters = me.command.tool not in (Tool.REMOVE_CONTROLLER, Tool.UPGRADE)
        return me.outcome is Nil.NIL and (not unregisters or me.command.target in shared.decommissioned)

    @step_invariant
    def starts_are_new_incarnations(self, before: Node, after: Node) -> bool:
        """A node that was down starts as the next incarnation, knows nothing yet, and never has older software.

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
        """The active controller is a voter, by what is committed: one that is removed leaves office.

        KIP-853, "RemoveVoter", step 7.
        """
        voters = shared.voters if self.static else self.committed_image(shared).voters
        return isinstance(shared.active, Nil) or shared.active in voters

    @invariant
    def unregistered_nodes_are_down(self, me: Node, shared: Shared) -> bool:
        """Who is to be unregistered does not run, unless the operator is careless. kafka-cluster ("is stopped").

        One that comes back, or is replaced, runs again.
        """
        again = self.careless or self.returns or self.replacements
        return bool(again) or not me.running or me.id not in shared.decommissioned

    @invariant
    def elected_is_voter(self, me: Controller, shared: Shared) -> bool:
        """Who is active is a voter by its log, unless it has itself removed itself. KIP-853, "RemoveVoter", step 7."""
        changes = [place for place, record in enumerate(shared.log, 1) if isinstance(record, VotersRecord)]
        if shared.active != me.id or self.static or not changes:
            return True
        latest = shared.log[changes[-1] - 1]
        assert isinstance(latest, VotersRecord)
        return me.id in latest.voters or changes[-1] in [due.offset for due in me.due]

    @invariant(reads=RegistrationBase.running)
    def majorities_commit(self, shared: Shared, running: Map[ModelValue | Name, bool]) -> bool:
        """What is committed, a majority of the voters has. KIP-595, Leader Progress; KIP-853.

        Nobody notes who ran when it was committed: as many as may have stopped since are taken for voters that did.
        """
        return shared.committed == 0 or self._may_have_decided(shared.log[: shared.committed], running)

    @invariant(reads=RegistrationBase.running)
    def majorities_elect(self, shared: Shared, running: Map[ModelValue | Name, bool]) -> bool:
        """Another active controller than the first was elected by a majority of the voters. KIP-595; KIP-853."""
        if shared.active in (Nil.NIL, ordered(self.initial_voters - self.stopped)[0]):
            return True
        ends = range(shared.committed, len(shared.log) + 1)
        return any(self._may_have_decided(shared.log[:end], running) for end in ends)

    def _may_have_decided(self, log: tuple[LogRecord, ...], running: Map[ModelValue | Name, bool]) -> bool:
        """Whether a majority of the voters of a log may have run, if MaxStops of them have stopped since."""
        changes = [record for record in log if isinstance(record, VotersRecord)]
        voters = changes[-1].voters if changes else self.initial_voters
        return self.static or 2 * (sum(running[node] for node in voters) + self.stops) > len(voters)

    @invariant
    def not_found_is_no_voter(self, me: Admin, shared: Shared) -> bool:
        """A tool that ends with VOTER_NOT_FOUND was given a node that is no voter. KIP-853, "RemoveVoter".

        Nothing adds a voter here, so who is none stays none.
        """
        if not isinstance(me.outcome, Outcome) or me.outcome.error is not Error.VOTER_NOT_FOUND:
            return True
        return me.outcome.command.target not in self.committed_image(shared).voters

    @reachable
    def controllers_can_be_registered(self, me: Controller, shared: Shared) -> bool:
        """A controller that runs, and was unregistered by accident, can be registered again. Motivation."""
        return not me.running or me.id in self.committed_image(shared).controllers

    @reachable(without=["Replace", "ChangeConfiguration"])
    def upgrades_need_no_help(self, shared: Shared) -> bool:
        """An upgrade can be made, though nobody brings up another node or changes the configuration. Motivation."""
        return self.committed_image(shared).level > self.initial_level

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


def _node_of(record: RegisterControllerRecord | RegisterBrokerRecord) -> ModelValue:
    return record.controller if isinstance(record, RegisterControllerRecord) else record.broker
