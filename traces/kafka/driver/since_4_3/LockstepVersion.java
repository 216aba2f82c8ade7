package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.ControlRecordUtils;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.snapshot.SnapshotReader;

/** What differs between versions of Kafka: from 4.3 on. */
final class LockstepVersion {
    private LockstepVersion() { }

    static Map<String, Object> settings(boolean autoJoin) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("controller.quorum.auto.join.enable", autoJoin);
        return settings;
    }

    /** Adds what a log holds from its start on. */
    static void readLog(MockLog log, ArrayNode batches) {
        long at = log.startOffset();
        while (at < log.endOffset().offset()) {
            for (RecordBatch batch : log.read(at, Isolation.UNCOMMITTED, Integer.MAX_VALUE).records.batches()) {
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

    /** Gives an answer the empty records that a server would send in the place of none. */
    static void complete(ApiMessage message) {
        if (message instanceof FetchSnapshotResponseData answer) {
            for (FetchSnapshotResponseData.TopicSnapshot topic : answer.topics()) {
                for (FetchSnapshotResponseData.PartitionSnapshot partition : topic.partitions()) {
                    if (partition.unalignedRecords() == null) {
                        partition.setUnalignedRecords(MemoryRecords.EMPTY);
                    }
                }
            }
        }
    }

    private static void add(RecordBatch batch, ArrayNode batches) {
        ObjectNode node = batches.addObject();
        node.put("base", batch.baseOffset()).put("next", batch.nextOffset()).put("epoch", batch.partitionLeaderEpoch());
        ArrayNode records = node.putArray("records");
        for (Record record : batch) {
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
                case KRAFT_VOTERS -> records.addObject().set("voters", LockstepDriver.voters(
                    VoterSet.fromVotersRecord(ControlRecordUtils.deserializeVotersRecord(record))));
                default -> records.addObject().put("other", type.name());
            }
        }
    }

    private static String text(ByteBuffer value) {
        byte[] found = new byte[value.remaining()];
        value.duplicate().get(found);
        return new String(found, StandardCharsets.UTF_8);
    }

    /** A state machine that only reads on. */
    static final class Listener implements RaftClient.Listener<String> {
        @Override
        public void handleCommit(BatchReader<String> reader) {
            reader.close();
        }

        @Override
        public void handleLoadSnapshot(SnapshotReader<String> reader) {
            reader.close();
        }

        @Override
        public void handleLoadBootstrap(SnapshotReader<String> reader) {
            reader.close();
        }
    }
}
