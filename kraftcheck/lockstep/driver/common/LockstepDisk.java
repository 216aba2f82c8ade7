package org.apache.kafka.raft;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/** The persistent data of a replica: a log, snapshots and the file quorum-state. */
interface LockstepDisk {
    TopicPartition PARTITION = new TopicPartition("__cluster_metadata", 0);

    /** The log, until the disk is reopened; `LockstepLogs.log` gives it the type that it has in this version of Kafka. */
    Object log();

    /** The object of Kafka that holds log and snapshots. */
    default Object own() {
        return log();
    }

    QuorumStateStore store();

    /** The end offset of the flushed log, which survives a power failure. */
    long firstUnflushedOffset() throws Exception;

    /** Reads the disk again after the process has ended; with `whole`, no written data is lost. */
    void reopen(boolean whole) throws Exception;

    /** Erases the disk. */
    void wipe() throws Exception;

    /** A disk in memory, with the log of Kafka's own tests. */
    final class InMemory implements LockstepDisk {
        private final MockLog log = new MockLog(PARTITION, Uuid.METADATA_TOPIC_ID, LockstepWire.logContext());
        final LockstepParts.Ballot ballot = new LockstepParts.Ballot();

        @Override
        public MockLog log() {
            return log;
        }

        @Override
        public QuorumStateStore store() {
            return ballot;
        }

        @Override
        public long firstUnflushedOffset() {
            return log.firstUnflushedOffset();
        }

        @Override
        public void reopen(boolean whole) {
            if (whole) {
                log.flush(true);
            }
            log.reopen();
        }

        @Override
        public void wipe() { }
    }
}
