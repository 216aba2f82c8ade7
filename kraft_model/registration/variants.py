"""Variants of `Registration`: other readings, a rejected alternative, and seeded faults.

A reading follows another source than `Registration`; `docs/findings.md` has its results. A fault breaks one rule, and
violates the property in configuration `fault.<variant>`. The last fault breaks a reachability goal alone. KAFKA-n is
the issue of the rule in Apache Kafka's tracker.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.registration import Registration
from kraftcheck.kraft_model.registration.active import response_to
from kraftcheck.kraft_model.registration.base import image_after_log
from kraftcheck.kraft_model.registration.records import (
    Admin,
    AdminResponse,
    Broker,
    Command,
    Controller,
    Error,
    Image,
    LogRecord,
    Name,
    Nil,
    Node,
    Registered,
    RegistrationRequest,
    RegistrationResponse,
    RemoveVoterRequest,
    Request,
    Shared,
    Tool,
    UnregisterControllerRecord,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
    VotersRecord,
)
from kraftcheck.spec import (
    Map,
    ModelValue,
    Record,
    State,
    Step,
    Steps,
    consume,
    environment,
    invariant,
    on,
    ordered,
    projection,
    reachable,
    step_invariant,
)

# Readings


class VoterUnregistrationRejected(Registration, variant="voters-kept"):
    """As in Kafka since KAFKA-20865: unregistering a member of the voter set is rejected with INVALID_REQUEST."""

    configuration = "finding.running-voter-unregistered"

    def _unregistration_refusal(self, request: UnregisterControllerRequest, shared: Shared) -> Error:
        if request.controller in self.voters(shared):
            return Error.INVALID_REQUEST
        return super()._unregistration_refusal(request, shared)

    def _unregistration_error(self, request: UnregisterControllerRequest, shared: Shared) -> Error:
        is_voter = request.controller in (shared.voters if self.static else self._voters(shared.log))
        return Error.INVALID_REQUEST if is_voter else super()._unregistration_error(request, shared)


class ControllerLevelChecked(Registration, variant="controllers-checked-too"):
    """A controller below the finalized level is rejected at registration, as a broker is."""

    configuration = "finding.controller-not-checked"

    def _may_register(self, request: RegistrationRequest, image: Image) -> bool:
        return request.supports >= image.level

    def _is_refused_registration(self, request: RegistrationRequest, shared: Shared) -> bool:
        return request.supports < self._level(shared.log)


# A rejected alternative


class UnregistrationNotDurable(Registration, variant="not-durable"):
    """Controllers are unregistered without durability: the next active controller still has the registration."""

    def _elected(self, shared: Shared, node: ModelValue, kept: int) -> Step:
        log = tuple(
            VotersRecord(image_after_log(self.snapshot(), shared.log[:place]).voters)
            if isinstance(record, UnregisterControllerRecord)
            else record
            for place, record in enumerate(shared.log[:kept])
        )
        return Step().put(active=node, log=log)


# Faults of the active controller


class UnregistersAtAnyVersion(Registration, variant="version-ungated"):
    """UnregisterControllerRecord is appended at any metadata.version, even if a member cannot read it."""

    def _is_gated(self) -> bool:
        return False


class UncommittedRecordsOverlooked(Registration, variant="uncommitted-overlooked"):
    """Requests are checked against the committed image: two in a row unregister one controller twice."""

    def _image_to_check(self, shared: Shared) -> Image:
        return self.committed_image(shared)


class AnsweredBeforeCommit(Registration, variant="answered-at-once"):
    """The active controller answers when it has appended a record, before the record is committed."""

    def _append(self, me: Controller, shared: Shared, record: LogRecord, request: Request) -> Step:
        written = super()._append(me, shared, record, request).but(me=me).reply(response_to(request, Error.NONE))
        if isinstance(request, RegistrationRequest):
            return written
        return written.put(told=shared.told | {(len(shared.log) + 1, record)})


class RemovalAnsweredBeforeCommit(AnsweredBeforeCommit, variant="removal-answered-at-once"):
    """Of all requests, RemoveVoter alone is answered before the commit, as UpdateVoter is (KAFKA-16534)."""

    def _append(self, me: Controller, shared: Shared, record: LogRecord, request: Request) -> Step:
        if isinstance(request, RemoveVoterRequest):
            return super()._append(me, shared, record, request)
        return Registration._append(self, me, shared, record, request)


class UpgradeIgnoresControllers(Registration, variant="controllers-unasked"):
    """An upgrade checks only the brokers' registrations, as before controllers could register (KIP-919)."""

    def _controllers_asked(self, image: Image) -> Map[ModelValue, Registered]:
        return Map()


class UpgradeIgnoresStoppedNodes(Registration, variant="stopped-unasked"):
    """An upgrade ignores stopped members, so a restarted member may not support the level."""

    @on(UpdateFeaturesRequest, reads=Registration.running)
    def handle_update_features(  # type: ignore[override]
        self, me: Controller, request: UpdateFeaturesRequest, shared: Shared, running: Map[ModelValue | Name, bool]
    ) -> Steps:
        """The active controller finalizes a level that all running members support."""
        if not me.running or shared.active != me.id:
            return
        image = self._image_to_check(shared)
        up = image.but(
            controllers=Map((node, registered) for node, registered in image.controllers.items() if running[node]),
            brokers=Map((node, registered) for node, registered in image.brokers.items() if running[node]),
        )
        yield self._upgrades(me, request, shared, up)


class BrokerLevelUnchecked(Registration, variant="broker-level-unchecked"):
    """A broker may register below the finalized level."""

    def _may_register(self, request: RegistrationRequest, image: Image) -> bool:
        return True


class RemovedLeaderStays(Registration, variant="removed-leader-stays"):
    """An active controller that has removed itself stays active after the commit."""

    def _resigns_after_commit(self, me: Controller, shared: Shared) -> bool:
        return False


class OnlyVoterRemovalNotFound(Registration, variant="only-voter-not-found"):
    """As in Kafka, removing the only voter fails with VOTER_NOT_FOUND, not INVALID_REQUEST (`VoterSet.removeVoter`)."""

    def _only_voter_refusal(self) -> Error:
        return Error.VOTER_NOT_FOUND


class OnlyVoterRemoved(Registration, variant="only-voter-removed"):
    """The only voter is removed like any other, after which no record can be committed."""

    def _only_voter_refusal(self) -> Error:
        return Error.NONE


# Faults of the tools


class UnregistersAfterFailedRemoval(Registration, variant="unregisters-regardless"):
    """`remove-controller --unregister` unregisters a voter even if its removal failed."""

    def _goes_on(self, me: Admin, response: AdminResponse) -> bool:
        assert isinstance(me.command, Command)
        return me.command.tool is Tool.REMOVE_AND_UNREGISTER and not me.unregistering


class LateResponseAccepted(Registration, variant="late-answer-believed"):
    """A tool accepts any response, even a late response to a tool that has timed out."""

    def _is_answer(self, me: Admin, response: AdminResponse) -> bool:
        return True


# A fault of a reachability goal alone


class RegistersOnce(Registration, variant="registers-once"):
    """A controller registers once per start, and stays unregistered after an accident."""

    configuration = "trap.accident"

    def _wants_to_register(self, me: Node, shared: Shared) -> bool:
        return not self._was_registered(me, shared)


# A report


class Sessions(Shared):
    """The shared state with the fenced brokers, and those with a session of the active controller."""

    fenced: frozenset[ModelValue] = frozenset()
    sessions: frozenset[ModelValue] = frozenset()


class SessionsTracked(Registration, variant="sessions-tracked"):
    """The active controller rejects a broker whose former process has a session (KIP-631; KAFKA-19130).

    It fences a stopped broker, for good here. A new active controller has a session of every other broker.
    """

    configuration = "report.sessions"

    def initial(self) -> Iterator[State]:
        for state in super().initial():
            known = {name: getattr(state.shared, name) for name in ("log", "committed", "active", "voters")}
            yield self.start(state.replicas.values(), Sessions(**known, sessions=self.brokers))

    @projection
    def process(self, me: Record) -> int:
        """Incarnation of a running broker; 0 for other processes."""
        return me.incarnation if isinstance(me, Broker) and me.running else 0

    @environment(reads=process)
    def fence(self, shared: Sessions, process: Map[ModelValue | Name, int]) -> Steps:
        """The session of a registered process that has ended expires, and the active controller fences the broker."""
        known = self.image(shared).brokers
        for broker in ordered(shared.sessions if shared.active is not Nil.NIL else ()):
            if broker in known and process[broker] != known[broker].incarnation:
                yield Step().put(fenced=shared.fenced | {broker}, sessions=shared.sessions - {broker})

    def _elected(self, shared: Sessions, node: ModelValue, kept: int) -> Step:  # type: ignore[override]
        return super()._elected(shared, node, kept).put(sessions=self.brokers - self._left_out(shared))

    def _left_out(self, shared: Sessions) -> frozenset[ModelValue]:
        """Return the brokers without a session of a new active controller."""
        return shared.fenced

    @on(RegistrationRequest)
    def handle_registration(self, me: Controller, request: RegistrationRequest, shared: Sessions) -> Steps:  # type: ignore[override]
        is_active = me.running and shared.active == me.id
        if is_active and request.source in shared.sessions:
            yield consume(me).reply(response_to(request, Error.DUPLICATE_BROKER_REGISTRATION))
        else:
            yield from super().handle_registration(me, request, shared)

    @reachable(without=["Restart"])
    def stopped_brokers_can_be_fenced(self, me: Broker, shared: Sessions) -> bool:
        """A broker that has stopped can be fenced, without its restart (KIP-631, broker states)."""
        return me.running or me.id in shared.fenced

    @step_invariant
    def fenced_brokers_may_register(
        self, before: Controller, message: RegistrationRequest, step: Step, shared: Sessions
    ) -> bool:
        """The active controller accepts the registration of a fenced broker: its session is over (KIP-631)."""
        answers = [one for one in step.sent if isinstance(one, RegistrationResponse)]
        rejected = any(one.error is Error.DUPLICATE_BROKER_REGISTRATION for one in answers)
        return not rejected or message.source not in shared.fenced

    @invariant
    def brokers_that_run_on_are_not_fenced(self, me: Broker, shared: Sessions) -> bool:
        """A broker that has never stopped has its session (KIP-631, broker states)."""
        return not me.running or me.incarnation > 1 or me.id not in shared.fenced

    @invariant(reads=process)
    def nobody_else_fences(self, shared: Sessions, process: Map[ModelValue | Name, int]) -> bool:
        """Without an active controller no broker is fenced (KIP-631, "Fencing")."""
        return shared.active is not Nil.NIL or not list(self.fence(shared, process))

    @step_invariant
    def sessions_keep_others_out(
        self, before: Controller, message: RegistrationRequest, step: Step, shared: Sessions
    ) -> bool:
        """The active controller, and no other, rejects a broker with a session (KIP-631, BrokerRegistration)."""
        error = Error.DUPLICATE_BROKER_REGISTRATION
        if before.running and shared.active == before.id and message.source in shared.sessions:
            return step == consume(before).reply(response_to(message, error))
        return not any(isinstance(one, RegistrationResponse) and one.error is error for one in step.sent)


class NoBrokersTracked(SessionsTracked, variant="no-brokers-tracked"):
    """A new active controller tracks no broker, so one that has failed before is never fenced (KAFKA-18138)."""

    def _left_out(self, shared: Sessions) -> frozenset[ModelValue]:
        return self.brokers


class FencedBrokersTracked(SessionsTracked, variant="fenced-brokers-tracked"):
    """A new active controller counts fenced brokers as having a session (KAFKA-19130)."""

    def _left_out(self, shared: Sessions) -> frozenset[ModelValue]:
        return frozenset()
