package org.apache.kafka.raft;

import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

import org.apache.kafka.common.utils.internals.LogContext;
import org.slf4j.Logger;

/** Transfer of requests and answers from 4.4 on, where sending returns the promise of an answer. */
final class LockstepWire extends LockstepParts.Channel {
    @Override
    public CompletionStage<RaftResponse.Inbound> send(RaftRequest.Outbound request) {
        CompletableFuture<RaftResponse.Inbound> answer = new CompletableFuture<>();
        keep(request, answer);
        return answer;
    }

    /** Hands a client a request; its answer comes when the client has been polled. */
    static CompletionStage<RaftResponse.Outbound> handle(KafkaRaftClient<?> client, RaftRequest.Inbound request) {
        return client.handle(request);
    }

    static LogContext logContext() {
        return new LogContext();
    }

    /** The context whose loggers write to a trace; null stands for none. */
    static LogContext logContext(LockstepTrace trace) {
        return trace == null ? logContext() : new LogContext(trace.prefix) {
            @Override
            public Logger logger(Class<?> type) {
                return trace.logger(type.getName());
            }
        };
    }

    /** The requests and answers that a client has not handled yet. */
    static final class Inbox extends LockstepParts.Inbox<Entry> {
        @Override
        public Optional<RaftMessageQueue.QueueEntry> poll(long milliseconds) {
            patience = milliseconds;
            return Optional.ofNullable(messages.poll());
        }

        @Override
        public CompletionStage<RaftMessage> add(RaftMessage message) {
            Entry entry = new Entry(message, new CompletableFuture<>());
            messages.add(entry);
            return entry.future;
        }
    }

    record Entry(RaftMessage message, CompletableFuture<RaftMessage> future) implements RaftMessageQueue.QueueEntry { }
}
