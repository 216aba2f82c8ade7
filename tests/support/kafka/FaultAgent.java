import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.matcher.ElementMatchers;

/**
 * Puts a fault into Kafka's Raft client: -javaagent:JAR=FAULT,FILE.
 *
 * The fault is active while FILE.on exists. Each time that it changes an outcome, it adds a line to FILE.
 */
public final class FaultAgent {
    private record Change(String type, String method, int arguments, Class<?> advice) { }

    private static final String RAFT = "org.apache.kafka.raft.";
    private static final Map<String, List<Change>> FAULTS = Map.ofEntries(
        Map.entry("vote-not-written", List.of(
            new Change(RAFT + "FileQuorumStateStore", "writeElectionState", 2, VoteNotWritten.class))),
        Map.entry("vote-without-comparing-logs", List.of(
            new Change(RAFT + "QuorumState", "canGrantVote", 3, LogsNotCompared.class))),
        Map.entry("pre-vote-granted-by-follower", List.of(
            new Change(RAFT + "FollowerState", "canGrantVote", 3, PreVoteGranted.class))),
        Map.entry("high-watermark-ahead", List.of(
            new Change(RAFT + "LeaderState", "followersByDescendingFetchOffset", 0, WatermarkAhead.class))),
        Map.entry("truncation-not-done", List.of(
            new Change(RAFT + "internals.KafkaRaftLog", "truncateTo", 1, Skipped.class),
            new Change("kafka.raft.KafkaMetadataLog", "truncateTo", 1, Skipped.class))),  // until 4.2
        Map.entry("divergence-not-told", List.of(
            new Change(RAFT + "RaftLog", "validateOffsetAndEpoch", 2, DivergenceNotTold.class),
            new Change(RAFT + "ReplicatedLog", "validateOffsetAndEpoch", 2, DivergenceNotTold.class))),  // until 4.2
        Map.entry("voter-set-not-taken-over", List.of(
            new Change(RAFT + "internals.VoterSetHistory", "addAt", 2, Skipped.class))),
        Map.entry("old-epoch-accepted", List.of(
            new Change(RAFT + "KafkaRaftClient", "validateVoterOnlyRequest", 2, OldEpochAccepted.class))),
        Map.entry("observer-stands", List.of(
            new Change(RAFT + "QuorumState", "isVoter", 0, CountsAsVoter.class),
            new Change(RAFT + "QuorumState", "transitionToProspective", 0, Stands.class),
            new Change(RAFT + "internals.EpochElection", "recordVote", 2, NoError.class))),
        Map.entry("snapshot-without-voters", List.of(
            new Change("org.apache.kafka.snapshot.RecordsSnapshotWriter$Builder", "setVoterSet", 1, NoVoters.class))),
        Map.entry("removed-leader-stays", List.of(
            new Change(RAFT + "LeaderState", "requestResign", 0, Skipped.class))),
        Map.entry("leader-without-majority-stays", List.of(
            new Change(RAFT + "LeaderState", "timeUntilCheckQuorumExpires", 1, Stays.class))));

    private static Path acted;
    private static Path active;

    public static void premain(String arguments, Instrumentation instrumentation) {
        String[] words = arguments.split(",", 2);
        acted = Path.of(words[1]);
        active = Path.of(words[1] + ".on");
        AgentBuilder builder = new AgentBuilder.Default().disableClassFormatChanges()
            .with(AgentBuilder.Listener.StreamWriting.toSystemError().withErrorsOnly());
        for (Change change : FAULTS.get(words[0])) {
            ElementMatcher<MethodDescription> method = ElementMatchers.<MethodDescription>named(change.method)
                .and(ElementMatchers.takesArguments(change.arguments));
            builder = builder.type(ElementMatchers.named(change.type)).transform((type, description, loader, module, domain) ->
                type.visit(Advice.to(change.advice).on(method)));
        }
        builder.installOn(instrumentation);
    }

    /** Whether the fault is active. */
    public static boolean on() {
        return Files.exists(active);
    }

    /** Note that the fault changed an outcome. */
    public static synchronized void acts(String text) {
        try {
            Files.writeString(acted, System.currentTimeMillis() + " " + text + "\n",
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Exchange the replica that decides the high watermark with the one that is furthest ahead. */
    public static Object exchanged(Stream<?> replicas) {
        List<Object> list = new ArrayList<>(replicas.collect(Collectors.toList()));
        if (on() && !list.isEmpty()) {
            int middle = list.size() / 2;
            Object ahead = end(list.get(0));
            Object decisive = end(list.get(middle));
            if (!ahead.equals(decisive)) {
                acts("high watermark from " + ahead + " instead of " + decisive);
                Collections.swap(list, 0, middle);
            }
        }
        return list.stream();
    }

    private static Object end(Object replica) {
        try {
            Field field = replica.getClass().getDeclaredField("endOffset");
            field.setAccessible(true);
            return field.get(replica);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Return an answer that says nothing of a divergence. */
    public static Object undiverged(Object answer, long offset, int epoch) {
        if (!on() || !answer.toString().contains("DIVERGING")) {
            return answer;
        }
        try {
            acts("no divergence told at " + offset + " of epoch " + epoch + ": " + answer);
            Class<?> place = Class.forName("org.apache.kafka.server.common.OffsetAndEpoch");
            return answer.getClass().getMethod("valid", place)
                .invoke(null, place.getConstructor(long.class, int.class).newInstance(offset, epoch));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    public static final class Skipped {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(@Advice.Origin("#m") String method, @Advice.AllArguments Object[] arguments) {
            if (on()) {
                acts("skipped " + method + " " + java.util.Arrays.toString(arguments));
                return true;
            }
            return false;
        }
    }

    public static final class VoteNotWritten {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(@Advice.Argument(0) Object election) {
            if (on() && !election.toString().contains("votedKey=Optional.empty")) {
                acts("not written: " + election);
                return true;
            }
            return false;
        }
    }

    public static final class LogsNotCompared {
        @Advice.OnMethodEnter
        static boolean enter(@Advice.Argument(value = 1, readOnly = false) boolean upToDate) {
            boolean changed = !upToDate && on();
            if (changed) {
                upToDate = true;
            }
            return changed;
        }

        @Advice.OnMethodExit
        static void exit(@Advice.Enter boolean changed, @Advice.Argument(0) Object candidate, @Advice.Return boolean granted) {
            if (changed && granted) {
                acts("granted " + candidate + " a vote with an older log");
            }
        }
    }

    public static final class PreVoteGranted {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) Object candidate, @Advice.Argument(2) boolean isPreVote,
                @Advice.Return(readOnly = false) boolean granted) {
            if (!granted && isPreVote && on()) {
                granted = true;
                acts("granted " + candidate + " a pre-vote");
            }
        }
    }

    public static final class WatermarkAhead {
        @Advice.OnMethodExit
        static void exit(@Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object replicas) {
            replicas = exchanged((Stream<?>) replicas);
        }
    }

    public static final class DivergenceNotTold {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) long offset, @Advice.Argument(1) int epoch,
                @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object answer) {
            answer = undiverged(answer, offset, epoch);
        }
    }

    public static final class OldEpochAccepted {
        @Advice.OnMethodExit
        static void exit(@Advice.Argument(0) int remote, @Advice.Argument(1) int epoch,
                @Advice.Return(readOnly = false) Optional<?> error) {
            if (error.isPresent() && error.get().toString().equals("FENCED_LEADER_EPOCH") && on()) {
                error = Optional.empty();
                acts("accepted epoch " + epoch + " of " + remote);
            }
        }
    }

    public static final class CountsAsVoter {
        @Advice.OnMethodExit
        static void exit(@Advice.Return(readOnly = false) boolean voter) {
            if (!voter && on()) {
                voter = true;
            }
        }
    }

    public static final class Stands {
        @Advice.OnMethodExit
        static void exit() {
            if (on()) {
                acts("an observer stands");
            }
        }
    }

    public static final class NoError {
        @Advice.OnMethodExit(onThrowable = IllegalArgumentException.class)
        static void exit(@Advice.Thrown(readOnly = false) Throwable error) {
            if (error != null && on()) {
                error = null;
            }
        }
    }

    public static final class NoVoters {
        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(value = 0, readOnly = false) Optional<?> voters) {
            if (voters.isPresent() && on()) {
                acts("snapshot without " + voters);
                voters = Optional.empty();
            }
        }
    }

    public static final class Stays {
        @Advice.OnMethodExit
        static void exit(@Advice.Return(readOnly = false) long remaining) {
            if (remaining == 0 && on()) {
                remaining = 1_000;
                acts("stays leader without a majority");
            }
        }
    }
}
