package org.apache.kafka.raft;

import java.util.Set;

import org.junit.jupiter.api.Test;

import static org.apache.kafka.common.protocol.ApiKeys.*;

/**
 * A walk of 18 steps after which Kafka's Raft client violates:
 *
 * <p>NobodyFails (step 18): no process ends
 */
class FailsResignedTest {
    private final WalkQuorum quorum = new WalkQuorum(1, Set.of(1, 2, 3));  // kraft.version, and the voters

    @Test
    void failsResigned() throws Exception {
        quorum.walk(this::steps, 18, "NobodyFails");
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
        quorum.step(6); n2.receives(BEGIN_QUORUM_EPOCH, n1); n1.receivesResponse(BEGIN_QUORUM_EPOCH, n2);  // BeginQuorumEpochRequest(epoch=1, voter=n2, source=n1, dest=n2)
        quorum.step(7); n3.receives(BEGIN_QUORUM_EPOCH, n1); n1.receivesResponse(BEGIN_QUORUM_EPOCH, n3);  // BeginQuorumEpochRequest(epoch=1, voter=n3, source=n1, dest=n3)
        quorum.step(8); n1.receives(FETCH, n2);             // FetchRequest(epoch=1, offset=0, last_epoch=0, directory=1, source=n2, dest=n1)
        quorum.step(9); n2.receivesResponse(FETCH, n1);     // FetchResponse(epoch=1, leader=n1, error=NONE, high_watermark=0, records=[Batch(epoch=1,...
        quorum.step(10); n1.receives(FETCH, n2);            // FetchRequest(epoch=1, offset=1, last_epoch=1, directory=1, source=n2, dest=n1)
        quorum.step(11); n1.isAskedToRemoveVoter(n2, 1);    // RemoveVoter
        quorum.step(12); n2.timerExpires(); n2.receivesResponse(FETCH, n1);  // FetchTimeout
        quorum.step(13); n3.receives(VOTE, n2);             // VoteRequest(epoch=1, pre_vote=TRUE, candidate=n2, voter=n3, last_epoch=1, last_offset=1...
        quorum.step(14); n2.receivesResponse(VOTE, n3);     // VoteResponse(epoch=1, leader=n1, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n3, of=...
        quorum.step(15); n3.receives(VOTE, n2);             // VoteRequest(epoch=2, pre_vote=FALSE, candidate=n2, voter=n3, last_epoch=1, last_offset=...
        quorum.step(16); n2.receivesResponse(VOTE, n3);     // VoteResponse(epoch=2, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n3, o...
        quorum.step(17); n2.resigns();                      // Resign
        quorum.step(18); n1.receives(END_QUORUM_EPOCH, n2);  // EndQuorumEpochRequest(epoch=2, preferred=[n1, n3], source=n2, dest=n1)
    }
}
