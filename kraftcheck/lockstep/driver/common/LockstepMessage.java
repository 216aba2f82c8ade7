package org.apache.kafka.raft;

import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.protocol.ApiMessage;

/** A message in flight. */
final class LockstepMessage {
    long id;
    int from;
    int to;
    ApiMessage data;
    RaftRequest.Outbound request;  // the request, or the one that it answers
    CompletableFuture<RaftResponse.Inbound> promise;  // promise of the answer
    LockstepWire channel;  // of the process that has sent the request; it numbers its requests
    boolean answer;
    boolean late;  // an answer to a process that has ended
    short version = -1;  // of the request, from or to a replica of another process
    long asked;  // for an answer, the request's id; 0 for an administrator's
}
