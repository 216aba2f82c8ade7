package org.apache.kafka.raft;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.snapshot.SnapshotReader;

/** Replacements for the clock, sockets, threads and quorum-state file of a Raft client. */
final class LockstepParts {
    static final ListenerName LISTENER = ListenerName.normalised("LISTENER");

    private LockstepParts() { }

    /**
     * A virtual clock, which stands still until the driver moves it. Kafka reads its timers by this clock alone. So a
     * timer expires when the model's step says so, and never because the machine is slow; a walk repeats exactly.
     */
    static final class Clock implements Time {
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

    /** A request that a client has sent, with the promise of its answer. */
    record Sent(RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> answer) { }

    /** Keeps the requests that a client sends until the driver takes them. */
    abstract static class Channel implements NetworkChannel {
        private final AtomicInteger correlations = new AtomicInteger();
        final Map<Long, Long> numbers = new HashMap<>();  // the driver's numbers of the requests, by correlation id
        private List<Sent> sent = new ArrayList<>();

        void keep(RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> answer) {
            sent.add(new Sent(request, answer));
        }

        List<Sent> take() {
            List<Sent> taken = sent;
            sent = new ArrayList<>();
            return taken;
        }

        @Override
        public int newCorrelationId() {
            return correlations.getAndIncrement();
        }

        @Override
        public ListenerName listenerName() {
            return LISTENER;
        }

        @Override
        public void close() { }
    }

    /** A message queue at which the client never blocks. */
    abstract static class Inbox<E> implements RaftMessageQueue {
        final Queue<E> messages = new ArrayDeque<>();
        long patience;  // time for which the client would have blocked, in milliseconds

        @Override
        public boolean isEmpty() {
            return messages.isEmpty();
        }

        @Override
        public void wakeup() { }
    }

    /** The file quorum-state, in memory. */
    static final class Ballot implements QuorumStateStore {
        Optional<QuorumStateData> written = Optional.empty();
        short version;  // the form in which it is written

        @Override
        public Optional<ElectionState> readElectionState() {
            return written.map(ElectionState::fromQuorumStateData);
        }

        @Override
        public void writeElectionState(ElectionState state, KRaftVersion inUse) {
            write(state.toQuorumStateData(inUse.quorumStateVersion()), inUse.quorumStateVersion());
        }

        void write(QuorumStateData state, short form) {
            written = Optional.of(state);
            version = form;
        }

        @Override
        public Path path() {
            return Path.of("quorum-state");
        }

        @Override
        public void clear() {
            written = Optional.empty();
        }
    }

    /** An expiration service without a thread: a promise expires when the driver says so. */
    static final class Patience implements ExpirationService {
        CompletableFuture<?> latest;

        @Override
        public <T> CompletableFuture<T> failAfter(long milliseconds) {
            CompletableFuture<T> promise = new CompletableFuture<>();
            latest = promise;
            return promise;
        }
    }

    /** A state machine that reads everything, and keeps the leader and the kraft.version that it has learned of. */
    abstract static class Listener implements RaftClient.Listener<String> {
        LeaderAndEpoch told = LeaderAndEpoch.UNKNOWN;
        Integer version;  // null before the first snapshot or record
        int calls;

        @Override
        public void handleCommit(BatchReader<String> reader) {
            calls += 1;
            try (reader) {
                reader.forEachRemaining(this::read);
            }
        }

        private void read(Batch<String> batch) {
            version = version == null ? 0 : version;
            for (ControlRecord record : batch.controlRecords()) {
                if (record.message() instanceof KRaftVersionRecord found) {
                    version = (int) found.kRaftVersion();
                }
            }
        }

        @Override
        public void handleLoadSnapshot(SnapshotReader<String> reader) {
            version = 0;
            try (reader) {
                reader.forEachRemaining(this::read);
            }
        }

        @Override
        public void handleLeaderChange(LeaderAndEpoch leader) {
            told = leader;
        }
    }

    /** Metrics without effect. */
    static final class NoMetrics implements ExternalKRaftMetrics {
        @Override
        public void setIgnoredStaticVoters(boolean ignored) { }
    }
}
