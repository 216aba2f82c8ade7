"""For each property that no seeded fault breaks, a mutant that does: `kraftcheck mutate` found them."""

from __future__ import annotations

from typing import NamedTuple


class Noticed(NamedTuple):
    """A mutant that a property notices.

    Attributes
    ----------
    config
        The configuration.
    mutant
        The mutant's name.
    """

    config: str
    mutant: str


NOTICED: dict[str, dict[str, Noticed]] = {
    "quorum": {
        "VotesAreAnswered": Noticed(
            "smoke",
            "elections.vote_answer: VoteResponse( me.epoch, me.leader, granted, error, request.pre_vote, "
            "request.voter, request.epoch, me.id, request.source, self.endpoint_shown(me), ) -> "
            "VoteResponse(me.epoch, me.leader, granted, error, request.pre_vote, request.voter, request.epoch, "
            "request.source, me.id, self.endpoint_shown(me))",
        ),
        "VotesAreGrantedAsDue": Noticed(
            "smoke",
            "elections.grants_vote: me.mode not in MODES_GRANTING_VOTES -> me.mode in MODES_GRANTING_VOTES",
        ),
        "VotesAreCounted": Noticed(
            "smoke",
            "elections.awaits: Mode.PROSPECTIVE if response.pre_vote else Mode.CANDIDATE -> Mode.PROSPECTIVE",
        ),
        "LeadersAreFollowed": Noticed("smoke", "base.learn: epoch < me.epoch -> epoch >= me.epoch"),
        "ResignationsAreHeard": Noticed(
            "smoke-network",
            "elections.handle_end_quorum_epoch_request: self.is_foreign(me, request.source) -> not "
            "self.is_foreign(me, request.source)",
        ),
        "AcknowledgementsAreHeard": Noticed(
            "default-resign",
            "elections.handle_acknowledgement: response.of != me.epoch or me.mode not in (Mode.LEADER, "
            "Mode.RESIGNED) -> False",
        ),
        "FetchesAreAnswered": Noticed(
            "smoke",
            "replication.fetch_answer: self.advertised_high_watermark(me) if error is Error.NONE else 0 -> 0",
        ),
        "FetchesAreNoted": Noticed("smoke", "replication.note_fetch: request.source -> request.dest"),
        "FetchedIsStored": Noticed(
            "smoke",
            "replication.take_high_watermark: response.high_watermark == 0 or isinstance(response.diverging, "
            "Position) -> not (response.high_watermark == 0 or isinstance(response.diverging, Position))",
        ),
        "VotersFollowTheLog": Noticed(
            "smoke-answers",
            "base.with_log: me.but( log=log, flushed=len(log) if flushes else min(me.flushed, len(log)), "
            "voters=self.voters_in(log, self.first_voters(me)), "
            "version=last_kraft_version(log, self.formatted_version(me.id, me.directory)), ) "
            "-> me.but(flushed=len(log) if flushes else min(me.flushed, len(log)), "
            "voters=self.voters_in(log, self.first_voters(me)), version=last_kraft_version(log, "
            "self.formatted_version(me.id, me.directory)))",
        ),
        "MessagesAreTakenOnce": Noticed("smoke-network", "base.is_cut: 0 -> 1"),
        "NewRolesBeginAfresh": Noticed("smoke", "rules.enter_mode: me.voted if kept else Nil.NIL -> Nil.NIL"),
        "RequestsSayWhatIsSo": Noticed(
            "smoke",
            "base.vote_requests: VoteRequest(me.epoch, pre_vote, me.key, key, end.epoch, end.offset, me.id, "
            "key.id, voter_endpoint_of_host(me, key.id)) -> VoteRequest(me.epoch, pre_vote, key, me.key, end.epoch, "
            "end.offset, me.id, key.id, voter_endpoint_of_host(me, key.id))",
        ),
        "AnswersAreForgottenWithTheRole": Noticed("smoke", "base.dropped_with_mode: Mode.CANDIDATE -> Mode.LEADER"),
        "TimersDoAsTheyShould": Noticed(
            "smoke",
            "rules.replica_after_lost_pre_vote: isinstance(me.leader, Nil) or me.leader == me.id or "
            "me.leader_endpoint == 0 -> False",
        ),
        "LeadersOpenTheirEpoch": Noticed("smoke", "elections.first_records: me.voters -> me.heard"),
        "LeadersCommitWhatMostHold": Noticed(
            "smoke",
            "base.commits: not self.may_commit(me, end) or not self.moves_high_watermark(me, end) -> False",
        ),
        "SnapshotsAreSent": Noticed(
            "default-snapshot",
            "replication.handle_fetch_snapshot_request: self.is_foreign(me, request.source) -> not "
            "self.is_foreign(me, request.source)",
        ),
        "SnapshotsAreLoaded": Noticed("default-snapshot", "replication.load: True -> False"),
        "SnapshotsEndWhereCommitted": Noticed(
            "default-snapshot",
            "replication.take_snapshot: me.high_watermark <= me.start -> False",
        ),
        "JoinersAreServed": Noticed("default-join", "voters.begin_adding: self.is_duplicate(me, voter.key) -> False"),
        "JoinersGoOn": Noticed("default-join", "voters.handle_join_response: me.but(joining=False) -> me"),
        "AdministratorsAreServed": Noticed("smoke-answers", "voters.begin_adding: error is not None -> False"),
        "VersionsAreTold": Noticed(
            "smoke-answers",
            "voters.handle_api_versions_request: ApiVersionsResponse(me.software, request.of, me.id, "
            "request.source) -> ApiVersionsResponse(me.software, request.of, request.source, me.id)",
        ),
        "NewVotersAreChecked": Noticed(
            "smoke-answers",
            "voters.handle_api_versions_response: not isinstance(change, Change) or not isinstance(change.voter, "
            "Voter) or change.checked -> not (not isinstance(change, Change) or not isinstance(change.voter, "
            "Voter) or change.checked)",
        ),
        "UpdatesAreNoted": Noticed("default-endpoints", "voters.begin_updating: error is not None -> error is None"),
        "UpdatesAreAcknowledged": Noticed(
            "default-endpoints",
            "voters.handle_update_voter_response: me.mode is not Mode.FOLLOWER or response.request != "
            "self.update_request(me, response.source) -> not (me.mode is not Mode.FOLLOWER or response.request "
            "!= self.update_request(me, response.source))",
        ),
        "AdministratorsRemember": Noticed(
            "smoke-answers",
            "voters.remembers: response.error is not Error.NONE -> False",
        ),
        "QuorumsAreDescribed": Noticed("smoke-answers", "voters.describe_quorum: me.mode is not Mode.LEADER -> False"),
        "ChangesEndWithAnAnswer": Noticed(
            "smoke-answers",
            "base.answer: client == ADMIN and not self.plain_answers -> not (client == ADMIN and (not "
            "self.plain_answers))",
        ),
        "WhatIsWatchedIsSo": Noticed("smoke-answers", "base.answered: me.version -> me.directory"),
        "LeadersHearAMajority": Noticed(
            "smoke-network",
            "environment.has_quorum: any(isinstance(key, Key) and matches_voter(voter, key) for key in fetching) -> "
            "not any((isinstance(key, Key) and matches_voter(voter, key) for key in fetching))",
        ),
        "RestartsKeepWhatIsOnDisk": Noticed(
            "default-restart",
            "rules.restarted_replica: last_epoch(back.log) > back.epoch -> last_epoch(back.log) <= back.epoch",
        ),
        "DisksComeBackEmpty": Noticed("default-disk", "environment.lose_disk: 1 -> 0"),
        "RequestsAreRepeatedInVain": Noticed(
            "smoke-network",
            "replication.retry: (me.updating or me.joining) and not self.is_own_request_served(me, shared, bystander)"
            " -> not self.is_own_request_served(me, shared, bystander)",
        ),
        "RequestsHaveTheirTime": Noticed(
            "default-endpoints",
            "voters.send_update_voter: me.mode is not Mode.FOLLOWER or isinstance(me.leader, Nil) -> "
            "isinstance(me.leader, Nil)",
        ),
    },
    "registration": {
        "RegistrationsSayWhatNodesAre": Noticed(
            "default-brokers", "active.handle_registration: request.source -> request.dest (3)"
        ),
        "NodesAreRegisteredOnce": Noticed(
            "default-gated",
            "nodes.register: me.cursor < shared.committed or self._is_registered(me, shared) or not "
            "self._wants_to_register(me, shared) -> False",
        ),
        "UnregisteredAsAsked": Noticed(
            "smoke", "tools._runs: shared.decommissioned | {command.target} -> shared.decommissioned"
        ),
        "OnlyTheActiveControllerWrites": Noticed("smoke", "nodes._stopped: down.but(due=()) -> down"),
        "OnlyCommittedRecordsAreApplied": Noticed("default-brokers", "nodes._node_after_start: 0 -> 1"),
        "SuccessIsCommitted": Noticed("smoke", "tools.handle_response: self._goes_on(me, response) -> False"),
        "ToolsEndAsTheirRequestsMay": Noticed(
            "default-brokers", "active._upgrades: Error.INVALID_UPDATE_VERSION -> Error.INVALID_REQUEST"
        ),
        "RefusalsHadAReason": Noticed(
            "default-brokers",
            "active.handle_unregister_broker: self.image(shared).brokers -> self.image(shared).controllers",
        ),
        "AdviceAfterARemovalThatFailed": Noticed(
            "smoke",
            "tools._admin_after_tool_ended: me.command.tool is Tool.REMOVE_AND_UNREGISTER and not me.unregistering -> "
            "not me.unregistering",
        ),
        "ActiveControllerRuns": Noticed(
            "smoke", "nodes._stopped: step.put(active=Nil.NIL) if shared.active == me.id else step -> step"
        ),
        "ToolsThatRunHaveNoOutcome": Noticed(
            "smoke", "tools._runs: me.but(command=command, outcome=Nil.NIL) -> me.but(command=command)"
        ),
        "StartsAreNewIncarnations": Noticed("default-brokers", "nodes._node_after_start: 0 -> 1"),
        "OthersAnswerNotController": Noticed(
            "smoke", "active.refuse_not_controller: Error.DISCONNECTED -> Error.DUPLICATE_BROKER_REGISTRATION"
        ),
        "RegistrationsArePersisted": Noticed(
            "default-brokers", "active._may_register: request.supports >= image.level -> request.supports > image.level"
        ),
        "ControllersAreUnregistered": Noticed(
            "smoke-static", "active._unregistration_refusal: image.controllers -> image.brokers"
        ),
        "BrokersAreUnregistered": Noticed(
            "default-brokers", "active.handle_unregister_broker: request.broker -> request.dest"
        ),
        "VotersAreRemoved": Noticed("smoke", "active._removal_refusal: any -> all"),
        "LevelsAreFinalized": Noticed("smoke", "active._all_support: all -> any"),
        "WhatIsCommittedIsAnswered": Noticed("smoke", "active.commit: shared.told | told -> shared.told"),
        "WhoResignsAnswersNotController": Noticed(
            "default", "active.resign: due.response.but(error=Error.NOT_CONTROLLER) -> due.response"
        ),
        "RecordsAreAppliedInOrder": Noticed(
            "smoke",
            "nodes.apply_record: not me.running or me.cursor >= shared.committed -> me.cursor >= shared.committed",
        ),
        "NodesGoDownForAReason": Noticed("smoke", "nodes._stopped: False -> True (2)"),
        "NodesStartAsTheyWere": Noticed("default-brokers", "nodes.restart: shared.decommissioned -> shared.voters"),
        "NodesRegisterAsTheyAre": Noticed("default-brokers", "nodes._was_registered: any -> all"),
        "RegisteringEndsWithTheAnswer": Noticed("default-gated", "nodes.handle_registration_response: False -> True"),
        "ToolsAskTheActiveController": Noticed("smoke", "tools.run_upgrade: 1 -> 0"),
        "ToolsGoByTheirAnswers": Noticed("smoke", "tools.handle_response: consume -> become (3)"),
        "ToolsWaitForAWhile": Noticed(
            "smoke-static", "tools.change_configuration: become(me).put(voters=shared.voters - {node}) -> become(me)"
        ),
        "UnregisteredNodesAreDown": Noticed(
            "smoke", "tools.run_remove_controller: Tool.REMOVE_AND_UNREGISTER -> Tool.UPGRADE (2)"
        ),
        "ElectedIsVoter": Noticed(
            "default", "active._elected: Step().put(active=node, log=shared.log[:kept]) -> Step().put(active=node)"
        ),
        "MajoritiesCommit": Noticed("default-half", "active.commit: running[node] -> True"),
        "MajoritiesElect": Noticed("default-half", "active.elect_active: cursors[node] >= 0 -> True"),
    },
    "recovery": {
        "BrokersKnowWhatWasDecided": Noticed(
            "smoke-zookeeper",
            "controller._leader_and_isr: (6, partition.recovery) if self.controller_recovers else "
            "(5, Nil.ABSENT) -> (5, Nil.ABSENT)",
        ),
        "BrokersKnowTheMetadata": Noticed(
            "smoke",
            "brokers.apply_metadata: me.cursor >= len(shared.metadata) -> me.cursor > len(shared.metadata)",
        ),
        "MetadataIsWhatWasDecided": Noticed("smoke", "controller._decide: me.but(partition=after) -> me"),
        "LeaderIsInSync": Noticed(
            "smoke", "controller._without: me.partition.leader != broker -> me.partition.leader == broker"
        ),
        "EpochsOnlyGrow": Noticed(
            "smoke-zookeeper", "brokers.restart: me.running or me.id not in fenced[Name.CONTROLLER] -> False"
        ),
        "RecoversWhileRecovering": Noticed(
            "smoke",
            "brokers.recover: not me.leads or me.partition.recovery is not RECOVERING -> "
            "not (not me.leads or me.partition.recovery is not RECOVERING)",
        ),
        "ProposalsAreTheLeaders": Noticed(
            "smoke",
            "brokers.report_recovered: not me.leads or me.partition.recovery is not RECOVERING or not me.recovered -> "
            "not (not me.leads or me.partition.recovery is not RECOVERING or (not me.recovered))",
        ),
        "CommittedIsAnswered": Noticed("default", "base._acknowledge: offset <= end -> offset > end"),
        "ClientsAreAnsweredAsTheyAsked": Noticed(
            "default", "exchanges.send_request: shared.values + 1 if api is Api.PRODUCE else 0 -> 0"
        ),
        "ErrorsCarryNothing": Noticed(
            "default-crash", "brokers.break_connection: Error.DISCONNECTED -> Error.NONE (2)"
        ),
        "WaitingClientsTryAgain": Noticed("default", "exchanges.append_produced: True -> False"),
        "ExpiredSessionsAreFenced": Noticed("smoke", "controller.fence_broker: me.fenced | {broker} -> me.fenced"),
        "BrokersComeBackAsTheyLeft": Noticed("smoke", "controller.unfence_broker: Nil.NO_LEADER -> Nil.UNCHANGED"),
        "UncleanLeadersAreAloneAndRecover": Noticed("smoke", "controller.elect_uncleanly: RECOVERING -> RECOVERED"),
        "NewControllersKnowAndTell": Noticed("smoke-zookeeper", "controller.change_controller: 1 -> 0"),
        "DecisionsArePersisted": Noticed(
            "smoke", "base.record_of_changed_partition_fields: Nil.UNCHANGED -> Nil.ABSENT"
        ),
        "ZookeeperBrokersAreTold": Noticed("smoke-zookeeper", "controller._tells_followers: True -> False"),
        "AlterPartitionIsAnswered": Noticed("default-isr", "controller._alter_partition_response: 1 -> 2"),
        "MetadataIsAppliedInOrder": Noticed("smoke", "brokers._told: 0 -> 1"),
        "LeaderAndIsrIsBelieved": Noticed("smoke-zookeeper", "brokers.handle_leader_and_isr: True -> False"),
        "LeadersRecoverOnceTold": Noticed("smoke", "brokers.recover: shared.finished -> shared.served"),
        "LeadersProposeWhatTheyMay": Noticed("default-isr", "brokers._propose: 1 -> 2"),
        "RequestsAreUnderWayOnce": Noticed(
            "default-resends", "brokers.resend_alter_partition: me.id in requested[Name.CONTROLLER] -> False"
        ),
        "LeadersLearnFromTheirAnswers": Noticed(
            "default-isr", "brokers._is_awaited: pending.attempt -> pending.version"
        ),
        "BrokersLoseAllButTheirLogs": Noticed("default-crash", "brokers.restart: True -> False"),
        "ClientsAskAgainWhatWasRefused": Noticed("smoke", "exchanges.give_up: me.refused -> not me.refused"),
        "ClientsTakeTheirAnswers": Noticed(
            "smoke", "exchanges.handle_response: Error.NONE -> Error.NOT_LEADER_OR_FOLLOWER"
        ),
        "ClientsAreServedByWhoMay": Noticed("default", "exchanges.append_produced: True -> False"),
        "ConnectionsBreak": Noticed("default-crash", "brokers.break_connection: 1 -> 2"),
        "FollowersAskTheirLeader": Noticed("default", "exchanges.fetch_from_leader: True -> False"),
        "EpochEndsAreAnswered": Noticed("default-former", "exchanges.answer_epoch_end: request.source -> request.dest"),
        "FollowersTruncateAsTold": Noticed("default-former", "exchanges.truncate: agreed or not kept -> agreed"),
        "FetchesAreAnswered": Noticed("default", "exchanges.answer_fetch: request.leader_epoch -> request.offset"),
        "FollowersAppendWhatTheyAskedFor": Noticed("default", "exchanges.append_fetched: False -> True"),
    },
    "reconfig": {
        "StatesMatchLeaders": Noticed(
            "smoke-details", "rules.to_unattached: ServerState.UNATTACHED -> ServerState.FOLLOWER"
        ),
        "LogsHoldWhatIsCommitted": Noticed("smoke-details", "rules.has_consistent_leader: me.leader -> me.voted_for"),
        "NewestConfigurationIsUsed": Noticed(
            "default-details",
            "replication._switch_configuration: me.but(config=config, role=role, state=state, leader=outcome.leader, "
            "end_offset=offsets) -> me.but(role=role, state=state, leader=outcome.leader, end_offset=offsets)",
        ),
        "ChangesChangeOneMember": Noticed(
            "default-details",
            "membership.accept_join_request: me.config.members | {request.source} -> me.config.members",
        ),
        "EpochsOnlyGrow": Noticed("smoke-details", "rules.no_transition: me.current_epoch -> me.high_watermark"),
        "CommittedStays": Noticed("smoke-details", "replication._success: min -> max"),
        "CommitsWithMajorities": Noticed(
            "smoke-details", "replication._new_high_watermark: peer == me.id or end_offset[peer] >= offset -> True"
        ),
        "LeadersKnowTheirFollowers": Noticed(
            "smoke-details",
            "elections.handle_request_vote_request: request.source if granted else me.voted_for -> me.voted_for",
        ),
        "ValuesAreClients": Noticed(
            "smoke-details",
            "replication.client_request: become(me.but(log=(*me.log, entry))).put(acked=shared.acked.put(value, "
            "False), value_ctr=counts) -> become(me.but(log=(*me.log, entry))).put(value_ctr=counts)",
        ),
        "FetchesHavePositions": Noticed("smoke-details", "rules.no_transition: me.current_epoch -> me.high_watermark"),
        "FetchesAreAnsweredAsAsked": Noticed(
            "smoke-details",
            "replication.reject_fetch_request: request.epoch > me.current_epoch -> request.epoch >= me.current_epoch",
        ),
        "VotesAreGrantedWithoutError": Noticed(
            "smoke-details", "elections.handle_request_vote_request: request.source -> request.dest (3)"
        ),
        "VotesAreAnswered": Noticed("smoke-details", "elections._may_vote: True -> False"),
        "VotesAreRemembered": Noticed(
            "smoke-details", "elections.handle_request_vote_request: ServerState.VOTED -> ServerState.RESIGNED"
        ),
        "VotesAreCounted": Noticed("smoke-details", "elections.handle_request_vote_response: vote.source -> vote.dest"),
        "AnnouncementsAreFollowed": Noticed(
            "smoke-details", "replication.accept_begin_quorum_request: consume -> become"
        ),
        "AnswersTellWhoLeads": Noticed("joining-details", "rules.maybe_transition: epoch > me.current_epoch -> False"),
        "FetchesAreAnswered": Noticed(
            "joining-details", "replication.reject_fetch_request: me.state is not ServerState.LEADER -> False"
        ),
        "AnswersTellWhatFollows": Noticed("joining-details", "replication._success: 1 -> 0"),
        "FetchesAreNoted": Noticed("smoke-details", "replication._is_removed: any -> all"),
        "ClientsAreToldWhatIsCommitted": Noticed(
            "smoke-details", "replication.accept_fetch_request_from_voter: False -> True (2)"
        ),
        "OnlyAwaitedAnswersCount": Noticed(
            "joining-details", "replication.handle_success_fetch_response: consume -> become"
        ),
        "WhatIsFetchedIsKept": Noticed("competing-details", "rules.truncated: offset -> offset + 1"),
        "FollowersUseWhatTheirLogsSay": Noticed("joining-details", "replication._switch_configuration: 0 -> 1"),
        "JoinsAreAnswered": Noticed(
            "joining-details", "membership.reject_join_request: request.source -> request.dest"
        ),
        "RefusalsToJoinChangeNothing": Noticed(
            "joining-details", "membership.handle_reject_join_response: response.result is not Result.NOT_OK -> False"
        ),
        "CandidatesAskAllMembers": Noticed(
            "smoke-details", "base._peers: me.config.members - {me.id} -> me.config.members"
        ),
        "ElectedLeadersAnnounceThemselves": Noticed(
            "smoke-details", "elections.become_leader: become(leader).send_once(*announcements) -> become(leader)"
        ),
        "FetchesGoToLeaders": Noticed(
            "joining-details", "replication.send_fetch_request: me.pending_fetch is not Nil.NIL -> False"
        ),
        "ClientsValuesAreAppended": Noticed(
            "smoke-details", "replication.client_request: me.but(log=(*me.log, entry)) -> me"
        ),
        "RemovalsAreAppended": Noticed(
            "competing-details", "membership._reconfig_error: not self._is_ready(me) -> False"
        ),
        "ObserversAskToJoin": Noticed(
            "joining-details", "membership.send_join_request: me.current_epoch -> me.high_watermark"
        ),
        "RestartsKeepWhatIsStored": Noticed("joining-details", "base._no_offsets: 0 -> 1"),
        "BlankDisksHaveNewIdentities": Noticed(
            "joining-details",
            "elections.restart_without_state: not any( self._is_voter(peer) and me.id in peer.members "
            "and len(peer.members) > self.min_cluster_size for peer in membership.values() ) -> False",
        ),
        "ServersStartAsObservers": Noticed("joining-details", "membership.start_new_server: True -> False"),
        "EveryServerIsThere": Noticed("joining-details", "membership.start_new_server: Step().write(new) -> Step()"),
        "IdentitiesAreCounted": Noticed("joining-details", "membership.start_new_server: 1 -> 0"),
        "ClustersKeepTheirSize": Noticed(
            "default-details",
            "membership.handle_remove_request: len(me.config.members) <= self.min_cluster_size -> False",
        ),
    },
}
"""By model and property."""
