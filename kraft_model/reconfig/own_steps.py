"""Contracts of `reconfig`: what each step must be that a server takes by itself.

Of a step that delivers no message, what it sends, writes and spends tells which one it is.
"""

from __future__ import annotations

from kraftcheck.kraft_model.reconfig.contracts import changes_members, log_end, majority, may_change_members
from kraftcheck.kraft_model.reconfig.membership import ReconfigMembership
from kraftcheck.kraft_model.reconfig.records import (
    BeginQuorumRequest,
    Command,
    Entry,
    FetchRequest,
    JoinRequest,
    Nil,
    RemovedMember,
    RequestVoteRequest,
    Role,
    Server,
    ServerId,
    ServerState,
    Shared,
)
from kraftcheck.spec import Map, ModelValue, Record, Step, invariant, step_invariant


def sends_only(step: Step, *messages: Record) -> bool:
    """Return whether a step sends these messages, in any order, and each once."""
    return len(step.sent) == len(messages) and set(step.sent) == set(messages)


class ReconfigOwnSteps(ReconfigMembership):
    """Step invariants of what a server does by itself, and invariants of servers that start."""

    # Elections

    @step_invariant
    def candidates_ask_all_members(self, before: Server, after: Server, step: Step) -> bool:
        """A voter that stands enters a new epoch, votes for itself, and asks every other member with its log's end.

        It stands for the configuration that it uses, and not while it leads. KIP-595, Vote; KIP-853, VotersRecord.
        """
        if "elections" not in step.spends and not any(isinstance(one, RequestVoteRequest) for one in step.sent):
            return True
        epoch, (last_epoch, last_offset) = before.current_epoch + 1, log_end(before.log)
        peers = [member for member in before.config.members if member != before.id]
        requests = [RequestVoteRequest(epoch, last_epoch, last_offset, before.id, peer) for peer in peers]
        states = (ServerState.FOLLOWER, ServerState.CANDIDATE, ServerState.UNATTACHED)
        may_stand = before.role is Role.VOTER and len(peers) < len(before.config.members) and before.state in states
        stands = before.but(
            state=ServerState.CANDIDATE,
            current_epoch=epoch,
            voted_for=before.id,
            votes_granted=frozenset({before.id}),
            leader=Nil.NIL,
            pending_fetch=Nil.NIL,
        )
        return may_stand and after == stands and sends_only(step, *requests) and "elections" in step.spends

    @step_invariant
    def elected_leaders_announce_themselves(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A candidate leads with a majority's votes, knows nothing of its followers yet, and tells every other member.

        KIP-595, Leader Election and BeginQuorumEpoch; KIP-853, BeginQuorumEpoch.
        """
        announces = any(isinstance(one, BeginQuorumRequest) for one in step.sent)
        elected = before.state is ServerState.CANDIDATE and after.leader == before.id
        if not announces and not elected and (after.state is not ServerState.LEADER or before.state is after.state):
            return True
        members = before.config.members
        wins = before.state is ServerState.CANDIDATE and majority(members, before.votes_granted)
        told = [BeginQuorumRequest(before.current_epoch, before.id, one) for one in members if one != before.id]
        nothing = set(after.end_offset) == shared.servers and not any(after.end_offset.values())
        leads = before.but(state=ServerState.LEADER, leader=before.id, end_offset=after.end_offset)
        return wins and after == leads and nothing and sends_only(step, *told)

    # Fetching

    @step_invariant
    def fetches_go_to_leaders(self, before: Server, after: Server, step: Step) -> bool:
        """A server fetches from the leader that it follows, behind its log's end, one fetch at a time.

        An observer that follows nobody asks a member. KIP-595, Fetch; KIP-853, Endpoints information.
        """
        asks = isinstance(after.pending_fetch, FetchRequest) and after.pending_fetch != before.pending_fetch
        sent = [one for one in step.sent if isinstance(one, FetchRequest)]
        if not asks and not sent:
            return True
        if len(sent) != 1 or before.pending_fetch is not Nil.NIL:
            return False
        (fetch,) = sent
        finds = before.role is Role.OBSERVER and before.state is ServerState.UNATTACHED
        follows = before.state is ServerState.FOLLOWER and fetch.dest == before.leader
        position = (fetch.last_fetched_epoch, fetch.fetch_offset) == log_end(before.log)
        as_is = (fetch.epoch, fetch.observer) == (before.current_epoch, before.role is Role.OBSERVER)
        between = fetch.source == before.id != fetch.dest
        return (
            (follows or (finds and fetch.dest in before.config.members))
            and position
            and as_is
            and between
            and after == before.but(pending_fetch=fetch)
        )

    # What clients and administrators do

    @step_invariant
    def clients_values_are_appended(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A leader appends a client's value, once, with its epoch, and the client is not told yet.

        KIP-595, Log Replication. The specification's history counts it for the epoch.
        """
        put = dict(step.puts)
        new = after.log[len(before.log) :]
        appends = any(isinstance(one.value, ModelValue) for one in new) and not step.consumes
        if "value_ctr" not in put and not appends:
            return True
        if len(new) != 1 or not isinstance(new[0].value, ModelValue):
            return False
        value, epoch = new[0].value, before.current_epoch
        counted = [count + (number == epoch) for number, count in enumerate(shared.value_ctr, 1)]
        return (
            before.state is ServerState.LEADER
            and shared.acked[value] is Nil.NIL
            and after == before.but(log=(*before.log, Entry(Command.APPEND, epoch, value)))
            and put == {"acked": shared.acked.put(value, False), "value_ctr": tuple(counted)}
            and counted[epoch - 1] <= self.max_values_per_epoch
            and not step.sends
        )

    @step_invariant
    def removals_are_appended(self, before: Server, after: Server, step: Step) -> bool:
        """A leader removes one member, if no change is under way and its epoch has committed something.

        It uses the members without it at once, leads on as observer if it is that member, and changes nothing else.
        KIP-853, RemoveVoter, Handling, and Removing voters.
        """
        new = after.log[len(before.log) :]
        removes = any(one.command is Command.REMOVE_SERVER for one in new) and not step.consumes
        if "remove_reconfigs" not in step.spends and not removes:
            return True
        if before.state is not ServerState.LEADER or not may_change_members(before):
            return False
        members = before.config.members
        (removed,) = gone if len(gone := members - after.config.members) == 1 else (None,)
        if removed is None or len(members) <= self.min_cluster_size:
            return False
        change = RemovedMember(before.config.id + 1, removed, members - {removed})
        role = Role.OBSERVER if removed == before.id else before.role
        same = after == before.but(log=after.log, config=after.config, role=role)
        entry = Entry(Command.REMOVE_SERVER, before.current_epoch, change)
        return changes_members(before, after, entry) and same and not step.sends

    @step_invariant
    def observers_ask_to_join(self, before: Server, after: Server, step: Step) -> bool:
        """An observer that is no member may ask the leader that it knows to let it in. KIP-853, AddVoter."""
        if "add_reconfigs" not in step.needs and not any(isinstance(one, JoinRequest) for one in step.sent):
            return True
        if isinstance(before.leader, Nil) or before.leader == before.id:
            return False
        outside = before.role is Role.OBSERVER and before.id not in before.config.members
        request = JoinRequest(before.current_epoch, dest=before.leader, source=before.id)
        return outside and after == before and sends_only(step, request) and not step.consumes

    # Restarts

    @step_invariant
    def restarts_keep_what_is_stored(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A server that restarts keeps epoch, vote, leader, log and configuration, and loses what it had in memory.

        Who led does not lead on: KIP-595, Quorum State; the specification, RestartWithState.
        """
        if "restarts" not in step.spends or step.writes:
            return True
        state = before.state
        if state is ServerState.LEADER:
            state = ServerState.RESIGNED if before.role is Role.VOTER else ServerState.UNATTACHED
        nothing = set(after.end_offset) == shared.servers and not any(after.end_offset.values())
        kept = before.but(
            state=state,
            leader=before.leader if state is before.state else Nil.NIL,
            votes_granted=frozenset(),
            pending_fetch=Nil.NIL,
            high_watermark=0,
            end_offset=after.end_offset,
        )
        return nothing and after == kept and before.state is not ServerState.DEAD_NO_STATE and not step.sends

    @step_invariant
    def blank_disks_have_new_identities(self, before: Server, after: Server, step: Step, shared: Shared) -> bool:
        """A server that lost its disk starts with an identity that nobody had, and knows nothing. KIP-853, Key Terms.

        It is a restart: "the number of restarts with or without state" is limited (the specification, MaxRestarts).
        """
        if not step.writes:
            return True
        (blank,) = step.writes if len(step.writes) == 1 else (before,)
        new = ServerId(before.id.host, shared.disk_id_gen + 1)
        knows_nothing = blank == Server(new, end_offset=blank.end_offset) and not any(blank.end_offset.values())
        put = {"servers": shared.servers | {new}, "disk_id_gen": new.disk_id}
        died = before.but(role=Role.DEAD_NO_STATE, state=ServerState.DEAD_NO_STATE)
        old = after in (before, died) and before.state is not ServerState.DEAD_NO_STATE
        return knows_nothing and old and dict(step.puts) == put and "restarts" in step.spends

    # Servers that start

    @invariant
    def servers_start_as_observers(self, me: Server) -> bool:
        """Who has heard of no epoch is an observer, has no log, and waits for its first fetch. KIP-853, Key Terms."""
        if me.current_epoch > 0 or me.state in (ServerState.DEAD_NO_STATE, ServerState.ILLEGAL):
            return True
        fetch = me.pending_fetch
        dest = me.id if isinstance(fetch, Nil) else fetch.dest
        waits = fetch in (Nil.NIL, FetchRequest(0, 0, 0, True, me.id, dest))
        return waits and me.role is Role.OBSERVER and not me.log and me.leader is Nil.NIL

    @invariant(reads=ReconfigMembership.leads)
    def every_server_is_there(self, shared: Shared, leads: Map[ServerId, bool]) -> bool:
        """Each server that was ever started has a state, and no other has. The specification's `servers`."""
        return set(leads) == shared.servers

    @invariant
    def identities_are_counted(self, shared: Shared) -> bool:
        """Each server that starts has a disk id of its own, and no more start than may. KIP-853, Key Terms."""
        numbers = sorted(server.disk_id for server in shared.servers)
        started = len(numbers) - self.init_cluster_size
        ids = [0] * self.init_cluster_size + list(range(1, started + 1))
        room = max(self.max_spawned_servers, self.init_cluster_size)
        return numbers == ids and shared.disk_id_gen == started and len(numbers) <= room

    @invariant
    def clusters_keep_their_size(self, me: Server) -> bool:
        """A configuration has as many members as a cluster may have. The specification, MaxClusterSize."""
        members = len(me.config.members)
        most = max(self.max_cluster_size, self.init_cluster_size)
        return me.config.id == 0 or self.min_cluster_size <= members <= most
