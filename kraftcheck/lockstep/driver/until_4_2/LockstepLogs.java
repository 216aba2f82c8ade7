package org.apache.kafka.raft;

import java.nio.file.Path;

import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.snapshot.SnapshotReader;

/** Use of a client and its log in 4.1 and 4.2. */
final class LockstepLogs {
    private LockstepLogs() { }

    static MockLog log(LockstepDisk disk) {
        return (MockLog) disk.log();
    }

    /** Makes an empty disk of files; one read of its log returns at most `mostBatches` batches. */
    static LockstepDisk onFiles(Path folder, int id, Time time, int mostBatches) {
        throw new UnsupportedOperationException("kafka-raft has no log on disk before 4.3");
    }

    /** Reads the next part of a log, by one call. */
    static Records read(LockstepDisk disk, long at) {
        return log(disk).read(at, Isolation.UNCOMMITTED).records;
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
    }
}
