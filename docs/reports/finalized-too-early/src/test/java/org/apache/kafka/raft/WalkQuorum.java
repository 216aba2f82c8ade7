package org.apache.kafka.raft;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;  // where records are from 4.3 on

import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.abort;

/** A quorum of Raft clients in one thread, driven one message or timeout at a time. */
final class WalkQuorum {
    /** Kafka does not take a step of the walk: for instance, it has not sent the message to deliver. */
    static final class NotPossible extends RuntimeException {
        NotPossible(String problem) {
            super(problem);
        }
    }

    /** The steps of a walk. */
    interface Steps {
        void take() throws Exception;
    }

    final TreeMap<Integer, WalkReplica> replicas = new TreeMap<>();
    final int kraftVersion;
    final Set<Integer> voters;
    final AtomicInteger correlations = new AtomicInteger();
    Set<Integer> brokers = Set.of();
    Set<Integer> bootstrapServers = Set.of();  // all replicas if empty
    Set<Integer> oldSoftware = Set.of();  // replicas that support kraft.version 0 only
    Set<Integer> otherCluster = Set.of();  // replicas formatted for another cluster
    boolean autoJoin;
    VoterSet formatted = VoterSet.empty();
    private final List<WalkMessage> inFlight = new ArrayList<>();
    private final WalkProperties properties = new WalkProperties(this);
    private int step;

    WalkQuorum(int kraftVersion, Set<Integer> voters) {
        this.kraftVersion = kraftVersion;
        this.voters = voters;
    }

    /** Formats the disks of all replicas and starts their processes. */
    void start(int... ids) throws Exception {
        for (int id : ids) {
            replicas.put(id, new WalkReplica(this, id));
        }
        Map<Integer, VoterSet.VoterNode> nodes = new HashMap<>();
        Map<Integer, InetSocketAddress> addresses = new HashMap<>();
        for (int id : voters) {
            WalkReplica replica = replicas.get(id);
            nodes.put(id, VoterSet.VoterNode.of(ReplicaKey.of(id, new Uuid(id, 1)), replica.endpoints(),
                new SupportedVersionRange((short) 0, (short) 1)));
            addresses.put(id, replica.address(1));
        }
        if (!nodes.isEmpty()) {
            formatted = kraftVersion > 0 ? VoterSet.fromMap(nodes)
                : VoterSet.fromInetSocketAddresses(MockNetworkChannel.LISTENER_NAME, addresses);
        }
        for (WalkReplica replica : replicas.values()) {
            replica.format(voters.contains(replica.id));
        }
        for (WalkReplica replica : replicas.values()) {
            replica.start();
        }
    }

    WalkReplica replica(int id) {
        return replicas.get(id);
    }

    String clusterOf(int id) {
        return otherCluster.contains(id) ? "another" : "walk";
    }

    int newCorrelationId() {
        return correlations.getAndIncrement();
    }

    // The walk

    /**
     * Takes the steps of a walk, and fails if one of the properties is violated after a step. The walk ends early if
     * Kafka does not take a step; up to the step `least` it must take each of them.
     */
    void walk(Steps steps, int least, String... names) throws Exception {
        properties.watch(names);
        String ended = "";
        try {
            steps.take();
        } catch (NotPossible problem) {
            ended = "step " + step + " is not possible: " + problem.getMessage();
        }
        properties.check(step);
        if (!properties.violations().isEmpty()) {
            fail(properties.violations());
        }
        if (!ended.isEmpty() && step < least) {
            abort("this version takes other steps before the fault could show; " + ended);
        }
        System.out.println(ended.isEmpty() ? "all steps taken" : ended);
    }

    /** Begins a step: the properties are checked after the step before. */
    void step(int number) throws Exception {
        properties.check(step);
        step = number;
    }

    /** The administrator reads the response of a leader to its request for a change. */
    void administratorReads(ApiKeys kind, WalkReplica from, WalkProperties.Change change) {
        properties.told(take(kind, from, null, true, 0), change);
    }

    void processEnds(WalkReplica replica, Throwable error) {
        properties.processEnds(replica, error, step);
    }

    // Messages

    void send(WalkMessage message) {
        if (message.data() instanceof FetchSnapshotResponseData answer) {
            answer.topics().forEach(topic -> topic.partitions().forEach(partition -> {
                if (partition.unalignedRecords() == null) {
                    partition.setUnalignedRecords(MemoryRecords.EMPTY);  // as a server sends them
                }
            }));
        }
        inFlight.add(message);
    }

    /** Takes the youngest message of a kind between two replicas, or an older one; `to` is null for the administrator. */
    WalkMessage take(ApiKeys kind, WalkReplica from, WalkReplica to, boolean isResponse, int younger) {
        int left = younger;
        for (int i = inFlight.size() - 1; i >= 0; i--) {
            WalkMessage message = inFlight.get(i);
            boolean fits = message.kind() == kind && message.isResponse() == isResponse && message.from() == from.id
                && message.to() == (to == null ? 0 : to.id);
            if (fits && left-- == 0) {
                return inFlight.remove(i);
            }
        }
        String what = kind + (isResponse ? " response" : " request");
        throw new NotPossible(from + " has sent no " + what + " to " + (to == null ? "the administrator" : to));
    }
}
