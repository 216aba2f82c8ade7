package org.apache.kafka.raft;

import java.util.Set;

import org.junit.jupiter.api.Test;

import static org.apache.kafka.common.protocol.ApiKeys.*;

/**
 * A walk of 40 steps after which Kafka's Raft client violates:
 *
 * <p>LastVoterSetIsUsed (step 29): the last voter set of snapshot and log is used, committed or not (KIP-853)
 * <p>LeaderCompleteness (step 36): a leader's log has all batches that were committed in earlier epochs (Raft, figure 3)
 * <p>StateMachineSafety (step 40): replicas agree on the committed log (Raft, figure 3)
 */
class TwoCommittedLogsTest {
    private final WalkQuorum quorum = new WalkQuorum(1, Set.of(1, 2, 3));  // kraft.version, and the voters

    @Test
    void twoCommittedLogs() throws Exception {
        quorum.walk(this::steps, 29, "LastVoterSetIsUsed", "LeaderCompleteness", "StateMachineSafety");
    }

    private void steps() throws Exception {
        quorum.start(1, 2, 3);
        WalkReplica n1 = quorum.replica(1);
        WalkReplica n2 = quorum.replica(2);
        WalkReplica n3 = quorum.replica(3);

        quorum.step(1); n1.timerExpires();                  // ElectionTimeout
        quorum.step(2); n2.receives(VOTE, n1);              // VoteRequest(epoch=0, pre_vote=TRUE, candidate=n1, voter=n2, last_epoch=0, last_offset=0...
        quorum.step(3); n1.receivesResponse(VOTE, n2);      // VoteResponse(epoch=0, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n2, of...
        quorum.step(4); n3.receives(VOTE, n1);              // VoteRequest(epoch=1, pre_vote=FALSE, candidate=n1, voter=n3, last_epoch=0, last_offset=...
        quorum.step(5); n1.receivesResponse(VOTE, n3);      // VoteResponse(epoch=1, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n3, o...
        quorum.step(6); n1.appends("1");                    // ClientAppend
        quorum.step(7); n1.resigns();                       // Resign
        quorum.step(8); n3.receives(END_QUORUM_EPOCH, n1); n1.receivesResponse(END_QUORUM_EPOCH, n3);  // EndQuorumEpochRequest(epoch=1, preferred=[n2, n3], source=n1, dest=n3)
        quorum.step(9); n2.receives(END_QUORUM_EPOCH, n1); n1.receivesResponse(END_QUORUM_EPOCH, n2);  // EndQuorumEpochRequest(epoch=1, preferred=[n2, n3], source=n1, dest=n2)
        quorum.step(10); n2.receives(VOTE, n3);             // VoteRequest(epoch=1, pre_vote=TRUE, candidate=n3, voter=n2, last_epoch=0, last_offset=0...
        quorum.step(11); n3.receivesResponse(VOTE, n2);     // VoteResponse(epoch=1, leader=n1, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n2, of=...
        quorum.step(12); n2.receives(VOTE, n3);             // VoteRequest(epoch=2, pre_vote=FALSE, candidate=n3, voter=n2, last_epoch=0, last_offset=...
        quorum.step(13); n3.receivesResponse(VOTE, n2);     // VoteResponse(epoch=2, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n2, o...
        quorum.step(14); n1.receives(BEGIN_QUORUM_EPOCH, n3); n3.receivesResponse(BEGIN_QUORUM_EPOCH, n1);  // BeginQuorumEpochRequest(epoch=2, voter=n1, source=n3, dest=n1)
        quorum.step(15); n2.receives(BEGIN_QUORUM_EPOCH, n3); n3.receivesResponse(BEGIN_QUORUM_EPOCH, n2);  // BeginQuorumEpochRequest(epoch=2, voter=n2, source=n3, dest=n2)
        quorum.step(16); n3.receives(FETCH, n1);            // FetchRequest(epoch=2, offset=2, last_epoch=1, directory=1, source=n1, dest=n3)
        quorum.step(17); n1.receivesResponse(FETCH, n3);    // FetchResponse(epoch=2, leader=n3, error=NONE, high_watermark=0, records=[], diverging=P...
        quorum.step(18); n3.receives(FETCH, n2);            // FetchRequest(epoch=2, offset=0, last_epoch=0, directory=1, source=n2, dest=n3)
        quorum.step(19); n2.receivesResponse(FETCH, n3);    // FetchResponse(epoch=2, leader=n3, error=NONE, high_watermark=0, records=[Batch(epoch=2,...
        quorum.step(20); n3.receives(FETCH, n1);            // FetchRequest(epoch=2, offset=0, last_epoch=0, directory=1, source=n1, dest=n3)
        quorum.step(21); n1.receivesResponse(FETCH, n3);    // FetchResponse(epoch=2, leader=n3, error=NONE, high_watermark=0, records=[Batch(epoch=2,...
        quorum.step(22); n3.receives(FETCH, n1);            // FetchRequest(epoch=2, offset=1, last_epoch=2, directory=1, source=n1, dest=n3)
        quorum.step(23); n1.receivesResponse(FETCH, n3);    // FetchResponse(epoch=2, leader=n3, error=NONE, high_watermark=1, records=[], diverging=N...
        quorum.step(24); n3.isAskedToRemoveVoter(n1, 1);    // RemoveVoter
        quorum.step(25); n3.receives(FETCH, n2);            // FetchRequest(epoch=2, offset=1, last_epoch=2, directory=1, source=n2, dest=n3)
        quorum.step(26); n2.receivesResponse(FETCH, n3);    // FetchResponse(epoch=2, leader=n3, error=NONE, high_watermark=1, records=[Batch(epoch=2,...
        quorum.step(27); n3.receives(FETCH, n1);            // FetchRequest(epoch=2, offset=1, last_epoch=2, directory=1, source=n1, dest=n3)
        quorum.step(28); n3.receives(FETCH, n2);            // FetchRequest(epoch=2, offset=2, last_epoch=2, directory=1, source=n2, dest=n3)
        quorum.step(29); n1.receivesResponse(FETCH, n3);    // FetchResponse(epoch=2, leader=n3, error=NONE, high_watermark=1, records=[Batch(epoch=2,...
        quorum.step(30); n3.isAskedToRemoveVoter(n2, 1);    // RemoveVoter
        quorum.step(31); n2.timerExpires(); n2.receivesResponse(FETCH, n3);  // FetchTimeout
        quorum.step(32); n1.timerExpires();                 // FetchTimeout
        quorum.step(33); n2.receives(VOTE, n1);             // VoteRequest(epoch=2, pre_vote=TRUE, candidate=n1, voter=n2, last_epoch=2, last_offset=2...
        quorum.step(34); n1.receivesResponse(VOTE, n2);     // VoteResponse(epoch=2, leader=n3, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n2, of=...
        quorum.step(35); n2.receives(VOTE, n1);             // VoteRequest(epoch=3, pre_vote=FALSE, candidate=n1, voter=n2, last_epoch=2, last_offset=...
        quorum.step(36); n1.receivesResponse(VOTE, n2);     // VoteResponse(epoch=3, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n2, o...
        quorum.step(37); n2.receives(BEGIN_QUORUM_EPOCH, n1); n1.receivesResponse(BEGIN_QUORUM_EPOCH, n2);  // BeginQuorumEpochRequest(epoch=3, voter=n2, source=n1, dest=n2)
        quorum.step(38); n1.receives(FETCH, n2);            // FetchRequest(epoch=3, offset=2, last_epoch=2, directory=1, source=n2, dest=n1)
        quorum.step(39); n2.receivesResponse(FETCH, n1);    // FetchResponse(epoch=3, leader=n1, error=NONE, high_watermark=0, records=[Batch(epoch=3,...
        quorum.step(40); n1.receives(FETCH, n2);            // FetchRequest(epoch=3, offset=3, last_epoch=3, directory=1, source=n2, dest=n1)
    }
}
