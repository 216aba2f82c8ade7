package org.apache.kafka.raft;

import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.raft.internals.AddVoterHandlerState;
import org.apache.kafka.raft.internals.RemoveVoterHandlerState;

/** Private state of a Raft client: its timers, and the answers that it awaits. */
final class LockstepInside {
    private static final Map<String, AccessibleObject> KNOWN = new HashMap<>();

    private LockstepInside() { }

    /** Returns a private field, whose name may differ between versions of Kafka. */
    @SuppressWarnings("unchecked")
    static <V> V field(Object object, String... names) throws Exception {
        return (V) of(object, names).get(object);
    }

    static void set(Object object, String name, Object value) throws Exception {
        of(object, name).set(object, value);
    }

    private static Field of(Object object, String... names) throws Exception {
        String what = object.getClass().getName() + "." + names[0];
        Field found = (Field) KNOWN.get(what);
        for (int i = 0; found == null; i++) {
            try {
                found = object.getClass().getDeclaredField(names[i]);
                found.setAccessible(true);
                KNOWN.put(what, found);
            } catch (NoSuchFieldException missing) {
                if (i + 1 == names.length) {
                    throw missing;
                }
            }
        }
        return found;
    }

    private static Object ask(Object object, String name, Class<?> type, Object argument) throws Exception {
        String what = object.getClass().getName() + "." + name + "()";
        Method found = (Method) KNOWN.get(what);
        if (found == null) {
            found = object.getClass().getDeclaredMethod(name, type);
            found.setAccessible(true);
            KNOWN.put(what, found);
        }
        return found.invoke(object, argument);
    }

    /** Makes a timer expire now, without moving the clock. */
    static void expire(Object owner, String... names) throws Exception {
        Timer timer = field(owner, names);
        timer.updateAndReset(0);
    }

    static boolean isExpired(Object owner, long now, String... names) throws Exception {
        Timer timer = field(owner, names);
        timer.update(now);
        return timer.isExpired();
    }

    // Unfinished voter changes

    static Optional<AddVoterHandlerState> adding(LeaderState<?> leader) throws Exception {
        return field(changes(leader), "addVoterHandlerState");
    }

    static Optional<RemoveVoterHandlerState> removing(LeaderState<?> leader) throws Exception {
        return field(changes(leader), "removeVoterHandlerState");
    }

    /** The owner of voter changes: until 4.3, the leader itself. */
    private static Object changes(LeaderState<?> leader) throws Exception {
        try {
            return field(leader, "changeVoterState");
        } catch (NoSuchFieldException older) {
            return leader;
        }
    }

    // Connections

    private static Iterable<Object> connections(KafkaRaftClient<?> client) throws Exception {
        Map<String, Object> found = field(field(client, "requestManager"), "connections");
        return found.values();
    }

    private static boolean waits(Object connection) throws Exception {
        return field(connection, "state").toString().equals("AWAITING_RESPONSE");
    }

    /** Whether a connection of a client backs off after an answer with an error. */
    static boolean backsOff(KafkaRaftClient<?> client, long now) throws Exception {
        for (Object connection : connections(client)) {
            if ((boolean) ask(connection, "isBackingOff", long.class, now)) {
                return true;
            }
        }
        return false;
    }

    /** The correlation ids of the answers that a client awaits. */
    static List<Long> awaited(KafkaRaftClient<?> client) throws Exception {
        List<Long> found = new ArrayList<>();
        for (Object connection : connections(client)) {
            OptionalLong id = field(connection, "inFlightCorrelationId");
            if (id.isPresent() && waits(connection)) {
                found.add(id.getAsLong());
            }
        }
        found.sort(null);
        return found;
    }

    /** Times out the request of a client to a node. */
    static void timeOut(KafkaRaftClient<?> client, int node, long patience, long now) throws Exception {
        Map<String, Object> found = field(field(client, "requestManager"), "connections");
        Object connection = found.get(Integer.toString(node));
        if (connection != null && waits(connection)) {
            set(connection, "lastSendTimeMs", now - patience);
        }
    }

    /** Times out all requests of a client. */
    static void timeOut(KafkaRaftClient<?> client, long patience, long now) throws Exception {
        for (Object connection : connections(client)) {
            if (waits(connection)) {
                set(connection, "lastSendTimeMs", now - patience);
            }
        }
    }

    /** Makes a leader repeat BeginQuorumEpoch to one voter: only this voter seems not to have fetched for a long time. */
    static Map<LeaderState.ReplicaState, Long> forget(LeaderState<?> leader, int voter, long now) throws Exception {
        int patience = field(leader, "beginQuorumEpochTimeoutMs");
        Map<Integer, LeaderState.ReplicaState> states = field(leader, "voterStates");
        Map<LeaderState.ReplicaState, Long> before = new HashMap<>();
        for (Map.Entry<Integer, LeaderState.ReplicaState> entry : states.entrySet()) {
            before.put(entry.getValue(), field(entry.getValue(), "lastFetchTimestamp"));
            set(entry.getValue(), "lastFetchTimestamp", entry.getKey() == voter ? now - patience : now);
        }
        expire(leader, "beginQuorumEpochTimer");
        return before;
    }

    static void remember(Map<LeaderState.ReplicaState, Long> before) throws Exception {
        for (Map.Entry<LeaderState.ReplicaState, Long> entry : before.entrySet()) {
            set(entry.getKey(), "lastFetchTimestamp", entry.getValue());
        }
    }

    /** Times out the voter change that a leader handles, and its request to the new voter. */
    static void expireOperation(KafkaRaftClient<?> client, long patience, long now) throws Exception {
        LeaderState<?> leader = client.quorum().leaderStateOrThrow();
        Optional<AddVoterHandlerState> adding = adding(leader);
        if (adding.isPresent()) {
            expire(adding.get(), "timeout");
            timeOut(client, adding.get().voterKey().id(), patience, now);
        }
        if (removing(leader).isPresent()) {
            expire(removing(leader).get(), "timeout");
        }
    }
}
