package org.apache.kafka.raft;

import org.apache.kafka.common.Node;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;

/** A message in flight; replica 0 is the administrator. */
record WalkMessage(ApiKeys kind, int from, int to, ApiMessage data, boolean isResponse,
                   int correlationId, Node destination, MockNetworkChannel channel) {
    WalkMessage to(int server) {
        return new WalkMessage(kind, from, server, data, isResponse, correlationId, destination, channel);
    }

    WalkMessage answer(ApiMessage response) {
        return new WalkMessage(kind, to, from, response, true, correlationId, destination, channel);
    }

    @Override
    public String toString() {
        return kind + (isResponse ? " response" : " request") + " from n" + from + " to n" + to;
    }
}
