package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.FetchSnapshotRequestData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;  // where records are from 4.3 on; imported by name they fit one version only
import org.apache.kafka.server.common.OffsetAndEpoch;

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
        byte[] found = new byte[value.remaining()];
        value.duplicate().get(found);
        return new String(found, StandardCharsets.UTF_8);
    }
}
