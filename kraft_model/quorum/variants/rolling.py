"""A rolling upgrade of the controllers by an operator, which looks at the quorum before each restart.

Source: Strimzi proposals 56 and 58 (`KafkaRoller`, `KafkaQuorumCheck`). Fault: Strimzi 12864.
"""

from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.base import OtherReplicas
from kraftcheck.kraft_model.quorum.records import (
    ENDED_MODES,
    UNKNOWN_DIRECTORY,
    Admin,
    FetchRequest,
    Key,
    Mode,
    Nil,
    Replica,
    Shared,
)
from kraftcheck.kraft_model.quorum.rules import matches_voter
from kraftcheck.spec import (
    Map,
    ModelValue,
    Record,
    Step,
    Steps,
    internal,
    invariant,
    projection,
    reachable,
    step_invariant,
)


class ControllerProgress(Record):
    """A running controller as its operator sees it; `end` is the log end of a leader or a fetching follower."""

    key: Key
    leads: bool
    epoch: int
    end: int
    software: int


ControllerProgressById = Map[ModelValue, ControllerProgress | Nil]


class RolledByOperator(Quorum, variant="rolled-by-operator"):
    """An operator restarts one controller at a time with new software, while most voters without it have caught up.

    It restarts the leader last. Old software does not know the directory id in Fetch, as before KIP-853.
    """

    configuration = "report.roll"

    def fetch_from(self, me: Replica, server: ModelValue, address: int) -> FetchRequest:
        fetch = super().fetch_from(me, server, address)
        return fetch if me.software else fetch.but(directory=UNKNOWN_DIRECTORY)

    @projection
    def progress(self, me: Replica | Admin) -> ControllerProgress | Nil:
        """Return what DescribeQuorum and its pod say of a running controller; Nil for any other process."""
        if not isinstance(me, Replica) or me.mode in ENDED_MODES:
            return Nil.NIL
        leads = me.mode is Mode.LEADER
        return ControllerProgress(me.key, leads, me.epoch, len(me.log) if leads or me.fetched else 0, me.software)

    @internal(reads=progress)
    def change_software(self, me: Replica, progress: ControllerProgressById) -> Steps:  # type: ignore[override]
        """The operator restarts a controller with new software."""
        others = [one for host, one in progress.items() if isinstance(one, ControllerProgress) and host != me.id]
        if me.software == 0 and self.may_restart(me, others):
            yield from super().change_software(me)

    def may_restart(self, me: Replica, others: list[ControllerProgress]) -> bool:
        """Whether the other voters that have caught up with the leader are a majority, and a leader is the last one."""
        if me.mode is Mode.LEADER:
            newest = [(me.epoch, len(me.log))] if all(one.software for one in others) else []
        else:
            newest = [(one.epoch, one.end) for one in others if one.leads]
        caught_up = [one.key for one in others if newest and (one.epoch, one.end) == max(newest)]
        return self.is_majority(
            me.voters, {v.key for v in me.voters if any(matches_voter(v.key, key) for key in caught_up)}
        )

    @reachable(reads=progress)
    def rolls_end(self, progress: ControllerProgressById) -> bool:
        """Every running controller can come to run the new software (Kafka, "Upgrading"; Strimzi proposal 58)."""
        return all(one.software for one in progress.values() if isinstance(one, ControllerProgress))

    @invariant(reads=progress)
    def restarts_leave_a_majority(self, me: Replica, progress: ControllerProgressById) -> bool:
        """The operator restarts no controller without which most voters have not caught up (Strimzi proposal 56)."""
        if not list(self.change_software(me, progress)):
            return True
        known = {host: one for host, one in progress.items() if isinstance(one, ControllerProgress)}
        newest = max(((one.epoch, one.end) for one in known.values() if one.leads), default=None)
        others = [one for host, one in known.items() if host != me.id]
        ready = [one for one in others if (one.epoch, one.end) == newest]
        is_last = me.mode is not Mode.LEADER or all(one.software for one in others)
        return 2 * len(ready) > len(me.voters) and is_last and not me.software

    @step_invariant
    def rolls_change_the_software_alone(self, before: Replica, after: Replica, step: Step) -> bool:
        """A restart with new software keeps the log, and begins no election (Strimzi proposal 58)."""
        if step.spends != ("software_changes",):
            return after.software == before.software
        kept = (before.software, after.software) == (0, 1) and after.log == before.log and after.epoch == before.epoch
        return kept and not step.consumes and after.mode is not Mode.LEADER

    @step_invariant
    def old_software_sends_no_directory(self, before: Replica, after: Replica, step: Step) -> bool:
        """Fetch has the directory id of its sender, unless the sender has old software (KIP-853, "Fetch")."""
        sent = {one.directory for one in step.sent if isinstance(one, FetchRequest)}
        return sent <= {after.directory if after.software else UNKNOWN_DIRECTORY}


class UpgradedStaysBehind(RolledByOperator, variant="upgraded-stays-behind"):
    """An upgraded voter cannot fetch from a leader with old software: the roll stops after it (Strimzi 12864).

    The report does not tell why the voter stays behind; the reason here is that of KAFKA-17276.
    """

    def handle_fetch_request(self, me: Replica, request: FetchRequest, shared: Shared) -> Steps:
        if me.software == 0 and request.directory != UNKNOWN_DIRECTORY:
            yield self.taken(me, me)
        else:
            yield from super().handle_fetch_request(me, request, shared)

    def is_served(self, me: Replica, shared: Shared, seen: OtherReplicas) -> bool:
        return me.software == 0 and super().is_served(me, shared, seen)


__all__ = ["RolledByOperator", "UpgradedStaysBehind"]
