import java.lang.instrument.Instrumentation;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;

import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.message.EndQuorumEpochRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.raft.Endpoints;
import org.apache.kafka.raft.LeaderState;
import org.apache.kafka.raft.NetworkChannel;
import org.apache.kafka.raft.QuorumState;
import org.apache.kafka.raft.RaftResponse;
import org.apache.kafka.raft.ReplicaKey;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;
import org.apache.kafka.server.common.KRaftVersion;

/** Puts the suggested fixes of docs/reports into Kafka's Raft client: -javaagent:JAR=FIX,FIX... */
public final class FixAgent {
    private record Change(String type, String method, Class<?> advice) { }

    private static final String RAFT = "org.apache.kafka.raft.";
    private static final Map<String, List<Change>> FIXES = Map.ofEntries(
        Map.entry("truncation-resets-next-offset", List.of(
            new Change("internals.KRaftControlRecordStateMachine", "truncateNewEntries", NextOffsetReset.class))),
        Map.entry("snapshot-keeps-last-voters", List.of(
            new Change("internals.TreeMapLogHistory", "truncateOldEntries", LastBefore.class))),
        Map.entry("known-leader-is-followed", List.of(
            new Change("ElectionState", "isVotedCandidate", LeaderFirst.class))),
        Map.entry("removed-leader-resigns", List.of(
            new Change("internals.RemoveVoterHandler", "highWatermarkUpdated", Resigns.class))),
        Map.entry("unknown-acknowledgement-ignored", List.of(
            new Change("LeaderState", "addAcknowledgementFrom", OfVoters.class))),
        Map.entry("end-of-epoch-has-endpoints", List.of(
            new Change("KafkaRaftClient", "buildEndQuorumEpochRequest", WithEndpoints.class))),
        Map.entry("leader-without-endpoints-unknown", List.of(
            new Change("KafkaRaftClient", "maybeTransition", UnlessUnknown.class))),
        Map.entry("own-leadership-unknown", List.of(
            new Change("KafkaRaftClient", "maybeTransition", UnlessOwn.class))),
        Map.entry("endpoints-of-the-source", List.of(
            new Change("KafkaRaftClient", "handleFetchResponse", FromSource.class),
            new Change("KafkaRaftClient", "maybeHandleCommonResponse", Follows.class))),
        Map.entry("upgrade-answered-once-committed", List.of(
            new Change("KafkaRaftClient", "upgradeKRaftVersion", OnceCommitted.class))),
        Map.entry("committed-version-reported", List.of(
            new Change("KafkaRaftClient", "kraftVersion", OfCommitted.class))));

    public static void premain(String arguments, Instrumentation instrumentation) {
        AgentBuilder builder = new AgentBuilder.Default().disableClassFormatChanges()
            .with(AgentBuilder.Listener.StreamWriting.toSystemError().withErrorsOnly());
        for (String fix : arguments.split(",")) {
            for (Change change : FIXES.get(fix)) {
                builder = builder.type(ElementMatchers.named(RAFT + change.type)).transform(
                    (type, description, loader, module, domain) ->
                        type.visit(Advice.to(change.advice).on(ElementMatchers.named(change.method))));
            }
        }
        builder.installOn(instrumentation);
    }

    /** After a truncation, the log is read from its new end on. */
    public static final class NextOffsetReset {
        @Advice.OnMethodExit
        static void after(@Advice.Argument(0) long end, @Advice.FieldValue(value = "nextOffset", readOnly = false) long next) {
            next = Math.min(next, end);
        }
    }

    /** The entry at the end offset of a snapshot does not replace the one before it. */
    public static final class LastBefore {
        @Advice.OnMethodEnter
        static void before(@Advice.Argument(value = 0, readOnly = false) long offset) {
            offset -= 1;
        }
    }

    /** A replica that voted for itself, and knows the leader of that epoch, does not stand again. */
    public static final class LeaderFirst {
        @Advice.OnMethodExit
        static void after(@Advice.FieldValue("leaderId") OptionalInt leader, @Advice.Return(readOnly = false) boolean stands) {
            stands = stands && leader.isEmpty();
        }
    }

    /** A leader resigns once a voter set without it is committed, also if no request is pending. */
    public static final class Resigns {
        @Advice.OnMethodExit
        static void after(
            @Advice.Argument(0) LeaderState<?> leader,
            @Advice.FieldValue("partitionState") KRaftControlRecordStateMachine log,
            @Advice.FieldValue("localReplicaKey") Optional<ReplicaKey> me
        ) {
            boolean isVoter = me.isPresent() && log.lastVoterSet().isVoter(me.get());
            boolean isKnown = leader.highWatermark().isPresent() && log.lastVoterSetOffset().isPresent();
            if (!isVoter && isKnown && leader.highWatermark().get().offset() > log.lastVoterSetOffset().getAsLong()) {
                leader.requestResign();
            }
        }
    }

    /** An upgrade that is not committed yet is answered with a timeout; who asks again hears when it is. */
    public static final class OnceCommitted {
        @Advice.OnMethodExit
        static void after(
            @Advice.Argument(1) KRaftVersion wanted,
            @Advice.Argument(2) boolean validates,
            @Advice.FieldValue("quorum") QuorumState quorum,
            @Advice.FieldValue("partitionState") KRaftControlRecordStateMachine log
        ) {
            long high = quorum.highWatermark().isPresent() ? quorum.highWatermark().get().offset() : 0;
            if (!validates && log.kraftVersionAtOffset(high - 1).featureLevel() < wanted.featureLevel()) {
                throw new TimeoutException("The upgrade of kraft.version is appended, but not committed yet.");
            }
        }
    }

    /** The client reports the version of the committed log. */
    public static final class OfCommitted {
        @Advice.OnMethodExit
        static void after(
            @Advice.FieldValue("quorum") QuorumState quorum,
            @Advice.FieldValue("partitionState") KRaftControlRecordStateMachine log,
            @Advice.Return(readOnly = false) KRaftVersion version
        ) {
            long high = quorum.highWatermark().isPresent() ? quorum.highWatermark().get().offset() : 0;
            version = log.kraftVersionAtOffset(high - 1);
        }
    }

    /** An acknowledgement from a removed voter is ignored. */
    public static final class OfVoters {
        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean before(@Advice.Argument(0) int id, @Advice.FieldValue("voterStates") Map<Integer, ?> voters) {
            return !voters.containsKey(id);
        }
    }

    /** A resigned leader sends its endpoints. */
    public static final class WithEndpoints {
        @Advice.OnMethodExit
        static void after(
            @Advice.Return EndQuorumEpochRequestData request,
            @Advice.FieldValue("channel") NetworkChannel channel,
            @Advice.FieldValue("localListeners") Endpoints endpoints
        ) {
            InetSocketAddress address = endpoints.address(channel.listenerName()).orElseThrow();
            request.leaderEndpoints().add(new EndQuorumEpochRequestData.LeaderEndpoint()
                .setName(channel.listenerName().value()).setHost(address.getHostString()).setPort(address.getPort()));
        }
    }

    /** A leader whose endpoints are not known stays unknown. */
    public static final class UnlessUnknown {
        @Advice.OnMethodEnter
        static void before(
            @Advice.Argument(value = 0, readOnly = false) OptionalInt leader,
            @Advice.Argument(1) int epoch,
            @Advice.Argument(2) Endpoints endpoints,
            @Advice.FieldValue("quorum") QuorumState quorum
        ) {
            if (endpoints.isEmpty() && (epoch > quorum.epoch() || !quorum.hasLeader())) {
                leader = OptionalInt.empty();
            }
        }
    }

    /** A replica that is said to lead an epoch in which it does not lead does not know the leader. */
    public static final class UnlessOwn {
        @Advice.OnMethodEnter
        static void before(
            @Advice.Argument(value = 0, readOnly = false) OptionalInt leader,
            @Advice.FieldValue("quorum") QuorumState quorum
        ) {
            if (leader.isPresent() && leader.getAsInt() == quorum.localIdOrSentinel() && !quorum.isLeader()) {
                leader = OptionalInt.empty();
            }
        }
    }

    /** A response without an error comes from the leader: its endpoint is that of the source. */
    public static final class FromSource {
        @Advice.OnMethodEnter
        static void before(
            @Advice.Argument(0) RaftResponse.Inbound response,
            @Advice.FieldValue("partitionState") KRaftControlRecordStateMachine log
        ) {
            FetchResponseData data = (FetchResponseData) response.data();
            if (data.errorCode() == 0 && data.nodeEndpoints().isEmpty() && data.responses().size() == 1) {
                FetchResponseData.PartitionData partition = data.responses().get(0).partitions().get(0);
                int leader = partition.currentLeader().leaderId();
                if (partition.errorCode() == 0 && leader >= 0 && log.lastVoterSet().listeners(leader).isEmpty()) {
                    data.nodeEndpoints().add(new FetchResponseData.NodeEndpoint().setNodeId(leader)
                        .setHost(response.source().host()).setPort(response.source().port()));
                }
            }
        }
    }

    /** An unattached replica that knows the leader of its epoch follows it as soon as it has an endpoint of it. */
    public static final class Follows {
        @Advice.OnMethodEnter
        static void before(
            @Advice.Argument(0) Errors error,
            @Advice.Argument(1) OptionalInt leader,
            @Advice.Argument(2) int epoch,
            @Advice.Argument(3) Endpoints endpoints,
            @Advice.FieldValue("quorum") QuorumState quorum
        ) {
            boolean knows = quorum.isUnattached() && quorum.hasLeader() && epoch == quorum.epoch();
            if (knows && error == Errors.NONE && leader.isPresent() && !endpoints.isEmpty()) {
                quorum.transitionToFollower(epoch, leader.getAsInt(), endpoints);
            }
        }
    }
}
