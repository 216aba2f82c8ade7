package org.apache.kafka.raft;

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

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.raft.internals.StringSerde;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;
import org.apache.kafka.snapshot.Snapshots;

/** A replica with its disk, its clock and its process. */
final class LockstepReplica {
    // Milliseconds of the replica's virtual clock. They are far above the backoffs of a few milliseconds that `settle`
    // passes over, so a timer of Kafka does not expire while a replica settles.
    private static final int ELECTION_MS = 1_000_000;
    private static final int FETCH_MS = 2_000_000;
    static final int PATIENCE_MS = 1_000_000_000;
    private static final int FETCH_WAIT_MS = 500;  // that of `KafkaRaftManager`; it passes when the driver says so
    private static final int MOST_POLLS = 50;
    static final String[] UPDATE_TIMER = {"updateVoterSetPeriodTimer", "updateVoterPeriodTimer"};

    private final LockstepDriver cluster;
    final int id;
    int directory;
    int endpoint = 1;
    int software = 1;
    LockstepDisk disk;
    final LockstepParts.Clock time = new LockstepParts.Clock();
    LockstepTrace trace;  // null if it writes no log
    LockstepWire channel;
    LockstepWire.Inbox queue;
    KafkaRaftClient<String> client;
    Random random;
    LockstepMessage held;  // a fetch from a bootstrap server, withheld until the model sends it
    FollowerState due;  // the state whose timer for UpdateVoter expires as soon as it can send
    boolean elsewhere;  // it runs in another process
    JsonNode versions;  // the newest version of each request that its process knows
    List<Integer> listed;  // its controller.quorum.voters; null for those of the cluster
    LockstepParts.Patience patience;
    final TreeMap<Long, CompletableFuture<?>> delayed = new TreeMap<>();  // its delayed fetches, with the promise that they wait for
    LockstepLogs.Listener controller;  // the listener that registers with the process
    LockstepLogs.Listener listener;  // one that registers later, or null
    boolean dead;  // Kafka threw, or the process was stopped
    ObjectNode last;  // the state reported last

    LockstepReplica(LockstepDriver cluster, int id) {
        this.cluster = cluster;
        this.id = id;
    }

    LockstepDriver cluster() {
        return cluster;
    }

    Uuid directoryId() {
        return new Uuid(id, directory);
    }

    void format(boolean withVoters) throws Exception {
        directory += 1;
        if (disk != null) {
            disk.wipe();
        }
        disk = cluster.folder == null ? new LockstepDisk.InMemory()
            : LockstepLogs.onFiles(cluster.folder.resolve("n" + id), id, time, cluster.fetchLimit);
        if (cluster.version > 0) {
            RecordsSnapshotWriter.Builder builder = new RecordsSnapshotWriter.Builder()
                .setTime(time)
                .setRawSnapshotWriter(LockstepLogs.log(disk).createNewSnapshotUnchecked(Snapshots.BOOTSTRAP_SNAPSHOT_ID).get());
            if (withVoters) {
                builder.setKraftVersion(KRaftVersion.fromFeatureLevel((short) cluster.version)).setVoterSet(Optional.of(cluster.formatted));
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
        forget();
        due = null;
        if (trace == null && cluster.logs != null) {
            trace = new LockstepTrace(cluster.logs, id, time);
        }
        if (trace != null) {  // Kafka's log of records on disk writes this line, one in memory does not
            trace.write("INFO", "[RaftLog partition=" + LockstepDisk.PARTITION + "] Initialized snapshots with IDs "
                + LockstepLogs.log(disk).latestSnapshotId().stream().toList() + " from the driver", KafkaRaftClient.class.getName());
        }
        delayed.clear();
        patience = new LockstepParts.Patience();
        channel = new LockstepWire();
        queue = new LockstepWire.Inbox();
        Map<String, Object> settings = new HashMap<>();
        settings.put("controller.quorum.auto.join.enable", cluster.autoJoin);
        settings.put(QuorumConfig.QUORUM_REQUEST_TIMEOUT_MS_CONFIG, PATIENCE_MS);
        settings.put(QuorumConfig.QUORUM_RETRY_BACKOFF_MS_CONFIG, 1);
        settings.put(QuorumConfig.QUORUM_ELECTION_TIMEOUT_MS_CONFIG, ELECTION_MS);
        settings.put(QuorumConfig.QUORUM_ELECTION_BACKOFF_MAX_MS_CONFIG, 0);
        settings.put(QuorumConfig.QUORUM_FETCH_TIMEOUT_MS_CONFIG, FETCH_MS);
        settings.put(QuorumConfig.QUORUM_LINGER_MS_CONFIG, 0);
        List<InetSocketAddress> bootstrap = new ArrayList<>();
        Map<Integer, InetSocketAddress> fixed = new TreeMap<>();
        for (LockstepReplica replica : cluster.replicas.values()) {
            if (cluster.servers.isEmpty() || cluster.servers.contains(replica.id)) {
                bootstrap.add(replica.address());
            }
            if (cluster.version == 0 && (listed == null ? cluster.voters : listed).contains(replica.id)) {
                fixed.put(replica.id, LockstepJson.addressOf(replica.id, 1));
            }
        }
        random = new Random(id);
        client = new KafkaRaftClient<>(
            OptionalInt.of(id), directoryId(), new StringSerde(), channel, queue, LockstepLogs.log(disk), MemoryPool.NONE, time,
            patience, cluster.delays ? FETCH_WAIT_MS : 0, !cluster.brokers.contains(id), cluster.clusterOf(id), bootstrap, endpoints(),
            new SupportedVersionRange((short) 0, (short) software), LockstepWire.logContext(trace), random,
            new QuorumConfig(new AbstractConfig(QuorumConfig.CONFIG_DEF, settings))
        );
        controller = new LockstepLogs.Listener();
        listener = null;
        client.register(controller);
        client.initialize(fixed, disk.store(), new Metrics(time), new LockstepParts.NoMetrics());
        dead = false;
        settle();
    }

    InetSocketAddress address() {
        return LockstepJson.addressOf(id, endpoint);
    }

    Endpoints endpoints() {
        return Endpoints.fromInetSocketAddresses(Map.of(LockstepParts.LISTENER, address()));
    }

    /**
     * Polls until there is nothing left to do at the present virtual time. Kafka spreads over several polls the work that
     * the model does in one step, so the driver reports a state only then. Polls after a step may include an urgent
     * timeout: `AT_ONCE` in `driver_commands.py` has the steps and the timeouts.
     */
    void settle() throws Exception {
        String before = "";
        for (int i = 0; i < MOST_POLLS && !dead; i++) {
            boolean sent = poll();
            String now = client.quorum().toString() + LockstepLogs.log(disk).endOffset() + client.highWatermark()
                + controller.calls + (listener == null ? 0 : listener.calls);  // a listener reads on with each poll
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

    /** Ends its process here: from now on it runs in another one. */
    void leave(JsonNode itsVersions) {
        forget();
        delayed.clear();
        elsewhere = true;
        versions = itsVersions;
        channel = null;  // no answer in flight here is awaited any more
    }

    /** Polls once, so that it takes office, and ends the process before the poll that would append its first record. */
    void failInOffice() throws Exception {
        poll();
        disk.reopen(true);
        start();
    }

    /** Polls once, and returns whether anything was sent; an exception of Kafka ends the process. */
    boolean poll() throws Exception {
        while (LockstepInside.backsOff(client, time.milliseconds())) {
            time.sleep(1);  // else the client would ask a bootstrap server
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

    /** Forgets the withheld fetch. */
    private void forget() {
        held = null;
        if (trace != null) {
            trace.release();
        }
    }

    void timeOut() throws Exception {
        forget();
        LockstepInside.timeOut(client, PATIENCE_MS, time.milliseconds());
        settle();
    }

    /** Whether a follower can send a request other than a fetch. */
    boolean isFree() throws Exception {
        return queue.isEmpty() && LockstepInside.awaited(client).isEmpty() && due.fetchingSnapshot().isEmpty();
    }

    boolean collect() {
        boolean any = false;
        for (LockstepParts.Sent sent : channel.take()) {
            RaftRequest.Outbound request = sent.request();
            LockstepMessage message = new LockstepMessage();
            message.from = id;
            message.to = LockstepJson.idOf(request.destination().host());
            message.data = request.data();
            message.request = request;
            message.promise = sent.answer();
            message.channel = channel;
            if (request.destination().id() < 0) {
                held = message;
                if (trace != null) {
                    trace.hold();
                }
            } else {
                cluster.send(message);
            }
            any = true;
        }
        return any;
    }

    /** Moves the clock to the moment at which the timer of the replica's mode expires. */
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

    /** The reported state; for a dead replica, the state in which it died. */
    ObjectNode state() throws Exception {
        try {
            last = LockstepJson.state(this);
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
}
