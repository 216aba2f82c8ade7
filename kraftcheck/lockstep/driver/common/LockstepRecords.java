package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.FetchSnapshotRequestData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;  // where records are from 4.3 on; imported by name they fit one version only
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.RawSnapshotWriter;

/** Records as JSON. */
final class LockstepRecords {
    private LockstepRecords() { }

    /** Adds the batches of a log, from its start on. */
    static void readLog(LockstepDisk disk, ArrayNode batches) {
        var log = LockstepLogs.log(disk);
        long at = log.startOffset();
        while (at < log.endOffset().offset()) {
            for (RecordBatch batch : LockstepLogs.read(disk, at).batches()) {
                add(batch, batches);
                at = batch.nextOffset();
            }
        }
    }

    static void readFetch(FetchResponseData fetch, ArrayNode batches) {
        for (FetchResponseData.FetchableTopicResponse topic : fetch.responses()) {
            for (FetchResponseData.PartitionData partition : topic.partitions()) {
                if (partition.records() instanceof Records records) {
                    for (RecordBatch batch : records.batches()) {
                        add(batch, batches);
                    }
                }
            }
        }
    }

    /** Gives an answer the form that a server sends: bytes instead of records in a file, empty records instead of none. */
    static void complete(ApiMessage message) throws Exception {
        if (message instanceof FetchSnapshotResponseData answer) {
            for (FetchSnapshotResponseData.TopicSnapshot topic : answer.topics()) {
                for (FetchSnapshotResponseData.PartitionSnapshot partition : topic.partitions()) {
                    if (partition.unalignedRecords() == null) {
                        partition.setUnalignedRecords(MemoryRecords.EMPTY);
                    } else if (partition.unalignedRecords() instanceof UnalignedFileRecords found) {
                        partition.setUnalignedRecords(new UnalignedMemoryRecords(read(found)));
                    }
                }
            }
        }
    }

    /** Bounds a request for a snapshot by the bytes up to a share of it: so many of all batches. */
    static void askForPart(LockstepDisk disk, ApiMessage message, long batches, long all) {
        FetchSnapshotRequestData request = (FetchSnapshotRequestData) message;
        FetchSnapshotRequestData.PartitionSnapshot asked = request.topics().get(0).partitions().get(0);
        LockstepLogs.log(disk).readSnapshot(new OffsetAndEpoch(asked.snapshotId().endOffset(), asked.snapshotId().epoch()))
            .ifPresent(found -> request.setMaxBytes((int) (found.sizeInBytes() * batches / all - asked.position())));
    }

    /** Adds the snapshots and the batches of a log as bytes. */
    static void writeDisk(LockstepDisk.InMemory disk, ObjectNode moved) throws Exception {
        ArrayNode found = moved.put("start", disk.log().startOffset()).putArray("snapshots");
        Map<OffsetAndEpoch, ?> snapshots = LockstepInside.field(disk.own(), "snapshots");
        for (OffsetAndEpoch id : snapshots.keySet()) {
            MemoryRecords content = (MemoryRecords) disk.log().readSnapshot(id).get().records();
            found.addObject().put("offset", id.offset()).put("epoch", id.epoch()).put("bytes", bytes(content.buffer()));
        }
        ArrayNode log = moved.putArray("log");
        for (long at = disk.log().startOffset(); at < disk.log().endOffset().offset(); ) {
            Records read = LockstepLogs.read(disk, at);
            log.add(bytes(((MemoryRecords) read).buffer()));
            for (RecordBatch batch : read.batches()) {
                at = batch.nextOffset();
            }
        }
    }

    /** Writes the snapshots and batches of another process to an empty disk. */
    static void readDisk(LockstepDisk.InMemory disk, JsonNode moved) throws Exception {
        MockLog log = disk.log();
        long start = moved.path("start").asLong();
        readSnapshots(log, moved, -1, start);
        if (start > 0) {
            log.truncateToLatestSnapshot();
        }
        for (JsonNode batches : moved.path("log")) {
            log.appendAsFollower(MemoryRecords.readableRecords(ByteBuffer.wrap(batches.binaryValue())), Integer.MAX_VALUE);
        }
        readSnapshots(log, moved, start, Long.MAX_VALUE);  // earlier, an empty log would take their end for its own
        log.flush(true);
    }

    private static void readSnapshots(MockLog log, JsonNode moved, long after, long to) throws Exception {
        for (JsonNode snapshot : moved.path("snapshots")) {
            OffsetAndEpoch id = new OffsetAndEpoch(snapshot.path("offset").asLong(), snapshot.path("epoch").asInt());
            if (after < id.offset() && id.offset() <= to) {
                try (RawSnapshotWriter writer = log.createNewSnapshotUnchecked(id).get()) {
                    writer.append(MemoryRecords.readableRecords(ByteBuffer.wrap(snapshot.path("bytes").binaryValue())));
                    writer.freeze();
                }
            }
        }
    }

    private static byte[] bytes(ByteBuffer found) {
        byte[] bytes = new byte[found.remaining()];
        found.duplicate().get(bytes);
        return bytes;
    }

    private static void add(RecordBatch batch, ArrayNode batches) {
        ObjectNode node = batches.addObject();
        node.put("base", batch.baseOffset()).put("next", batch.nextOffset()).put("epoch", batch.partitionLeaderEpoch());
        ArrayNode records = node.putArray("records");
        for (var record : batch) {
            if (!batch.isControlBatch()) {
                records.addObject().put("data", text(record.value()));
                continue;
            }
            ControlRecordType type = ControlRecordType.parse(record.key());
            switch (type) {
                case LEADER_CHANGE -> records.addObject()
                    .put("leader", ControlRecordUtils.deserializeLeaderChangeMessage(record).leaderId());
                case KRAFT_VERSION -> records.addObject()
                    .put("version", ControlRecordUtils.deserializeKRaftVersionRecord(record).kRaftVersion());
                case KRAFT_VOTERS -> records.addObject().set("voters", LockstepJson.voters(
                    VoterSet.fromVotersRecord(ControlRecordUtils.deserializeVotersRecord(record))));
                default -> records.addObject().put("other", type.name());
            }
        }
    }

    private static ByteBuffer read(UnalignedFileRecords records) throws Exception {
        ByteBuffer bytes = ByteBuffer.allocate(records.sizeInBytes());
        FileChannel channel = LockstepInside.field(records, "channel");
        long position = LockstepInside.field(records, "position");
        while (bytes.hasRemaining() && channel.read(bytes, position + bytes.position()) > 0) { }
        return bytes.flip();
    }

    private static String text(ByteBuffer value) {
        return new String(bytes(value), StandardCharsets.UTF_8);
    }
}
