package org.apache.kafka.raft;

import java.nio.file.Path;

import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.snapshot.SnapshotReader;

/** Use of a client and its log from 4.3 on. */
final class LockstepLogs {
    private LockstepLogs() { }

    static RaftLog log(LockstepDisk disk) {
        return (RaftLog) disk.log();
    }

    /** Makes an empty disk of files; one read of its log returns at most `mostBatches` batches. */
    static LockstepDisk onFiles(Path folder, int id, Time time, int mostBatches) throws Exception {
        return new LockstepFiles(folder, id, time, mostBatches);
    }

    /** Reads the next part of a log, by one call. */
    static Records read(LockstepDisk disk, long at) {
        return log(disk).read(at, Isolation.UNCOMMITTED, Integer.MAX_VALUE).records;
    }

    static final class Listener extends LockstepParts.Listener {
        @Override
        public void handleLoadBootstrap(SnapshotReader<String> reader) {
            handleLoadSnapshot(reader);
        }
    }
}
