"""Contracts of `prevote`: what each step must be that a server takes by itself, and what clients are told."""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.contracts import last_voters, none_noted, votes
from kraftcheck.kraft_model.prevote.membership import PrevoteMembership
from kraftcheck.kraft_model.prevote.records import (
    AddedVoter,
    BeginQuorumEpochRequest,
    Command,
    Config,
    ElectedLeaderRequest,
    Entry,
    FetchRequest,
    FetchState,
    Nil,
    RemovedVoter,
    RequestVoteRequest,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.kraft_model.reconfig.contracts import log_end, majority
from kraftcheck.spec import Map, ModelValue, Record, Step, invariant, step_invariant


def reaches(shared: Shared, one: int, other: int) -> bool:
    """Return whether two servers are connected."""
    return shared.connectivity.get(frozenset((one, other)), False)


def sends_only(step: Step, shared: Shared, *messages: Record) -> bool:
    """Return whether a step sends these messages, each once, as far as their connections are up."""
    arriving = [one for one in messages if reaches(shared, one.source, one.dest)]  # type: ignore[attr-defined]
    return len(step.sent) == len(arriving) and set(step.sent) == set(arriving)


def asks_for_votes(me: Server, epoch: int, *, pre_vote: bool) -> list[RequestVoteRequest]:
    """Return a request to each other member, with the end of the server's log."""
    last_epoch, last_offset = log_end(me.log)
    peers = [member for member in me.config.members if member != me.id]
    return [RequestVoteRequest(epoch, last_epoch, last_offset, pre_vote, me.id, peer) for peer in peers]


def may_change_voters(leader: Server) -> bool:
    """Return whether a leader has no change of its voters under way, and has committed something in its epoch."""
    in_epoch = leader.current_epoch in {entry.epoch for entry in leader.log[: leader.hwm]}
    return leader.state is ServerState.LEADER and leader.config.committed and in_epoch


class PrevoteOwnSteps(PrevoteMembership):
    """Step invariants of what a server does by itself, and invariants of servers that start."""

    # Elections

    @step_invariant
    def prospectives_ask_for_pre_votes(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A voter that hears of no leader asks all others for pre-votes, and keeps its epoch, vote and leader.

        KIP-996, Proposed Changes. An unattached voter has a reason; what has none is counted as a disruption.
        """
        asks = [one for one in step.sent if isinstance(one, RequestVoteRequest) and one.pre_vote]
        begins = after.state is ServerState.PROSPECTIVE is not before.state
        if not asks and not begins:
            return True
        states = (ServerState.FOLLOWER, ServerState.CANDIDATE, ServerState.UNATTACHED)
        stands = before.but(state=ServerState.PROSPECTIVE, votes_recv=frozenset({before.id}), fetch_state=FetchState())
        counters = dict(step.puts).get("counters", shared.counters)
        disruptive = counters.disruptive_ctr - shared.counters.disruptive_ctr
        counted = disruptive in ((0,) if before.state is ServerState.UNATTACHED else (0, 1))
        same = counters == shared.counters.but(
            disruptive_ctr=counters.disruptive_ctr, prevote_ctr=shared.counters.prevote_ctr + self.test_liveness
        )
        requests = asks_for_votes(before, before.current_epoch, pre_vote=True)
        may_stand = before.state in states and votes(before)
        return may_stand and after == stands and counted and same and sends_only(step, shared, *requests)

    @step_invariant
    def candidates_have_pre_votes(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A prospective that a majority would elect enters a new epoch, votes for itself, and asks the others.

        KIP-996, Proposed Changes; KIP-595, Vote.
        """
        asks = any(isinstance(one, RequestVoteRequest) and not one.pre_vote for one in step.sent)
        begins = after.state is ServerState.CANDIDATE and after.current_epoch != before.current_epoch
        if not asks and not begins:
            return True
        epoch = before.current_epoch + 1
        stands = before.but(
            state=ServerState.CANDIDATE,
            current_epoch=epoch,
            leader=Nil.NIL,
            voted_for=before.id,
            votes_recv=frozenset({before.id}),
        )
        wins = before.state is ServerState.PROSPECTIVE and majority(before.config.members, before.votes_recv)
        bounded = epoch <= self.max_epoch or self.test_liveness
        requests = asks_for_votes(before, epoch, pre_vote=False)
        return wins and votes(before) and bounded and after == stands and sends_only(step, shared, *requests)

    @step_invariant
    def prospectives_give_up(self, before: Server, after: Server, step: Step) -> bool:
        """A prospective that gives up by itself follows the leader that it last knew, or nobody, in its epoch.

        It has no majority, and keeps its vote. KIP-996, Proposed Changes.
        """
        gives_up = before.state is ServerState.PROSPECTIVE and after.state in (
            ServerState.FOLLOWER,
            ServerState.UNATTACHED,
        )
        if not gives_up or step.consumes or step.puts:
            return True
        state = ServerState.UNATTACHED if before.leader is Nil.NIL else ServerState.FOLLOWER
        wins = majority(before.config.members, before.votes_recv)
        return not wins and after == before.but(state=state, votes_recv=frozenset()) and not step.sends

    @step_invariant
    def elected_leaders_announce_themselves(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A candidate leads with a majority's votes, appends a LeaderChange record, and tells every other member.

        It knows nothing of its followers yet. KIP-595, Leader Election, BeginQuorumEpoch and LeaderChangeMessage.
        """
        told = [one for one in step.sent if isinstance(one, ElectedLeaderRequest) and not one.resend]
        begins = after.state is ServerState.LEADER is not before.state
        leaves = before.state is ServerState.CANDIDATE and after.leader == before.id
        if not told and not begins and not leaves:
            return True
        members, epoch = before.config.members, before.current_epoch
        leads = before.but(
            state=ServerState.LEADER,
            leader=before.id,
            voted_for=Nil.NIL,
            votes_recv=frozenset(),
            log=(*before.log, Entry(Command.LEADER_CHANGE, epoch, Nil.NIL)),
            fetch_state=FetchState(),
            flwr_end_offset=after.flwr_end_offset,
        )
        wins = before.state is ServerState.CANDIDATE and majority(members, before.votes_recv)
        peers = [ElectedLeaderRequest(epoch, before.id, one, False) for one in members if one != before.id]
        alone = len(members) == 1 and before.hwm != len(before.log) + 1  # the specification never elects it
        return wins and not alone and after == leads and none_noted(after) and sends_only(step, shared, *peers)

    @step_invariant
    def announcements_are_repeated(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader that was elected may announce itself to a member again. KIP-595, BeginQuorumEpoch."""
        again = [one for one in step.sent if isinstance(one, ElectedLeaderRequest) and one.resend]
        if not again:
            return True
        (peer,) = {one.dest for one in again} if len(again) == 1 else {before.id}
        request = ElectedLeaderRequest(before.current_epoch, before.id, peer, True)
        leads = before.state is ServerState.LEADER and before.current_epoch > 1
        outside = peer != before.id and peer in before.config.members and reaches(shared, before.id, peer)
        return leads and outside and after == before and step.sent == (request,)

    @step_invariant
    def resigned_leaders_go_on(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader that too few fetch from resigns and forgets its followers; later it is unattached in a new epoch.

        KIP-595, Check Quorum; the specification, CheckQuorumResign and ResignedElectionTimeout.
        """
        if before.state is ServerState.RESIGNED and not step.consumes and not step.puts:
            epoch = before.current_epoch + 1
            waits = before.but(
                state=ServerState.UNATTACHED,
                current_epoch=epoch,
                leader=Nil.NIL,
                voted_for=Nil.NIL,
                votes_recv=frozenset(),
            )
            return after == waits and not step.sends
        put = dict(step.puts)
        counters = put.get("counters", shared.counters)
        restarts = counters.restart_ctr != shared.counters.restart_ctr
        if after.state is not ServerState.RESIGNED or before.state is ServerState.RESIGNED or step.consumes or restarts:
            return True
        resigned = before.but(
            state=ServerState.RESIGNED,
            leader=before.id,
            voted_for=Nil.NIL,
            votes_recv=frozenset(),
            pending_ack=frozenset(),
            flwr_end_offset=after.flwr_end_offset,
        )
        disruptive = counters.disruptive_ctr
        counted = counters == shared.counters.but(disruptive_ctr=disruptive)
        counted = counted and disruptive - shared.counters.disruptive_ctr in (0, 1)
        leads = before.state is ServerState.LEADER
        return leads and counted and none_noted(after) and after == resigned and not step.sends

    # Fetching

    @step_invariant
    def fetches_go_to_leaders(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A server fetches from the leader that it follows, from the offset behind its log, one fetch at a time.

        A voter that knows no leader, and an observer that lost its own, asks any server. KIP-595, Fetch; KIP-853,
        Endpoints information. A fetch on a cut connection is lost, and waited for.
        """
        fetch = after.fetch_state.pending_fetch
        asks = isinstance(fetch, FetchRequest) and fetch != before.fetch_state.pending_fetch
        if not asks and not any(isinstance(one, FetchRequest) for one in step.sent):
            return True
        if not isinstance(fetch, FetchRequest):
            return False
        follows = before.state is ServerState.FOLLOWER
        free = before.fetch_state.pending_fetch is Nil.NIL
        leads = follows and free and fetch.dest == before.leader
        finds = before.state is ServerState.UNATTACHED and votes(before) and free
        lost = follows and not votes(before)
        last_epoch, end = log_end(before.log)
        due = FetchRequest(before.current_epoch, end + 1, last_epoch, before.id, fetch.dest)
        waits = after == before.but(fetch_state=before.fetch_state.but(pending_fetch=due))
        return (
            (leads or finds or lost)
            and fetch == due
            and due.dest != before.id
            and waits
            and sends_only(step, shared, due)
        )

    # Clients and administrators

    @step_invariant
    def clients_values_are_appended(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader appends a client's value, once, with its epoch; alone it commits it at once. KIP-595."""
        put = dict(step.puts)
        new = after.log[len(before.log) :]
        appends = any(isinstance(one.value, ModelValue) for one in new) and not step.consumes
        if "sent" not in put and not appends:
            return True
        if len(new) != 1 or not isinstance(new[0].value, ModelValue):
            return False
        value, epoch = new[0].value, before.current_epoch
        log = (*before.log, Entry(Command.APPEND, epoch, value))
        in_epoch = [one for one in log if one.epoch == epoch and isinstance(one.value, ModelValue)]
        alone = before.config.members == {before.id} or len(before.config.members) == 1
        pending = before.pending_ack | {value}
        return (
            before.state is ServerState.LEADER
            and value not in shared.sent
            and put == {"sent": shared.sent | {value}}
            and len(in_epoch) <= self.max_values_per_epoch
            and after == before.but(log=log, hwm=len(log) if alone else before.hwm, pending_ack=pending)
            and not step.sends
        )

    @step_invariant
    def changes_are_appended(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader adds or removes one voter, if no change is under way and its epoch has committed something.

        It uses the new voters at once, announces itself to one that is added, and counts the change. KIP-853, AddVoter
        and RemoveVoter, Handling.
        """
        new = after.log[len(before.log) :]
        changes = [one.value for one in new if isinstance(one.value, AddedVoter | RemovedVoter)]
        counters = dict(step.puts).get("counters", shared.counters)
        adds = counters.add_reconfig_ctr - shared.counters.add_reconfig_ctr
        removes = counters.remove_reconfig_ctr - shared.counters.remove_reconfig_ctr
        if step.consumes or not (changes or adds or removes or (after.config != before.config and not step.puts)):
            return True
        if len(new) != 1 or len(changes) != 1 or (adds, removes) not in ((1, 0), (0, 1)):
            return False
        members, number = before.config.members, before.config.id + 1
        (changed,) = gone if len(gone := members ^ changes[0].members) == 1 else (None,)
        if changed is None:
            return False
        value = (
            AddedVoter(number, changed, members | {changed})
            if adds
            else RemovedVoter(number, changed, members - {changed})
        )
        command = Command.ADD_VOTER if adds else Command.REMOVE_VOTER
        size = len(members) < self.max_cluster_size if adds else len(members) > self.min_cluster_size
        follows = before.but(
            log=(*before.log, Entry(command, before.current_epoch, value)),
            config=Config(number, value.members, False),
            flwr_end_offset=after.flwr_end_offset,
        )
        offsets = {member: before.flwr_end_offset.get(member, 0) for member in value.members}
        told = [BeginQuorumEpochRequest(before.current_epoch, before.id, changed)] if adds else []
        fits = (
            after == follows
            and dict(after.flwr_end_offset.items()) == offsets
            and changed not in (members if adds else ())
        )
        return size and may_change_voters(before) and fits and sends_only(step, shared, *told)

    @step_invariant
    def clients_hear_of_lost_offices(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader that leaves its office tells clients that what it has not committed may be lost, and only then.

        The specification, FailAnyPendingWritesIfLeader.
        """
        put = dict(step.puts)
        committed = put.get("positively_acked", shared.positively_acked) - shared.positively_acked
        refused = put.get("negatively_acked", shared.negatively_acked)
        if before.state is ServerState.LEADER is not after.state:
            failed = before.pending_ack - committed
            return refused == shared.negatively_acked | failed and not after.pending_ack
        return bool(refused == shared.negatively_acked)

    # Restarts and crashes

    @step_invariant
    def restarts_keep_what_is_stored(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A server that restarts keeps epoch, vote, log and configuration, and loses what it had in memory.

        Who led resigns, or is unattached as an observer; who was prospective is unattached. KIP-595, Quorum State.
        """
        counters = dict(step.puts).get("counters", shared.counters)
        if counters.restart_ctr == shared.counters.restart_ctr:
            return True
        kept = before
        if before.state is ServerState.LEADER and votes(before):
            kept = before.but(state=ServerState.RESIGNED, leader=before.id, voted_for=Nil.NIL, votes_recv=frozenset())
        elif before.state in (ServerState.LEADER, ServerState.PROSPECTIVE):
            kept = before.but(state=ServerState.UNATTACHED, leader=Nil.NIL, votes_recv=frozenset())
        kept = kept.but(hwm=0, fetch_state=FetchState(), pending_ack=frozenset(), flwr_end_offset=after.flwr_end_offset)
        nothing = set(after.flwr_end_offset) == set(before.flwr_end_offset) and not any(after.flwr_end_offset.values())
        counted = counters == shared.counters.but(restart_ctr=shared.counters.restart_ctr + 1)
        alive = before.state is not ServerState.DEAD_NO_STATE
        return counted and counters.restart_ctr <= self.max_restarts and alive and nothing and after == kept

    @step_invariant
    def the_dead_know_nothing(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A voter that is lost with its disk knows nothing any more, and no connection of it is up.

        The specification, CrashLoseState.
        """
        put = dict(step.puts)
        counters = put.get("counters", shared.counters)
        crashes = counters.crash_ctr != shared.counters.crash_ctr
        if not crashes and "connectivity" not in put and after.state is not ServerState.DEAD_NO_STATE:
            return before.state is not ServerState.DEAD_NO_STATE or after == before
        dead = Server(before.id, before.identity, state=ServerState.DEAD_NO_STATE)
        counted = counters == shared.counters.but(crash_ctr=shared.counters.crash_ctr + 1)
        up = {pair: is_up and before.id not in pair for pair, is_up in shared.connectivity.items()}
        cut = dict(put["connectivity"].items()) == up if "connectivity" in put else False
        return counted and counters.crash_ctr <= self.max_crashes and votes(before) and cut and after == dead

    # Servers

    @invariant
    def newest_configuration_is_used(self, me: Server) -> bool:
        """A server that has a log uses its last configuration, committed or not. KIP-853, Reconfiguration."""
        if not me.log or me.state in (ServerState.DEAD_NO_STATE, ServerState.ILLEGAL):
            return True
        last = last_voters(me.log, me.hwm)
        return (me.config.id, me.config.members) == (last.id, last.members)

    @invariant
    def logs_hold_what_is_committed(self, me: Server) -> bool:
        """A log holds its high watermark, its epochs do not fall, and none is newer than the server's. KIP-595."""
        epochs = [entry.epoch for entry in me.log]
        return (me.hwm <= len(me.log) and epochs == sorted(epochs) and max(epochs, default=0) <= me.current_epoch) or (
            me.state in (ServerState.DEAD_NO_STATE, ServerState.ILLEGAL)
        )

    @invariant
    def leaders_know_their_followers(self, me: Server, peer: Server) -> bool:
        """A leader credits nobody with more than it has, and candidates count votes that were given. KIP-595."""
        if me.current_epoch != peer.current_epoch or peer.state in (ServerState.DEAD_NO_STATE, ServerState.ILLEGAL):
            return True
        return me.state is not ServerState.LEADER or me.flwr_end_offset.get(peer.id, 0) <= len(peer.log)

    @invariant
    def disturbances_are_counted(self, shared: Shared) -> bool:
        """Nothing happens more often than its limit allows. The specification's auxiliary counters."""
        counters = shared.counters
        return (
            counters.disruptive_ctr <= self.max_disruptions
            and counters.crash_ctr <= self.max_crashes
            and counters.restart_ctr <= self.max_restarts
            and counters.add_reconfig_ctr <= self.max_add_reconfigs
            and counters.remove_reconfig_ctr <= self.max_remove_reconfigs
            and shared.connectivity_ctr <= self.max_connectivity_changes
        )

    @invariant(reads=PrevoteMembership.leads)
    def servers_are_counted(self, shared: Shared, leads: Map[int, Config]) -> bool:
        """Each server that starts has the next number and a disk id of its own, and no more start than may."""
        started = shared.disk_id_gen
        numbers = range(1, self.init_cluster_size + started + 1)
        return set(leads) == set(numbers) and len(numbers) <= self.max_spawned_servers

    @invariant
    def servers_start_as_observers(self, me: Server) -> bool:
        """A server has a disk id of its own unless it was there from the start; with no epoch it is unattached."""
        original = me.id <= self.init_cluster_size
        if (me.identity.disk_id == 0) != original or me.identity.disk_id > max(0, me.id - self.init_cluster_size):
            return False
        idle = me.state in (ServerState.UNATTACHED, ServerState.DEAD_NO_STATE, ServerState.ILLEGAL)
        return me.current_epoch > 0 or (idle and not me.log and me.leader is Nil.NIL)

    @invariant
    def fetches_have_positions(self, message: FetchRequest) -> bool:
        """A fetch asks another server from a position that a log can have. KIP-595, Fetch."""
        empty = message.fetch_offset <= 1
        sane = message.last_fetched_epoch <= message.replica_epoch and empty == (message.last_fetched_epoch == 0)
        return message.source != message.dest and sane and message.fetch_offset >= (message.replica_epoch > 0)
