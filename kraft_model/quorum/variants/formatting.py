"""Changes of how controllers are formatted, proposed or under way; see `coming` for the others.

Their results are in `docs/findings.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.contracts.steps import voters_records_due_at_election
from kraftcheck.kraft_model.quorum.records import (
    ENDED_MODES,
    FetchResponse,
    Key,
    LeaderChange,
    LogRecord,
    Mode,
    Nil,
    Replica,
    Shared,
    Voter,
    VoteRequest,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import Log, permanently_down_replica
from kraftcheck.kraft_model.quorum.starts import election_steps, fetch_steps
from kraftcheck.kraft_model.quorum.voters import all_controllers_as_voters
from kraftcheck.spec import Map, ModelValue, Step, Steps, bound, constant, internal, invariant, ordered, step_invariant
from kraftcheck.spec.language.semantics import Take, scenario, take


class OverriddenReplica(Replica):
    """A replica whose voter set formatting has overridden: the voters written then, and the log end at that time."""

    override: frozenset[Voter] = frozenset()
    override_end: int = 0


class OverriddenVoters(Quorum, variant="overridden-voters"):
    """A stopped controller is formatted with --override-voters: it keeps its log, and takes other voters (KIP-1347).

    KAFKA-20427. The set counts as the newest up to the log end; a later VotersRecord replaces it. As with the set that
    the first formatting writes (KIP-853, "First leader"), the next leader appends it.
    """

    configuration = "coming.overridden-voters"
    replica_type = OverriddenReplica
    override_voters: frozenset[ModelValue] = constant("OverrideVoters", default=frozenset())
    overrides: int = bound("MaxOverrides", default=0)

    @internal(reads=Quorum.identity)
    def override(self, me: OverriddenReplica, identity: Map[ModelValue, Voter | Nil]) -> Steps:
        """A controller is stopped, formatted with --override-voters, and started again."""
        if me.mode in ENDED_MODES:
            return
        voters = self.voters_given(me, all_controllers_as_voters(identity))
        given = self.with_log(me.but(override=voters, override_end=len(me.log)), me.log, flushes=True)
        after = self.after_restart(given)
        yield self.taken(me, after, *self.messages_after_restart(after), consumes=False, starts=True).spend("overrides")

    @scenario
    def renamed_voters(self) -> Iterator[Take]:
        """The first voter led, and every voter has restarted with another endpoint (KAFKA-20427)."""
        yield from self.elected()
        for voter in ordered(self.initial_voters):
            yield take("MoveEndpoint", voter)

    @scenario
    def all_overridden(self) -> Iterator[Take]:
        """Three voters: leader 1 removed 3, then 2, which does not know it; then each was formatted with new voters."""
        one, *others = self.chosen(3)
        yield from self.removed_follower()
        yield take("RemoveVoter", one, lambda me: {voter.key.id for voter in me.voters} == {one})
        for voter in (one, *others):
            yield take("Override", voter)

    def voters_given(self, me: Replica, known: list[Voter]) -> frozenset[Voter]:
        """Return the voters that formatting writes: OverrideVoters, with their present endpoints."""
        return frozenset(voter for voter in known if voter.key.id in self.override_voters)

    def with_log(self, me: Replica, log: Log, *, flushes: bool) -> Replica:
        assert isinstance(me, OverriddenReplica)
        after = super().with_log(me, log, flushes=flushes).but(override_end=min(me.override_end, len(log)))
        return after.but(voters=me.override) if self.uses_override(after) else after

    def first_records(self, me: Replica) -> tuple[LogRecord, ...]:
        return super().first_records(me) or ((Voters(me.voters),) if self.uses_override(me) else ())

    def uses_override(self, me: Replica) -> bool:
        """Whether no VotersRecord follows the voters that formatting wrote."""
        assert isinstance(me, OverriddenReplica)
        return bool(me.override) and self.last_voters_record(me.log) <= me.override_end

    def is_given(self, before: OverriddenReplica, voters: frozenset[Voter]) -> bool:
        """Whether formatting may give a replica these voters."""
        return {voter.key.id for voter in voters} == self.override_voters

    @step_invariant
    def overriding_keeps_the_log(self, before: OverriddenReplica, after: OverriddenReplica, step: Step) -> bool:
        """Formatting gives the voters, keeps the log, and starts the process; nothing else gives voters (KIP-1347)."""
        if step.spends != ("overrides",):
            return (after.override, after.override_end) in (
                (before.override, min(before.override_end, len(after.log))),
                (frozenset(), 0),
            )
        kept = after.log == before.log and after.override_end == len(before.log) and not step.consumes
        fresh = after.change is Nil.NIL and not after.granted - {after.key}
        return kept and fresh and self.is_given(before, after.override)

    @invariant
    def given_voters_are_used(self, me: OverriddenReplica) -> bool:
        """The voters given are in use until a VotersRecord follows in the log (KIP-1347)."""
        sets = [end for end, batch in enumerate(me.log, start=1) if any(isinstance(r, Voters) for r in batch.records)]
        is_newest = bool(me.override) and all(end <= me.override_end for end in sets)
        return me.voters == (me.override if is_newest else self.voters_in(me.log, self.first_voters(me)))

    @step_invariant
    def leaders_append_given_voters(self, before: OverriddenReplica, after: OverriddenReplica, step: Step) -> bool:
        """A new leader appends the voters that it was given, if no VotersRecord follows them (KIP-1347)."""
        if after.mode is not Mode.LEADER or before.mode is Mode.LEADER:
            return True
        opened = after.log[len(before.log)].records
        sets = [end for end, batch in enumerate(before.log, 1) if any(isinstance(r, Voters) for r in batch.records)]
        if not before.override or any(end > before.override_end for end in sets):
            return opened == (LeaderChange(before.id), *voters_records_due_at_election(before, after))
        return opened == (
            LeaderChange(before.id),
            *(voters_records_due_at_election(before, after) or [Voters(before.voters)]),
        )


class OverriddenAlone(OverriddenVoters, variant="overridden-alone"):
    """A controller is formatted with itself as the only voter, and then adds the others one by one."""

    configuration = "coming.overridden-alone"

    def voters_given(self, me: Replica, known: list[Voter]) -> frozenset[Voter]:
        return frozenset(voter for voter in known if voter.key == me.key)

    def is_given(self, before: OverriddenReplica, voters: frozenset[Voter]) -> bool:
        return {voter.key for voter in voters} == {before.key}


class OverriddenEndpoints(OverriddenVoters, variant="overridden-endpoints"):
    """A proposal: overriding gives other endpoints to the voters of the local log, and no other voters."""

    configuration = "coming.overridden-endpoints"

    def voters_given(self, me: Replica, known: list[Voter]) -> frozenset[Voter]:
        endpoints = {voter.key: voter.endpoint for voter in known}
        return frozenset(voter.but(endpoint=endpoints.get(voter.key, voter.endpoint)) for voter in me.voters)

    def is_given(self, before: OverriddenReplica, voters: frozenset[Voter]) -> bool:
        return {voter.key for voter in voters} == {voter.key for voter in before.voters}


class FormattedWithNewVoters(Quorum, variant="formatted-with-new-voters"):
    """New controllers are formatted with --initial-controllers, the old voters and themselves (Strimzi proposal 203).

    The running voters have been formatted with the old voters alone. A rejected alternative of the proposal.
    """

    configuration = "coming.formatted-with-new-voters"
    new_controllers: frozenset[ModelValue] = constant("NewControllers", default=frozenset())

    def formatted_voters(self, host: ModelValue, directory: int) -> frozenset[Voter]:
        if host not in self.new_controllers or directory != 1:
            return super().formatted_voters(host, directory)
        return frozenset(Voter(Key(voter)) for voter in self.initial_voters | self.new_controllers)

    @scenario
    def voter_behind(self) -> Iterator[Take]:
        """Three voters: 2 has elected 1, which has committed its first batch; 3 has not heard of it yet."""
        one, two, _ = self.chosen(3)
        yield from election_steps(one, [two], others=1)
        yield from fetch_steps(two, one, times=1)
        yield take("HandleFetchRequest", one, source=two)

    @invariant
    def new_controllers_list_all_voters(self, me: Replica) -> bool:
        """A new controller without records has the old voters and the new ones (Strimzi proposal 203)."""
        if me.id not in self.new_controllers or me.log or me.directory != 1:
            return True
        return {voter.key.id for voter in me.voters} == self.initial_voters | self.new_controllers


class FormattingNeeded(Quorum, variant="formatting-needed"):
    """A controller whose disk is lost stays down, since no operator formats the new disk (before KIP-1262)."""

    configuration = "coming.formatting-needed"

    @internal
    def lose_disk(self, me: Replica, shared: Shared) -> Steps:
        """A disk is lost, and the process does not start again."""
        for step in super().lose_disk(me, shared):
            assert isinstance(step.me, Replica)
            yield step.but(me=permanently_down_replica(step.me))

    @step_invariant
    def lost_disks_stay_down(self, before: Replica, after: Replica, step: Step) -> bool:
        """A process without a formatted disk does not run (KIP-785)."""
        return step.spends != ("lost_disks",) or after.mode in ENDED_MODES


class IdentifiedReplica(Replica):
    """A replica whose disk may hold the cluster id."""

    identified: bool = False


class WaitsForClusterId(Quorum, variant="waits-for-cluster-id"):
    """A proposal: a voter without a cluster id neither votes nor stands, until a leader's Fetch gives it the id.

    KIP-1262 has a node without formatting discover its cluster id by Fetch. Here the first disks have one, except those
    of the hosts `Unformatted`.
    """

    configuration = "coming.waits-for-cluster-id"
    replica_type = IdentifiedReplica
    unformatted: frozenset[ModelValue] = constant("Unformatted", default=frozenset())

    def formatted(self, host: ModelValue, directory: int, endpoint: int = 1) -> Replica:
        has_id = directory == 1 and host not in self.unformatted
        return super().formatted(host, directory, endpoint).but(identified=has_id)

    def take_high_watermark(self, me: Replica, response: FetchResponse) -> Replica:
        return super().take_high_watermark(me, response).but(identified=True)

    def may_stand(self, me: Replica) -> bool:
        assert isinstance(me, IdentifiedReplica)
        return me.identified and super().may_stand(me)

    @scenario
    def partly_fetched(self) -> Iterator[Take]:
        """Three voters: 1 and 2 committed a record, 2 lost its disk, and has fetched the first batch again."""
        one, two, _ = self.chosen(3)
        yield from self.elected()
        yield take("ClientAppend", one)
        yield from fetch_steps(two, one, times=2)
        yield take("LoseDisk", two)
        yield take("FetchFromBootstrapServer", two)
        for _ in range(2):
            yield take("HandleFetchRequest", one, source=two, directory=2)
            yield take("HandleFetchResponse", two, source=one)

    def log_suffices(self, me: Replica, request: VoteRequest) -> bool:
        assert isinstance(me, IdentifiedReplica)
        return me.identified and super().log_suffices(me, request)
