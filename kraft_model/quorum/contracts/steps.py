"""Contracts of any step: what is sent, what is forgotten, who is answered, and what a new role begins with."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import ADMIN
from kraftcheck.kraft_model.quorum.contracts.membership import MembershipContracts
from kraftcheck.kraft_model.quorum.contracts.rules import addressed, end, has_open_voters, must_wait, peers, seats, sent
from kraftcheck.kraft_model.quorum.messages import (
    AddVoterRequest,
    AdminResponse,
    Answered,
    Answers,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PreVotes,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from kraftcheck.kraft_model.quorum.records import ENDED, Error, Key, Mode, Nil, Voter
from kraftcheck.kraft_model.quorum.state import Change, Replica, Shared
from kraftcheck.spec import Record, Step, step_invariant

Delivered = (
    VoteRequest
    | VoteResponse
    | BeginQuorumEpochRequest
    | BeginQuorumEpochResponse
    | EndQuorumEpochRequest
    | EndQuorumEpochResponse
    | FetchRequest
    | FetchResponse
    | FetchSnapshotRequest
    | FetchSnapshotResponse
    | ApiVersionsRequest
    | ApiVersionsResponse
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | UpdateVoterResponse
    | AdminResponse
)

BEGINS = ("restarts", "crashes", "lost_disks", "moved_endpoints", "software_changes")
"""Bounds of the steps in which a process ends or starts."""


class StepContracts(MembershipContracts):
    """What holds of every step of a replica."""

    @step_invariant
    def messages_are_taken_once(
        self, before: Replica, after: Replica, message: Delivered, step: Step, shared: Shared
    ) -> bool:
        """What is delivered is gone, and nothing is delivered over a cut link (KIP-595: a request is handled once)."""
        is_cut = self.cuts > 0 and frozenset({before.id, message.source}) in shared.cuts
        return step.consumes and not is_cut

    @step_invariant
    def new_roles_begin_afresh(self, before: Replica, after: Replica, step: Step) -> bool:
        """A replica in a new role has granted itself alone, and knows no answer, position or change of the old role.

        KIP-996, "Proposed Changes"; KIP-595, "Vote". Its vote stays as long as its epoch (KAFKA-17641). What is on disk
        stays in any role.
        """
        if (before.mode, before.epoch, before.directory) == (after.mode, after.epoch, after.directory):
            return True
        if (after.directory, after.mode in ENDED) != (before.directory, False):
            return True
        stands = after.mode in (Mode.PROSPECTIVE, Mode.CANDIDATE)
        granted = seats(after) if stands else frozenset()
        forgot = after.granted == granted and not (after.rejected or after.heard or after.watched)
        forgot = forgot and not (after.updating or after.updated or after.joining or after.offsets)
        forgot = forgot and isinstance(after.change, Nil) and (after.mode is Mode.FOLLOWER or not after.fetched)
        if after.mode is Mode.CANDIDATE or (after.mode is Mode.LEADER and after.epoch > before.epoch):
            voted: Key | Nil = after.key
        elif after.epoch == before.epoch:
            voted = before.voted
        else:
            voted = after.voted if after.mode is Mode.UNATTACHED else Nil.NIL
        return forgot and (after.voted == voted or bool(set(step.spends) & set(BEGINS)))

    # Messages

    @step_invariant
    def requests_say_what_is_so(self, before: Replica, after: Replica, step: Step) -> bool:
        """A request tells its sender's epoch, log end and key, and goes to where the receiver can be reached.

        KIP-595, KIP-630 and KIP-853, schemas. Votes are asked of all other voters once a round begins, and these
        are told of a new leader.
        """
        votes = sent(step, VoteRequest)
        stands = after.mode in (Mode.PROSPECTIVE, Mode.CANDIDATE)
        begins = bool(set(step.spends) & set(BEGINS)) or (before.mode, before.epoch) != (after.mode, after.epoch)
        last, size = end(after.log)
        pre_vote = after.mode is Mode.PROSPECTIVE
        fields = after.epoch, pre_vote, after.key, last, size, after.id
        if not addressed(votes, peers(after) if begins and stands else {}):
            return False
        if any((v.epoch, v.pre_vote, v.candidate, v.last_epoch, v.last_offset, v.source) != fields for v in votes):
            return False
        return all(self.is_so(after, one) for one in step.sent) and announces(before, after, step)

    def is_so(self, me: Replica, message: Record) -> bool:
        """Whether a request says what its sender is."""
        if isinstance(message, VoteRequest | BeginQuorumEpochRequest):
            return message.voter in peers(me) and message.voter.id == message.dest
        if isinstance(message, FetchRequest):
            known = (message.epoch, message.offset, message.last_epoch, message.directory, message.source)
            if known != (me.epoch, len(me.log), end(me.log)[0], me.directory, me.id) or me.pending != message:
                return False
            to_leader = (message.dest, message.address) == (me.leader, me.leader_endpoint) and me.mode is Mode.FOLLOWER
            return to_leader or (message.dest in self.bootstrap_servers - {me.id} and message.address == 0)
        if isinstance(message, AddVoterRequest):
            wanted = AddVoterRequest(Voter(me.key, me.endpoint), me.id, message.dest, me.leader_endpoint)
            return message == wanted and message.dest == me.leader and not seats(me)
        if isinstance(message, RemoveVoterRequest):
            former = {voter.key for voter in me.voters if voter.key.id == me.id}
            to = (message.source, message.dest, message.address)
            return message.voter in former and to == (me.id, me.leader, me.leader_endpoint) and not seats(me)
        if isinstance(message, UpdateVoterRequest):
            told = (message.epoch, message.voter, message.version, message.source, message.dest, message.address)
            own = (me.epoch, Voter(me.key, me.endpoint), me.software, me.id, me.leader, me.leader_endpoint)
            return told == own and bool(seats(me))
        return True

    @step_invariant
    def answers_are_forgotten_with_the_role(self, before: Replica, after: Replica, step: Step) -> bool:
        """A replica in a new role drops the answers to the requests of its old one, and no others.

        Kafka resets its connections at every transition (`KafkaRaftClient`); a follower that has its answer, or no
        longer waits for it, drops later ones, as correlation ids tell.
        """
        kind = {
            Mode.CANDIDATE: "vote", Mode.PROSPECTIVE: "pre-vote", Mode.LEADER: "leader", Mode.RESIGNED: "leader"
        }.get(before.mode)  # fmt: skip
        is_new = (before.mode, before.epoch, before.directory) != (after.mode, after.epoch, after.directory)
        is_new = is_new or bool(set(step.spends) & set(BEGINS)) or after.mode in ENDED
        if is_new and len(after.voters) == len(seats(after)) == 1:
            return True  # the only voter goes through two roles at once
        expected: set[Record] = set()
        if is_new and kind:
            expected.add(Answers(kind, before.id))
        if is_new and before.mode is Mode.PROSPECTIVE and not self.late_pre_votes:
            expected |= {PreVotes(before.id, key.id) for key in peers(before)}
        if is_new and before.updating:
            expected.add(Answers("update", before.id))
        waited = not isinstance(before.pending, Nil)
        awaits_no_more = is_new or bool(sent(step, FetchRequest) or sent(step, FetchSnapshotRequest))
        if waited and (awaits_no_more or after.pending != before.pending):
            expected.add(Answers("fetch", before.id))
        forgotten = {group for operation, group in step.sends if operation == "forget"}
        return forgotten == expected

    # Answers to those who wait

    @step_invariant
    def changes_end_with_an_answer(self, before: Replica, after: Replica, step: Step) -> bool:
        """Whoever asked for a change hears once how it ended: done once it is committed, else with the error.

        KIP-853, "AddVoter", steps 4, 8 and 9; "RemoveVoter", steps 5 and 6; "UpdateVoter", step 8. A leader that loses
        office answers NOT_LEADER_OR_FOLLOWER; who restarts, nothing.
        """
        change = before.change
        if not isinstance(change, Change) or isinstance(after.change, Change):
            stays = not isinstance(change, Change) or (
                isinstance(after.change, Change)
                and (change.operation, change.client, change.asked)
                == (after.change.operation, after.change.client, after.change.asked)
            )
            return stays and "expirations" not in step.spends
        kinds = AdminResponse | UpdateVoterResponse
        answers = [m for m in step.sent if isinstance(m, kinds) and m.dest == change.client]
        is_gone = bool(set(step.spends) & set(BEGINS)) or after.mode in ENDED
        if is_gone or (change.client == ADMIN and not self.plain_answers):
            return not answers
        if 0 < change.offset <= after.high_watermark:
            error = Error.NONE
        elif "expirations" in step.spends:
            error = Error.REQUEST_TIMED_OUT
        else:
            error = Error.INVALID_REQUEST if after.mode is Mode.LEADER else Error.NOT_LEADER_OR_FOLLOWER
        if "expirations" in step.spends and (error is not Error.REQUEST_TIMED_OUT or step.consumes):
            return False
        if len(answers) != 1 or answers[0].error is not error:
            return False
        answer = answers[0]
        if isinstance(answer, UpdateVoterResponse):
            return answer.request == change.asked and answer.leader == before.id and answer.epoch == before.epoch
        return (answer.operation, answer.source) == (change.operation, before.id)

    @step_invariant
    def what_is_watched_is_so(self, before: Replica, after: Replica, step: Step) -> bool:
        """With WatchAnswers answers have what a replica knew; with WatchPreVotes a round is noted.

        History, which other properties read.
        """
        for answer in sent(step, AdminResponse):
            about = answer.about
            if isinstance(about, Nil) == (self.watch_answers and answer.dest == ADMIN):
                return False
            if isinstance(about, Answered) and not is_so_now(before, after, about, answer.error):
                return False
        rounds = not step.consumes and ("pre_votes" in step.spends or before.ended)
        watches = all(
            isinstance(peer, Replica)
            and before.id in peer.watched
            and (peer.mode is Mode.LEADER or (peer.mode is Mode.FOLLOWER and peer.fetched))
            for peer in step.writes
        )
        return watches and (not step.writes or (rounds and self.watch_pre_votes))


def announces(before: Replica, after: Replica, step: Step) -> bool:
    """Whether a new leader tells all other voters, with its epoch and endpoint, and others only repeat that to one.

    KIP-595, "BeginQuorumEpoch", "EndQuorumEpoch"; KIP-853. One that leaves office tells them all too, and prefers those
    that have fetched most.
    """
    told = sent(step, BeginQuorumEpochRequest)
    if any((m.epoch, m.source, m.endpoint) != (after.epoch, after.id, after.endpoint) for m in told):
        return False
    elected = after.mode is Mode.LEADER and before.mode is not Mode.LEADER
    if elected and not addressed(told, peers(after)):
        return False
    if told and not elected:
        one = {told[0].voter: peers(after).get(told[0].voter, 0)}
        if after != before or step.spends != ("retries",) or len(step.sent) != 1 or not addressed(told, one):
            return False
    ends = sent(step, EndQuorumEpochRequest)
    begins = bool(set(step.spends) & set(BEGINS))
    resigns = after.mode is Mode.RESIGNED and (before.mode is not Mode.RESIGNED or begins)
    if not addressed(ends, peers(after) if resigns else {}):
        return False
    if any((m.epoch, m.source) != (after.epoch, after.id) for m in ends):
        return False
    ranks = [[before.offsets.get(key, 0) for key in m.preferred] for m in ends]
    if begins:
        return not any(ranks)
    if any(set(m.preferred) != set(peers(after)) or len(m.preferred) != len(peers(after)) for m in ends):
        return False
    return step.consumes or all(rank == sorted(rank, reverse=True) for rank in ranks)


def is_so_now(before: Replica, after: Replica, about: Answered, error: Error) -> bool:
    """Whether what a replica is said to know as it answers is what it knows, before a step or after it.

    A change that is done was open until then. One that is begun and done at once shows in the voter set alone.
    """
    change = before.change
    asked = change.asked if isinstance(change, Change) else Nil.NIL
    moved = {voter.key for voter in before.voters ^ after.voters}
    subjects: set[object] = {Nil.NIL, asked, *moved, *([before.version] if error is Error.NONE else [])}
    known = about.mode, about.version, about.voters
    done = error is Error.NONE and about.subject != before.version
    return any(
        known == (me.mode, me.version, frozenset(voter.key for voter in me.voters))
        and about.busy == (done or must_wait(me) or has_open_voters(me))
        for me in (before, after, after.but(change=change))
    ) and about.subject in subjects


__all__ = ["BEGINS", "StepContracts"]
