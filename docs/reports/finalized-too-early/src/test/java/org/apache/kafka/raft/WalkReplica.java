package org.apache.kafka.raft;

import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;

import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.AddRaftVoterRequestData;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.UpdateFeaturesResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.DescribeQuorumRequest;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;  // where LogContext is from 4.4 on
import org.apache.kafka.raft.errors.NotLeaderException;
import org.apache.kafka.raft.internals.AddVoterHandlerState;
import org.apache.kafka.raft.internals.StringSerde;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;
import org.apache.kafka.snapshot.SnapshotReader;
import org.apache.kafka.snapshot.SnapshotWriter;
import org.apache.kafka.snapshot.Snapshots;

/** A KafkaRaftClient with its MockLog, clock and network. Nothing happens in it unless the test says so. */
final class WalkReplica {
    static final TopicPartition PARTITION = new TopicPartition("__cluster_metadata", 0);
    // Far above the backoffs of a few milliseconds that `settle` passes over: a timer expires only when the test says so.
    private static final int ELECTION_MS = 1_000_000;
    private static final int FETCH_MS = 2_000_000;
    private static final int REQUEST_MS = 1_000_000_000;
    private static final int MOST_POLLS = 50;

    final int id;
    MockLog log;
    KafkaRaftClient<String> client;
    boolean dead;  // the process ended
    private final WalkQuorum quorum;
    private final Clock time = new Clock();
    private int directory;
    private int endpoint = 1;
    private int software = 1;  // the newest kraft.version that it supports
    private QuorumStateStore store;
    private MockNetworkChannel channel;
    private MockMessageQueue queue;
    private WalkMessage held;  // a fetch whose bootstrap server the test chooses
    private FollowerState due;  // the state that sends a voter change as soon as its connection is free

    WalkReplica(WalkQuorum quorum, int id) {
        this.quorum = quorum;
        this.id = id;
        software = quorum.oldSoftware.contains(id) ? 0 : 1;
    }

    @Override
    public String toString() {
        return "n" + id;
    }

    ReplicaKey key() {
        return ReplicaKey.of(id, new Uuid(id, directory));
    }

    Endpoints endpoints() {
        return Endpoints.fromInetSocketAddresses(Map.of(MockNetworkChannel.LISTENER_NAME, address(endpoint)));
    }

    InetSocketAddress address(int number) {
        return InetSocketAddress.createUnresolved("n" + id, 9990 + number);
    }

    // Messages

    /** Handles the youngest request of a kind that another replica has sent to this one. */
    void receives(ApiKeys kind, WalkReplica from) throws Exception {
        receives(kind, from, 0);
    }

    /** Handles a request; `younger` requests of this kind stay in flight. */
    void receives(ApiKeys kind, WalkReplica from, int younger) throws Exception {
        WalkMessage request = quorum.take(kind, from, this, false, younger);
        if (kind == ApiKeys.API_VERSIONS) {
            ApiVersionsResponseData data = new ApiVersionsResponseData();
            data.supportedFeatures().add(new ApiVersionsResponseData.SupportedFeatureKey()
                .setName(KRaftVersion.FEATURE_NAME).setMinVersion((short) 0).setMaxVersion((short) software));
            quorum.send(request.answer(data));
        } else {
            handle(request);
        }
    }

    /** Handles the youngest response of a kind that another replica has sent to this one. */
    void receivesResponse(ApiKeys kind, WalkReplica from) throws Exception {
        receivesResponse(kind, from, 0);
    }

    /** Handles a response; `younger` responses of this kind stay in flight. */
    void receivesResponse(ApiKeys kind, WalkReplica from, int younger) throws Exception {
        complete(quorum.take(kind, from, this, true, younger));
        settle();
    }

    /** Handles a response, becomes leader, and ends before its first record is in the log; it starts again. */
    void receivesResponseAndFailsInOffice(ApiKeys kind, WalkReplica from) throws Exception {
        complete(quorum.take(kind, from, this, true, 0));
        failInOffice();
    }

    private void complete(WalkMessage response) {
        response.channel().mockReceive(
            new RaftResponse.Inbound(response.correlationId(), response.data(), response.destination()));
    }

    @SuppressWarnings("unchecked")
    private void handle(WalkMessage request) throws Exception {
        RaftRequest.Inbound inbound = new RaftRequest.Inbound(MockNetworkChannel.LISTENER_NAME, quorum.newCorrelationId(),
            request.data().highestSupportedVersion(), request.data(), time.milliseconds());
        // Until 4.3 a request carries the promise of its response; since 4.4 `handle` returns it.
        Object promise = KafkaRaftClient.class.getMethod("handle", RaftRequest.Inbound.class).invoke(client, inbound);
        if (promise == null) {
            promise = RaftRequest.Inbound.class.getField("completion").get(inbound);
        }
        ((CompletionStage<RaftResponse.Outbound>) promise).thenAccept(response -> quorum.send(request.answer(response.data())));
        settle();
    }

    private void asks(ApiMessage data) throws Exception {
        handle(new WalkMessage(ApiKeys.forId(data.apiKey()), 0, id, data, false, 0, null, null));
    }

    /** Sends the fetch that its timer asks for to a bootstrap server. */
    void fetchesFromBootstrapServer(WalkReplica server) {
        if (held == null) {
            throw new WalkQuorum.NotPossible(this + " does not ask a bootstrap server");
        }
        quorum.send(held.to(server.id));
        held = null;
    }

    // Time

    /** Moves its clock to the moment at which the election or fetch timer of its state expires. */
    void timerExpires() throws Exception {
        moveToTimer();
        settle();
    }

    /** Its timer expires, it becomes leader, and ends before its first record is in the log; it starts again. */
    void timerExpiresAndFailsInOffice() throws Exception {
        moveToTimer();
        failInOffice();
    }

    private void moveToTimer() {
        QuorumState state = client.quorum();
        long now = time.milliseconds();
        if (state.isFollower()) {
            time.sleep(state.followerStateOrThrow().remainingFetchTimeMs(now));
        } else if (state.isUnattached()) {
            time.sleep(state.unattachedStateOrThrow().remainingElectionTimeMs(now));
        } else if (state.isProspective()) {
            time.sleep(state.prospectiveStateOrThrow().remainingElectionTimeMs(now));
        } else if (state.isCandidate()) {
            time.sleep(state.candidateStateOrThrow().remainingElectionTimeMs(now));
        } else if (state.isResigned()) {
            time.sleep(state.resignedStateOrThrow().remainingElectionTimeMs(now));
        } else {
            throw new WalkQuorum.NotPossible(this + " leads, and has no such timer");
        }
    }

    /** Its check-quorum timer expires. */
    void checkQuorumExpires() throws Exception {
        expire(leader(), "checkQuorumTimer");
        settle();
    }

    /** A voter seems not to have fetched for long, so that the leader repeats BeginQuorumEpoch to it. */
    void repeatsBeginQuorumEpoch(WalkReplica voter) throws Exception {
        LeaderState<?> leader = leader();
        long now = time.milliseconds();
        timeOutRequests(voter.id);
        Map<Integer, LeaderState.ReplicaState> states = field(leader, "voterStates");
        Map<LeaderState.ReplicaState, Object> before = new HashMap<>();
        int patience = field(leader, "beginQuorumEpochTimeoutMs");
        for (Map.Entry<Integer, LeaderState.ReplicaState> entry : states.entrySet()) {
            Field fetched = find(entry.getValue(), "lastFetchTimestamp");
            before.put(entry.getValue(), fetched.get(entry.getValue()));
            fetched.set(entry.getValue(), entry.getKey() == voter.id ? now - patience : now);
        }
        expire(leader, "beginQuorumEpochTimer");
        settle();
        for (Map.Entry<LeaderState.ReplicaState, Object> entry : before.entrySet()) {
            find(entry.getKey(), "lastFetchTimestamp").set(entry.getKey(), entry.getValue());
        }
    }

    /** The voter change that it handles as leader times out. */
    void voterChangeTimesOut() throws Exception {
        LeaderState<?> leader = leader();
        Object owner = has(leader, "changeVoterState") ? field(leader, "changeVoterState") : leader;  // since 4.4
        for (String handler : List.of("addVoterHandlerState", "removeVoterHandlerState")) {
            Optional<Object> found = field(owner, handler);
            if (found.isPresent()) {
                expire(found.get(), "timeout");
                if (found.get() instanceof AddVoterHandlerState adding) {
                    timeOutRequests(adding.voterKey().id());
                }
            }
        }
        settle();
    }

    /** The responses that it awaits time out. */
    void requestsTimeOut() throws Exception {
        requestsTimeOut(null);
    }

    /** The responses that it awaits time out; if it then turns to a bootstrap server, it asks this one. */
    void requestsTimeOut(WalkReplica server) throws Exception {
        timeOutAll();
        if (held != null && server != null) {
            fetchesFromBootstrapServer(server);
        } else if (held != null && client.quorum().isFollower()) {
            timeOutAll();  // the follower turns to its leader again
        }
    }

    private void timeOutAll() throws Exception {
        held = null;
        timeOutRequests(null);
        settle();
    }

    private void timeOutRequests(Integer node) throws Exception {
        Map<String, Object> connections = field(field(client, "requestManager"), "connections");
        for (Map.Entry<String, Object> entry : connections.entrySet()) {
            boolean waits = field(entry.getValue(), "state").toString().equals("AWAITING_RESPONSE");
            if (waits && (node == null || entry.getKey().equals(node.toString()))) {
                find(entry.getValue(), "lastSendTimeMs").set(entry.getValue(), time.milliseconds() - REQUEST_MS);
            }
        }
    }

    /** The period passes after which a follower sends UpdateVoter, or its own AddVoter or RemoveVoter. */
    void updateVoterPeriodPasses() throws Exception {
        due = client.quorum().isFollower() ? client.quorum().followerStateOrThrow() : null;
        settle();
    }

    // What its process and its administrator do

    void appends(String value) throws Exception {
        client.prepareAppend(leader().epoch(), List.of(value));
        client.schedulePreparedAppend();
        settle();
    }

    void resigns() throws Exception {
        client.resign(leader().epoch());
        settle();
    }

    void restarts() throws Exception {
        log.flush(true);
        log.reopen();
        start();
    }

    void restartsLosingUnflushedRecords() throws Exception {
        log.reopen();
        start();
    }

    void restartsWithNewDisk() throws Exception {
        format(false);
        start();
    }

    void restartsWithNewEndpoint() throws Exception {
        endpoint += 1;
        restarts();
    }

    void restartsWithOtherSoftware() throws Exception {
        software = 1 - software;
        restarts();
    }

    void stops() {
        dead = true;
    }

    void takesSnapshot(long offset, int epoch) throws Exception {
        OffsetAndEpoch end = new OffsetAndEpoch(offset, epoch);
        Optional<SnapshotWriter<String>> writer = client.createSnapshot(end, 0);
        if (writer.isPresent()) {
            writer.get().freeze();
            writer.get().close();
            log.deleteBeforeSnapshot(end);
        }
        settle();
    }

    void isAskedToAddVoter(WalkReplica voter) throws Exception {
        asks(new AddRaftVoterRequestData().setClusterId(quorum.clusterOf(id)).setTimeoutMs(REQUEST_MS).setVoterId(voter.id)
            .setVoterDirectoryId(voter.key().directoryId().get()).setListeners(voter.endpoints().toAddVoterRequest()));
    }

    /** Handles RemoveVoter for a replica with its `directory`-th disk. */
    void isAskedToRemoveVoter(WalkReplica voter, int directory) throws Exception {
        asks(RaftUtil.removeVoterRequest(quorum.clusterOf(id), ReplicaKey.of(voter.id, new Uuid(voter.id, directory))));
    }

    void isAskedToDescribeQuorum() throws Exception {
        asks(DescribeQuorumRequest.singletonRequest(PARTITION));
    }

    /** Handles UpdateFeatures as the controller does: it answers when `upgradeKRaftVersion` has returned. */
    void isAskedToUpgrade(int version) throws Exception {
        Errors error = Errors.NONE;
        try {
            client.upgradeKRaftVersion(client.quorum().epoch(), KRaftVersion.fromFeatureLevel((short) version), false);
        } catch (NotLeaderException refused) {
            error = Errors.NOT_LEADER_OR_FOLLOWER;
        } catch (ApiException refused) {
            error = Errors.forException(refused);
        }
        quorum.send(new WalkMessage(ApiKeys.UPDATE_FEATURES, id, 0,
            new UpdateFeaturesResponseData().setErrorCode(error.code()), true, 0, null, null));
        settle();
    }

    // The process

    void format(boolean withVoters) throws Exception {
        directory += 1;
        log = new MockLog(PARTITION, Uuid.METADATA_TOPIC_ID, new LogContext());
        store = new MockQuorumStateStore();
        if (quorum.kraftVersion > 0) {
            RecordsSnapshotWriter.Builder builder = new RecordsSnapshotWriter.Builder().setTime(time)
                .setRawSnapshotWriter(log.createNewSnapshotUnchecked(Snapshots.BOOTSTRAP_SNAPSHOT_ID).get())
                .setKraftVersion(KRaftVersion.fromFeatureLevel((short) (withVoters ? quorum.kraftVersion : 0)));
            if (withVoters) {
                builder.setVoterSet(Optional.of(quorum.formatted));
            }
            try (RecordsSnapshotWriter<String> writer = builder.build(new StringSerde())) {
                writer.freeze();
            }
        }
    }

    /** The voter set before the first VotersRecord of its log. */
    VoterSet formattedVoters() {
        boolean known = quorum.kraftVersion == 0 || directory == 1 && quorum.voters.contains(id);
        return known ? quorum.formatted : VoterSet.empty();
    }

    void start() throws Exception {
        dead = true;
        held = null;
        due = null;
        channel = new MockNetworkChannel(quorum.correlations);
        queue = new MockMessageQueue();
        List<InetSocketAddress> servers = new ArrayList<>();
        Map<Integer, InetSocketAddress> staticVoters = new TreeMap<>();
        for (WalkReplica replica : quorum.replicas.values()) {
            if (quorum.bootstrapServers.isEmpty() || quorum.bootstrapServers.contains(replica.id)) {
                servers.add(replica.address(replica.endpoint));
            }
            if (quorum.kraftVersion == 0 && quorum.voters.contains(replica.id)) {
                staticVoters.put(replica.id, replica.address(1));
            }
        }
        Map<String, Object> settings = Map.of(
            "controller.quorum.auto.join.enable", quorum.autoJoin,
            QuorumConfig.QUORUM_REQUEST_TIMEOUT_MS_CONFIG, REQUEST_MS,
            QuorumConfig.QUORUM_RETRY_BACKOFF_MS_CONFIG, 1,
            QuorumConfig.QUORUM_ELECTION_TIMEOUT_MS_CONFIG, ELECTION_MS,
            QuorumConfig.QUORUM_ELECTION_BACKOFF_MAX_MS_CONFIG, 0,
            QuorumConfig.QUORUM_FETCH_TIMEOUT_MS_CONFIG, FETCH_MS,
            QuorumConfig.QUORUM_LINGER_MS_CONFIG, 0);
        client = new KafkaRaftClient<>(OptionalInt.of(id), key().directoryId().get(), new StringSerde(), channel, queue, log,
            MemoryPool.NONE, time, new NoExpiration(), 0, !quorum.brokers.contains(id), quorum.clusterOf(id), servers,
            endpoints(), new SupportedVersionRange((short) 0, (short) software), new LogContext(), new Random(id),
            new QuorumConfig(new AbstractConfig(QuorumConfig.CONFIG_DEF, settings)));
        client.register(new Listener());
        try {
            client.initialize(staticVoters, store, new Metrics(time), ignored -> { });
            dead = false;
        } catch (RuntimeException error) {
            quorum.processEnds(this, error);
        }
        settle();
    }

    /** Polls until there is nothing left to do at the present time. */
    private void settle() throws Exception {
        String before = "";
        for (int i = 0; i < MOST_POLLS && !dead; i++) {
            boolean sent = poll();
            String now = client.quorum().toString() + log.endOffset() + client.highWatermark();
            if (!sent && queue.isEmpty() && now.equals(before)) {
                if (queue.lastPollTimeoutMs().orElse(0) > 1) {
                    return;
                }
                time.sleep(1);  // a connection backs off
                continue;
            }
            before = now;
        }
    }

    /** Polls once, so that it takes office, and ends before the poll that would append its first record. */
    private void failInOffice() throws Exception {
        poll();
        restarts();
    }

    /** Polls once, and returns whether anything was sent; an exception that Kafka throws ends the process. */
    private boolean poll() throws Exception {
        while (backsOff()) {
            time.sleep(1);  // else it would ask a bootstrap server
        }
        if (due != null && (!client.quorum().isFollower() || client.quorum().followerStateOrThrow() != due)) {
            due = null;
        } else if (due != null && queue.isEmpty() && due.fetchingSnapshot().isEmpty() && !awaits()) {
            expire(due, has(due, "updateVoterPeriodTimer") ? "updateVoterPeriodTimer" : "updateVoterSetPeriodTimer");
            due = null;
        }
        try {
            client.poll();
        } catch (RuntimeException error) {
            dead = true;
            quorum.processEnds(this, error);
        }
        return send();
    }

    private boolean send() {
        List<RaftRequest.Outbound> requests = channel.drainSendQueue();
        for (RaftRequest.Outbound request : requests) {
            Node to = request.destination();
            WalkMessage message = new WalkMessage(ApiKeys.forId(request.data().apiKey()), id,
                Integer.parseInt(to.host().substring(1)), request.data(), false, request.correlationId(), to, channel);
            if (to.id() < 0) {
                held = message;
            } else {
                quorum.send(message);
            }
        }
        return !requests.isEmpty();
    }

    private boolean backsOff() throws Exception {
        RequestManager manager = field(client, "requestManager");
        for (int node = -1 - quorum.replicas.size(); node <= quorum.replicas.lastKey(); node++) {
            if (manager.isBackingOff(new Node(node, "", 0), time.milliseconds())) {
                return true;
            }
        }
        return false;
    }

    private boolean awaits() throws Exception {
        Map<String, Object> connections = field(field(client, "requestManager"), "connections");
        for (Object connection : connections.values()) {
            if (field(connection, "state").toString().equals("AWAITING_RESPONSE")) {
                return true;
            }
        }
        return false;
    }

    private LeaderState<?> leader() {
        if (!client.quorum().isLeader()) {
            throw new WalkQuorum.NotPossible(this + " is no leader");
        }
        return client.quorum().leaderStateOrThrow();
    }

    // Private state of Kafka's classes

    @SuppressWarnings("unchecked")
    static <V> V field(Object object, String name) throws Exception {
        return (V) find(object, name).get(object);
    }

    private static Field find(Object object, String name) throws Exception {
        Field found = object.getClass().getDeclaredField(name);
        found.setAccessible(true);
        return found;
    }

    private static boolean has(Object object, String name) {
        for (Field declared : object.getClass().getDeclaredFields()) {
            if (declared.getName().equals(name)) {
                return true;
            }
        }
        return false;
    }

    private static void expire(Object owner, String timer) throws Exception {
        Timer found = field(owner, timer);
        found.updateAndReset(0);
    }

    // Parts

    /** A clock that stands still until the test moves it. */
    private static final class Clock implements Time {
        private long now = 1_000_000_000_000L;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long milliseconds) {
            now += milliseconds;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
            throw new UnsupportedOperationException();
        }

        public <T> T waitForFuture(CompletableFuture<T> future, long deadline) {
            throw new UnsupportedOperationException();
        }
    }

    private static final class NoExpiration implements ExpirationService {
        @Override
        public <T> CompletableFuture<T> failAfter(long milliseconds) {
            return new CompletableFuture<>();
        }
    }

    /** A state machine that only reads on. */
    private static final class Listener implements RaftClient.Listener<String> {
        @Override
        public void handleCommit(BatchReader<String> reader) {
            reader.close();
        }

        @Override
        public void handleLoadSnapshot(SnapshotReader<String> reader) {
            reader.close();
        }

        public void handleLoadBootstrap(SnapshotReader<String> reader) {  // since 4.3
            reader.close();
        }
    }
}
