package org.apache.kafka.raft;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.raft.generated.QuorumStateData;
import org.apache.kafka.server.common.KRaftVersion;

/** What a Raft client is given in the place of clocks, sockets, threads and the file quorum-state. */
final class LockstepParts {
    static final ListenerName LISTENER = ListenerName.normalised("LISTENER");

    private LockstepParts() { }

    /** A clock that stands still until it is moved. */
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

    /** A request that a client has sent, and where it expects the answer. */
    record Sent(RaftRequest.Outbound request, CompletableFuture<RaftResponse.Inbound> answer) { }

    /** Keeps the requests that a client sends until somebody takes them. */
    abstract static class Channel implements NetworkChannel {
        private final AtomicInteger correlations;
        private List<Sent> sent = new ArrayList<>();

        Channel(AtomicInteger correlations) {
            this.correlations = correlations;
        }

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

    /** A queue that nobody waits at. */
    abstract static class Inbox<E> implements RaftMessageQueue {
        final Queue<E> messages = new ArrayDeque<>();
        long patience;  // how long the client would have waited, in milliseconds

        @Override
        public boolean isEmpty() {
            return messages.isEmpty();
        }

        @Override
        public void wakeup() { }
    }

    /** The file quorum-state, in memory. */
    static final class Ballot implements QuorumStateStore {
        private Optional<QuorumStateData> written = Optional.empty();

        @Override
        public Optional<ElectionState> readElectionState() {
            return written.map(ElectionState::fromQuorumStateData);
        }

        @Override
        public void writeElectionState(ElectionState state, KRaftVersion version) {
            written = Optional.of(state.toQuorumStateData(version.quorumStateVersion()));
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

    /** Promises that never expire: what is asked to wait is answered at once. */
    static final class Patience implements ExpirationService {
        @Override
        public <T> CompletableFuture<T> failAfter(long milliseconds) {
            return new CompletableFuture<>();
        }
    }

    /** Metrics that nobody reads. */
    static final class NoMetrics implements ExternalKRaftMetrics {
        @Override
        public void setIgnoredStaticVoters(boolean ignored) { }
    }
}
