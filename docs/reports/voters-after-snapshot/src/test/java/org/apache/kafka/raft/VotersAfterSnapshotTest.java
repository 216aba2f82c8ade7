package org.apache.kafka.raft;

import java.util.Set;

import org.junit.jupiter.api.Test;

import static org.apache.kafka.common.protocol.ApiKeys.*;

/**
 * A walk of 24 steps after which Kafka's Raft client violates:
 *
 * <p>LastVoterSetIsUsed (step 24): the last voter set of snapshot and log is used, committed or not (KIP-853)
 */
class VotersAfterSnapshotTest {
    private final WalkQuorum quorum = new WalkQuorum(1, Set.of(1, 2, 3));  // kraft.version, and the voters

    @Test
    void votersAfterSnapshot() throws Exception {
        quorum.walk(this::steps, 24, "LastVoterSetIsUsed");
    }

    private void steps() throws Exception {
        quorum.start(1, 2, 3, 4);
        WalkReplica n1 = quorum.replica(1);
        WalkReplica n2 = quorum.replica(2);
        WalkReplica n3 = quorum.replica(3);
        WalkReplica n4 = quorum.replica(4);

        quorum.step(1); n3.timerExpires();                  // ElectionTimeout
        quorum.step(2); n2.receives(VOTE, n3);              // VoteRequest(epoch=0, pre_vote=TRUE, candidate=n3, voter=n2, last_epoch=0, last_offset=0...
        quorum.step(3); n3.receivesResponse(VOTE, n2);      // VoteResponse(epoch=0, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n2, of...
        quorum.step(4); n1.receives(VOTE, n3);              // VoteRequest(epoch=1, pre_vote=FALSE, candidate=n3, voter=n1, last_epoch=0, last_offset=...
        quorum.step(5); n3.receivesResponse(VOTE, n1);      // VoteResponse(epoch=1, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n1, o...
        quorum.step(6); n2.receives(BEGIN_QUORUM_EPOCH, n3); n3.receivesResponse(BEGIN_QUORUM_EPOCH, n2);  // BeginQuorumEpochRequest(epoch=1, voter=n2, source=n3, dest=n2)
        quorum.step(7); n3.receives(FETCH, n2);             // FetchRequest(epoch=1, offset=0, last_epoch=0, directory=1, source=n2, dest=n3)
        quorum.step(8); n2.receivesResponse(FETCH, n3);     // FetchResponse(epoch=1, leader=n3, error=NONE, high_watermark=0, records=[Batch(epoch=1,...
        quorum.step(9); n3.receives(FETCH, n2);             // FetchRequest(epoch=1, offset=1, last_epoch=1, directory=1, source=n2, dest=n3)
        quorum.step(10); n3.isAskedToRemoveVoter(n3, 1);    // RemoveVoter
        quorum.step(11); n3.resigns();                      // Resign
        quorum.step(12); n2.receives(END_QUORUM_EPOCH, n3); n3.receivesResponse(END_QUORUM_EPOCH, n2); n2.receivesResponse(FETCH, n3);  // EndQuorumEpochRequest(epoch=1, preferred=[n2, n1], source=n3, dest=n2)
        quorum.step(13); n1.receives(END_QUORUM_EPOCH, n3); n3.receivesResponse(END_QUORUM_EPOCH, n1);  // EndQuorumEpochRequest(epoch=1, preferred=[n2, n1], source=n3, dest=n1)
        quorum.step(14); n1.receives(VOTE, n2);             // VoteRequest(epoch=1, pre_vote=TRUE, candidate=n2, voter=n1, last_epoch=1, last_offset=1...
        quorum.step(15); n3.takesSnapshot(3, 1);            // TakeSnapshot
        quorum.step(16); n2.receivesResponse(VOTE, n1);     // VoteResponse(epoch=1, leader=n3, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n1, of=...
        quorum.step(17); n2.timerExpires();                 // ElectionTimeout
        quorum.step(18); n1.receives(VOTE, n2);             // VoteRequest(epoch=2, pre_vote=TRUE, candidate=n2, voter=n1, last_epoch=1, last_offset=1...
        quorum.step(19); n2.receivesResponse(VOTE, n1);     // VoteResponse(epoch=2, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n1, of...
        quorum.step(20); n1.receives(VOTE, n2);             // VoteRequest(epoch=3, pre_vote=FALSE, candidate=n2, voter=n1, last_epoch=1, last_offset=...
        quorum.step(21); n2.receivesResponse(VOTE, n1);     // VoteResponse(epoch=3, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n1, o...
        quorum.step(22); n3.receives(BEGIN_QUORUM_EPOCH, n2); n2.receivesResponse(BEGIN_QUORUM_EPOCH, n3);  // BeginQuorumEpochRequest(epoch=3, voter=n3, source=n2, dest=n3)
        quorum.step(23); n2.receives(FETCH, n3);            // FetchRequest(epoch=3, offset=2, last_epoch=1, directory=1, source=n3, dest=n2)
        quorum.step(24); n3.receivesResponse(FETCH, n2);    // FetchResponse(epoch=3, leader=n2, error=NONE, high_watermark=0, records=[], diverging=P...
    }
}
