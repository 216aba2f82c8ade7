package org.apache.kafka.raft;

import java.util.concurrent.CompletionStage;

import org.apache.kafka.common.utils.LogContext;
import org.slf4j.Logger;

/** Transfer of requests and answers until 4.3, where a request itself carries the promise of its answer. */
final class LockstepWire extends LockstepParts.Channel {
    @Override
    public void send(RaftRequest.Outbound request) {
        keep(request, request.completion);
    }

    /** Hands a client a request; its answer comes when the client has been polled. */
    static CompletionStage<RaftResponse.Outbound> handle(KafkaRaftClient<?> client, RaftRequest.Inbound request) {
        client.handle(request);
        return request.completion;
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
    static final class Inbox extends LockstepParts.Inbox<RaftMessage> {
        @Override
        public RaftMessage poll(long milliseconds) {
            patience = milliseconds;
            return messages.poll();
        }

        @Override
        public void add(RaftMessage message) {
            messages.add(message);
        }
    }
}
