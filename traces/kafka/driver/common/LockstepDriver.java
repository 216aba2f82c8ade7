package org.apache.kafka.raft;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.errors.InvalidUpdateVersionException;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.AddRaftVoterRequestData;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.UpdateFeaturesResponseData;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.DescribeQuorumRequest;
import org.apache.kafka.raft.errors.NotLeaderException;
import org.apache.kafka.raft.internals.EpochElection;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;
import org.apache.kafka.raft.internals.StringSerde;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;
import org.apache.kafka.snapshot.SnapshotWriter;
import org.apache.kafka.snapshot.Snapshots;

/** Drives real Raft clients, one step at a time: a command is a line of JSON, and so is its answer. */
public final class LockstepDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int ELECTION_MS = 1_000_000;
    private static final int FETCH_MS = 2_000_000;
    private static final int PATIENCE_MS = 1_000_000_000;
    private static final int MOST_POLLS = 50;
    private static final String[] UPDATE_TIMER = {"updateVoterSetPeriodTimer", "updateVoterPeriodTimer"};
    private static final int FIRST_PORT = 9990;

    /** A message under way. */
    private static final class Message {
        long id;
        int from;
        int to;
        ApiMessage data;
        RaftRequest.Outbound request;  // what it is, or what it answers
        CompletableFuture<RaftResponse.Inbound> promise;  // of the answer
        boolean answer;
        long asked;  // of an answer: the request's id, 0 where an administrator asked
    }

    /** A replica with its disk, its clock and its process. */
    private final class Replica {
        final int id;
        int directory;
        int endpoint = 1;
        int software = 1;
        LockstepDisk disk;
        final LockstepParts.Clock time = new LockstepParts.Clock();
        LockstepWire channel;
        LockstepWire.Inbox queue;
        KafkaRaftClient<String> client;
        Random random;
        Message held;  // a fetch from a bootstrap server, which is sent when the model sends it
        FollowerState due;  // in which its timer for UpdateVoter expires as soon as it can send
        boolean dead;  // Kafka threw, or the process was stopped
        ObjectNode last;  // the state that was reported last

        Replica(int id) {
            this.id = id;
        }

        Uuid directoryId() {
            return new Uuid(id, directory);
        }

        void format(boolean withVoters) throws Exception {
            directory += 1;
            if (disk != null) {
                disk.wipe();
            }
            disk = folder == null ? new LockstepDisk.InMemory()
                : LockstepLogs.onFiles(folder.resolve("n" + id), id, time, fetchLimit);
            if (version > 0) {
                RecordsSnapshotWriter.Builder builder = new RecordsSnapshotWriter.Builder()
                    .setTime(time)
                    .setRawSnapshotWriter(LockstepLogs.log(disk).createNewSnapshotUnchecked(Snapshots.BOOTSTRAP_SNAPSHOT_ID).get());
                if (withVoters) {
                    builder.setKraftVersion(KRaftVersion.fromFeatureLevel((short) version)).setVoterSet(Optional.of(formatted));
                } else {
                    builder.setKraftVersion(KRaftVersion.KRAFT_VERSION_0);
                }
                try (RecordsSnapshotWriter<String> writer = builder.build(new StringSerde())) {
                    writer.freeze();
                }
            }
        }

        /** Starts the process; `dead` until it has been initialized. */
        void start() throws Exception {
            dead = true;
            held = null;
            due = null;
            channel = new LockstepWire(correlations);
            queue = new LockstepWire.Inbox();
            Map<String, Object> settings = new HashMap<>();
            settings.put("controller.quorum.auto.join.enable", autoJoin);
            settings.put(QuorumConfig.QUORUM_REQUEST_TIMEOUT_MS_CONFIG, PATIENCE_MS);
            settings.put(QuorumConfig.QUORUM_RETRY_BACKOFF_MS_CONFIG, 1);
            settings.put(QuorumConfig.QUORUM_ELECTION_TIMEOUT_MS_CONFIG, ELECTION_MS);
            settings.put(QuorumConfig.QUORUM_ELECTION_BACKOFF_MAX_MS_CONFIG, 0);
            settings.put(QuorumConfig.QUORUM_FETCH_TIMEOUT_MS_CONFIG, FETCH_MS);
            settings.put(QuorumConfig.QUORUM_LINGER_MS_CONFIG, 0);
            List<InetSocketAddress> bootstrap = new ArrayList<>();
            Map<Integer, InetSocketAddress> fixed = new TreeMap<>();
            for (Replica replica : replicas.values()) {
                if (servers.isEmpty() || servers.contains(replica.id)) {
                    bootstrap.add(replica.address());
                }
                if (version == 0 && voters.contains(replica.id)) {
                    fixed.put(replica.id, addressOf(replica.id, 1));
                }
            }
            random = new Random(id);
            client = new KafkaRaftClient<>(
                OptionalInt.of(id), directoryId(), new StringSerde(), channel, queue, LockstepLogs.log(disk), MemoryPool.NONE, time,
                new LockstepParts.Patience(), 0, !brokers.contains(id), clusterId, bootstrap, endpoints(),
                new SupportedVersionRange((short) 0, (short) software), LockstepWire.logContext(), random,
                new QuorumConfig(new AbstractConfig(QuorumConfig.CONFIG_DEF, settings))
            );
            client.register(new LockstepLogs.Listener());
            client.initialize(fixed, disk.store(), new Metrics(time), new LockstepParts.NoMetrics());
            dead = false;
            settle();
        }

        InetSocketAddress address() {
            return addressOf(id, endpoint);
        }

        Endpoints endpoints() {
            return Endpoints.fromInetSocketAddresses(Map.of(LockstepParts.LISTENER, address()));
        }

        /** Polls until there is nothing more to do at this time. */
        void settle() throws Exception {
            String before = "";
            for (int i = 0; i < MOST_POLLS && !dead; i++) {
                boolean sent = poll();
                String now = client.quorum().toString() + LockstepLogs.log(disk).endOffset() + client.highWatermark();
                if (!sent && queue.isEmpty() && now.equals(before)) {
                    long wait = queue.patience;
                    if (wait > 1) {
                        return;
                    }
                    time.sleep(1);  // a connection backs off
                    continue;
                }
                before = now;
            }
        }

        /** Polls once and returns whether anything was sent; the process dies of what Kafka throws. */
        boolean poll() throws Exception {
            while (LockstepInside.backsOff(client, time.milliseconds())) {
                time.sleep(1);  // otherwise it would ask a bootstrap server meanwhile
            }
            if (due != null && (!client.quorum().isFollower() || client.quorum().followerStateOrThrow() != due)) {
                due = null;
            } else if (due != null && isFree()) {
                LockstepInside.expire(due, UPDATE_TIMER);
                due = null;
            }
            dead = true;
            try {
                client.poll();
                dead = false;
                return collect();
            } finally {
                if (dead) {
                    collect();
                }
            }
        }

        void timeOut() throws Exception {
            held = null;
            LockstepInside.timeOut(client, PATIENCE_MS, time.milliseconds());
            settle();
        }

        /** Whether a follower can send what it wants to send besides fetches. */
        boolean isFree() throws Exception {
            return queue.isEmpty() && LockstepInside.awaited(client).isEmpty() && due.fetchingSnapshot().isEmpty();
        }

        boolean collect() {
            boolean any = false;
            for (LockstepParts.Sent sent : channel.take()) {
                RaftRequest.Outbound request = sent.request();
                Message message = new Message();
                message.from = id;
                message.to = idOf(request.destination().host());
                message.data = request.data();
                message.request = request;
                message.promise = sent.answer();
                if (request.destination().id() < 0) {
                    held = message;
                } else {
                    send(message);
                }
                any = true;
            }
            return any;
        }

        void expire() throws Exception {
            QuorumState quorum = client.quorum();
            long now = time.milliseconds();
            long wait;
            if (quorum.isFollower()) {
                wait = quorum.followerStateOrThrow().remainingFetchTimeMs(now);
            } else if (quorum.isUnattached()) {
                wait = quorum.unattachedStateOrThrow().remainingElectionTimeMs(now);
            } else if (quorum.isProspective()) {
                wait = quorum.prospectiveStateOrThrow().remainingElectionTimeMs(now);
            } else if (quorum.isCandidate()) {
                wait = quorum.candidateStateOrThrow().remainingElectionTimeMs(now);
            } else if (quorum.isResigned()) {
                wait = quorum.resignedStateOrThrow().remainingElectionTimeMs(now);
            } else {
                throw new IllegalStateException("a leader has no such timer");
            }
            time.sleep(wait);
        }

        /** What is shown of the replica: of a dead one what it was when it died. */
        ObjectNode state() throws Exception {
            try {
                last = running();
            } catch (Exception error) {
                if (!dead || last == null) {
                    throw error;
                }
            }
            if (dead) {
                last.put("mode", "Down");
            }
            return last;
        }

        ObjectNode running() throws Exception {
            ObjectNode node = JSON.createObjectNode();
            QuorumState quorum = client.quorum();
            node.put("mode", quorum.isLeader() ? "Leader" : quorum.isCandidate() ? "Candidate"
                : quorum.isProspective() ? "Prospective" : quorum.isFollower() ? "Follower"
                : quorum.isResigned() ? "Resigned" : "Unattached");
            node.put("epoch", quorum.epoch());
            node.put("leader", quorum.leaderId().orElse(-1));
            Optional<ReplicaKey> voted = quorum.votedKey();
            if (voted.isPresent()) {
                node.set("voted", key(voted.get()));
            }
            var log = LockstepLogs.log(disk);
            LockstepRecords.readLog(disk, node.putArray("log"));
            node.put("start", log.startOffset());
            log.latestSnapshotId().ifPresent(found -> {
                node.put("snapshot", found.offset());
                node.put("snapshotEpoch", found.epoch());
            });
            node.put("end", log.endOffset().offset());
            OptionalLong high = client.highWatermark();
            node.put("high", high.orElse(-1));
            node.put("logHigh", log.highWatermark().offset());
            node.put("flushed", disk.firstUnflushedOffset());
            KRaftControlRecordStateMachine partition = field(client, "partitionState");
            node.set("voters", voters(partition.lastVoterSet()));
            node.put("version", partition.lastKraftVersion().featureLevel());
            EpochElection election = quorum.isCandidate() ? quorum.candidateStateOrThrow().epochElection()
                : quorum.isProspective() ? quorum.prospectiveStateOrThrow().epochElection() : null;
            if (election != null) {
                election.grantingVoters().stream().sorted().forEach(node.withArray("granted")::add);
                election.rejectingVoters().stream().sorted().forEach(node.withArray("rejected")::add);
            }
            if (quorum.isFollower()) {
                FollowerState follower = quorum.followerStateOrThrow();
                node.put("fetched", (boolean) field(follower, "hasFetchedFromLeader"));
                node.put("due", follower == due || LockstepInside.isExpired(follower, time.milliseconds(), UPDATE_TIMER));
                node.put("updated", follower.hasUpdatedLeader());
            }
            ArrayNode waits = node.putArray("waits");
            for (long correlation : LockstepInside.awaited(client)) {
                if (held != null && held.request.correlationId() == correlation) {
                    node.put("held", true);
                } else {
                    waits.add(numbers.get(correlation));
                }
            }
            if (quorum.isLeader()) {
                LeaderState<String> leader = quorum.<String>maybeLeaderState().get();
                ArrayNode offsets = node.putArray("offsets");
                Map<Integer, LeaderState.ReplicaState> own = field(leader, "voterStates");
                Map<ReplicaKey, LeaderState.ReplicaState> observers = field(leader, "observerStates");
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
    }

    private static void pending(LeaderState<String> leader, ObjectNode node) throws Exception {
        LockstepInside.adding(leader).ifPresent(state -> node.putObject("adding")
            .put("endpoint", portOf(state.voterEndpoints()) - FIRST_PORT).put("last", state.lastOffset().orElse(-1))
            .set("key", key(state.voterKey())));
        LockstepInside.removing(leader).ifPresent(state -> node.putObject("removing").put("last", state.lastOffset()));
        leader.volatileVoters().ifPresent(told -> node.set("heard", voters(ready(told.voters()))));
    }

    private final TreeMap<Integer, Replica> replicas = new TreeMap<>();
    private final List<Integer> voters = new ArrayList<>();
    private final List<Integer> brokers = new ArrayList<>();
    private final List<Integer> servers = new ArrayList<>();
    private final LinkedHashMap<Long, Message> underWay = new LinkedHashMap<>();
    private final Map<Long, Long> numbers = new HashMap<>();  // of requests, by correlation id
    private final List<Message> news = new ArrayList<>();
    private final AtomicInteger correlations = new AtomicInteger();
    private final String clusterId = "lockstep";
    private final Path folder;  // null where disks are in memory
    private boolean autoJoin;
    private int fetchLimit;
    private int version;
    private VoterSet formatted = VoterSet.empty();
    private long messages;
    private int acting = -1;  // who takes the step

    private LockstepDriver(Path folder) {
        this.folder = folder;
    }

    private void send(Message message) {
        message.id = ++messages;
        underWay.put(message.id, message);
        news.add(message);
        if (!message.answer) {
            numbers.put((long) message.request.correlationId(), message.id);
        }
    }

    private static int idOf(String host) {
        return Integer.parseInt(host.substring(1));
    }

    private static <V> V field(Object object, String name) throws Exception {
        return LockstepInside.field(object, name);
    }

    private static InetSocketAddress addressOf(int id, int endpoint) {
        return InetSocketAddress.createUnresolved("n" + id, FIRST_PORT + endpoint);
    }

    private static int portOf(Endpoints listeners) {
        return listeners.address(LockstepParts.LISTENER).map(InetSocketAddress::getPort).orElse(0);
    }

    private static ArrayNode key(ReplicaKey key) {
        return JSON.createArrayNode().add(key.id()).add(directory(key.directoryId().orElse(Uuid.ZERO_UUID)));
    }

    private static long directory(Uuid uuid) {
        return uuid.getLeastSignificantBits();
    }

    static ArrayNode voters(VoterSet set) {
        ArrayNode found = JSON.createArrayNode();
        set.voterNodes().stream().sorted(Comparator.comparing(v -> v.voterKey().id()))
            .forEach(voter -> found.add(key(voter.voterKey()).add(portOf(voter.listeners()) - FIRST_PORT)));
        return found;
    }

    /** The voters of a set that support kraft.version 1. */
    private static VoterSet ready(VoterSet set) {
        Map<Integer, VoterSet.VoterNode> found = new HashMap<>();
        for (VotersRecord.Voter voter : set.toVotersRecord((short) 0).voters()) {
            if (voter.kRaftVersionFeature().maxSupportedVersion() > 0) {
                set.voterNodes().stream().filter(node -> node.voterKey().id() == voter.voterId())
                    .forEach(node -> found.put(voter.voterId(), node));
            }
        }
        return found.isEmpty() ? VoterSet.empty() : VoterSet.fromMap(found);
    }

    private static ObjectNode described(Message message) throws Exception {
        ObjectNode node = JSON.createObjectNode();
        node.put("id", message.id).put("from", message.from).put("to", message.to).put("answer", message.answer);
        node.put("api", ApiKeys.forId(message.data.apiKey()).name());
        node.put("bootstrap", message.request != null && message.request.destination().id() < 0);
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
    private static JsonNode json(ApiMessage data) throws Exception {
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

    private void cluster(JsonNode command) throws Exception {
        for (Replica replica : replicas.values()) {
            replica.disk.wipe();
        }
        replicas.clear();
        voters.clear();
        brokers.clear();
        servers.clear();
        underWay.clear();
        news.clear();
        numbers.clear();
        correlations.set(0);
        messages = 0;
        version = command.path("version").asInt(1);
        autoJoin = command.path("autoJoin").asBoolean(false);
        fetchLimit = command.path("fetchLimit").asInt(0);
        command.path("voters").forEach(id -> voters.add(id.asInt()));
        command.path("bootstrap").forEach(id -> servers.add(id.asInt()));
        command.path("brokers").forEach(id -> brokers.add(id.asInt()));
        command.path("nodes").forEach(id -> replicas.put(id.asInt(), new Replica(id.asInt())));
        Map<Integer, VoterSet.VoterNode> nodes = new HashMap<>();
        for (int id : voters) {
            Replica replica = replicas.get(id);
            nodes.put(id, VoterSet.VoterNode.of(
                ReplicaKey.of(id, new Uuid(id, 1)), replica.endpoints(), new SupportedVersionRange((short) 0, (short) 1)));
        }
        formatted = nodes.isEmpty() ? VoterSet.empty() : VoterSet.fromMap(nodes);
        command.path("old").forEach(id -> replicas.get(id.asInt()).software = 0);
        for (Replica replica : replicas.values()) {
            replica.format(voters.contains(replica.id));
        }
        for (Replica replica : replicas.values()) {
            replica.start();
        }
    }

    private int deliver(long id) throws Exception {
        Message message = underWay.get(id);
        Replica to = replicas.get(message.to);
        acting = message.to;
        if (to != null && to.dead && !message.answer) {
            return acting;  // it stays under way
        }
        underWay.remove(id);
        if (message.answer) {
            if (message.request != null && to != null && !to.dead) {
                message.promise.complete(new RaftResponse.Inbound(
                    message.request.correlationId(), message.data, message.request.destination()));
                to.settle();
            }
            return message.to;
        }
        if (message.data.apiKey() == ApiKeys.API_VERSIONS.id) {
            ApiVersionsResponseData answer = new ApiVersionsResponseData();
            answer.supportedFeatures().add(new ApiVersionsResponseData.SupportedFeatureKey()
                .setName(KRaftVersion.FEATURE_NAME).setMinVersion((short) 0).setMaxVersion((short) to.software));
            answer(message, answer);
            return message.to;
        }
        ask(to, message.data, message);
        return message.to;
    }

    private void answer(Message request, ApiMessage data) {
        Message answer = new Message();
        answer.from = request.to;
        answer.to = request.from;
        answer.data = data;
        answer.request = request.request;
        answer.promise = request.promise;
        answer.answer = true;
        answer.asked = request.id;
        send(answer);
    }

    private void ask(Replica to, ApiMessage data, Message message) throws Exception {
        RaftRequest.Inbound inbound = new RaftRequest.Inbound(
            LockstepParts.LISTENER, correlations.getAndIncrement(), data.highestSupportedVersion(), data,
            to.time.milliseconds());
        LockstepWire.handle(to.client, inbound).whenComplete((response, error) -> answer(message, response.data()));
        to.settle();
    }

    private void askBootstrap(Replica replica, int server) {
        replica.held.to = server;
        send(replica.held);
        replica.held = null;
    }

    /** A request of an administrator. */
    private static Message byAdmin(int to) {
        Message message = new Message();
        message.from = 0;
        message.to = to;
        return message;
    }

    /** The controller on top of the client would answer; it passes on what the client throws. */
    private void upgrade(Replica leader, KRaftVersion wanted) throws Exception {
        Errors error = Errors.NONE;
        try {
            leader.client.upgradeKRaftVersion(leader.client.quorum().epoch(), wanted, false);
        } catch (NotLeaderException refused) {
            error = Errors.NOT_LEADER_OR_FOLLOWER;
        } catch (InvalidUpdateVersionException refused) {
            error = Errors.INVALID_UPDATE_VERSION;
        }
        answer(byAdmin(leader.id), new UpdateFeaturesResponseData().setErrorCode(error.code()));
        leader.settle();
    }

    private void stale(ArrayNode found) throws Exception {
        for (Message message : underWay.values()) {
            if (message.answer && message.request != null) {
                Replica to = replicas.get(message.to);
                RequestManager manager = field(to.client, "requestManager");
                if (to.dead || !manager.isResponseExpected(message.request.destination(), message.request.correlationId())) {
                    found.add(message.id);
                }
            }
        }
    }

    private int handle(JsonNode command) throws Exception {
        int id = command.path("node").asInt(-1);
        acting = id;
        Replica replica = replicas.get(id);
        switch (command.path("do").asText()) {
            case "cluster" -> cluster(command);
            case "deliver" -> id = deliver(command.path("message").asLong());
            case "drop" -> underWay.remove(command.path("message").asLong());
            case "expire" -> {
                replica.expire();
                replica.settle();
            }
            case "append" -> {
                replica.client.prepareAppend(replica.client.quorum().epoch(), List.of(command.path("value").asText()));
                replica.client.schedulePreparedAppend();
                replica.settle();
            }
            case "nothing" -> { }
            case "ask-bootstrap" -> askBootstrap(replica, command.path("server").asInt());
            case "time-out" -> {
                replica.timeOut();
                int server = command.path("server").asInt();
                if (replica.held != null && server > 0) {
                    askBootstrap(replica, server);
                } else if (replica.held != null && replica.client.quorum().isFollower()) {
                    replica.timeOut();  // there is no such server: it turns to its leader again
                }
            }
            case "update-period" -> {
                replica.due = replica.client.quorum().followerStateOrThrow();
                replica.settle();
            }
            case "upgrade" -> upgrade(replica, KRaftVersion.fromFeatureLevel((short) command.path("version").asInt()));
            case "stop" -> replica.dead = true;
            case "check-quorum" -> {
                LockstepInside.expire(replica.client.quorum().leaderStateOrThrow(), "checkQuorumTimer");
                replica.settle();
            }
            case "repeat-begin" -> {
                int voter = command.path("voter").asInt();
                long now = replica.time.milliseconds();
                LockstepInside.timeOut(replica.client, voter, PATIENCE_MS, now);
                var before = LockstepInside.forget(replica.client.quorum().leaderStateOrThrow(), voter, now);
                replica.settle();
                LockstepInside.remember(before);
            }
            case "expire-operation" -> {
                LockstepInside.expireOperation(replica.client, PATIENCE_MS, replica.time.milliseconds());
                replica.settle();
            }
            case "move-endpoint" -> {
                replica.endpoint += 1;
                replica.disk.reopen(true);
                replica.start();
            }
            case "change-software" -> {
                replica.software = 1 - replica.software;
                replica.disk.reopen(true);
                replica.start();
            }
            case "describe" -> ask(replica, DescribeQuorumRequest.singletonRequest(LockstepDisk.PARTITION), byAdmin(id));
            case "resign" -> {
                replica.client.resign(replica.client.quorum().epoch());
                replica.settle();
            }
            case "restart" -> {
                replica.disk.reopen(true);
                replica.start();
            }
            case "power-loss" -> {
                replica.disk.reopen(false);
                replica.start();
            }
            case "lose-disk" -> {
                replica.format(false);
                replica.start();
            }
            case "snapshot" -> {
                OffsetAndEpoch end = new OffsetAndEpoch(command.path("offset").asLong(), command.path("epoch").asInt());
                Optional<SnapshotWriter<String>> writer = replica.client.createSnapshot(end, 0);
                if (writer.isPresent()) {
                    writer.get().freeze();
                    writer.get().close();
                    LockstepLogs.log(replica.disk).deleteBeforeSnapshot(end);
                }
                replica.settle();
            }
            case "add-voter" -> {
                Replica added = replicas.get(command.path("voter").asInt());
                ask(replica, new AddRaftVoterRequestData().setClusterId(clusterId).setTimeoutMs(PATIENCE_MS)
                    .setVoterId(added.id).setVoterDirectoryId(added.directoryId())
                    .setListeners(added.endpoints().toAddVoterRequest()), byAdmin(id));
            }
            case "remove-voter" -> {
                ask(replica, RaftUtil.removeVoterRequest(clusterId, ReplicaKey.of(
                    command.path("voter").asInt(), new Uuid(command.path("voter").asInt(), command.path("directory").asInt()))),
                    byAdmin(id));
            }
            default -> throw new IllegalArgumentException("unknown command: " + command);
        }
        return id;
    }

    private void report(int id, ObjectNode answer) throws Exception {
        ObjectNode states = answer.putObject("states");
        for (Replica replica : replicas.values()) {
            if (id < 0 || replica.id == id) {
                states.set(Integer.toString(replica.id), replica.state());
            }
        }
        ArrayNode sent = answer.putArray("sent");
        for (Message message : news) {
            sent.add(described(message));
        }
        news.clear();
        stale(answer.putArray("stale"));
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        LockstepDriver driver = new LockstepDriver(arguments.length == 0 ? null : Path.of(arguments[0]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                int id = driver.handle(JSON.readTree(line));
                driver.report(id, answer);
            } catch (Throwable error) {
                try {
                    driver.report(driver.acting, answer);
                } catch (Throwable unreadable) {
                    answer.removeAll();  // nothing can be said but what was thrown
                }
                answer.put("error", error.toString());
                ArrayNode trace = answer.putArray("trace");
                for (StackTraceElement element : error.getStackTrace()) {
                    trace.add(element.toString());
                }
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
    }
}
