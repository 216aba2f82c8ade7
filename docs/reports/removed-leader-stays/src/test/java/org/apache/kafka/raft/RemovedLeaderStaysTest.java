package org.apache.kafka.raft;

import java.util.Set;

import org.junit.jupiter.api.Test;

import static org.apache.kafka.common.protocol.ApiKeys.*;

/**
 * A walk of 15 steps after which Kafka's Raft client violates:
 *
 * <p>RemovedLeadersResign (step 15): a leader resigns once a voter set without it is committed (KIP-853)
 */
class RemovedLeaderStaysTest {
    private final WalkQuorum quorum = new WalkQuorum(1, Set.of(1, 3));  // kraft.version, and the voters

    @Test
    void removedLeaderStays() throws Exception {
        quorum.walk(this::steps, 15, "RemovedLeadersResign");
    }

    private void steps() throws Exception {
        quorum.start(1, 3);
        WalkReplica n1 = quorum.replica(1);
        WalkReplica n3 = quorum.replica(3);

        quorum.step(1); n1.timerExpires();                  // ElectionTimeout
        quorum.step(2); n3.receives(VOTE, n1);              // VoteRequest(epoch=0, pre_vote=TRUE, candidate=n1, voter=n3, last_epoch=0, last_offset=0...
        quorum.step(3); n1.receivesResponse(VOTE, n3);      // VoteResponse(epoch=0, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n3, of...
        quorum.step(4); n3.receives(VOTE, n1);              // VoteRequest(epoch=1, pre_vote=FALSE, candidate=n1, voter=n3, last_epoch=0, last_offset=...
        quorum.step(5); n1.receivesResponse(VOTE, n3);      // VoteResponse(epoch=1, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n3, o...
        quorum.step(6); n3.receives(BEGIN_QUORUM_EPOCH, n1);  // BeginQuorumEpochRequest(epoch=1, voter=n3, source=n1, dest=n3)
        quorum.step(7); n1.receives(FETCH, n3);             // FetchRequest(epoch=1, offset=0, last_epoch=0, directory=1, source=n3, dest=n1)
        quorum.step(8); n3.receivesResponse(FETCH, n1);     // FetchResponse(epoch=1, leader=n1, error=NONE, high_watermark=0, records=[Batch(epoch=1,...
        quorum.step(9); n1.receives(FETCH, n3);             // FetchRequest(epoch=1, offset=1, last_epoch=1, directory=1, source=n3, dest=n1)
        quorum.step(10); n3.receivesResponse(FETCH, n1);    // FetchResponse(epoch=1, leader=n1, error=NONE, high_watermark=1, records=[], diverging=N...
        quorum.step(11); n1.isAskedToRemoveVoter(n1, 1);    // RemoveVoter
        quorum.step(12); n1.voterChangeTimesOut();          // ExpireOperation
        quorum.step(13); n1.receives(FETCH, n3);            // FetchRequest(epoch=1, offset=1, last_epoch=1, directory=1, source=n3, dest=n1)
        quorum.step(14); n3.receivesResponse(FETCH, n1);    // FetchResponse(epoch=1, leader=n1, error=NONE, high_watermark=1, records=[Batch(epoch=1,...
        quorum.step(15); n1.receives(FETCH, n3);            // FetchRequest(epoch=1, offset=2, last_epoch=1, directory=1, source=n3, dest=n1)
    }
}
