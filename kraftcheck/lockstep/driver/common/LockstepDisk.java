package org.apache.kafka.raft;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/** What a replica keeps when its process ends: a log, snapshots and the file quorum-state. */
interface LockstepDisk {
    TopicPartition PARTITION = new TopicPartition("__cluster_metadata", 0);

    /** The log, until the disk is reopened; `LockstepLogs.log` gives it the type that it has in this version of Kafka. */
    Object log();

    QuorumStateStore store();

    /** The end of what no power failure can take away. */
    long firstUnflushedOffset() throws Exception;

    /** Reads again what is there after the process has ended; `whole` where nothing that was written is lost. */
    void reopen(boolean whole) throws Exception;

    /** Throws everything away. */
    void wipe() throws Exception;

    /** A disk in memory: the log is the one of Kafka's own tests. */
    final class InMemory implements LockstepDisk {
        private final MockLog log = new MockLog(PARTITION, Uuid.METADATA_TOPIC_ID, LockstepWire.logContext());
        private final QuorumStateStore store = new LockstepParts.Ballot();

        @Override
        public MockLog log() {
            return log;
        }

        @Override
        public QuorumStateStore store() {
            return store;
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
