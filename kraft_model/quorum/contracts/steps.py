"""Contracts of all steps and of internal steps: timers, leadership, commits, restarts, snapshots, retries."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.contracts.kip_rules import (
    are_fields_empty,
    becomes_candidate,
    endpoint_of_voter_id,
    endpoints_of_other_voters,
    gives_up_pre_vote,
    has_majority,
    has_uncommitted_voters,
    high_watermark_by_majority,
    is_same_replica,
    last_epoch_and_end_offset,
    must_defer_change,
    own_voter_key_as_set,
    reach_each_expected_voter_once,
    records_in_log,
    sends_next_fetch,
    sent_messages_of_type,
    voter_keys,
)
from kraftcheck.kraft_model.quorum.contracts.messages import MessageContracts
from kraftcheck.kraft_model.quorum.properties import FIELDS_LOST_AT_STOP
from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    ENDED_MODES,
    AddVoterRequest,
    AdminResponse,
    Answered,
    Answers,
    Batch,
    BeginQuorumEpochRequest,
    Change,
    Data,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchSnapshotRequest,
    Key,
    KRaftVersion,
    LeaderChange,
    LogRecord,
    Message,
    Mode,
    Nil,
    PreVotes,
    RemoveVoterRequest,
    Replica,
    Shared,
    Term,
    UpdateVoterRequest,
    UpdateVoterResponse,
    Voter,
    VoteRequest,
    Voters,
)
from kraftcheck.spec import ModelValue, Record, Step, step_invariant

BOUNDS_OF_PROCESS_STARTS = (
    *("restarts", "crashes", "lost_disks", "moved_endpoints", "software_changes"),
    *("overrides", "binaries", "listings"),
)
"""Bounds of the steps in which a process ends or starts; the last three are those of variants."""

RESPONSE_KIND_BY_MODE = {
    Mode.CANDIDATE: "vote",
    Mode.PROSPECTIVE: "pre-vote",
    Mode.LEADER: "leader",
    Mode.RESIGNED: "leader",
}
FIELDS_RESET_WITH_ROLE = ("rejected", "heard", "watched", "updating", "updated", "joining", "offsets")
"""Fields that are empty in a new role."""


class QuorumContracts(MessageContracts):
    """All contracts: of messages, of any step, of processes and their disks."""

    @step_invariant
    def messages_are_taken_once(
        self, before: Replica, after: Replica, message: Message, step: Step, shared: Shared
    ) -> bool:
        """A delivered message is consumed, and a cut link delivers none (KIP-595: a request is handled once)."""
        is_cut = self.cuts > 0 and frozenset({before.id, message.source}) in shared.cuts  # type: ignore[attr-defined]
        return step.consumes and not is_cut

    @step_invariant
    def new_roles_begin_afresh(self, before: Replica, after: Replica, step: Step) -> bool:
        """A replica in a new role counts no vote but its own, and keeps no response, offset or change of the old one.

        KIP-996, "Proposed Changes"; KIP-595, "Vote". Its vote lasts as long as its epoch (KAFKA-17641). The state on
        disk is the same in every role.
        """
        if (before.mode, before.epoch, before.directory) == (after.mode, after.epoch, after.directory):
            return True
        if (after.directory, after.mode in ENDED_MODES) != (before.directory, False):
            return True
        granted = own_voter_key_as_set(after) if after.mode in (Mode.PROSPECTIVE, Mode.CANDIDATE) else frozenset()
        forgot = (
            after.granted == granted
            and are_fields_empty(after, *FIELDS_RESET_WITH_ROLE)
            and isinstance(after.change, Nil)
        )
        known = after.mode is Mode.FOLLOWER or not after.fetched
        return (
            forgot and known and (after.voted == vote_after_role_change(before, after) or ends_or_starts_process(step))
        )

    # Messages

    @step_invariant
    def requests_say_what_is_so(self, before: Replica, after: Replica, step: Step) -> bool:
        """A request carries its sender's epoch, log end and key, and goes to a valid endpoint of its receiver.

        KIP-595, KIP-630 and KIP-853, schemas. A new round sends Vote to all other voters, and a new leader sends them
        BeginQuorumEpoch.
        """
        votes = sent_messages_of_type(step, VoteRequest)
        stands = after.mode in (Mode.PROSPECTIVE, Mode.CANDIDATE)
        is_new = ends_or_starts_process(step) or (before.mode, before.epoch) != (after.mode, after.epoch)
        last, size = last_epoch_and_end_offset(after.log)
        pre_vote = after.mode is Mode.PROSPECTIVE
        fields = after.epoch, pre_vote, after.key, last, size, after.id
        if not reach_each_expected_voter_once(votes, endpoints_of_other_voters(after) if is_new and stands else {}):
            return False
        if any((v.epoch, v.pre_vote, v.candidate, v.last_epoch, v.last_offset, v.source) != fields for v in votes):
            return False
        announced = all(self.is_so(after, one) for one in step.sent) and has_valid_leadership_announcements(
            before, after, step
        )
        return announced and has_valid_resignation_announcements(before, after, step)

    def is_so(self, me: Replica, message: Record) -> bool:
        """Whether a request has the fields and the receiver that the state of its sender requires."""
        if isinstance(message, VoteRequest | BeginQuorumEpochRequest):
            return message.voter in endpoints_of_other_voters(me) and message.voter.id == message.dest
        if isinstance(message, FetchRequest):
            return self.asks_for_what_follows(me, message)
        if isinstance(message, AddVoterRequest | RemoveVoterRequest):
            return not own_voter_key_as_set(me) and is_own_join_request_to_leader(me, message)
        if isinstance(message, UpdateVoterRequest):
            told = (message.epoch, message.voter, message.version, message.source, message.dest, message.address)
            own = (me.epoch, Voter(me.key, me.endpoint), me.software, me.id, me.leader, me.leader_endpoint)
            return told == own and bool(own_voter_key_as_set(me))
        return True

    def asks_for_what_follows(self, me: Replica, fetch: FetchRequest) -> bool:
        """Whether a replica's pending fetch starts at its log end, and goes to its leader or a bootstrap server."""
        known = (fetch.epoch, fetch.offset, fetch.last_epoch, fetch.directory, fetch.source)
        if (
            known != (me.epoch, len(me.log), last_epoch_and_end_offset(me.log)[0], me.directory, me.id)
            or me.pending != fetch
        ):
            return False
        to_leader = (fetch.dest, fetch.address) == (me.leader, me.leader_endpoint) and me.mode is Mode.FOLLOWER
        return to_leader or (fetch.dest in self.bootstrap_servers - {me.id} and fetch.address == 0)

    @step_invariant
    def answers_are_forgotten_with_the_role(self, before: Replica, after: Replica, step: Step) -> bool:
        """A replica in a new role drops exactly the responses to the requests of its old role.

        Kafka resets its connections at every transition (`KafkaRaftClient`). A follower whose request is over drops
        later responses to it, as Kafka does by correlation id.
        """
        is_new = changes_mode_epoch_disk_or_process(before, after, step)
        if is_new and len(after.voters) == len(own_voter_key_as_set(after)) == 1:
            return True  # the only voter takes two roles in one step
        expected = self.awaited_in_role(before) if is_new else set()
        asks = [m for m in step.sent if isinstance(m, FetchRequest | FetchSnapshotRequest)]
        if not isinstance(before.pending, Nil) and (is_new or asks or after.pending != before.pending):
            expected.add(Answers("fetch", before.id))
        return {group for operation, group in step.sends if operation == "forget"} == expected

    def awaited_in_role(self, me: Replica) -> set[Record]:
        """Return the message groups to drop when a replica leaves its role, since only that role awaits them."""
        groups: set[Record] = set()
        if me.mode in RESPONSE_KIND_BY_MODE:
            groups.add(Answers(RESPONSE_KIND_BY_MODE[me.mode], me.id))
        if me.mode is Mode.PROSPECTIVE and not self.late_pre_votes:
            groups |= {PreVotes(me.id, key.id) for key in endpoints_of_other_voters(me)}
        return groups | {Answers("update", me.id)} if me.updating else groups

    # Responses to clients

    @step_invariant
    def changes_end_with_an_answer(self, before: Replica, after: Replica, step: Step) -> bool:
        """A pending change ends with one response: NONE once it is committed, else its error.

        KIP-853, "AddVoter", steps 4, 8 and 9; "RemoveVoter", steps 5 and 6; "UpdateVoter", step 8. A leader that loses
        leadership answers NOT_LEADER_OR_FOLLOWER; one that restarts does not answer.
        """
        change, later = before.change, after.change
        if not isinstance(change, Change):
            return "expirations" not in step.spends
        if isinstance(later, Change):
            stays = (change.operation, change.client, change.asked) == (later.operation, later.client, later.asked)
            return stays and "expirations" not in step.spends
        answers = responses_to_client(change.client, step)
        if (
            ends_or_starts_process(step)
            or after.mode in ENDED_MODES
            or (change.client == ADMIN and not self.plain_answers)
        ):
            return not answers
        if len(answers) != 1 or answers[0].error is not error_code_ending_change(change, after, step):
            return False
        return is_answer_to_change(change, answers[0], before)

    @step_invariant
    def what_is_watched_is_so(self, before: Replica, after: Replica, step: Step) -> bool:
        """The history recorded with WatchAnswers and WatchPreVotes matches the states of the replicas.

        Other properties read them.
        """
        if not all(
            self.says_what_it_knows(before, after, answer) for answer in sent_messages_of_type(step, AdminResponse)
        ):
            return False
        if not step.writes:
            return True
        rounds = not step.consumes and ("pre_votes" in step.spends or before.ended)
        return (
            rounds
            and self.watch_pre_votes
            and all(has_recorded_pre_vote_round_of(peer, before.id) for peer in step.writes)
        )

    def says_what_it_knows(self, before: Replica, after: Replica, answer: AdminResponse) -> bool:
        """Whether a response has its replica's state exactly if it goes to an administrator with WatchAnswers."""
        about = answer.about
        if isinstance(about, Nil) == (self.watch_answers and answer.dest == ADMIN):
            return False
        return isinstance(about, Nil) or answer_history_matches_state(before, after, about, answer.error)

    # Timers and leadership

    @step_invariant
    def timers_do_as_they_should(self, before: Replica, after: Replica, step: Step) -> bool:
        """A voter whose timer expires requests pre-votes in its epoch; a resigned leader enters the next epoch.

        KIP-996, "Proposed Changes"; KIP-595, "EndQuorumEpoch", for a follower with no wait; KAFKA-18379. A leader that
        resigns is the only other replica to change its mode by an internal step.
        """
        if (before.mode, before.epoch, before.leader) == (after.mode, after.epoch, after.leader):
            return "pre_votes" not in step.spends or before.mode is Mode.CANDIDATE
        if step.consumes or set(step.spends) & {*BOUNDS_OF_PROCESS_STARTS, "resignations"}:
            return True
        if before.mode is Mode.PROSPECTIVE:
            return gives_up_pre_vote(before, after) and not step.spends
        if before.mode is Mode.RESIGNED:
            now = after.mode, after.epoch, after.leader, step.spends
            return now == (Mode.UNATTACHED, before.epoch + 1, Nil.NIL, ())
        if before.mode is Mode.LEADER:
            return self.may_resign(before, after, step)
        return bool(own_voter_key_as_set(before)) and self.times_out(before, after, step)

    def times_out(self, before: Replica, after: Replica, step: Step) -> bool:
        """Whether a voter whose timer expires requests pre-votes, or becomes candidate if it needs no pre-votes."""
        waits = [] if before.mode is Mode.FOLLOWER and before.ended else ["pre_votes"]
        if sorted(step.spends) not in (waits, sorted([*waits, "elections"])):
            return set(step.spends) >= {"elections", "restarts"}
        asks_first = before.id not in self.without_pre_vote
        if "elections" in step.spends:
            return becomes_candidate(before, after) and (len(before.voters) == 1 or not asks_first)
        kept = before.epoch, before.leader, before.leader_endpoint
        asks = (after.mode, after.epoch, after.leader, after.leader_endpoint) == (Mode.PROSPECTIVE, *kept)
        return asks and asks_first and not has_majority(own_voter_key_as_set(before), before.voters)

    def may_resign(self, before: Replica, after: Replica, step: Step) -> bool:
        """Whether a leader resigns by check quorum, or because it has committed its own removal."""
        return after.mode is Mode.RESIGNED and (not step.puts or after.high_watermark > before.high_watermark)

    @step_invariant
    def leaders_hear_a_majority(self, before: Replica, after: Replica, step: Step, shared: Shared) -> bool:
        """A leader resigns only if no majority can fetch from it (check quorum; KAFKA-13621; KIP-595).

        A voter cannot fetch across a cut link or after its process ended. The check applies without crashes and lost
        disks, and not to a shutdown.
        """
        resigns = (before.mode, after.mode) == (Mode.LEADER, Mode.RESIGNED) and not step.spends and not step.consumes
        if not resigns or step.puts or self.crashes or self.lost_disks or not step.sent:
            return True
        near = {key for key in endpoints_of_other_voters(before) if frozenset({before.id, key.id}) not in shared.cuts}
        return len(before.voters) > 1 and not has_majority(near | own_voter_key_as_set(before), before.voters)

    @step_invariant
    def leaders_open_their_epoch(self, before: Replica, after: Replica, step: Step, shared: Shared) -> bool:
        """A new leader appends LeaderChangeMessage, and a VotersRecord if its log has none or its endpoint moved.

        KIP-595, "Leader Change Message"; KIP-853, "First leader", "VotersRecord", "Automatic endpoint and directory id
        discovery". No other replica is elected in the step.
        """
        elected = dict(step.puts).get("elected")
        if after.mode is not Mode.LEADER or before.mode is Mode.LEADER:
            failed = after.leader == after.id and "restarts" in step.spends
            failed = failed and (step.consumes or before.mode not in ENDED_MODES)
            return elected is None or failed or len(after.voters) == 1
        log = (
            *before.log,
            Batch(after.epoch, (LeaderChange(before.id), *voters_records_due_at_election(before, after))),
        )
        opened = (after.log, after.flushed, after.leader) == (log, len(log), before.id)
        return opened and elected == shared.elected | {Term(after.epoch, before.id)}

    @step_invariant
    def leaders_commit_what_most_hold(self, before: Replica, after: Replica, step: Step, shared: Shared) -> bool:
        """A leader's high watermark is the offset that a majority holds, in its own epoch, and never decreases.

        KIP-595, "Fetch"; KIP-853, "High watermark". Leaders alone decide on commits, and append records of clients, one
        per step.
        """
        puts = dict(step.puts)
        if after.mode is Mode.LEADER and after.high_watermark != max(
            high_watermark_by_majority(after), before.high_watermark
        ):
            return False
        known = after.high_watermark if Mode.LEADER in (before.mode, after.mode) else 0
        is_new = known > before.high_watermark and known > len(shared.committed)
        ours = after.log[:known] if is_new else None
        if puts.get("committed") != ours:
            return False
        if "appends" not in step.spends:
            return "appended" not in puts and self.log_stays(before, after, step)
        number = shared.appended + 1
        return puts.get("appended") == number and appends_record(before, after, Data(number))

    def log_stays(self, before: Replica, after: Replica, step: Step) -> bool:
        """Whether a log changes only by a message, voter change, upgrade, election, restart or lost disk."""
        changes = {"added_voters", "removed_voters", "upgrades", "elections", "restarts", "lost_disks"}
        return (
            step.consumes
            or bool(changes & set(step.spends))
            or (before.log, before.voters) == (after.log, after.voters)
        )

    # Processes and disks

    @step_invariant
    def restarts_keep_what_is_on_disk(self, before: Replica, after: Replica, step: Step) -> bool:
        """A restarted process has exactly its state on disk: epoch, vote, leader, log and snapshot.

        KIP-595, "Quorum State"; KIP-853, "Quorum state", "Upgrading controller listener", "Supported features". A power
        loss drops the unflushed suffix. `mode_epoch_leader_and_vote_at_start` gives the mode of the
        restart. No process restarts with software that cannot read its log.
        """
        ways = set(step.spends) & {"restarts", "moved_endpoints", "software_changes"}
        if not ways or step.consumes:
            return True
        if "restarts" in ways and ("elected" in dict(step.puts) or "elections" in step.spends):
            return after.epoch >= before.epoch  # the only voter becomes leader at once, and may fail in doing so
        if ways != {"restarts"} and before.id in self.brokers:
            return False
        fresh = starts_from_disk(before, after, ways) and are_fields_empty(after, *FIELDS_LOST_AT_STOP)
        return fresh and restarts_with_leader_endpoint(before, after, step)

    @step_invariant
    def disks_come_back_empty(self, before: Replica, after: Replica, step: Step, shared: Shared) -> bool:
        """A lost disk restarts empty, with the next directory id; no other step changes the directory id.

        KIP-853, "Disk failure recovery", "Replica directory ID". A process that crashed or failed never returns.
        """
        if "lost_disks" in step.spends:
            blank = Replica(before.id, before.directory + 1, before.endpoint, before.software)
            voters = self.formatted_set(blank)
            blank = blank.but(voters=voters, version=self.initial_version if voters else 0)
            lost = shared.lost.put(before.key, before.log)
            return (dict(step.puts).get("lost"), after, step.sent) == (lost, blank, ())
        if (after.id, after.directory) != (before.id, before.directory) or before.mode in ENDED_MODES:
            return False
        if "crashes" in step.spends and (after.mode is not Mode.DOWN or step.sent):
            return False
        if after.mode in ENDED_MODES:
            return is_valid_process_end(before, after, step)
        moves = (after.endpoint, after.software) != (before.endpoint, before.software)
        may_move = bool({"moved_endpoints", "software_changes"} & set(step.spends))
        return "lost" not in dict(step.puts) and moves == may_move

    @step_invariant
    def snapshots_end_where_committed(self, before: Replica, after: Replica, step: Step) -> bool:
        """A snapshot ends at the high watermark, after the previous snapshot, and is flushed (KIP-630).

        The step changes nothing else, and no other internal step moves the start of the log.
        """
        if "snapshots" not in step.spends:
            return step.consumes or after.start == before.start or "lost_disks" in step.spends
        place = before.high_watermark
        expected = before.but(start=place, flushed=max(before.flushed, place))
        return after == expected and place > before.start and not step.sent

    # Internal requests

    @step_invariant
    def requests_are_repeated_in_vain(self, before: Replica, after: Replica, step: Step) -> bool:
        """A replica may repeat its pending request or give it up; an observer may ask a bootstrap server.

        KIP-595, "Fetch"; KAFKA-17030; KIP-853, "UpdateVoter".
        """
        if "retries" not in step.spends:
            return True
        if before.mode is Mode.LEADER:
            return (after, len(step.sent)) == (before, 1)
        if (after.updating, after.joining) != (before.updating, before.joining):
            return (after, len(step.sent)) == (before.but(updating=False, joining=False), 0)
        asked = sent_messages_of_type(step, FetchRequest)
        waits, free = not isinstance(before.pending, Nil), before.but(pending=Nil.NIL)
        if (waits, after.but(pending=Nil.NIL), len(asked)) != (True, free, len(step.sent)):
            return False
        if before.leader_endpoint != 0 and [one.address for one in asked[:1]] == [0]:
            return not own_voter_key_as_set(before) and (before.mode, after.pending) == (Mode.FOLLOWER, asked[0])
        return sends_next_fetch(before, after, step) or (after.mode, after.leader_endpoint) == (Mode.FOLLOWER, 0)

    @step_invariant
    def requests_have_their_time(self, before: Replica, after: Replica, step: Step) -> bool:
        """Without a leader a replica asks bootstrap servers; voters send UpdateVoter, and controllers may join.

        KIP-853, "Bootstrap-servers"; "UpdateVoter"; "Controller auto joining". A replica sends each request once until
        it is answered.
        """
        updates, joins = (
            sent_messages_of_type(step, UpdateVoterRequest),
            [*sent_messages_of_type(step, AddVoterRequest), *sent_messages_of_type(step, RemoveVoterRequest)],
        )
        if step.consumes or ends_or_starts_process(step):
            return not [*updates, *joins]
        fetches = [m for m in sent_messages_of_type(step, FetchRequest) if m.address == 0]
        if fetches and before.mode is Mode.UNATTACHED:
            asks = before.but(pending=fetches[0])
            return (before.pending, after, step.spends, len(step.sent)) == (Nil.NIL, asks, (), 1)
        if updates or "updated_voters" in step.spends:
            return sends_first_update_voter(before, after, step)
        if joins:
            return self.joins_once(before, after, step)
        return not {"added_voters", "removed_voters"} & set(step.spends) or before.mode is Mode.LEADER

    def joins_once(self, before: Replica, after: Replica, step: Step) -> bool:
        """Whether a joining controller sends RemoveVoter for a voter with its id, if any, else AddVoter for itself."""
        has_former = any(voter.key.id == before.id for voter in before.voters)
        spends, kind = (("removed_voters",), RemoveVoterRequest) if has_former else (("added_voters",), AddVoterRequest)
        if step.spends != spends or [type(message) for message in step.sent] != [kind] or before.joining:
            return False
        may_join = self.auto_join and before.id not in self.brokers and follows_known_leader(before)
        return may_join and after == before.but(joining=True)


def ends_or_starts_process(step: Step) -> bool:
    """Whether a step starts, restarts or crashes a process."""
    return bool(set(step.spends) & set(BOUNDS_OF_PROCESS_STARTS))


def changes_mode_epoch_disk_or_process(before: Replica, after: Replica, step: Step) -> bool:
    """Whether mode, epoch or disk of a replica change, or its process ends or starts."""
    is_other = (before.mode, before.epoch, before.directory) != (after.mode, after.epoch, after.directory)
    return is_other or ends_or_starts_process(step) or after.mode in ENDED_MODES


def vote_after_role_change(before: Replica, after: Replica) -> Key | Nil:
    """Return the vote after a role change: a candidate votes for itself, and an epoch's vote is kept."""
    if after.mode is Mode.CANDIDATE or (after.mode is Mode.LEADER and after.epoch > before.epoch):
        return after.key
    if after.epoch == before.epoch:
        return before.voted
    return after.voted if after.mode is Mode.UNATTACHED else Nil.NIL


def responses_to_client(client: ModelValue, step: Step) -> list[AdminResponse | UpdateVoterResponse]:
    """Return the responses of a step to one client of voter changes."""
    return [m for m in step.sent if isinstance(m, AdminResponse | UpdateVoterResponse) and m.dest == client]


def is_answer_to_change(change: Change, answer: AdminResponse | UpdateVoterResponse, me: Replica) -> bool:
    if isinstance(answer, UpdateVoterResponse):
        return (answer.request, answer.leader, answer.epoch) == (change.asked, me.id, me.epoch)
    return (answer.operation, answer.source) == (change.operation, me.id)


def error_code_ending_change(change: Change, after: Replica, step: Step) -> Error | None:
    """Return the error in the response that ends a change; None if the change must not end in this step."""
    expires = "expirations" in step.spends
    if 0 < change.offset <= after.high_watermark:
        return None if expires else Error.NONE
    if expires:
        return None if step.consumes else Error.REQUEST_TIMED_OUT
    return Error.INVALID_REQUEST if after.mode is Mode.LEADER else Error.NOT_LEADER_OR_FOLLOWER


def is_own_join_request_to_leader(me: Replica, message: AddVoterRequest | RemoveVoterRequest) -> bool:
    """Whether a controller requests its leader to add it, or to remove the voter with its id."""
    to = (message.source, message.dest, message.address) == (me.id, me.leader, me.leader_endpoint)
    if isinstance(message, AddVoterRequest):
        return to and message.voter == Voter(me.key, me.endpoint)
    return to and message.voter.id == me.id and message.voter in voter_keys(me)


def has_recorded_pre_vote_round_of(peer: Record, host: ModelValue) -> bool:
    """Whether a leader or active follower has recorded the pre-vote round of another replica, `host`."""
    if not isinstance(peer, Replica) or host not in peer.watched:
        return False
    return peer.mode is Mode.LEADER or (peer.mode is Mode.FOLLOWER and peer.fetched)


def has_valid_leadership_announcements(before: Replica, after: Replica, step: Step) -> bool:
    """Whether a new leader announces itself to all other voters, and a repetition goes to one voter (KIP-595)."""
    told = sent_messages_of_type(step, BeginQuorumEpochRequest)
    if any((m.epoch, m.source, m.endpoint) != (after.epoch, after.id, after.endpoint) for m in told):
        return False
    if after.mode is Mode.LEADER is not before.mode:
        return reach_each_expected_voter_once(told, endpoints_of_other_voters(after))
    if not told:
        return True
    one = {told[0].voter: endpoints_of_other_voters(after).get(told[0].voter, 0)}
    return (after, step.spends, len(step.sent)) == (before, ("retries",), 1) and reach_each_expected_voter_once(
        told, one
    )


def has_valid_resignation_announcements(before: Replica, after: Replica, step: Step) -> bool:
    """Whether a leader sends EndQuorumEpoch to all other voters exactly when it resigns (KIP-595)."""
    ends = sent_messages_of_type(step, EndQuorumEpochRequest)
    resigns = after.mode is Mode.RESIGNED and (before.mode is not Mode.RESIGNED or ends_or_starts_process(step))
    return reach_each_expected_voter_once(ends, endpoints_of_other_voters(after) if resigns else {}) and all(
        has_ordered_successors(before, after, m, step) for m in ends
    )


def has_ordered_successors(before: Replica, after: Replica, message: EndQuorumEpochRequest, step: Step) -> bool:
    """Whether EndQuorumEpoch lists successors by fetch offset, or none after a restart (KIP-595, KIP-853)."""
    if (message.epoch, message.source) != (after.epoch, after.id):
        return False
    if ends_or_starts_process(step):
        return not message.preferred
    others = endpoints_of_other_voters(after)
    if (set(message.preferred), len(message.preferred)) != (set(others), len(others)):
        return False
    ranks = [before.offsets.get(key, 0) for key in message.preferred]
    return step.consumes or ranks == sorted(ranks, reverse=True)


def answer_history_matches_state(before: Replica, after: Replica, about: Answered, error: Error) -> bool:
    """Whether the history record `about` in a response holds the replica's state before or after the step.

    A completed change was pending until the step. A change that starts and completes in one step shows in the voter set
    alone.
    """
    change = before.change
    asked = change.asked if isinstance(change, Change) else Nil.NIL
    moved = {voter.key for voter in before.voters ^ after.voters}
    done = error is Error.NONE and about.subject != before.version
    subjects: set[object] = {Nil.NIL, asked, *moved, *([before.version] if error is Error.NONE else [])}
    known = about.mode, about.version, about.voters
    return about.subject in subjects and any(
        known == (me.mode, me.version, voter_keys(me))
        and about.busy == (done or must_defer_change(me) or has_uncommitted_voters(me))
        for me in (before, after, after.but(change=change))
    )


def appends_record(before: Replica, after: Replica, record: Data) -> bool:
    """Whether a leader appends a client's record and otherwise stays as it is, unless the commit makes it resign."""
    stays = (after.epoch, after.change) == (before.epoch, before.change) or after.mode is Mode.RESIGNED
    log = (*before.log, Batch(before.epoch, (record,)))
    return before.mode is Mode.LEADER and after.log == log and stays


def voters_records_due_at_election(before: Replica, after: Replica) -> list[LogRecord]:
    """Return the records that a new leader must append if its log has no VotersRecord or its endpoint has changed."""
    if before.version == 0 or not own_voter_key_as_set(before):
        return []
    own = own_voter_key_as_set(after)
    told = frozenset(Voter(v.key, after.endpoint) if v.key in own else v for v in before.voters)
    if any(isinstance(record, Voters) for record in records_in_log(before.log)):
        return [Voters(told)] if told != before.voters else []
    return [KRaftVersion(before.version), Voters(told)]


def sends_first_update_voter(before: Replica, after: Replica, step: Step) -> bool:
    """Whether a follower that has not yet sent UpdateVoter to its leader sends it once, and has it pending."""
    once = not (before.updating or before.updated) and follows_known_leader(before)
    spent = step.spends, len(sent_messages_of_type(step, UpdateVoterRequest))
    return once and spent == (("updated_voters",), 1) and after == before.but(updating=True)


def follows_known_leader(me: Replica) -> bool:
    return me.mode is Mode.FOLLOWER and bool(me.leader)


def is_valid_process_end(before: Replica, after: Replica, step: Step) -> bool:
    """Whether a process that ends keeps its log and epoch, and drops its pending request."""
    gone = (after.log, after.epoch, after.high_watermark, after.pending) == (before.log, before.epoch, 0, Nil.NIL)
    forgot = are_fields_empty(after, "offsets", "granted", "heard") and isinstance(after.change, Nil)
    return gone and forgot and not sent_messages_of_type(step, FetchRequest)


def starts_from_disk(before: Replica, after: Replica, ways: set[str]) -> bool:
    """Whether a process starts with its state on disk, and with another endpoint or software only as `ways` tells."""
    changes = "software_changes" in ways
    software = (0 if before.software else 1) if changes else before.software
    if changes and before.version > software:
        return False
    disks = [before.log, before.log[: before.flushed]] if ways == {"restarts"} else [before.log]
    if after.log not in disks or (
        after.mode,
        after.epoch,
        after.leader,
        after.voted,
    ) != mode_epoch_leader_and_vote_at_start(after, before):
        return False
    endpoint = before.endpoint + ("moved_endpoints" in ways)
    kept = (after.flushed, after.start, after.directory) == (before.flushed, before.start, before.directory)
    fresh = after.endpoint, after.software, after.high_watermark, after.change
    return kept and fresh == (endpoint, software, 0, Nil.NIL)


def mode_epoch_leader_and_vote_at_start(
    after: Replica, before: Replica
) -> tuple[Mode, int, ModelValue | Nil, Key | Nil]:
    """Return mode, epoch, leader and vote of a started replica (`QuorumState.initialize`; KIP-996; KAFKA-10661).

    A leader starts as resigned. A replica that voted for itself starts as candidate, and fails if it is no voter. A
    replica that knows a leader's endpoint starts as follower. The only voter starts as unattached.
    """
    leader, epoch, voted = before.leader, before.epoch, persisted_vote(before)
    newest, _ = last_epoch_and_end_offset(after.log)
    if newest > epoch:
        return Mode.UNATTACHED, newest, Nil.NIL, Nil.NIL
    if leader != before.id and isinstance(voted, Key) and is_same_replica(voted, before.key):
        if not own_voter_key_as_set(after):
            return Mode.FAILED, epoch, leader, voted
        return Mode.CANDIDATE, epoch, Nil.NIL, after.key
    if len(after.voters) == len(own_voter_key_as_set(after)) == 1:
        return Mode.UNATTACHED, epoch, Nil.NIL, voted
    if leader == before.id:
        return Mode.RESIGNED, epoch, leader, voted
    return Mode.FOLLOWER if endpoint_of_voter_id(after, leader) else Mode.UNATTACHED, epoch, leader, voted


def persisted_vote(me: Replica) -> Key | Nil:
    """Return the vote in quorum-state: without the directory id at kraft.version 0 (KIP-853)."""
    return Key(me.voted.id, 0) if me.version == 0 and isinstance(me.voted, Key) else me.voted


def restarts_with_leader_endpoint(before: Replica, after: Replica, step: Step) -> bool:
    """Whether a restarted replica takes its leader's endpoint from the voter set; a follower then fetches."""
    if after.mode is Mode.FOLLOWER and not sends_next_fetch(before, after, step):
        return False
    if after.mode not in (Mode.FOLLOWER, Mode.UNATTACHED) or isinstance(after.leader, Nil):
        return True
    return after.leader_endpoint == (0 if after.mode is Mode.UNATTACHED else endpoint_of_voter_id(after, after.leader))
