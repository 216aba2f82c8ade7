package org.apache.kafka.raft;

import java.util.Set;

import org.junit.jupiter.api.Test;

import static org.apache.kafka.common.protocol.ApiKeys.*;

/**
 * A walk of 22 steps after which Kafka's Raft client violates:
 *
 * <p>ElectionSafety (step 22): at most one leader per epoch (KIP-595)
 * <p>LeaderCompleteness (step 22): a leader's log has all batches that were committed in earlier epochs (Raft, figure 3)
 * <p>LeadersAreNamedAlike (step 22): replicas of one epoch know the same leader (KIP-595)
 */
class TwoLeadersTest {
    private final WalkQuorum quorum = new WalkQuorum(1, Set.of(1, 2, 3));  // kraft.version, and the voters

    @Test
    void twoLeaders() throws Exception {
        quorum.walk(this::steps, 22, "ElectionSafety", "LeaderCompleteness", "LeadersAreNamedAlike");
    }

    private void steps() throws Exception {
        quorum.start(1, 2, 3);
        WalkReplica n1 = quorum.replica(1);
        WalkReplica n2 = quorum.replica(2);
        WalkReplica n3 = quorum.replica(3);

        quorum.step(1); n1.timerExpires();                  // ElectionTimeout
        quorum.step(2); n3.receives(VOTE, n1);              // VoteRequest(epoch=0, pre_vote=TRUE, candidate=n1, voter=n3, last_epoch=0, last_offset=0...
        quorum.step(3); n1.receivesResponse(VOTE, n3);      // VoteResponse(epoch=0, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n3, of...
        quorum.step(4); n2.timerExpires();                  // ElectionTimeout
        quorum.step(5); n3.receives(VOTE, n2);              // VoteRequest(epoch=0, pre_vote=TRUE, candidate=n2, voter=n3, last_epoch=0, last_offset=0...
        quorum.step(6); n2.receivesResponse(VOTE, n3);      // VoteResponse(epoch=0, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n3, of...
        quorum.step(7); n3.receives(VOTE, n2);              // VoteRequest(epoch=1, pre_vote=FALSE, candidate=n2, voter=n3, last_epoch=0, last_offset=...
        quorum.step(8); n2.receivesResponse(VOTE, n3);      // VoteResponse(epoch=1, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n3, o...
        quorum.step(9); n1.receives(BEGIN_QUORUM_EPOCH, n2); n2.receivesResponse(BEGIN_QUORUM_EPOCH, n1);  // BeginQuorumEpochRequest(epoch=1, voter=n1, source=n2, dest=n1)
        quorum.step(10); n2.receives(FETCH, n1);            // FetchRequest(epoch=1, offset=0, last_epoch=0, directory=1, source=n1, dest=n2)
        quorum.step(11); n1.receivesResponse(FETCH, n2);    // FetchResponse(epoch=1, leader=n2, error=NONE, high_watermark=0, records=[Batch(epoch=1,...
        quorum.step(12); n2.receives(FETCH, n1);            // FetchRequest(epoch=1, offset=1, last_epoch=1, directory=1, source=n1, dest=n2)
        quorum.step(13); n1.receivesResponse(FETCH, n2);    // FetchResponse(epoch=1, leader=n2, error=NONE, high_watermark=1, records=[], diverging=N...
        quorum.step(14); n2.isAskedToRemoveVoter(n3, 1);    // RemoveVoter
        quorum.step(15); n2.receives(FETCH, n1);            // FetchRequest(epoch=1, offset=1, last_epoch=1, directory=1, source=n1, dest=n2)
        quorum.step(16); n1.receivesResponse(FETCH, n2);    // FetchResponse(epoch=1, leader=n2, error=NONE, high_watermark=1, records=[Batch(epoch=1,...
        quorum.step(17); n2.receives(FETCH, n1);            // FetchRequest(epoch=1, offset=2, last_epoch=1, directory=1, source=n1, dest=n2)
        quorum.step(18); n1.receivesResponse(FETCH, n2);    // FetchResponse(epoch=1, leader=n2, error=NONE, high_watermark=2, records=[], diverging=N...
        quorum.step(19); n2.isAskedToRemoveVoter(n2, 1);    // RemoveVoter
        quorum.step(20); n2.receives(FETCH, n1);            // FetchRequest(epoch=1, offset=2, last_epoch=1, directory=1, source=n1, dest=n2)
        quorum.step(21); n1.receivesResponse(FETCH, n2);    // FetchResponse(epoch=1, leader=n2, error=NONE, high_watermark=2, records=[Batch(epoch=1,...
        quorum.step(22); n1.restarts();                     // Restart
    }
}
