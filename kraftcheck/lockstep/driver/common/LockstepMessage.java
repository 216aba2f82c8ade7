package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.protocol.ApiMessage;

/** A message under way. */
final class LockstepMessage {
    long id;
    int from;
    int to;
    ApiMessage data;
    RaftRequest.Outbound request;  // what it is, or what it answers
    CompletableFuture<RaftResponse.Inbound> promise;  // of the answer
    boolean answer;
    long asked;  // of an answer: the request's id, 0 where an administrator asked
}
