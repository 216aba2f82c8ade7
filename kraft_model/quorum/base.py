"""Base of `quorum`: voter sets, majorities, constants, `Init`, steps, fetches, the high watermark.

`QuorumVoterSets` defines voters and majorities in one place, for a design change to override. Elections, the high
watermark, check quorum, voter changes and the properties call its methods. A replica keeps the voter set in use
(`Replica.voters`); an entry of a voter set may be a subclass of `Voter` with further fields.

The model has no clocks: a timer may expire whenever it runs, and safety must not depend on timing. Progress does depend
on it: if every response comes after its timeout, the quorum makes no progress. With TimelyFetches a fetch timer expires
only if the leader is gone or cut off. A request is then sent again only if its receiver is gone or messages are lost
(MaxLosses): see `QuorumBase.is_answered`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import chain, combinations
from typing import ClassVar

from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    ENDED_MODES,
    SYMBOL_TYPES,
    UNKNOWN_DIRECTORY,
    Admin,
    AdminResponse,
    Answered,
    Answers,
    Change,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    Key,
    LeaderResponse,
    Mode,
    Nil,
    Operation,
    PreVotes,
    Replica,
    Shared,
    UpdateVoterRequest,
    UpdateVoterResponse,
    Voter,
    VoterAdded,
    VoteRequest,
    VoterRemoved,
    Voters,
    message_group_of,
)
from kraftcheck.kraft_model.quorum.rules import (
    Log,
    VoterSet,
    end_position,
    epoch_start,
    follower_replica,
    last_epoch,
    last_kraft_version,
    matches_voter,
    matching_voter,
    normalized_voter_set_pair,
    replica_ended_by_exception,
    replica_keys,
    resigned_replica,
    restarted_replica,
    unattached_replica,
    voter_endpoint_of_host,
)
from kraftcheck.spec import (
    Bag,
    ConstantError,
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    Step,
    bound,
    constant,
    hide,
    ordered,
    projection,
)


class QuorumVoterSets(Protocol):
    # Voter sets

    def voters_after(self, voters: VoterSet, record: Record) -> VoterSet | None:
        """Return the voter set after a log record; None if the record does not change it.

        A VotersRecord holds the entire set (KIP-853, "VotersRecord"); a record of the draft changes the preceding set.
        """
        if isinstance(record, Voters):
            return record.voters
        if isinstance(record, VoterAdded):
            return voters | {record.voter}
        if isinstance(record, VoterRemoved):
            return frozenset(voter for voter in voters if voter.key != record.voter)
        return None

    def voter_sets(self, log: Log, otherwise: VoterSet = frozenset()) -> list[tuple[int, VoterSet]]:
        """Return every voter set of a log in order, each with the end offset of the batch that sets it."""
        found: list[tuple[int, VoterSet]] = []
        current = otherwise
        for offset, batch in enumerate(log, start=1):
            for record in batch.records:
                after = self.voters_after(current, record)
                if after is not None:
                    current = after
                    found.append((offset, current))
        return found

    def voters_in(self, log: Log, otherwise: VoterSet) -> VoterSet:
        """Return the voter set at the end of a log or snapshot, committed or not."""
        sets = self.voter_sets(log, otherwise)
        return sets[-1][1] if sets else otherwise

    def last_voters_record(self, log: Log) -> int:
        """Return the end offset of the last batch that sets the voters; 0 if no batch sets them."""
        sets = self.voter_sets(log)
        return sets[-1][0] if sets else 0

    # Voters

    def is_voter(self, me: Replica) -> bool:
        """Return whether a replica is in the voter set that it uses, by id and directory id (KIP-853, "Key terms")."""
        return matching_voter(me.voters, me.key) is not None

    def others(self, me: Replica) -> list[Key]:
        """Return the voters other than this replica, in canonical order."""
        return [voter.key for voter in ordered(me.voters) if not matches_voter(voter.key, me.key)]

    def own_votes(self, me: Replica) -> frozenset[Key]:
        """Return the set of the replica's voter key, which stands for its vote for itself; empty for an observer."""
        return frozenset(voter.key for voter in me.voters if matches_voter(voter.key, me.key))

    # Majorities

    def is_majority(self, voters: VoterSet, group: Collection[Key]) -> bool:
        """Return whether a group holds a majority of a voter set, enough to elect a leader or to commit."""
        return 2 * sum(voter.key in group for voter in voters) > len(voters)

    def majority_is_lost(self, voters: VoterSet, rejected: Collection[Key]) -> bool:
        """Return whether the voters that have not rejected are too few for a majority."""
        return not self.is_majority(voters, replica_keys(voters).difference(rejected))

    def majorities_meet(self, one: VoterSet, other: VoterSet) -> bool:
        """Return whether every majority of one voter set shares a member with every majority of another."""
        return _majorities_intersect(self.is_majority, *normalized_voter_set_pair(one, other))


@cache
def _majorities_intersect(
    is_majority: Callable[[VoterSet, Collection[Key]], bool], one: VoterSet, other: VoterSet
) -> bool:
    members = replica_keys(one)
    groups = chain.from_iterable(combinations(ordered(members), size) for size in range(len(members) + 1))
    return not any(
        is_majority(one, group) and is_majority(other, replica_keys(other).difference(group)) for group in groups
    )


OtherReplicas = Map[ModelValue, Replica | Nil]


class QuorumBase(QuorumVoterSets):
    """Constants, bounds and shared methods of `quorum`. A bound limits one kind of event; a bound of 0 rules it out."""

    hosts: frozenset[ModelValue] = constant("Hosts")
    initial_voters: frozenset[ModelValue] = constant("InitialVoters")
    standalone: frozenset[ModelValue] = constant("Standalone", default=frozenset())
    brokers: frozenset[ModelValue] = constant("Brokers", default=frozenset())
    bootstrap_servers: frozenset[ModelValue] = constant("BootstrapServers", default=frozenset())
    old_software: frozenset[ModelValue] = constant("OldSoftware", default=frozenset())
    without_pre_vote: frozenset[ModelValue] = constant("WithoutPreVote", default=frozenset())
    other_cluster: frozenset[ModelValue] = constant("OtherCluster", default=frozenset())
    initial_version: int = constant("KRaftVersion", default=1, at_least=0)
    fetch_limit: int = constant("FetchLimit", default=0, at_least=0)
    plain_answers: bool = constant("PlainAnswers", default=False)
    auto_join: bool = constant("AutoJoin", default=False)
    watch_pre_votes: bool = constant("WatchPreVotes", default=False)
    watch_answers: bool = constant("WatchAnswers", default=False)
    late_pre_votes: bool = constant("LatePreVotes", default=True)
    timely_fetches: bool = constant("TimelyFetches", default=False)

    pre_votes: int = bound("MaxPreVotes")
    elections: int = bound("MaxElections")
    appends: int = bound("MaxAppends", default=0)
    resignations: int = bound("MaxResignations", default=0)
    restarts: int = bound("MaxRestarts", default=0)
    crashes: int = bound("MaxCrashes", default=0)
    lost_disks: int = bound("MaxLostDisks", default=0)
    snapshots: int = bound("MaxSnapshots", default=0)
    added_voters: int = bound("MaxAddVoters", default=0)
    removed_voters: int = bound("MaxRemoveVoters", default=0)
    updated_voters: int = bound("MaxUpdateVoters", default=0)
    moved_endpoints: int = bound("MaxMovedEndpoints", default=0)
    upgrades: int = bound("MaxUpgrades", default=0)
    software_changes: int = bound("MaxSoftwareChanges", default=0)
    descriptions: int = bound("MaxDescriptions", default=0)
    refusals: int = bound("MaxRefusals", default=0)
    expirations: int = bound("MaxExpirations", default=0)
    cuts: int = bound("MaxCuts", default=0)
    losses: int = bound("MaxLosses", default=0)
    duplicates: int = bound("MaxDuplicates", default=0)
    retries: int = bound("MaxRetries", default=0)

    network = Bag(merges=True, groups=message_group_of, loses="losses", duplicates="duplicates")
    symbols = SYMBOL_TYPES
    symmetries = {"symmHosts": ("hosts",)}
    views = {
        "insistent": hide("retries"),
        "patient": hide("pre_votes", "retries"),
        "steady": hide("pre_votes", "retries", "expirations"),
        "persistent": hide("pre_votes", "retries", "updated_voters"),
    }
    replica_type: ClassVar[type[Replica]] = Replica
    shared_type: ClassVar[type[Shared]] = Shared
    """Record types of the initial state; a design change that adds fields names its own subclasses."""

    def check_constants(self) -> None:
        for name, hosts in (
            ("InitialVoters", self.initial_voters),
            ("Standalone", self.standalone),
            ("Brokers", self.brokers),
            ("BootstrapServers", self.bootstrap_servers),
            ("OldSoftware", self.old_software),
            ("WithoutPreVote", self.without_pre_vote),
            ("OtherCluster", self.other_cluster),
        ):
            if not hosts <= self.hosts:
                unknown = ", ".join(map(str, ordered(hosts - self.hosts)))
                raise ConstantError(name, f"expected some of Hosts, found {unknown}")
        version, voters = self.initial_version, self.initial_voters
        unheard = self.watch_answers and not self.plain_answers
        for name, is_wrong, expected in (
            ("InitialVoters", not voters, "at least one host"),
            ("Brokers", self.brokers & voters, "hosts that are not among InitialVoters"),
            ("Standalone", self.standalone and version == 0, "none where KRaftVersion is 0"),
            ("KRaftVersion", version not in (0, 1), f"0 or 1, found {version}"),
            ("OldSoftware", version == 1 and self.old_software & voters, "no initial voter where KRaftVersion is 1"),
            ("WatchAnswers", unheard, "PlainAnswers = TRUE, without which there are no answers"),
        ):
            if is_wrong:
                raise ConstantError(name, f"expected {expected}")

    # The start

    def formatted_voters(self, host: ModelValue, directory: int) -> frozenset[Voter]:
        """Return the voter set of a replica whose log has no VotersRecord.

        At kraft.version 1 it comes from the snapshot written by formatting, 00000000000000000000-0000000000.checkpoint;
        a disk formatted without initial controllers has none. At version 0 it is `controller.quorum.voters`, the same
        for every replica and without directory ids. KIP-853, "Bootstrapping with multiple voters", "Set of voters". A
        replica formatted with --standalone is its only voter ("Bootstrapping with one voter").
        """
        if self.initial_version == 0:
            return frozenset(Voter(Key(voter, UNKNOWN_DIRECTORY)) for voter in self.initial_voters)
        if host not in self.initial_voters or directory != 1:
            return frozenset()
        voters = {host} if host in self.standalone else self.initial_voters
        return frozenset(Voter(Key(voter, 1)) for voter in voters)

    def first_voters(self, me: Replica) -> frozenset[Voter]:
        """Return the voter set that a replica uses before the first VotersRecord of its log."""
        return self.formatted_voters(me.id, me.directory)

    def formatted_version(self, host: ModelValue, directory: int) -> int:
        """Return the kraft.version of a replica whose log has no KRaftVersionRecord."""
        return self.initial_version if self.formatted_voters(host, directory) else 0

    def formatted(self, host: ModelValue, directory: int, endpoint: int = 1) -> Replica:
        voters, version = self.formatted_voters(host, directory), self.formatted_version(host, directory)
        software = 0 if host in self.old_software else 1
        return self.replica_type(host, directory, endpoint, software, voters=voters, version=version)

    def initial(self) -> Iterator[State]:
        """Yield the initial state: every disk formatted, every process started, no epoch and no leader known."""
        replicas: list[Record] = [self.formatted(host, 1) for host in ordered(self.hosts)]
        yield self.start([*replicas, *([Admin(ADMIN)] if self.plain_answers else [])], self.shared_type())

    def receives(self, me: Record, message: Record) -> bool:
        """Whether a message reaches a process: it must run, and listen at the endpoint addressed."""
        if not isinstance(me, Replica):
            return True
        return me.mode not in ENDED_MODES and getattr(message, "address", 0) in (0, me.endpoint)

    # Steps

    def is_cut(self, me: Replica, source: ModelValue, shared: Shared) -> bool:
        """Whether the link to a replica is cut; messages in flight wait until the link heals."""
        return self.cuts > 0 and frozenset({me.id, source}) in shared.cuts

    def is_foreign(self, me: Replica, source: ModelValue) -> bool:
        """Whether the sender of a request belongs to another cluster.

        Requests carry the sender's cluster id; the error is INCONSISTENT_CLUSTER_ID (KIP-595, "Vote" and the other
        requests; KIP-630, "FetchSnapshot"; KIP-853 has the cluster id in AddVoter, RemoveVoter, UpdateVoter).
        """
        return (me.id in self.other_cluster) != (source in self.other_cluster)

    def without_leader(self, me: Replica) -> Replica:
        """Return the replica with epoch 0 and no leader, as responses to other clusters and old requests show it."""
        return me.but(epoch=0, leader=Nil.NIL, leader_endpoint=1)

    def taken(
        self, before: Replica, after: Replica, *messages: Record, consumes: bool = True, starts: bool = False
    ) -> Step:
        """Return the step from state `before` to `after` that sends `messages` and drops responses no longer awaited.

        A follower without a pending request sends its next fetch. A change of mode, epoch or disk, a restart (`starts`)
        and a failure drop the responses that the replica waited for. The end of a request drops the responses to it
        alone. A leader that loses leadership answers the client of its pending change.
        """
        gone: list[Record] = []
        starts = starts or after.mode in ENDED_MODES
        if not starts and before.mode is Mode.LEADER and after.mode is not Mode.LEADER:
            messages = (*messages, *self.last_answer(before, messages))
        if starts or (before.mode, before.epoch, before.directory) != (after.mode, after.epoch, after.directory):
            gone = self.dropped_with_mode(before)
        elif not isinstance(before.pending, Nil) and after.pending != before.pending:
            gone = self.responses_to_pending(before)
        after, requests = self.next_request(after)
        return Step(me=after, consumes=consumes).forget(*gone).send(*messages, *requests)

    def last_answer(self, me: Replica, sends: tuple[Record, ...]) -> list[Record]:
        """Return the response that fails a pending change when leadership is lost; none if `sends` already answers it.

        KIP-853, "AddVoter", "RemoveVoter", "UpdateVoter"; Kafka sends this error when LeaderState is closed.
        """
        change = me.change
        if not isinstance(change, Change):
            return []
        if any(isinstance(m, AdminResponse | UpdateVoterResponse) and m.dest == change.client for m in sends):
            return []
        return self.answer(me, change.operation, Error.NOT_LEADER_OR_FOLLOWER, change.client)

    def dropped_with_mode(self, me: Replica) -> list[Record]:
        """Return the messages in flight to drop when a replica leaves its mode, as Kafka resets its connections.

        The replica would ignore these responses. With LatePreVotes its requests still arrive, as in Kafka. Without
        LatePreVotes, pre-vote requests are dropped too: their only effect would be to raise a peer's epoch.
        """
        kinds = {Mode.CANDIDATE: ["vote"], Mode.LEADER: ["leader"], Mode.RESIGNED: ["leader"]}.get(me.mode, [])
        gone: list[Record] = [Answers(kind, me.id) for kind in kinds]
        if me.mode is Mode.PROSPECTIVE:
            gone.append(Answers("pre-vote", me.id))
            if not self.late_pre_votes:
                gone += [PreVotes(me.id, key.id) for key in self.others(me)]
        if not isinstance(me.pending, Nil):
            gone += self.responses_to_pending(me)
        if me.updating:
            gone.append(Answers("update", me.id))
        return gone

    def responses_to_pending(self, me: Replica) -> list[Record]:
        """Return the responses in flight to the pending request, and to earlier requests equal to it.

        Kafka matches responses by correlation id; here every response to an earlier request is dropped before a request
        is sent.
        """
        return [Answers("fetch", me.id)]

    def fails(self, me: Replica) -> Step:
        """Return the step in which a process ends on an illegal state, where Kafka throws an exception."""
        return self.taken(me, replica_ended_by_exception(me))

    def next_request(self, me: Replica) -> tuple[Replica, tuple[Record, ...]]:
        """Return the replica and its next request: a fetch if it follows and has no pending request, else none."""
        if me.mode is not Mode.FOLLOWER or not isinstance(me.pending, Nil) or isinstance(me.leader, Nil):
            return me, ()
        fetch = self.fetch_from(me, me.leader, me.leader_endpoint)
        return me.but(pending=fetch), (fetch,)

    def fetch_from(self, me: Replica, server: ModelValue, address: int) -> FetchRequest:
        """Return the fetch request for the batches after this replica's log end (KIP-595, "Fetch")."""
        return FetchRequest(me.epoch, len(me.log), last_epoch(me.log), me.directory, me.id, server, address)

    def after_restart(self, me: Replica) -> Replica:
        return restarted_replica(me, self.own_votes(me))

    # Logs

    def with_log(self, me: Replica, log: tuple, *, flushes: bool) -> Replica:  # type: ignore[type-arg]
        """Return the replica with another log, and with the voter set and kraft.version at the end of that log.

        KIP-853, "VotersRecord": a replica uses the last voter set of its log and snapshot irrespective of the high
        watermark. A truncation of the log reverts the voter set ("Internal listener").
        """
        return me.but(
            log=log,
            flushed=len(log) if flushes else min(me.flushed, len(log)),
            voters=self.voters_in(log, self.first_voters(me)),
            version=last_kraft_version(log, self.formatted_version(me.id, me.directory)),
        )

    # The high watermark

    def advertised_high_watermark(self, me: Replica) -> int:
        """Return the high watermark that a leader advertises: 0 until a batch of its epoch is committed (KIP-595)."""
        return me.high_watermark if me.high_watermark > epoch_start(me.log, me.epoch) else 0

    def replicated(self, me: Replica) -> int:
        """Return the offset up to which a majority of the voter set in use holds the leader's log.

        A leader that is not in the voter set does not count itself (KIP-853, "High watermark").
        """
        ends = {voter.key: self.known_end(me, voter) for voter in me.voters}
        held = [end for end in ends.values() if self.is_majority(me.voters, {k for k in ends if ends[k] >= end})]
        return max(held, default=0)

    def known_end(self, me: Replica, voter: Voter) -> int:
        """Return the log end offset of a voter as known to the leader."""
        return len(me.log) if matches_voter(voter.key, me.key) else me.offsets.get(voter.key, 0)

    def may_commit(self, me: Replica, end: int) -> bool:
        """Whether a leader may commit an offset: it must cover a batch of its own epoch (KIP-595, "Fetch")."""
        return end > epoch_start(me.log, me.epoch)

    def commits(self, me: Replica, shared: Shared) -> tuple[Replica, list[Record], dict[str, object]]:
        """Return the leader after a commit, if one is possible, the messages to send, and new values of shared fields.

        Committing the record of a voter change answers its client. A leader that is no longer a voter then resigns
        (KIP-853, "RemoveVoter", steps 5 to 7). The high watermark never decreases ("High watermark").
        """
        end = self.replicated(me)
        if not self.may_commit(me, end) or not self.moves_high_watermark(me, end):
            return me, [], {}
        after = me.but(high_watermark=end)
        sends: list[Record] = []
        puts: dict[str, object] = {}
        if end > len(shared.committed):
            puts["committed"] = me.log[:end]
        change = after.change
        if isinstance(change, Change) and 0 < change.offset <= end:
            sends += self.answer(after, change.operation, Error.NONE, change.client)
            after = after.but(change=Nil.NIL)
        if self.resigns_after_commit(me, after):
            sends += self.resignation_requests(after)
            after = resigned_replica(after)
        return after, sends, puts

    def messages_after_restart(self, me: Replica) -> list[Record]:
        """Return the messages that a restarted replica sends: EndQuorumEpoch if resigned, Vote if candidate (KIP-996).

        EndQuorumEpoch after a restart has no preferred successors.
        """
        if me.mode is Mode.CANDIDATE:
            return self.vote_requests(me, pre_vote=False)
        if me.mode is not Mode.RESIGNED:
            return []
        return self.end_quorum_epoch_requests(me, ())

    def end_quorum_epoch_requests(self, me: Replica, preferred: tuple[Key, ...]) -> list[Record]:
        """Return EndQuorumEpoch for every other voter (KIP-595, "EndQuorumEpoch")."""
        peers = self.others(me)
        return [
            EndQuorumEpochRequest(me.epoch, preferred, me.id, k.id, voter_endpoint_of_host(me, k.id)) for k in peers
        ]

    def vote_requests(self, me: Replica, *, pre_vote: bool) -> list[Record]:
        """Return Vote for every other voter (KIP-595, "Vote"; KIP-996 for pre-votes)."""
        end = end_position(me.log)
        return [
            VoteRequest(
                me.epoch,
                pre_vote,
                me.key,
                key,
                end.epoch,
                end.offset,
                me.id,
                key.id,
                voter_endpoint_of_host(me, key.id),
            )
            for key in self.others(me)
        ]

    def moves_high_watermark(self, me: Replica, end: int) -> bool:
        """Whether the leader adopts an offset as its high watermark: it must be higher than the old one."""
        return end > me.high_watermark

    def resigns_after_commit(self, before: Replica, after: Replica) -> bool:
        """Whether the voter set without this leader is now committed (KIP-853, "RemoveVoter", step 7)."""
        return not self.is_voter(after) and self.last_voters_record(after.log) <= after.high_watermark

    def resignation_requests(self, me: Replica) -> list[Record]:
        """Return EndQuorumEpoch for every other voter, with successors by fetch offset (KIP-595, "EndQuorumEpoch")."""
        preferred = tuple(sorted(self.others(me), key=lambda key: -me.offsets.get(key, 0)))
        return self.end_quorum_epoch_requests(me, preferred)

    def answer(self, me: Replica, operation: Operation, error: Error, client: ModelValue) -> list[Record]:
        """Return the response to the client of an operation; administrators receive one only with PlainAnswers."""
        asked = me.change.asked if isinstance(me.change, Change) and me.change.operation is operation else Nil.NIL
        if isinstance(asked, UpdateVoterRequest):
            return [self.update_answer(me, error, asked)]
        if client == ADMIN and not self.plain_answers:
            return []
        if isinstance(asked, Nil) and (operation, error) == (Operation.UPDATE_FEATURES, Error.NONE):
            asked = me.version  # the requested version is already in use
        about = self.answered(me, asked) if self.watch_answers and client == ADMIN else Nil.NIL
        return [AdminResponse(operation, error, me.id, client, about)]

    def answered(self, me: Replica, asked: Key | int | Nil) -> Answered:
        """Return a history record of a replica's state as it answers a change, for properties only."""
        waits = max(epoch_start(me.log, me.epoch) + 1, self.last_voters_record(me.log)) > me.high_watermark
        busy = waits or isinstance(me.change, Change)
        return Answered(asked, me.mode, me.version, replica_keys(me.voters), busy)

    def update_answer(self, me: Replica, error: Error, request: UpdateVoterRequest) -> UpdateVoterResponse:
        shown = self.endpoint_shown(me)
        return UpdateVoterResponse(me.epoch, me.leader, error, request, me.id, request.source, shown)

    def epoch_error(self, me: Replica, epoch: int) -> Error:
        """Check that a replica leads the epoch of a request; return the error, NONE if the replica leads it."""
        if epoch < me.epoch:
            return Error.FENCED_LEADER_EPOCH
        if epoch > me.epoch:
            return Error.UNKNOWN_LEADER_EPOCH
        return Error.NONE if me.mode is Mode.LEADER else Error.NOT_LEADER_OR_FOLLOWER

    def learn(self, me: Replica, leader: ModelValue | Nil, epoch: int, endpoint: int) -> Replica:
        """Return the replica after a request or an error names `epoch`, and perhaps the leader of that epoch.

        An older epoch changes nothing. Within its epoch, the replica follows a leader that was unknown, or whose
        endpoint was, as after a restart (KIP-996). It fails if the message contradicts the leader that it knows, or
        names itself although it does not lead (`KafkaRaftClient.maybeTransition`).
        """
        if epoch < me.epoch:
            return me
        if not self.is_consistent(me, leader, epoch):
            return replica_ended_by_exception(me)
        if isinstance(leader, Nil):
            return unattached_replica(me, epoch) if epoch > me.epoch else me
        endpoint = endpoint or voter_endpoint_of_host(me, leader)
        if epoch > me.epoch or isinstance(me.leader, Nil) or me.leader_endpoint == 0 < endpoint:
            return self.follow(me, leader, epoch, endpoint)
        return me

    def is_consistent(self, me: Replica, leader: ModelValue | Nil, epoch: int) -> bool:
        """Whether a leader named by a message is consistent with `me` (`KafkaRaftClient.hasConsistentLeader`)."""
        if leader == me.id:
            return me.mode is Mode.LEADER
        return epoch != me.epoch or isinstance(leader, Nil) or isinstance(me.leader, Nil) or leader == me.leader

    def follow(self, me: Replica, leader: ModelValue, epoch: int, endpoint: int) -> Replica:
        """Return the replica as follower; it fails without an endpoint of the leader, or if it would follow itself.

        The endpoint is that of the message, else that of the voter set (`QuorumState.transitionToFollower`).
        """
        endpoint = endpoint or voter_endpoint_of_host(me, leader)
        return (
            replica_ended_by_exception(me)
            if endpoint == 0 or leader == me.id
            else follower_replica(me, leader, epoch, endpoint)
        )

    def common_response(self, me: Replica, response: LeaderResponse) -> tuple[Replica, bool]:
        """Return the replica after the fields common to all responses, and whether the response is fully handled.

        KIP-595, "Leader Election and Discovery"; Kafka does this before it reads the rest of a response.
        INVALID_REQUEST is an illegal state (`KafkaRaftClient.maybeHandleCommonResponse`).
        """
        error, leader, epoch = response.error, response.leader, response.epoch
        if epoch < me.epoch or error is Error.UNKNOWN_LEADER_EPOCH:
            return me, True
        if epoch > me.epoch or error in (Error.FENCED_LEADER_EPOCH, Error.NOT_LEADER_OR_FOLLOWER):
            return self.learn(me, leader, epoch, response.endpoint), True
        dealt = error not in (Error.NONE, Error.UNSUPPORTED_VERSION, Error.SNAPSHOT_NOT_FOUND)
        if isinstance(me.leader, Nil) and not isinstance(leader, Nil):
            return self.follow(me, leader, epoch, response.endpoint), dealt
        return (replica_ended_by_exception(me), True) if error is Error.INVALID_REQUEST else (me, dealt)

    def endpoint_shown(self, me: Replica) -> int:
        """Return the leader's endpoint for a response; 0 if it is unknown."""
        return me.endpoint if me.leader == me.id else me.leader_endpoint

    @projection
    def bystander(self, me: Replica | Admin) -> Replica | Nil:
        """Return the fields of a replica that peers read: all with WatchPreVotes, few with TimelyFetches, else Nil."""
        if not isinstance(me, Replica):
            return Nil.NIL
        if self.watch_pre_votes or not self.timely_fetches:
            return me if self.watch_pre_votes else Nil.NIL
        if me.mode in ENDED_MODES:
            return Nil.NIL
        seen = self.replica_type(me.id, endpoint=me.endpoint)
        return seen.but(mode=me.mode, epoch=me.epoch) if me.mode is Mode.LEADER else seen

    def is_reached(self, me: Replica, server: ModelValue, address: int, shared: Shared, seen: OtherReplicas) -> bool:
        """Whether a running replica listens at an address over an uncut link; address 0 matches any endpoint."""
        found = seen.get(server, Nil.NIL)
        if not isinstance(found, Replica) or self.is_cut(me, server, shared):
            return False
        return address in (0, found.endpoint)

    def is_served(self, me: Replica, shared: Shared, seen: OtherReplicas) -> bool:
        """Whether a follower's leader still leads the follower's epoch and is reachable."""
        if not self.timely_fetches or isinstance(me.leader, Nil):
            return False
        if not self.is_reached(me, me.leader, me.leader_endpoint, shared, seen):
            return False
        leader = seen[me.leader]
        return isinstance(leader, Replica) and (leader.mode, leader.epoch) == (Mode.LEADER, me.epoch)

    def is_answered(self, me: Replica, shared: Shared, seen: OtherReplicas) -> bool:
        """Whether the response to the pending request must arrive: its receiver runs and messages are never lost."""
        request = me.pending
        if not self.timely_fetches or self.losses or isinstance(request, Nil):
            return False
        return self.is_reached(me, request.dest, request.address, shared, seen)

    def is_own_request_served(self, me: Replica, shared: Shared, seen: OtherReplicas) -> bool:
        """Whether the leader must answer a replica's own UpdateVoter, AddVoter or RemoveVoter."""
        return not self.losses and self.is_served(me, shared, seen)
