package org.apache.kafka.raft;

import java.nio.file.Path;

import org.apache.kafka.common.record.Records;
import org.apache.kafka.common.utils.Time;

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

    static final class Listener extends LockstepParts.Listener { }
}
