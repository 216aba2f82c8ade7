package org.apache.kafka.raft;

import java.util.Set;

import org.junit.jupiter.api.Test;

import static org.apache.kafka.common.protocol.ApiKeys.*;

/**
 * A walk of 12 steps after which Kafka's Raft client violates:
 *
 * <p>NobodyFails (step 12): no process ends
 */
class FailsAcknowledgedTest {
    private final WalkQuorum quorum = new WalkQuorum(1, Set.of(1, 2, 3));  // kraft.version, and the voters

    @Test
    void failsAcknowledged() throws Exception {
        quorum.walk(this::steps, 12, "NobodyFails");
    }

    private void steps() throws Exception {
        quorum.start(1, 2, 3);
        WalkReplica n1 = quorum.replica(1);
        WalkReplica n2 = quorum.replica(2);
        WalkReplica n3 = quorum.replica(3);

        quorum.step(1); n1.timerExpires();                  // ElectionTimeout
        quorum.step(2); n2.receives(VOTE, n1);              // VoteRequest(epoch=0, pre_vote=TRUE, candidate=n1, voter=n2, last_epoch=0, last_offset=0...
        quorum.step(3); n1.receivesResponse(VOTE, n2);      // VoteResponse(epoch=0, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n2, of...
        quorum.step(4); n2.receives(VOTE, n1);              // VoteRequest(epoch=1, pre_vote=FALSE, candidate=n1, voter=n2, last_epoch=0, last_offset=...
        quorum.step(5); n1.receivesResponse(VOTE, n2);      // VoteResponse(epoch=1, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n2, o...
        quorum.step(6); n3.receives(BEGIN_QUORUM_EPOCH, n1);  // BeginQuorumEpochRequest(epoch=1, voter=n3, source=n1, dest=n3)
        quorum.step(7); n1.receives(FETCH, n3);             // FetchRequest(epoch=1, offset=0, last_epoch=0, directory=1, source=n3, dest=n1)
        quorum.step(8); n2.receives(BEGIN_QUORUM_EPOCH, n1);  // BeginQuorumEpochRequest(epoch=1, voter=n2, source=n1, dest=n2)
        quorum.step(9); n3.receivesResponse(FETCH, n1);     // FetchResponse(epoch=1, leader=n1, error=NONE, high_watermark=0, records=[Batch(epoch=1,...
        quorum.step(10); n1.receives(FETCH, n3);            // FetchRequest(epoch=1, offset=1, last_epoch=1, directory=1, source=n3, dest=n1)
        quorum.step(11); n1.isAskedToRemoveVoter(n2, 1);    // RemoveVoter
        quorum.step(12); n1.receivesResponse(BEGIN_QUORUM_EPOCH, n2); n1.receivesResponse(BEGIN_QUORUM_EPOCH, n3);  // BeginQuorumEpochResponse(epoch=1, leader=n1, error=NONE, of=1, source=n2, dest=n1)
    }
}
