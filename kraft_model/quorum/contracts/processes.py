"""Contracts of what a replica does of its own: timers, office, commits, restarts, snapshots, retries."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.contracts.elections import gave_up, stood
from kraftcheck.kraft_model.quorum.contracts.replication import asks_next
from kraftcheck.kraft_model.quorum.contracts.rules import (
    are_most,
    committed_end,
    is_same,
    known_endpoint,
    peers,
    records_of,
    seats,
    sent,
)
from kraftcheck.kraft_model.quorum.contracts.steps import BEGINS, StepContracts
from kraftcheck.kraft_model.quorum.messages import (
    AddVoterRequest,
    FetchRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from kraftcheck.kraft_model.quorum.records import (
    ENDED,
    Batch,
    Data,
    Key,
    KRaftVersion,
    LeaderChange,
    LogRecord,
    Mode,
    Nil,
    Voter,
    Voters,
)
from kraftcheck.kraft_model.quorum.state import Replica, Shared, Term
from kraftcheck.spec import ModelValue, Step, step_invariant


class ProcessContracts(StepContracts):
    """What replicas do of their own, and what their processes and disks keep."""

    # Timers and office

    @step_invariant
    def timers_do_as_they_should(self, before: Replica, after: Replica, step: Step) -> bool:
        """A voter whose timer expires asks for pre-votes in its epoch; who resigned goes to the next one.

        KIP-996, "Proposed Changes"; KIP-595, "EndQuorumEpoch", for a follower that need not wait; KAFKA-18379. Nobody
        else leaves its mode of its own but a leader that resigns.
        """
        is_same_role = (before.mode, before.epoch, before.leader) == (after.mode, after.epoch, after.leader)
        if step.consumes or is_same_role or set(step.spends) & set(BEGINS) or "resignations" in step.spends:
            return not ("pre_votes" in step.spends and is_same_role and before.mode is not Mode.CANDIDATE)
        if before.mode is Mode.PROSPECTIVE:
            return gave_up(before, after) and not step.spends
        if before.mode is Mode.RESIGNED:
            role = (Mode.UNATTACHED, before.epoch + 1, Nil.NIL)
            return (after.mode, after.epoch, after.leader) == role and not step.spends
        if before.mode is Mode.LEADER:
            return after.mode is Mode.RESIGNED and self.may_lose_office(before, after, step)
        waits = [] if before.mode is Mode.FOLLOWER and before.ended else ["pre_votes"]
        if not seats(before) or sorted(step.spends) not in (waits, sorted([*waits, "elections"])):
            return set(step.spends) >= {"elections", "restarts"} and bool(seats(before))
        if "elections" in step.spends:
            return stood(before, after) and (len(before.voters) == 1 or before.id in self.without_pre_vote)
        kept = (after.epoch, after.leader, after.leader_endpoint) == (
            before.epoch,
            before.leader,
            before.leader_endpoint,
        )
        asks = before.id not in self.without_pre_vote and not are_most(seats(before), before.voters)
        return kept and after.mode is Mode.PROSPECTIVE and asks

    def may_lose_office(self, before: Replica, after: Replica, step: Step) -> bool:
        """Whether a leader that resigns of its own may have lost its majority, or committed that it is no voter."""
        return not step.puts or after.high_watermark > before.high_watermark

    @step_invariant
    def leaders_hear_a_majority(self, before: Replica, after: Replica, step: Step, shared: Shared) -> bool:
        """A leader resigns if most voters can no longer fetch, not while they can (KAFKA-13621; KIP-595).

        Who is cut off or has ended cannot; here nobody ends, and no disk is lost. One that shuts down resigns too.
        """
        resigns = (before.mode, after.mode) == (Mode.LEADER, Mode.RESIGNED) and not step.spends and not step.consumes
        if not resigns or step.puts or self.crashes or self.lost_disks or not step.sent:
            return True
        near = {key for key in peers(before) if frozenset({before.id, key.id}) not in shared.cuts}
        return len(before.voters) > 1 and not are_most(near | seats(before), before.voters)

    @step_invariant
    def leaders_open_their_epoch(self, before: Replica, after: Replica, step: Step, shared: Shared) -> bool:
        """A new leader appends LeaderChangeMessage, and the voters where the log has none, or its old endpoint.

        KIP-595, "Leader Change Message"; KIP-853, "First leader", "VotersRecord", "Automatic endpoint and directory id
        discovery". Nobody else is elected.
        """
        elected = dict(step.puts).get("elected")
        if after.mode is not Mode.LEADER or before.mode is Mode.LEADER:
            failed = (
                after.leader == after.id and "restarts" in step.spends and (step.consumes or before.mode not in ENDED)
            )
            return elected is None or failed or len(after.voters) == 1
        told = frozenset(
            voter if voter.key not in seats(after) else Voter(voter.key, after.endpoint) for voter in before.voters
        )
        records: list[LogRecord] = [LeaderChange(before.id)]
        if before.version > 0 and seats(before):
            is_first = not any(isinstance(record, Voters) for record in records_of(before.log))
            records += [KRaftVersion(before.version)] if is_first else []
            records += [Voters(told)] if is_first or told != before.voters else []
        log = (*before.log, Batch(after.epoch, tuple(records)))
        opened = after.log == log and after.flushed == len(log) and after.leader == before.id
        return opened and elected == shared.elected | {Term(after.epoch, before.id)}

    @step_invariant
    def leaders_commit_what_most_hold(self, before: Replica, after: Replica, step: Step, shared: Shared) -> bool:
        """A leader's high watermark is what most of its voters hold, with a batch of its epoch, and never goes back.

        KIP-595, "Fetch"; KIP-853, "High watermark". Only leaders decide what is committed, and only they append records
        of clients, one at a time.
        """
        puts = dict(step.puts)
        if after.mode is Mode.LEADER and after.high_watermark != max(committed_end(after), before.high_watermark):
            return False
        known = after.high_watermark if before.mode is Mode.LEADER or after.mode is Mode.LEADER else 0
        is_new = known > before.high_watermark and known > len(shared.committed)
        ours = after.log[:known] if is_new else None
        if puts.get("committed") != ours:
            return False
        if "appends" not in step.spends:
            return "appended" not in puts and (step.consumes or self.log_stays(before, after, step))
        number = shared.appended + 1
        log = (*before.log, Batch(before.epoch, (Data(number),)))
        stays = (after.epoch, after.change) == (before.epoch, before.change) or after.mode is Mode.RESIGNED
        return before.mode is Mode.LEADER and after.log == log and puts.get("appended") == number and stays

    def log_stays(self, before: Replica, after: Replica, step: Step) -> bool:
        """Whether a replica's log stays, unless its own step changes voters, opens an epoch or loses a disk."""
        changes = {"added_voters", "removed_voters", "upgrades", "elections", "restarts", "lost_disks"}
        return bool(changes & set(step.spends)) or (before.log, before.voters) == (after.log, after.voters)

    # Processes and disks

    @step_invariant
    def restarts_keep_what_is_on_disk(self, before: Replica, after: Replica, step: Step) -> bool:
        """A process that starts again has epoch, vote, leader, log and snapshot, and nothing else.

        KIP-595, "Quorum State"; KIP-853, "Quorum state", "Upgrading controller listener", "Supported features". A power
        loss takes what was not flushed. `mode_after_restart` says what it is then. Nobody goes back to software that
        cannot read its log.
        """
        ways = set(step.spends) & {"restarts", "moved_endpoints", "software_changes"}
        if not ways or step.consumes:
            return True
        if ways == {"restarts"} and (before.mode is Mode.LEADER or "elections" not in step.spends):
            disks = {(before.log, before.flushed), (before.log[: before.flushed], before.flushed)}
        else:
            disks = {(before.log, before.flushed)}
        if "software_changes" in ways and before.version > software_after(before):
            return False
        if "restarts" in ways and ("elected" in dict(step.puts) or "elections" in step.spends):
            return after.epoch >= before.epoch  # the only voter leads at once, and may fail as it does
        moved = before.endpoint + ("moved_endpoints" in ways)
        software = software_after(before) if "software_changes" in ways else before.software
        voted = before.voted
        if before.version == 0 and isinstance(voted, Key):
            voted = Key(voted.id, 0)
        mode, epoch, leader = mode_after_restart(after, before, voted)
        if mode is Mode.CANDIDATE:
            voted = after.key
        voted = voted if epoch == before.epoch else Nil.NIL
        disk = ((after.log, after.flushed) in disks, after.start, after.epoch, after.leader, after.voted) == (
            True, before.start, epoch, leader, voted
        )  # fmt: skip
        process = (after.mode, after.endpoint, after.software, after.high_watermark, after.directory)
        fresh = not (after.fetched or after.ended or after.rejected or after.offsets or after.updating or after.joining)
        fresh = fresh and isinstance(after.change, Nil) and not (after.heard or after.watched or after.updated)
        is_controller = ways == {"restarts"} or before.id not in self.brokers
        known = after.mode is not Mode.FOLLOWER or asks_next(before, after, step)
        if after.mode in (Mode.FOLLOWER, Mode.UNATTACHED) and not isinstance(after.leader, Nil):
            known = known and finds(after)
        return disk and fresh and is_controller and known and process == (mode, moved, software, 0, before.directory)

    @step_invariant
    def disks_come_back_empty(self, before: Replica, after: Replica, step: Step, shared: Shared) -> bool:
        """A lost disk comes back with the next directory id, and without log, epoch and vote; no other step changes it.

        KIP-853, "Disk failure recovery", "Replica directory ID". Who crashes or fails is gone for good.
        """
        if "lost_disks" in step.spends:
            blank = Replica(before.id, before.directory + 1, before.endpoint, before.software)
            voters = self.formatted_set(blank)
            version = self.initial_version if voters else 0
            lost = dict(step.puts).get("lost") == shared.lost.put(before.key, before.log)
            return lost and after == blank.but(voters=voters, version=version) and not step.sent
        same = (after.id, after.directory) == (before.id, before.directory) and before.mode not in ENDED
        if "crashes" in step.spends and (after.mode is not Mode.DOWN or step.sent):
            return False
        if after.mode not in ENDED:
            same = same and "lost" not in dict(step.puts)
            moves = (after.endpoint, after.software) != (before.endpoint, before.software)
            return same and moves == bool({"moved_endpoints", "software_changes"} & set(step.spends))
        gone = (after.log, after.epoch, after.high_watermark, after.pending) == (before.log, before.epoch, 0, Nil.NIL)
        forgot = not (after.offsets or after.granted or after.heard) and isinstance(after.change, Nil)
        return same and gone and forgot and not sent(step, FetchRequest)

    @step_invariant
    def snapshots_end_where_committed(self, before: Replica, after: Replica, step: Step) -> bool:
        """A snapshot ends at the high watermark, behind the one before it, and is flushed (KIP-630).

        It changes nothing else, and no other step of a replica's own begins the log elsewhere.
        """
        if "snapshots" not in step.spends:
            return step.consumes or after.start == before.start or "lost_disks" in step.spends
        place = before.high_watermark
        expected = before.but(start=place, flushed=max(before.flushed, place))
        return after == expected and place > before.start and not step.sent

    # Requests of a replica's own

    @step_invariant
    def requests_are_repeated_in_vain(self, before: Replica, after: Replica, step: Step) -> bool:
        """A replica whose answer does not come asks again, or stops waiting; observers may turn to a bootstrap server.

        KIP-595, "Fetch"; KAFKA-17030; KIP-853, "UpdateVoter".
        """
        if "retries" not in step.spends:
            return True
        if before.mode is Mode.LEADER:
            return after == before and len(step.sent) == 1
        if (after.updating, after.joining) != (before.updating, before.joining):
            stopped = before.but(updating=False, joining=False)
            return after == stopped and not step.sent
        asked = sent(step, FetchRequest)
        free = (after.but(pending=Nil.NIL), len(asked)) == (before.but(pending=Nil.NIL), len(step.sent))
        if not free or isinstance(before.pending, Nil):
            return False
        if asked and asked[0].address == 0 and before.leader_endpoint != 0:
            return not seats(before) and before.mode is Mode.FOLLOWER and after.pending == asked[0]
        return asks_next(before, after, step) or (after.mode is Mode.FOLLOWER and after.leader_endpoint == 0)

    @step_invariant
    def requests_have_their_time(self, before: Replica, after: Replica, step: Step) -> bool:
        """Who knows no leader asks bootstrap servers; voters tell a new leader what they are, others may join.

        KIP-853, "Bootstrap-servers"; "UpdateVoter"; "Controller auto joining". Each request is sent once, until it is
        answered.
        """
        if step.consumes or set(step.spends) & set(BEGINS):
            return not any(isinstance(m, AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest) for m in step.sent)
        fetches = [m for m in sent(step, FetchRequest) if m.address == 0]
        if fetches and before.mode is Mode.UNATTACHED:
            asks = before.but(pending=fetches[0])
            return isinstance(before.pending, Nil) and after == asks and not step.spends and len(step.sent) == 1
        leads_on = before.mode is Mode.FOLLOWER and bool(before.leader)
        if sent(step, UpdateVoterRequest) or ("updated_voters" in step.spends):
            once = not (before.updating or before.updated) and step.spends == ("updated_voters",) and leads_on
            return once and after == before.but(updating=True) and len(sent(step, UpdateVoterRequest)) == 1
        joins = [m for m in step.sent if isinstance(m, AddVoterRequest | RemoveVoterRequest)]
        if not joins:
            wants = {"added_voters", "removed_voters"} & set(step.spends)
            return not wants or before.mode is Mode.LEADER
        removes = isinstance(joins[0], RemoveVoterRequest)
        has_former = any(voter.key.id == before.id for voter in before.voters)
        once = not before.joining and leads_on and self.auto_join and before.id not in self.brokers
        spends = ("removed_voters",) if removes else ("added_voters",)
        return (
            once and removes == has_former and step.spends == spends and len(step.sent) == 1
            and after == before.but(joining=True)
        )  # fmt: skip


def mode_after_restart(after: Replica, before: Replica, voted: Key | Nil) -> tuple[Mode, int, ModelValue | Nil]:
    """Return mode, epoch and leader of a replica that starts again (`QuorumState.initialize`; KIP-996; KAFKA-10661).

    A leader comes back as one that resigned; who voted for itself is candidate again, and cannot start if it is no
    voter; who knows a leader that it can reach follows it. The only voter follows nobody.
    """
    leader, is_voter = before.leader, bool(seats(after))
    newest = after.log[-1].epoch if after.log else 0
    if newest > before.epoch:
        return Mode.UNATTACHED, newest, Nil.NIL
    alone = is_voter and len(after.voters) == 1
    if leader != before.id and isinstance(voted, Key) and is_same(voted, before.key):
        if not is_voter:
            return Mode.FAILED, before.epoch, leader
        return Mode.CANDIDATE, before.epoch, Nil.NIL
    if alone:
        return Mode.UNATTACHED, before.epoch, Nil.NIL
    if leader == before.id:
        return Mode.RESIGNED, before.epoch, leader
    return (Mode.FOLLOWER if known_endpoint(after, leader) else Mode.UNATTACHED), before.epoch, leader


def software_after(me: Replica) -> int:
    """Return the highest kraft.version of the other software that there is."""
    return 0 if me.software else 1


def finds(me: Replica) -> bool:
    """Whether a replica reaches its leader where the voter set says; an unattached one cannot reach it."""
    return me.leader_endpoint == (0 if me.mode is Mode.UNATTACHED else known_endpoint(me, me.leader))


__all__ = ["ProcessContracts"]
