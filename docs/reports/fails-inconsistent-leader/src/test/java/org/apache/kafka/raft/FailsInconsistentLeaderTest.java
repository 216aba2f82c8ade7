package org.apache.kafka.raft;

import java.util.Set;

import org.junit.jupiter.api.Test;

import static org.apache.kafka.common.protocol.ApiKeys.*;

/**
 * A walk of 13 steps after which Kafka's Raft client violates:
 *
 * <p>NobodyFails (step 13): no process ends
 */
class FailsInconsistentLeaderTest {
    private final WalkQuorum quorum = new WalkQuorum(1, Set.of(1, 2, 3));  // kraft.version, and the voters

    @Test
    void failsInconsistentLeader() throws Exception {
        quorum.walk(this::steps, 13, "NobodyFails");
    }

    private void steps() throws Exception {
        quorum.bootstrapServers = Set.of(2, 3);
        quorum.start(1, 2, 3);
        WalkReplica n1 = quorum.replica(1);
        WalkReplica n2 = quorum.replica(2);
        WalkReplica n3 = quorum.replica(3);

        quorum.step(1); n3.timerExpires();                  // ElectionTimeout
        quorum.step(2); n1.receives(VOTE, n3);              // VoteRequest(epoch=0, pre_vote=TRUE, candidate=n3, voter=n1, last_epoch=0, last_offset=0...
        quorum.step(3); n3.receivesResponse(VOTE, n1);      // VoteResponse(epoch=0, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n1, of...
        quorum.step(4); n3.timerExpires();                  // ElectionTimeout
        quorum.step(5); n1.receives(VOTE, n3);              // VoteRequest(epoch=1, pre_vote=TRUE, candidate=n3, voter=n1, last_epoch=0, last_offset=0...
        quorum.step(6); n3.receivesResponse(VOTE, n1);      // VoteResponse(epoch=1, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n1, of...
        quorum.step(7); n2.receives(VOTE, n3);              // VoteRequest(epoch=2, pre_vote=FALSE, candidate=n3, voter=n2, last_epoch=0, last_offset=...
        quorum.step(8); n3.receivesResponse(VOTE, n2);      // VoteResponse(epoch=2, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n2, o...
        quorum.step(9); n2.receives(BEGIN_QUORUM_EPOCH, n3); n3.receivesResponse(BEGIN_QUORUM_EPOCH, n2);  // BeginQuorumEpochRequest(epoch=2, voter=n2, source=n3, dest=n2)
        quorum.step(10); n3.restartsWithNewDisk();          // LoseDisk
        quorum.step(11); n3.fetchesFromBootstrapServer(n2);  // FetchFromBootstrapServer
        quorum.step(12); n2.receives(FETCH, n3);            // FetchRequest(epoch=0, offset=0, last_epoch=0, directory=2, source=n3, dest=n2, address=0)
        quorum.step(13); n3.receivesResponse(FETCH, n2);    // FetchResponse(epoch=2, leader=n3, error=FENCED_LEADER_EPOCH, high_watermark=0, records=...
    }
}
