package org.apache.kafka.raft;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.message.AddRaftVoterRequestData;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.UpdateFeaturesResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.DescribeQuorumRequest;
import org.apache.kafka.raft.errors.NotLeaderException;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.SnapshotWriter;

/** Drives real Raft clients, one step at a time: a command is a line of JSON, and so is its answer. */
public final class LockstepDriver {
    private static final int NOBODY = Integer.MAX_VALUE - 1;  // in place of the replica whose state an answer has
    final TreeMap<Integer, LockstepReplica> replicas = new TreeMap<>();
    final List<Integer> voters = new ArrayList<>();
    final List<Integer> brokers = new ArrayList<>();
    final List<Integer> servers = new ArrayList<>();
    final LinkedHashMap<Long, LockstepMessage> underWay = new LinkedHashMap<>();
    final Map<Long, LockstepMessage> abroad = new HashMap<>();  // requests to replicas of other processes
    private final List<LockstepMessage> news = new ArrayList<>();
    private final AtomicInteger correlations = new AtomicInteger();  // of an administrator's requests
    private final List<Integer> foreign = new ArrayList<>();
    final Path folder;  // null where disks are in memory
    Path logs;  // of the Raft clients; null if they write none
    boolean autoJoin;
    boolean delays;  // whether fetches may wait at their leader
    int fetchLimit;
    int version;
    VoterSet formatted = VoterSet.empty();
    private long messages;
    private int acting = -1;  // the replica that takes the step
    private ObjectNode moved;  // a replica that moves to another process
    private Exception unanswered;  // the exception that Kafka gave instead of an answer

    private LockstepDriver(Path folder) {
        this.folder = folder;
    }

    /** The cluster for which a replica was formatted; its administrator knows it. */
    String clusterOf(int id) {
        return foreign.contains(id) ? "another" : "lockstep";
    }

    /** Whether a replica runs in another process, with another version of Kafka. */
    boolean isElsewhere(int id) {
        return replicas.containsKey(id) && replicas.get(id).elsewhere;
    }

    /** Puts a message from a replica of another process in flight. */
    private void take(JsonNode command) throws Exception {
        LockstepMessage message = new LockstepMessage();
        message.id = command.path("id").asLong();
        message.from = command.path("from").asInt();
        message.to = command.path("to").asInt();
        message.answer = command.path("answer").asBoolean();
        message.version = (short) command.path("version").asInt();
        message.data = LockstepBytes.read(command);
        message.asked = command.path("asked").asLong();
        LockstepMessage asked = abroad.remove(message.answer ? message.asked : message.id);
        if (asked != null) {  // a request that returns, or the answer to one
            message.request = asked.request;
            message.promise = asked.promise;
            message.channel = asked.channel;
        }
        message.late = message.answer && asked == null;
        underWay.put(message.id, message);
    }

    /** Reports a message to another process; like Kafka's network channel, answers a request that cannot be written. */
    void sendAbroad(LockstepMessage message, ArrayNode sent) throws Exception {
        try {
            ObjectNode described = LockstepJson.described(message);
            LockstepBytes.write(message, replicas.get(message.to).versions, described);
            sent.add(described);
        } catch (UnsupportedVersionException problem) {
            abroad.remove(message.id);
            LockstepMessage answer = answered(message,
                RaftUtil.errorResponse(ApiKeys.forId(message.data.apiKey()), Errors.UNSUPPORTED_VERSION));
            answer.id = ++messages;
            underWay.put(answer.id, answer);
            sent.add(LockstepJson.described(answer));
        }
    }

    void send(LockstepMessage message) {
        message.id = ++messages;
        underWay.put(message.id, message);
        news.add(message);
        if (isElsewhere(message.to)) {
            underWay.remove(message.id);
            if (!message.answer) {
                abroad.put(message.id, message);
            }
        }
        if (!message.answer) {
            message.channel.numbers.put((long) message.request.correlationId(), message.id);
        }
    }

    private void cluster(JsonNode command) throws Exception {
        for (LockstepReplica replica : replicas.values()) {
            replica.disk.wipe();
        }
        replicas.clear();
        voters.clear();
        brokers.clear();
        foreign.clear();
        servers.clear();
        underWay.clear();
        news.clear();
        correlations.set(0);
        abroad.clear();
        messages = command.path("first").asLong(0);
        version = command.path("version").asInt(1);
        autoJoin = command.path("autoJoin").asBoolean(false);
        fetchLimit = command.path("fetchLimit").asInt(0);
        delays = command.path("delays").asBoolean(false);
        command.path("voters").forEach(id -> voters.add(id.asInt()));
        command.path("bootstrap").forEach(id -> servers.add(id.asInt()));
        command.path("brokers").forEach(id -> brokers.add(id.asInt()));
        command.path("foreign").forEach(id -> foreign.add(id.asInt()));
        logs = command.hasNonNull("logs") ? Path.of(command.path("logs").asText()) : null;
        command.path("nodes").forEach(id -> replicas.put(id.asInt(), new LockstepReplica(this, id.asInt())));
        command.path("elsewhere").fields().forEachRemaining(entry -> {
            LockstepReplica replica = replicas.get(Integer.parseInt(entry.getKey()));
            replica.elsewhere = true;
            replica.versions = entry.getValue();
        });
        Map<Integer, VoterSet.VoterNode> nodes = new HashMap<>();
        for (int id : voters) {
            LockstepReplica replica = replicas.get(id);
            nodes.put(id, VoterSet.VoterNode.of(
                ReplicaKey.of(id, new Uuid(id, 1)), replica.endpoints(), new SupportedVersionRange((short) 0, (short) 1)));
        }
        formatted = nodes.isEmpty() ? VoterSet.empty() : VoterSet.fromMap(nodes);
        command.path("old").forEach(id -> replicas.get(id.asInt()).software = 0);
        for (LockstepReplica replica : replicas.values()) {
            replica.format(voters.contains(replica.id));
        }
        for (LockstepReplica replica : replicas.values()) {
            if (!replica.elsewhere) {
                replica.start();
            }
        }
    }

    private int deliver(long id, boolean fails, JsonNode part) throws Exception {
        LockstepMessage message = underWay.get(id);
        if (part.size() == 2) {
            LockstepRecords.askForPart(replicas.get(message.to).disk, message.data, part.path(0).asInt(), part.path(1).asInt());
        }
        LockstepReplica to = replicas.get(message.to);
        acting = message.to;
        if (to != null && to.dead && !message.answer) {
            return acting;  // the message stays in flight
        }
        underWay.remove(id);
        if (message.answer) {
            if (message.request != null && to != null && !to.dead && !to.elsewhere) {
                message.promise.complete(new RaftResponse.Inbound(
                    message.request.correlationId(), message.data, message.request.destination()));
                if (fails) {
                    to.failInOffice();
                } else {
                    to.settle();
                }
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

    private void answer(LockstepMessage request, ApiMessage data) {
        send(answered(request, data));
    }

    private static LockstepMessage answered(LockstepMessage request, ApiMessage data) {
        LockstepMessage answer = new LockstepMessage();
        answer.from = request.to;
        answer.to = request.from;
        answer.data = data;
        answer.request = request.request;
        answer.promise = request.promise;
        answer.channel = request.channel;
        answer.answer = true;
        answer.asked = request.id;
        answer.version = request.version;
        answer.late = request.request == null && request.from > 0;  // its sender has moved here since
        return answer;
    }

    private void ask(LockstepReplica to, ApiMessage data, LockstepMessage message) throws Exception {
        int number = message.request == null ? correlations.getAndIncrement() : message.request.correlationId();
        short version = message.version < 0 ? data.highestSupportedVersion() : message.version;
        RaftRequest.Inbound inbound = new RaftRequest.Inbound(
            LockstepParts.LISTENER, number, version, data, to.time.milliseconds());
        to.delayed.put(message.id, new CompletableFuture<>());  // taken for delayed until it is answered
        LockstepWire.handle(to.client, inbound).whenComplete((response, error) -> {
            to.delayed.remove(message.id);
            if (error == null) {
                answer(message, response.data());
            } else {
                unanswered = new IllegalStateException("a request has an exception for an answer: " + error, error);
            }
        });
        to.patience.latest = null;
        to.settle();
        if (!(data instanceof FetchRequestData)) {
            to.delayed.remove(message.id);
        } else if (to.delayed.containsKey(message.id)) {
            to.delayed.put(message.id, to.patience.latest);
        }
    }

    private void askBootstrap(LockstepReplica replica, int server) {
        replica.held.to = server;
        if (replica.trace != null) {
            replica.trace.redirect(replica.held.request, replicas.get(server).address());
        }
        send(replica.held);
        replica.held = null;
    }

    /** A request of an administrator. */
    private static LockstepMessage byAdmin(int to) {
        LockstepMessage message = new LockstepMessage();
        message.from = 0;
        message.to = to;
        return message;
    }

    /** Upgrades kraft.version and answers, as the controller above the client does with the client's exceptions. */
    private void upgrade(LockstepReplica leader, KRaftVersion wanted) throws Exception {
        Errors error = Errors.NONE;
        try {
            leader.client.upgradeKRaftVersion(leader.client.quorum().epoch(), wanted, false);
        } catch (NotLeaderException refused) {
            error = Errors.NOT_LEADER_OR_FOLLOWER;
        } catch (ApiException refused) {
            error = Errors.forException(refused);
        }
        answer(byAdmin(leader.id), new UpdateFeaturesResponseData().setErrorCode(error.code()));
        leader.settle();
    }

    private void stale(ArrayNode found) throws Exception {
        for (LockstepMessage message : underWay.values()) {
            if (message.late) {
                found.add(message.id);
            } else if (message.answer && message.request != null) {
                LockstepReplica to = replicas.get(message.to);
                RequestManager manager = LockstepInside.field(to.client, "requestManager");
                if (to.dead || to.elsewhere || message.channel != to.channel || !manager.isResponseExpected(message.request.destination(), message.request.correlationId())) {
                    found.add(message.id);
                }
            }
        }
    }

    private int handle(JsonNode command) throws Exception {
        int id = command.path("node").asInt(-1);
        acting = id;
        LockstepReplica replica = replicas.get(id);
        switch (command.path("do").asText()) {
            case "cluster" -> cluster(command);
            case "deliver" -> id = deliver(command.path("message").asLong(), command.path("fails").asBoolean(false), command.path("part"));
            case "drop" -> underWay.remove(command.path("message").asLong());
            case "expire" -> {
                replica.expire();
                if (command.path("fails").asBoolean(false)) {
                    replica.failInOffice();
                } else {
                    replica.settle();
                }
            }
            case "append" -> {
                replica.client.prepareAppend(replica.client.quorum().epoch(), List.of(command.path("value").asText()));
                replica.client.schedulePreparedAppend();
                replica.settle();
            }
            case "nothing" -> { }
            case "expire-fetch" -> {
                replica.delayed.get(command.path("fetch").asLong()).completeExceptionally(new TimeoutException("the wait is over"));
                replica.settle();
            }
            case "take" -> {
                take(command);
                id = NOBODY;
            }
            case "versions" -> id = Integer.MAX_VALUE;  // no replica
            case "hand-over" -> moved = LockstepMove.handOver(this, replica, command);
            case "take-over" -> {
                LockstepMove.takeOver(replica, command);
                id = NOBODY;
            }
            case "moved" -> replica.versions = command.path("versions");
            case "replaced" -> {  // a replica of another process has another disk or endpoint
                replica.directory += command.path("disk").asInt();
                replica.endpoint += command.path("endpoint").asInt();
            }
            case "ask-bootstrap" -> askBootstrap(replica, command.path("server").asInt());
            case "time-out" -> {
                replica.timeOut();
                int server = command.path("server").asInt();
                if (replica.held != null && server > 0) {
                    askBootstrap(replica, server);
                } else if (replica.held != null && replica.client.quorum().isFollower()) {
                    replica.timeOut();  // no server is given: the follower turns to its leader again
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
                LockstepInside.timeOut(replica.client, voter, LockstepReplica.PATIENCE_MS, now);
                var before = LockstepInside.forget(replica.client.quorum().leaderStateOrThrow(), voter, now);
                replica.settle();
                LockstepInside.remember(before);
            }
            case "expire-operation" -> {
                LockstepInside.expireOperation(replica.client, LockstepReplica.PATIENCE_MS, replica.time.milliseconds());
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
            case "listen" -> {
                replica.listener = new LockstepLogs.Listener();
                replica.client.register(replica.listener);
                replica.settle();
            }
            case "list-voters" -> {
                replica.listed = new ArrayList<>();
                command.path("voters").forEach(voter -> replica.listed.add(voter.asInt()));
                replica.disk.reopen(true);
                replica.start();
            }
            case "clean" -> {
                LockstepLogs.log(replica.disk).deleteBeforeSnapshot(
                    new OffsetAndEpoch(command.path("offset").asLong(), command.path("epoch").asInt()));
                replica.settle();
            }
            case "snapshot", "keep-snapshot" -> {
                OffsetAndEpoch end = new OffsetAndEpoch(command.path("offset").asLong(), command.path("epoch").asInt());
                Optional<SnapshotWriter<String>> writer = replica.client.createSnapshot(end, 0);
                if (writer.isPresent()) {
                    writer.get().freeze();
                    writer.get().close();
                    if (command.path("do").asText().equals("snapshot")) {
                        LockstepLogs.log(replica.disk).deleteBeforeSnapshot(end);
                    }
                }
                replica.settle();
            }
            case "add-voter" -> {
                LockstepReplica added = replicas.get(command.path("voter").asInt());
                ask(replica, new AddRaftVoterRequestData().setClusterId(clusterOf(id)).setTimeoutMs(LockstepReplica.PATIENCE_MS)
                    .setVoterId(added.id).setVoterDirectoryId(added.directoryId())
                    .setListeners(added.endpoints().toAddVoterRequest()), byAdmin(id));
            }
            case "remove-voter" -> {
                ask(replica, RaftUtil.removeVoterRequest(clusterOf(id), ReplicaKey.of(
                    command.path("voter").asInt(), new Uuid(command.path("voter").asInt(), command.path("directory").asInt()))),
                    byAdmin(id));
            }
            default -> throw new IllegalArgumentException("unknown command: " + command);
        }
        return id;
    }

    /** Adds the state of a replica, the messages sent by the command, and the answers that Kafka no longer awaits. */
    private void report(int id, ObjectNode answer) throws Exception {
        ObjectNode states = answer.putObject("states");
        for (LockstepReplica replica : replicas.values()) {
            if ((id < 0 || replica.id == id) && !replica.elsewhere) {
                states.set(Integer.toString(replica.id), replica.state());
            }
        }
        ArrayNode sent = answer.putArray("sent");
        for (LockstepMessage message : news) {
            if (isElsewhere(message.to)) {
                sendAbroad(message, sent);
            } else {
                sent.add(LockstepJson.described(message));
            }
        }
        news.clear();
        if (moved != null) {
            answer.set("moved", moved);
            moved = null;
        }
        stale(answer.putArray("stale"));
        if (id == Integer.MAX_VALUE) {
            answer.set("versions", LockstepBytes.versions());
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        LockstepDriver driver = new LockstepDriver(arguments.length == 0 ? null : Path.of(arguments[0]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = LockstepJson.JSON.createObjectNode();
            try {
                driver.unanswered = null;
                int id = driver.handle(LockstepJson.JSON.readTree(line));
                if (driver.unanswered != null) {
                    throw driver.unanswered;
                }
                driver.report(id, answer);
            } catch (Throwable error) {
                try {
                    driver.report(driver.acting, answer);
                } catch (Throwable unreadable) {
                    answer.removeAll();  // only the exception can be reported
                }
                answer.put("error", error.toString());
                ArrayNode trace = answer.putArray("trace");
                for (StackTraceElement element : error.getStackTrace()) {
                    trace.add(element.toString());
                }
            }
            driver.flush();
            out.println(LockstepJson.JSON.writeValueAsString(answer));
            out.flush();
        }
        driver.replicas.values().stream().filter(replica -> replica.trace != null).forEach(replica -> replica.trace.release());
        driver.flush();
    }

    private void flush() throws IOException {
        for (LockstepReplica replica : replicas.values()) {
            if (replica.trace != null) {
                replica.trace.flush();
            }
        }
    }
}
