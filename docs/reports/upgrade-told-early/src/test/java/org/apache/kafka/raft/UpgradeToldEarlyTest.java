package org.apache.kafka.raft;

import java.util.Set;

import org.junit.jupiter.api.Test;

import static org.apache.kafka.common.protocol.ApiKeys.*;

/**
 * A walk of 17 steps after which Kafka's Raft client violates:
 *
 * <p>ToldIsKept (step 17): a change is committed when its request is answered without an error (KIP-853)
 */
class UpgradeToldEarlyTest {
    private final WalkQuorum quorum = new WalkQuorum(0, Set.of(1, 2));  // kraft.version, and the voters

    @Test
    void upgradeToldEarly() throws Exception {
        quorum.walk(this::steps, 17, "ToldIsKept");
    }

    private void steps() throws Exception {
        quorum.start(1, 2);
        WalkReplica n1 = quorum.replica(1);
        WalkReplica n2 = quorum.replica(2);

        quorum.step(1); n2.timerExpires();                  // ElectionTimeout
        quorum.step(2); n1.receives(VOTE, n2);              // VoteRequest(epoch=0, pre_vote=TRUE, candidate=n2, voter=n1?, last_epoch=0, last_offset=...
        quorum.step(3); n2.receivesResponse(VOTE, n1);      // VoteResponse(epoch=0, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n1?, o...
        quorum.step(4); n2.timerExpires();                  // ElectionTimeout
        quorum.step(5); n1.receives(VOTE, n2);              // VoteRequest(epoch=1, pre_vote=TRUE, candidate=n2, voter=n1?, last_epoch=0, last_offset=...
        quorum.step(6); n2.receivesResponse(VOTE, n1);      // VoteResponse(epoch=1, leader=Nil, granted=TRUE, error=NONE, pre_vote=TRUE, voter=n1?, o...
        quorum.step(7); n1.receives(VOTE, n2);              // VoteRequest(epoch=2, pre_vote=FALSE, candidate=n2, voter=n1?, last_epoch=0, last_offset...
        quorum.step(8); n2.receivesResponse(VOTE, n1);      // VoteResponse(epoch=2, leader=Nil, granted=TRUE, error=NONE, pre_vote=FALSE, voter=n1?, ...
        quorum.step(9); n1.receives(BEGIN_QUORUM_EPOCH, n2);  // BeginQuorumEpochRequest(epoch=2, voter=n1?, source=n2, dest=n1)
        quorum.step(10); n2.receives(FETCH, n1);            // FetchRequest(epoch=2, offset=0, last_epoch=0, directory=1, source=n1, dest=n2)
        quorum.step(11); n1.receivesResponse(FETCH, n2);    // FetchResponse(epoch=2, leader=n2, error=NONE, high_watermark=0, records=[Batch(epoch=2,...
        quorum.step(12); n2.receives(FETCH, n1);            // FetchRequest(epoch=2, offset=1, last_epoch=2, directory=1, source=n1, dest=n2)
        quorum.step(13); n1.updateVoterPeriodPasses();      // SendUpdateVoter
        quorum.step(14); n1.receivesResponse(FETCH, n2);    // FetchResponse(epoch=2, leader=n2, error=NONE, high_watermark=1, records=[], diverging=N...
        quorum.step(15); n2.receives(UPDATE_RAFT_VOTER, n1);  // UpdateVoterRequest(epoch=2, voter=n1, version=1, source=n1, dest=n2)
        quorum.step(16); n2.isAskedToUpgrade(1);            // Upgrade
        quorum.step(17); quorum.administratorReads(UPDATE_FEATURES, n2, WalkProperties.upgraded(1));  // AdminResponse(operation=UpdateFeatures, error=NONE, source=n2, dest=admin, about=Answer...
    }
}
