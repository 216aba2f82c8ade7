"""The environment of `quorum`: clients, restarts, crashes, lost disks and cut links, each with a bound."""

from __future__ import annotations

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import Batch, Data, Mode
from kraftcheck.kraft_model.quorum.state import Admin, Replica, Shared
from kraftcheck.kraft_model.quorum.transitions import resigned, stopped
from kraftcheck.spec import Map, ModelValue, Step, Steps, environment, internal, ordered, projection


class QuorumEnvironment(QuorumBase):
    """Steps that the protocol does not choose: clients, failures, cut links."""

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
        """Whether a leader flushes what it appends before anyone can hear of it."""
        return True

    @internal
    def restart(self, me: Replica) -> Steps:
        """A process restarts with what is on disk: epoch, leader, vote, log and snapshot.

        KIP-595, "Quorum State"; KIP-853, "Quorum state".
        """
        if me.mode is Mode.DOWN:
            return
        yield self.comes_back(me)

    @internal
    def restart_losing_unflushed(self, me: Replica) -> Steps:
        """A machine loses power: its log loses what was not flushed."""
        if me.mode is Mode.DOWN:
            return
        if me.flushed == len(me.log):
            return
        yield self.comes_back(self.with_log(me, me.log[: me.flushed], flushes=True))

    def comes_back(self, me: Replica) -> Step:
        """Return the step in which a replica starts again."""
        after = self.after_restart(me)
        return self.taken(me, after, *self.first_words(after), consumes=False, starts=True).spend("restarts")

    @internal
    def crash(self, me: Replica) -> Steps:
        """A process stops for good."""
        if me.mode is Mode.DOWN:
            return
        yield self.taken(me, stopped(me), consumes=False, starts=True).spend("crashes")

    @internal
    def lose_disk(self, me: Replica, shared: Shared) -> Steps:
        """A disk is replaced and formatted without initial controllers: same id, next directory id.

        KIP-853, "Disk failure recovery", "Replica directory ID".
        """
        if me.mode is Mode.DOWN:
            return
        blank = self.formatted(me.id, me.directory + 1, me.endpoint).but(software=me.software)
        lost = shared.lost.put(me.key, me.log)
        yield self.taken(me, blank, consumes=False).put(lost=lost).spend("lost_disks")

    @internal
    def move_endpoint(self, me: Replica) -> Steps:
        """A controller restarts with other listeners (KIP-853, "Upgrading controller listener")."""
        if me.mode is Mode.DOWN or me.id in self.brokers:
            return
        after = self.after_restart(me.but(endpoint=me.endpoint + 1))
        yield self.taken(me, after, *self.first_words(after), consumes=False, starts=True).spend("moved_endpoints")

    @internal
    def change_software(self, me: Replica) -> Steps:
        """A controller restarts with other software, which starts or ceases to support kraft.version 1.

        KIP-853, "Supported features". Older software cannot read a log with a KRaftVersionRecord.
        """
        if me.mode is Mode.DOWN or me.id in self.brokers:
            return
        if me.software == 1 and me.version == 1:
            return
        after = self.after_restart(me.but(software=1 - me.software))
        yield self.taken(me, after, *self.first_words(after), consumes=False, starts=True).spend("software_changes")

    # Links

    @environment
    def cut(self, shared: Shared) -> Steps:
        """The network between two replicas is cut: nothing is delivered between them until it heals."""
        hosts = ordered(self.hosts)
        for position, one in enumerate(hosts):
            for other in hosts[position + 1 :]:
                pair = frozenset({one, other})
                if pair not in shared.cuts:
                    yield Step().put(cuts=shared.cuts | {pair}).spend("cuts")

    @environment
    def heal(self, shared: Shared) -> Steps:
        """A cut link heals: what was sent can be delivered."""
        if self.cuts == 0:
            return
        for pair in ordered(shared.cuts):
            yield Step().put(cuts=shared.cuts - {pair})

    @projection
    def alive(self, me: Replica | Admin) -> bool:
        """Whether a process runs."""
        return isinstance(me, Replica) and me.mode is not Mode.DOWN

    @internal(reads=alive)
    def check_quorum(self, me: Replica, shared: Shared, alive: Map[ModelValue, bool]) -> Steps:
        """A leader that no majority can fetch from resigns (KAFKA-13621, KAFKA-15489; KIP-853, "Fetch").

        A leader counts itself only if it is a voter. A leader that is the only voter never resigns so.
        """
        if me.mode is not Mode.LEADER:
            return
        if not (self.cuts or self.crashes):
            return
        if self.has_quorum(me, {h for h, up in alive.items() if up and frozenset({me.id, h}) not in shared.cuts}):
            return
        yield self.taken(me, resigned(me), *self.farewell(me), consumes=False)

    def has_quorum(self, me: Replica, reachable: set[ModelValue]) -> bool:
        """Whether the voters that can fetch are a majority, this leader counted if it is a voter."""
        fetching = {key for key in self.others(me) if key.id in reachable}
        return len(me.voters) == 1 or self.is_majority(me.voters, fetching | self.own_votes(me))
