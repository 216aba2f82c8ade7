"""Variants of `Reconfig`: what a specification meant, and seeded faults that the invariants catch.

Each changes one rule, and names the invariant that is violated for it. The configuration that shows a fault is
`configs/reconfig.fault.<variant>.cfg`; under the same one, `Reconfig` itself violates nothing. KAFKA numbers are those of Apache Kafka's
issue tracker.
"""

from __future__ import annotations

from kraft_model.reconfig import Membership, Reconfig
from kraft_model.reconfig_log import config_at
from kraft_model.reconfig_records import (
    Command,
    FetchRequest,
    FetchResponse,
    Nil,
    RequestVoteRequest,
    Role,
    Server,
    ServerId,
    ServerState,
)
from kraft_model.reconfig_transitions import ILLEGAL, Outcome
from spec import Step, Steps, become, consume


class RestartWithoutStateCorrected(Reconfig, variant="restart-without-state-corrected"):
    def _is_voter(self, peer: Membership) -> bool:
        return peer.role is Role.VOTER

    def _without_state(self, me: Server, dead: Server, leave_zombie: bool) -> Step:
        return become(me if leave_zombie else dead).spend("restarts")


class VotesWithoutLogComparison(Reconfig, variant="votes-without-log-comparison"):
    def _log_is_current(self, me: Server, request: RequestVoteRequest) -> bool:
        return True


class SecondVoteInEpoch(Reconfig, variant="second-vote-in-epoch"):
    def _may_vote(self, me: Server, now: Outcome, request: RequestVoteRequest) -> bool:
        return now.state in (ServerState.UNATTACHED, ServerState.VOTED)


class RestartedLeaderUnattached(Reconfig, variant="restarted-leader-unattached"):
    def _state_after_restart(self, me: Server) -> ServerState:
        return ServerState.UNATTACHED if me.state is ServerState.LEADER else me.state


class PendingChangeAccepted(Reconfig, variant="pending-change-accepted"):
    def _has_pending_config(self, me: Server) -> bool:
        return False


class FetchPositionUnchecked(Reconfig, variant="fetch-position-unchecked"):
    def _valid_position(self, me: Server, request: FetchRequest) -> bool:
        return True


class ObserverStands(Reconfig, variant="observer-stands"):
    def _may_stand(self, me: Server) -> bool:
        return True


class RemovedLeaderContradicted(Reconfig, variant="removed-leader-contradicted"):
    def handle_non_success_fetch_response(self, me: Server, response: FetchResponse) -> Steps:
        for step in super().handle_non_success_fetch_response(me, response):
            contradicted = me.role is Role.OBSERVER and response.leader == me.id
            yield consume(ILLEGAL.of(me).but(pending_fetch=Nil.NIL)) if contradicted else step


class LeaderNotReady(Reconfig, variant="leader-not-ready"):
    def _is_ready(self, me: Server) -> bool:
        return True


class OldVoterSetCounted(Reconfig, variant="old-voter-set-counted"):
    def _counted_members(self, me: Server) -> frozenset[ServerId]:
        configs = [entry.value.members for entry in me.log[: me.high_watermark] if entry.command is not Command.APPEND]
        return configs[-1] if configs else me.config.members
