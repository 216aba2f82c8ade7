package org.apache.kafka.raft;

import java.util.ArrayList;
import java.util.List;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.raft.generated.QuorumStateDataJsonConverter;

/** Moves a replica to the process of another version of Kafka, with its disk and the requests in flight to it. */
final class LockstepMove {
    private LockstepMove() { }

    /** Ends a replica's process here; returns what the next one begins with. Of its log, `whole` keeps what is not flushed. */
    static ObjectNode handOver(LockstepDriver cluster, LockstepReplica replica, JsonNode command) throws Exception {
        ObjectNode moved = LockstepJson.JSON.createObjectNode();
        LockstepDisk.InMemory disk = (LockstepDisk.InMemory) replica.disk;
        disk.reopen(command.path("whole").asBoolean());
        moved.put("node", replica.id).put("directory", replica.directory).put("endpoint", replica.endpoint).put("software", replica.software);
        if (replica.listed != null) {
            replica.listed.forEach(moved.putArray("listed")::add);
        }
        LockstepRecords.writeDisk(disk, moved);
        if (disk.ballot.written.isPresent()) {
            moved.put("ballotVersion", disk.ballot.version);
            moved.set("ballot", QuorumStateDataJsonConverter.write(disk.ballot.written.get(), disk.ballot.version));
        }
        replica.leave(command.path("versions"));
        ArrayNode requests = moved.putArray("requests");
        List<LockstepMessage> found = new ArrayList<>(cluster.underWay.values());
        for (LockstepMessage message : found) {
            if (message.to == replica.id && !message.answer) {
                cluster.underWay.remove(message.id);
                if (message.request != null) {
                    cluster.abroad.put(message.id, message);  // its answer comes back here
                }
                cluster.sendAbroad(message, requests);
            }
        }
        return moved;
    }

    /** Prepares a replica for its start in this process. */
    static void takeOver(LockstepReplica replica, JsonNode moved) throws Exception {
        replica.elsewhere = false;
        replica.dead = true;  // until it starts
        replica.directory = moved.path("directory").asInt();
        replica.endpoint = moved.path("endpoint").asInt();
        replica.software = moved.path("software").asInt();
        if (moved.has("listed")) {
            replica.listed = new ArrayList<>();
            moved.path("listed").forEach(id -> replica.listed.add(id.asInt()));
        }
        LockstepDisk.InMemory disk = new LockstepDisk.InMemory();
        replica.disk = disk;
        LockstepRecords.readDisk(disk, moved);
        if (moved.has("ballot")) {
            short version = (short) moved.path("ballotVersion").asInt();
            disk.ballot.write(QuorumStateDataJsonConverter.read(moved.path("ballot"), version), version);
        }
    }
}
