package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.IntStream;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AddRaftVoterResponseData;
import org.apache.kafka.common.message.RemoveRaftVoterResponseData;
import org.apache.kafka.common.message.UpdateFeaturesResponseData;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;  // where records are from 4.3 on
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;

/** Properties of KRaft, checked on the state of all replicas after each step. */
final class WalkProperties {
    /** A batch of a log: its offsets, its epoch, and its records as text. */
    record Batch(long base, long next, int epoch, String records, Optional<VoterSet> voters, int kraftVersion) {
        @Override
        public String toString() {
            return "the batch [" + records + "] of epoch " + epoch;
        }
    }

    /** A change of which the administrator is told that it is done. */
    interface Change {
        boolean isIn(Collection<Batch> committed);
    }

    private final WalkQuorum quorum;
    private final Map<String, String> violations = new LinkedHashMap<>();  // by property, the first one
    private final TreeMap<Long, Batch> committed = new TreeMap<>();  // by base offset: what leaders have committed
    private final Map<Long, WalkReplica> committers = new TreeMap<>();
    private final Map<Integer, WalkReplica> leaders = new TreeMap<>();  // by epoch
    private final Map<Change, String> told = new LinkedHashMap<>();
    private Set<String> names = Set.of();

    WalkProperties(WalkQuorum quorum) {
        this.quorum = quorum;
    }

    void watch(String... names) {
        this.names = Set.of(names);
    }

    /** The violations, the latest first, in one line. */
    String violations() {
        List<String> found = new ArrayList<>(violations.values());
        Collections.reverse(found);
        return String.join("; ", found);
    }

    void check(int step) throws Exception {
        for (WalkReplica replica : quorum.replicas.values()) {
            if (!replica.dead) {
                check(replica, step);
            }
        }
        for (Map.Entry<Change, String> one : told.entrySet()) {
            if (!one.getKey().isIn(committed.values())) {
                violated("ToldIsKept", step, one.getValue() + ", which is not committed");
            }
        }
    }

    private void check(WalkReplica replica, int step) throws Exception {
        QuorumState state = replica.client.quorum();
        List<Batch> log = read(replica);
        long high = state.isLeader() ? replica.client.highWatermark().orElse(0) : replica.log.highWatermark().offset();
        for (Batch batch : log) {
            Batch other = committed.get(batch.base());
            if (batch.next() <= high && other != null && !other.equals(batch)) {
                violated("StateMachineSafety", step, "at offset " + batch.base() + " " + replica + " has committed " + batch
                    + ", and " + committers.get(batch.base()) + " " + other);
            } else if (batch.next() <= high && state.isLeader()) {
                committed.putIfAbsent(batch.base(), batch);
                committers.putIfAbsent(batch.base(), replica);
            }
        }
        int finalized = committed.values().stream().mapToInt(Batch::kraftVersion).max().orElse(0);
        int reported = replica.client.kraftVersion().featureLevel();
        if (reported > Math.max(quorum.kraftVersion, finalized)) {
            violated("FinalizedIsCommitted", step, replica + " reports kraft.version " + reported + ", which is not committed");
        }
        VoterSet used = used(replica);
        Optional<Batch> last = log.stream().filter(batch -> batch.voters().isPresent()).reduce((a, b) -> b);
        VoterSet expected = last.or(() -> lastBefore(replica.log.startOffset()))
            .flatMap(Batch::voters).orElse(replica.formattedVoters());
        if (!addresses(expected).equals(addresses(used))) {
            boolean sameIds = expected.voterIds().equals(used.voterIds());
            violated("LastVoterSetIsUsed", step, replica + " uses the voters " + (sameIds ? used : ids(used))
                + ", and the last ones of its snapshot and log are " + (sameIds ? expected : ids(expected)));
        }
        for (WalkReplica other : quorum.replicas.values()) {
            QuorumState its = other.client.quorum();
            boolean bothKnow = !other.dead && state.leaderId().isPresent() && its.leaderId().isPresent();
            if (bothKnow && state.epoch() == its.epoch() && !state.leaderId().equals(its.leaderId())) {
                violated("LeadersAreNamedAlike", step, replica + " knows n" + state.leaderId().getAsInt() + " as the leader of epoch "
                    + state.epoch() + ", and " + other + " knows n" + its.leaderId().getAsInt());
            }
        }
        if (state.isLeader()) {
            checkLeader(replica, state.epoch(), log, used, high, step);
        }
    }

    private void checkLeader(WalkReplica leader, int epoch, List<Batch> log, VoterSet used, long high, int step) {
        WalkReplica other = leaders.putIfAbsent(epoch, leader);
        if (other != null && other != leader) {
            violated("ElectionSafety", step, leader + " leads epoch " + epoch + ", and so did " + other);
        }
        boolean isOld = !committed.isEmpty() && epoch < committed.lastEntry().getValue().epoch();
        for (Batch batch : isOld ? List.<Batch>of() : committed.tailMap(leader.log.startOffset()).values()) {
            if (!log.contains(batch)) {
                violated("LeaderCompleteness", step, leader + " leads epoch " + epoch + " without " + batch + " at offset "
                    + batch.base() + ", which " + committers.get(batch.base()) + " has committed");
            }
        }
        long removed = log.stream().filter(batch -> batch.voters().isPresent()).mapToLong(Batch::next).max().orElse(0);
        if (!used.isVoter(leader.key()) && removed <= high) {
            violated("RemovedLeadersResign", step, leader + " leads epoch " + epoch + ", and is not in the committed voter set "
                + ids(used));
        }
    }

    /** Records what the administrator was told. */
    void told(WalkMessage response, Change change) {
        short error = response.data() instanceof UpdateFeaturesResponseData updated ? updated.errorCode()
            : response.data() instanceof AddRaftVoterResponseData added ? added.errorCode()
            : response.data() instanceof RemoveRaftVoterResponseData removed ? removed.errorCode() : -1;
        if (error == 0) {
            told.put(change, "n" + response.from() + " has answered " + response.kind() + " without an error");
        }
    }

    /** The change that UpdateFeatures asks for. */
    static Change upgraded(int version) {
        return batches -> batches.stream().anyMatch(batch -> batch.kraftVersion() >= version);
    }

    /** The change that AddVoter asks for: a replica with its `directory`-th disk is a voter. */
    static Change added(int id, int directory) {
        return batches -> batches.stream().flatMap(batch -> batch.voters().stream()).anyMatch(isVoter(id, directory));
    }

    /** The change that RemoveVoter asks for. */
    static Change removed(int id, int directory) {
        return batches -> {
            List<VoterSet> sets = batches.stream().flatMap(batch -> batch.voters().stream()).toList();
            return IntStream.range(1, sets.size()).anyMatch(i ->
                isVoter(id, directory).test(sets.get(i - 1)) && !isVoter(id, directory).test(sets.get(i)));
        };
    }

    private static Predicate<VoterSet> isVoter(int id, int directory) {
        return voters -> voters.voterKeys().contains(ReplicaKey.of(id, new Uuid(id, directory)));
    }

    void processEnds(WalkReplica replica, Throwable error, int step) {
        StackTraceElement place = error.getStackTrace()[0];
        for (StackTraceElement element : error.getStackTrace()) {
            if (element.getClassName().startsWith("org.apache.kafka.raft")) {
                place = element;
                break;
            }
        }
        String what = error.toString().replace('\n', ' ');
        violated("NobodyFails", step, "the process of " + replica + " ends: " + what + " (" + place + ")");
    }

    private void violated(String name, int step, String what) {
        if (names.contains(name)) {
            violations.putIfAbsent(name, "step " + step + " violates " + name + ": " + what);
        }
    }

    private Optional<Batch> lastBefore(long offset) {
        return committed.headMap(offset).values().stream().filter(batch -> batch.voters().isPresent()).reduce((a, b) -> b);
    }

    private static VoterSet used(WalkReplica replica) throws Exception {
        KRaftControlRecordStateMachine partition = WalkReplica.field(replica.client, "partitionState");
        return partition.lastVoterSet();
    }

    private static Map<ReplicaKey, Endpoints> addresses(VoterSet set) {
        Map<ReplicaKey, Endpoints> found = new HashMap<>();
        set.voterNodes().forEach(voter -> found.put(voter.voterKey(), voter.listeners()));
        return found;
    }

    private static String ids(VoterSet set) {
        Set<String> found = new TreeSet<>();
        set.voterIds().forEach(id -> found.add("n" + id));
        return "{" + String.join(", ", found) + "}";
    }

    private static List<Batch> read(WalkReplica replica) throws Exception {
        List<Batch> found = new ArrayList<>();
        long at = replica.log.startOffset();
        while (at < replica.log.endOffset().offset()) {
            for (RecordBatch batch : readAt(replica.log, at).records.batches()) {
                found.add(read(batch));
                at = batch.nextOffset();
            }
        }
        return found;
    }

    private static LogFetchInfo readAt(MockLog log, long at) throws Exception {
        for (var method : MockLog.class.getMethods()) {
            if (method.getName().equals("read")) {  // since 4.3 with a limit
                Object[] arguments = method.getParameterCount() == 2
                    ? new Object[]{at, Isolation.UNCOMMITTED} : new Object[]{at, Isolation.UNCOMMITTED, Integer.MAX_VALUE};
                return (LogFetchInfo) method.invoke(log, arguments);
            }
        }
        throw new NoSuchMethodException("MockLog.read");
    }

    private static Batch read(RecordBatch batch) {
        List<String> records = new ArrayList<>();
        VoterSet voters = null;
        int version = -1;
        for (var record : batch) {
            ControlRecordType type = batch.isControlBatch() ? ControlRecordType.parse(record.key()) : null;
            if (type == null) {
                ByteBuffer value = Objects.requireNonNull(record.value());
                byte[] bytes = new byte[value.remaining()];
                value.duplicate().get(bytes);
                records.add("data " + new String(bytes, java.nio.charset.StandardCharsets.UTF_8));
            } else if (type == ControlRecordType.LEADER_CHANGE) {
                records.add("LeaderChange n" + ControlRecordUtils.deserializeLeaderChangeMessage(record).leaderId());
            } else if (type == ControlRecordType.KRAFT_VERSION) {
                version = ControlRecordUtils.deserializeKRaftVersionRecord(record).kRaftVersion();
                records.add("KRaftVersion " + version);
            } else if (type == ControlRecordType.KRAFT_VOTERS) {
                voters = VoterSet.fromVotersRecord(ControlRecordUtils.deserializeVotersRecord(record));
                records.add("Voters " + ids(voters));
            } else {
                records.add(type.toString());
            }
        }
        return new Batch(batch.baseOffset(), batch.nextOffset(), batch.partitionLeaderEpoch(), String.join(", ", records),
            Optional.ofNullable(voters), version);
    }
}
