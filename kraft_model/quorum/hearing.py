"""What replicas of `quorum` hear of epochs and leaders, and of the leaders' endpoints (KIP-595, KIP-853, KIP-996)."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.membership import QuorumMembership
from kraftcheck.kraft_model.quorum.messages import LeaderResponse
from kraftcheck.kraft_model.quorum.records import Error, Mode, Nil
from kraftcheck.kraft_model.quorum.state import Replica
from kraftcheck.kraft_model.quorum.transitions import endpoint_of, failed, following, unattached
from kraftcheck.spec import ModelValue


class QuorumHearing(QuorumMembership):
    """What a replica makes of what it hears; where Kafka throws, it fails."""

    def learn(self, me: Replica, leader: ModelValue | Nil, epoch: int, endpoint: int) -> Replica:
        """Return the replica after it heard of an epoch, and perhaps of its leader, in a request or an error.

        An older epoch changes nothing. In its own epoch the replica follows a leader that it did not know, or had no
        endpoint of, as after a restart (KIP-996). It fails if it hears of another leader of its epoch than the one that
        it knows, or that it leads itself and does not (`KafkaRaftClient.maybeTransition`).
        """
        if epoch < me.epoch:
            return me
        if not self.is_consistent(me, leader, epoch):
            return failed(me)
        if isinstance(leader, Nil):
            return unattached(me, epoch) if epoch > me.epoch else me
        endpoint = endpoint or endpoint_of(me, leader)
        if epoch > me.epoch or isinstance(me.leader, Nil) or me.leader_endpoint == 0 < endpoint:
            return self.follow(me, leader, epoch, endpoint)
        return me

    def is_consistent(self, me: Replica, leader: ModelValue | Nil, epoch: int) -> bool:
        """Whether what a replica hears of a leader fits to what it knows (`KafkaRaftClient.hasConsistentLeader`)."""
        if leader == me.id:
            return me.mode is Mode.LEADER
        return epoch != me.epoch or isinstance(leader, Nil) or isinstance(me.leader, Nil) or leader == me.leader

    def follow(self, me: Replica, leader: ModelValue, epoch: int, endpoint: int) -> Replica:
        """Return the replica as follower; it fails without the leader's endpoint, or if it is to follow itself.

        The endpoint is the one that it was told, else that of the voter set (`QuorumState.transitionToFollower`).
        """
        endpoint = endpoint or endpoint_of(me, leader)
        return failed(me) if endpoint == 0 or leader == me.id else following(me, leader, epoch, endpoint)

    def common_response(self, me: Replica, response: LeaderResponse) -> tuple[Replica, bool]:
        """Return the replica after the fields that all responses share, and whether the response is dealt with.

        KIP-595, "Leader Election and Discovery"; Kafka does this before it looks at the rest of a response. It takes
        INVALID_REQUEST for impossible (`KafkaRaftClient.maybeHandleCommonResponse`).
        """
        error, leader, epoch = response.error, response.leader, response.epoch
        if epoch < me.epoch or error is Error.UNKNOWN_LEADER_EPOCH:
            return me, True
        if epoch > me.epoch or error in (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER):
            return self.learn(me, leader, epoch, response.endpoint), True
        dealt = error not in (Error.NONE, Error.UNSUPPORTED_VERSION, Error.SNAPSHOT_NOT_FOUND)
        if isinstance(me.leader, Nil) and not isinstance(leader, Nil):
            return self.follow(me, leader, epoch, response.endpoint), dealt
        return (failed(me), True) if error is Error.INVALID_REQUEST else (me, dealt)

    def endpoint_shown(self, me: Replica) -> int:
        """Return the endpoint of the leader that a replica names in its answers; 0 where it knows none of it."""
        return me.endpoint if me.leader == me.id else me.leader_endpoint
