package org.apache.kafka.raft;

import java.util.Set;

import org.junit.jupiter.api.Test;

import static org.apache.kafka.common.protocol.ApiKeys.*;

/**
 * A walk of 14 steps after which Kafka's Raft client violates:
 *
 * <p>FinalizedIsCommitted (step 14): a reported kraft.version is committed (KIP-584)
 */
class FinalizedTooEarlyTest {
    private final WalkQuorum quorum = new WalkQuorum(0, Set.of(1, 2));  // kraft.version, and the voters

    @Test
    void finalizedTooEarly() throws Exception {
        quorum.walk(this::steps, 14, "FinalizedIsCommitted");
    }

    private void steps() throws Exception {
        quorum.start(1, 2);
        WalkReplica n1 = quorum.replica(1);
        WalkReplica n2 = quorum.replica(2);

        quorum.step(1); n2.timerExpires();                  // ElectionTimeout
        quorum.step(2); n1.receives(VOTE, n2);              // VoteRequest(epoch=0, pre_vote=TRUE, candidate=n2, voter=n1?, last_epoch=0, last_offset=...
        quorum.step(3); n2.receivesResponse(VOTE, n1);      // VoteResponse(epoch=0, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n1?, o...
        quorum.step(4); n1.receives(VOTE, n2);              // VoteRequest(epoch=1, pre_vote=FALSE, candidate=n2, voter=n1?, last_epoch=0, last_offset...
        quorum.step(5); n2.receivesResponse(VOTE, n1);      // VoteResponse(epoch=1, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n1?, ...
        quorum.step(6); n1.receives(BEGIN_QUORUM_EPOCH, n2); n2.receivesResponse(BEGIN_QUORUM_EPOCH, n1);  // BeginQuorumEpochRequest(epoch=1, voter=n1?, source=n2, dest=n1)
        quorum.step(7); n2.receives(FETCH, n1);             // InformedFetch(epoch=1, offset=0, last_epoch=0, directory=1, source=n1, dest=n2, high_wa...
        quorum.step(8); n1.receivesResponse(FETCH, n2);     // FetchResponse(epoch=1, leader=n2, error=NONE, high_watermark=0, records=[Batch(epoch=1,...
        quorum.step(9); n2.receives(FETCH, n1);             // InformedFetch(epoch=1, offset=1, last_epoch=1, directory=1, source=n1, dest=n2, high_wa...
        quorum.step(10); n1.updateVoterPeriodPasses();      // SendUpdateVoter
        quorum.step(11); n1.receivesResponse(FETCH, n2);    // FetchResponse(epoch=1, leader=n2, error=NONE, high_watermark=1, records=[], diverging=N...
        quorum.step(12); n2.receives(UPDATE_RAFT_VOTER, n1);  // UpdateVoterRequest(epoch=1, voter=n1, version=1, source=n1, dest=n2)
        quorum.step(13); n2.isAskedToUpgrade(1);            // Upgrade
        quorum.step(14);                                    // DescribeFeatures
    }
}
