package org.apache.kafka.raft;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.raft.internals.EpochElection;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;
import org.apache.kafka.server.common.OffsetAndEpoch;

/** Replicas and messages as JSON. */
final class LockstepJson {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final int FIRST_PORT = 9990;

    private LockstepJson() { }

    /** The reported state of a running replica. */
    static ObjectNode state(LockstepReplica replica) throws Exception {
        KafkaRaftClient<String> client = replica.client;
        ObjectNode node = JSON.createObjectNode();
        QuorumState quorum = client.quorum();
        node.put("mode", quorum.isLeader() ? "Leader" : quorum.isCandidate() ? "Candidate"
            : quorum.isProspective() ? "Prospective" : quorum.isFollower() ? "Follower"
            : quorum.isResigned() ? "Resigned" : "Unattached");
        node.put("epoch", quorum.epoch());
        node.put("leader", quorum.leaderId().orElse(-1));
        int port = portOf(quorum.leaderEndpoints());
        node.put("leaderEndpoint", port == 0 ? 0 : port - FIRST_PORT);
        Optional<ReplicaKey> voted = quorum.votedKey();
        if (voted.isPresent()) {
            node.set("voted", key(voted.get()));
        }
        var log = LockstepLogs.log(replica.disk);
        LockstepRecords.readLog(replica.disk, node.putArray("log"));
        node.put("start", log.startOffset());
        log.latestSnapshotId().ifPresent(found -> {
            node.put("snapshot", found.offset());
            node.put("snapshotEpoch", found.epoch());
        });
        if (log.startOffset() > 0) {
            log.earliestSnapshotId().ifPresent(found -> node.put("snapshotEpoch", found.epoch()));
        }
        Map<OffsetAndEpoch, ?> snapshots = LockstepInside.field(replica.disk.own(), "snapshots");
        ArrayNode ends = node.putArray("snapshots");
        snapshots.keySet().forEach(found -> ends.add(found.offset()));
        LeaderAndEpoch told = replica.controller.told;
        node.put("claims", told.epoch() == quorum.epoch() && told.leaderId().equals(OptionalInt.of(replica.id)));
        if (replica.listener != null) {
            LeaderAndEpoch heard = replica.listener.told;
            node.putArray("heardOf").add(heard.leaderId().orElse(-1)).add(heard.epoch());
        }
        node.put("end", log.endOffset().offset());
        OptionalLong high = client.highWatermark();
        node.put("high", high.orElse(-1));
        node.put("logHigh", log.highWatermark().offset());
        node.put("flushed", replica.disk.firstUnflushedOffset());
        KRaftControlRecordStateMachine partition = LockstepInside.field(client, "partitionState");
        node.set("voters", voters(partition.lastVoterSet()));
        node.put("version", partition.lastKraftVersion().featureLevel());
        node.put("told", client.kraftVersion().featureLevel());
        if (replica.controller.version != null) {
            node.put("read", replica.controller.version);
        }
        replica.delayed.keySet().forEach(node.withArray("delayed")::add);
        EpochElection election = quorum.isCandidate() ? quorum.candidateStateOrThrow().epochElection()
            : quorum.isProspective() ? quorum.prospectiveStateOrThrow().epochElection() : null;
        if (election != null) {
            election.grantingVoters().stream().sorted().forEach(node.withArray("granted")::add);
            election.rejectingVoters().stream().sorted().forEach(node.withArray("rejected")::add);
        }
        if (quorum.isFollower()) {
            FollowerState follower = quorum.followerStateOrThrow();
            node.put("fetched", (boolean) LockstepInside.field(follower, "hasFetchedFromLeader"));
            node.put("due", follower == replica.due || LockstepInside.isExpired(follower, replica.time.milliseconds(), LockstepReplica.UPDATE_TIMER));
            node.put("updated", follower.hasUpdatedLeader());
        }
        ArrayNode waits = node.putArray("waits");
        for (long correlation : LockstepInside.awaited(client)) {
            if (replica.held != null && replica.held.request.correlationId() == correlation) {
                node.put("held", true);
            } else {
                waits.add(replica.channel.numbers.get(correlation));
            }
        }
        if (quorum.isLeader()) {
            LeaderState<String> leader = quorum.<String>maybeLeaderState().get();
            ArrayNode offsets = node.putArray("offsets");
            Map<Integer, LeaderState.ReplicaState> own = LockstepInside.field(leader, "voterStates");
            Map<ReplicaKey, LeaderState.ReplicaState> observers = LockstepInside.field(leader, "observerStates");
            List<LeaderState.ReplicaState> all = new ArrayList<>(own.values());
            all.addAll(observers.values());
            all.sort(Comparator.comparing(s -> s.replicaKey().toString()));
            for (LeaderState.ReplicaState one : all) {
                ObjectNode entry = offsets.addObject();
                entry.set("key", key(one.replicaKey()));
                entry.put("end", one.endOffset().map(LogOffsetMetadata::offset).orElse(-1L));
            }
            pending(leader, node);
        }
        return node;
    }

    private static void pending(LeaderState<String> leader, ObjectNode node) throws Exception {
        LockstepInside.adding(leader).ifPresent(state -> node.putObject("adding")
            .put("endpoint", portOf(state.voterEndpoints()) - FIRST_PORT).put("last", state.lastOffset().orElse(-1))
            .set("key", key(state.voterKey())));
        LockstepInside.removing(leader).ifPresent(state -> node.putObject("removing").put("last", state.lastOffset()));
        leader.volatileVoters().ifPresent(told -> node.set("heard", voters(ready(told.voters()))));
    }

    static int idOf(String host) {
        return Integer.parseInt(host.substring(1));
    }

    static InetSocketAddress addressOf(int id, int endpoint) {
        return InetSocketAddress.createUnresolved("n" + id, FIRST_PORT + endpoint);
    }

    static int portOf(Endpoints listeners) {
        return listeners.address(LockstepParts.LISTENER).map(InetSocketAddress::getPort).orElse(0);
    }

    static ArrayNode key(ReplicaKey key) {
        return JSON.createArrayNode().add(key.id()).add(directory(key.id(), key.directoryId().orElse(Uuid.ZERO_UUID)));
    }

    /** The number of a replica's directory, as `LockstepReplica.directoryId` makes it; below 0 for another replica's. */
    static long directory(int id, Uuid uuid) {
        long number = uuid.getLeastSignificantBits();
        return uuid.getMostSignificantBits() == (number == 0 ? 0 : id) ? number : -1 - number;
    }

    static ArrayNode voters(VoterSet set) {
        ArrayNode found = JSON.createArrayNode();
        set.voterNodes().stream().sorted(Comparator.comparing(v -> v.voterKey().id()))
            .forEach(voter -> found.add(key(voter.voterKey()).add(portOf(voter.listeners()) - FIRST_PORT)));
        return found;
    }

    /** The voters of a set that support kraft.version 1. */
    static VoterSet ready(VoterSet set) {
        Map<Integer, VoterSet.VoterNode> found = new HashMap<>();
        for (VotersRecord.Voter voter : set.toVotersRecord((short) 0).voters()) {
            if (voter.kRaftVersionFeature().maxSupportedVersion() > 0) {
                set.voterNodes().stream().filter(node -> node.voterKey().id() == voter.voterId())
                    .forEach(node -> found.put(voter.voterId(), node));
            }
        }
        return found.isEmpty() ? VoterSet.empty() : VoterSet.fromMap(found);
    }

    static ObjectNode described(LockstepMessage message) throws Exception {
        ObjectNode node = JSON.createObjectNode();
        node.put("id", message.id).put("from", message.from).put("to", message.to).put("answer", message.answer);
        node.put("api", ApiKeys.forId(message.data.apiKey()).name());
        if (message.request != null && !message.answer) {
            Node to = message.request.destination();
            node.put("address", to.id() < 0 ? 0 : to.port() - FIRST_PORT);
        }
        LockstepRecords.complete(message.data);
        node.set("data", json(message.data));
        if (message.answer) {
            node.put("request", message.asked);
        }
        if (message.data instanceof FetchResponseData fetch) {
            LockstepRecords.readFetch(fetch, node.putArray("batches"));
        }
        return node;
    }

    /** Kafka's own form of a message, in the newest version that can hold it. */
    static JsonNode json(ApiMessage data) throws Exception {
        Method write = Class.forName(data.getClass().getName() + "JsonConverter")
            .getMethod("write", data.getClass(), short.class, boolean.class);
        for (short version = data.highestSupportedVersion(); ; version--) {
            try {
                return (JsonNode) write.invoke(null, data, version, false);
            } catch (InvocationTargetException error) {
                if (version == data.lowestSupportedVersion()) {
                    throw (Exception) error.getCause();
                }
            }
        }
    }
}
