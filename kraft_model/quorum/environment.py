"""The environment of `quorum`: clients, restarts, crashes, lost disks and cut links, each with a bound."""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.quorum.elections import QuorumElections
from kraftcheck.kraft_model.quorum.records import ENDED_MODES, Admin, Batch, Data, Key, Mode, Nil, Replica, Shared
from kraftcheck.kraft_model.quorum.rules import matches_voter, permanently_down_replica, resigned_replica
from kraftcheck.spec import Map, ModelValue, Step, Steps, environment, internal, ordered, projection


class QuorumEnvironment(QuorumElections):
    """Actions outside the protocol: clients, failures, cut links."""

    @internal
    def client_append(self, me: Replica, shared: Shared) -> Steps:
        """A leader appends a client's record and flushes it (KIP-595, "Log Replication")."""
        if me.mode is not Mode.LEADER:
            return
        number = shared.appended + 1
        log = (*me.log, Batch(me.epoch, (Data(number),)))
        after = self.with_log(me, log, flushes=self.flushes_as_leader())
        after, sends, puts = self.commits(after, shared)
        yield self.taken(me, after, *sends, consumes=False).put(**{"appended": number, **puts}).spend("appends")

    def flushes_as_leader(self) -> bool:
        """Whether a leader flushes an appended batch before any replica can fetch it."""
        return True

    @internal
    def restart(self, me: Replica, shared: Shared) -> Steps:
        """A process restarts with its state on disk: epoch, leader, vote, log and snapshot.

        KIP-595, "Quorum State"; KIP-853, "Quorum state".
        """
        if me.mode in ENDED_MODES:
            return
        yield from self.restart_steps(me, shared)

    @internal
    def restart_losing_unflushed(self, me: Replica, shared: Shared) -> Steps:
        """A process restarts after a power loss, without the unflushed suffix of its log."""
        if me.mode in ENDED_MODES:
            return
        if me.flushed == len(me.log):
            return
        yield from self.restart_steps(self.with_log(me, me.log[: me.flushed], flushes=True), shared)

    def restart_steps(self, me: Replica, shared: Shared) -> Iterator[Step]:
        """Yield the step in which a replica restarts; a candidate that is the only voter becomes leader at once."""
        after = self.after_restart(me)
        if after.mode is Mode.CANDIDATE and self.is_majority(after.voters, after.granted):
            for step in self.take_office(after, shared, consumes=False):
                yield step.forget(*self.dropped_with_mode(me)).spend("restarts")
        else:
            yield self.taken(me, after, *self.messages_after_restart(after), consumes=False, starts=True).spend(
                "restarts"
            )

    @internal
    def crash(self, me: Replica) -> Steps:
        """A process crashes for good."""
        if me.mode in ENDED_MODES:
            return
        yield self.taken(me, permanently_down_replica(me), consumes=False, starts=True).spend("crashes")

    @internal
    def lose_disk(self, me: Replica, shared: Shared) -> Steps:
        """A disk is replaced and formatted without initial controllers: same id, next directory id.

        KIP-853, "Disk failure recovery", "Replica directory ID".
        """
        if me.mode in ENDED_MODES:
            return
        blank = self.formatted(me.id, me.directory + 1, me.endpoint).but(software=me.software)
        lost = shared.lost.put(me.key, me.log)
        yield self.taken(me, blank, consumes=False, starts=True).put(lost=lost).spend("lost_disks")

    @internal
    def move_endpoint(self, me: Replica) -> Steps:
        """A controller restarts with another endpoint (KIP-853, "Upgrading controller listener")."""
        if me.mode in ENDED_MODES or me.id in self.brokers:
            return
        after = self.after_restart(me.but(endpoint=me.endpoint + 1))
        yield self.taken(me, after, *self.messages_after_restart(after), consumes=False, starts=True).spend(
            "moved_endpoints"
        )

    @internal
    def change_software(self, me: Replica) -> Steps:
        """A controller restarts with software that adds or drops support for kraft.version 1.

        KIP-853, "Supported features". Older software cannot read a log with a KRaftVersionRecord.
        """
        if me.mode in ENDED_MODES or me.id in self.brokers:
            return
        if me.software == 1 and me.version == 1:
            return
        after = self.after_restart(me.but(software=1 - me.software))
        yield self.taken(me, after, *self.messages_after_restart(after), consumes=False, starts=True).spend(
            "software_changes"
        )

    # Links

    @environment
    def cut(self, shared: Shared) -> Steps:
        """The link between two replicas is cut: no message is delivered between them until it heals."""
        hosts = ordered(self.hosts)
        for position, one in enumerate(hosts):
            for other in hosts[position + 1 :]:
                pair = frozenset({one, other})
                if pair not in shared.cuts:
                    yield Step().put(cuts=shared.cuts | {pair}).spend("cuts")

    @environment
    def heal(self, shared: Shared) -> Steps:
        """A cut link heals: messages in flight can be delivered."""
        if self.cuts == 0:
            return
        for pair in ordered(shared.cuts):
            yield Step().put(cuts=shared.cuts - {pair})

    @projection
    def fetcher(self, me: Replica | Admin) -> Key | Nil:
        """Return the replica key in a running replica's fetches; Nil for any other process."""
        return me.key if isinstance(me, Replica) and me.mode not in ENDED_MODES else Nil.NIL

    @internal(reads=fetcher)
    def check_quorum(self, me: Replica, shared: Shared, fetcher: Map[ModelValue, Key | Nil]) -> Steps:
        """A leader resigns if no majority of the voters can fetch from it.

        KAFKA-13621, KAFKA-15489; KIP-853, "Fetch". Voters count by id and directory id: one with a new disk fetches as
        an observer. A leader counts itself only if it is a voter. The leader of a single voter never resigns here.
        """
        if me.mode is not Mode.LEADER:
            return
        fetching = frozenset(key for host, key in fetcher.items() if frozenset({me.id, host}) not in shared.cuts)
        if self.has_quorum(me, fetching):
            return
        yield self.taken(me, resigned_replica(me), *self.resignation_requests(me), consumes=False)

    def has_quorum(self, me: Replica, fetching: frozenset[Key | Nil]) -> bool:
        """Whether the voters that can fetch form a majority, including this leader if it is a voter."""
        heard = {
            voter
            for voter in self.others(me)
            if any(isinstance(key, Key) and matches_voter(voter, key) for key in fetching)
        }
        return len(me.voters) == 1 or self.is_majority(me.voters, heard | self.own_votes(me))
