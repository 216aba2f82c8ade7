package org.apache.kafka.raft;

import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.snapshot.SnapshotReader;

/** How a client and its log are used from 4.3 on. */
final class LockstepLogs {
    private LockstepLogs() { }

    static RaftLog log(LockstepDisk disk) {
        return (RaftLog) disk.log();
    }

    /** Reads on in a log, as far as one call reads. */
    static Records read(LockstepDisk disk, long at) {
        return log(disk).read(at, Isolation.UNCOMMITTED, Integer.MAX_VALUE).records;
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
