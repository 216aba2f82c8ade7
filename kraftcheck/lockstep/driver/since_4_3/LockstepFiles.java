package org.apache.kafka.raft;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.raft.internals.KafkaRaftLog;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** A disk of files: Kafka's own log, its snapshots and its file quorum-state. */
final class LockstepFiles implements LockstepDisk {
    private static final long NEVER = Long.MAX_VALUE / 2;  // neither the clock nor the size rolls or cleans a log
    private static final int BATCH_LENGTH = 8;  // where in a batch its length is, which counts what comes after it

    private final Path folder;
    private final int id;
    private final Time time;
    private final int mostBatches;
    private KafkaRaftLog log;
    private RaftLog shown;

    /** Makes an empty disk; one read of a log returns at most `mostBatches` batches, or all for 0. */
    LockstepFiles(Path folder, int id, Time time, int mostBatches) throws IOException {
        this.folder = Files.createDirectories(folder.resolve(PARTITION.toString()));
        this.id = id;
        this.time = time;
        this.mostBatches = mostBatches;
        open();
    }

    private void open() throws IOException {
        log = KafkaRaftLog.createLog(PARTITION, Uuid.METADATA_TOPIC_ID, folder.toFile(), time, new Idle(),
            new MetadataLogConfig(new AbstractConfig(MetadataLogConfig.CONFIG_DEF, Map.of(
                MetadataLogConfig.METADATA_LOG_SEGMENT_MILLIS_CONFIG, NEVER,
                MetadataLogConfig.METADATA_MAX_RETENTION_MILLIS_CONFIG, -1L,
                MetadataLogConfig.METADATA_MAX_RETENTION_BYTES_CONFIG, -1L), false)), id);
        shown = (RaftLog) Proxy.newProxyInstance(getClass().getClassLoader(), new Class<?>[] {RaftLog.class}, this::call);
    }

    private Object call(Object self, Method method, Object[] arguments) throws Throwable {
        try {
            Object found = method.invoke(log, arguments);
            return found instanceof LogFetchInfo read && arguments[1] == Isolation.UNCOMMITTED ? sendable(read) : found;
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }

    /** The records read, as a server sends them: bytes, not a place in a file. */
    private LogFetchInfo sendable(LogFetchInfo read) throws IOException {
        int size = 0;
        int batches = 0;
        for (RecordBatch batch : read.records.batches()) {
            if (mostBatches == 0 || batches < mostBatches) {
                size += batch.sizeInBytes();
                batches += 1;
            }
        }
        Records records = read.records;
        if (records instanceof FileRecords file) {
            ByteBuffer bytes = ByteBuffer.allocate(size);
            file.readInto(bytes, 0);
            records = MemoryRecords.readableRecords(bytes);
        }
        return new LogFetchInfo(records, read.startOffsetMetadata);
    }

    @Override
    public RaftLog log() {
        return shown;
    }

    @Override
    public Object own() {
        return log;
    }

    @Override
    public QuorumStateStore store() {
        return new FileQuorumStateStore(new File(folder.toFile(), FileQuorumStateStore.DEFAULT_FILE_NAME));
    }

    private UnifiedLog unified() throws Exception {
        return LockstepInside.field(log, "log");
    }

    @Override
    public long firstUnflushedOffset() throws Exception {
        return unified().recoveryPoint();
    }

    @Override
    public void reopen(boolean whole) throws Exception {
        long flushed = firstUnflushedOffset();
        long start = log.startOffset();
        log.close();
        if (!whole) {
            cut(flushed);
        }
        open();
        clean(start);
    }

    /** Deletes the log before its former start again: the driver decides when to clean it, and a restart undoes that. */
    private void clean(long start) throws Exception {
        Map<OffsetAndEpoch, ?> snapshots = LockstepInside.field(log, "snapshots");
        for (OffsetAndEpoch snapshot : List.copyOf(snapshots.keySet())) {
            if (snapshot.offset() == start && log.startOffset() < start) {
                log.updateHighWatermark(new LogOffsetMetadata(start));
                log.deleteBeforeSnapshot(snapshot);
            }
        }
    }

    /** Removes from the files the batches from an offset on, as if they had never been written. */
    private void cut(long from) throws IOException {
        try (Stream<Path> found = Files.list(folder)) {
            for (Path segment : (Iterable<Path>) found.filter(path -> path.toString().endsWith(".log"))::iterator) {
                try (RandomAccessFile file = new RandomAccessFile(segment.toFile(), "rw")) {
                    long at = 0;
                    while (at < file.length()) {
                        file.seek(at);
                        if (file.readLong() >= from) {
                            file.setLength(at);
                            break;
                        }
                        file.seek(at + BATCH_LENGTH);
                        at += BATCH_LENGTH + Integer.BYTES + file.readInt();
                    }
                }
            }
        }
    }

    @Override
    public void wipe() throws Exception {
        log.close();
        List<Path> all;
        try (Stream<Path> found = Files.walk(folder.getParent())) {
            all = found.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path path : all) {
            Files.delete(path);
        }
    }

    /** A scheduler that runs nothing: Kafka's background work, deleting files, is invisible to a replica. */
    private static final class Idle implements Scheduler {
        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            return new Never();
        }

        @Override
        public void resizeThreadPool(int size) { }
    }

    private static final class Never extends CompletableFuture<Void> implements ScheduledFuture<Void> {
        @Override
        public long getDelay(TimeUnit unit) {
            return NEVER;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }
}
