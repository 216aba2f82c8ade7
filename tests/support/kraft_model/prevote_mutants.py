"""For each property of `prevote` a mutant that it notices."""

from __future__ import annotations

from tests.support.kraft_model.mutants import Noticed

PREVOTE = {
    "VotesAreAnswered": Noticed("disturbed-details", "elections._grants_pre_vote: False -> True"),
    "VotesAreRemembered": Noticed("default-details", "elections.handle_vote_request: me.current_epoch -> me.hwm (2)"),
    "VotesAreCounted": Noticed("default-details", "elections.handle_vote_response: consume -> become"),
    "MessagesTellWhoLeads": Noticed("smoke-details", "replication._follow: me.voted_for -> me.leader"),
    "AnnouncementsAreFollowed": Noticed(
        "growing-details", "replication.accept_begin_quorum_request: consume -> become"
    ),
    "FetchesAreAnswered": Noticed("smoke-details", "replication._valid_position: 1 -> 0"),
    "AnswersTellWhatFollows": Noticed("smoke-details", "replication._is_removed: any -> all"),
    "FetchesAreNoted": Noticed("growing-details", "replication.accept_fetch_request: 0 -> 1 (2)"),
    "WhatIsFetchedIsKept": Noticed("growing-details", "replication._follow: response.hwm -> response.source"),
    "FollowersUseWhatTheirLogsSay": Noticed("growing-details", "replication._follow: 0 -> 1"),
    "ProspectivesAskForPreVotes": Noticed("default-details", "elections.conclude_pre_vote: False -> True"),
    "CandidatesHavePreVotes": Noticed("default-details", "elections.conclude_pre_vote: me.current_epoch -> me.hwm"),
    "ProspectivesGiveUp": Noticed("default-details", "elections.conclude_pre_vote: me.leader -> me.voted_for"),
    "ElectedLeadersAnnounceThemselves": Noticed("growing-details", "elections.become_leader: 1 -> 2"),
    "AnnouncementsAreRepeated": Noticed("default-details", "replication.resend_begin_quorum_epoch_request: 1 -> 2"),
    "ResignedLeadersGoOn": Noticed("smoke-details", "base.zero_end_offsets: 0 -> 1"),
    "FetchesGoToLeaders": Noticed("smoke-details", "base._send: on.dest -> on.source"),
    "ClientsValuesAreAppended": Noticed("growing-details", "replication.handle_client_request: 1 -> 2"),
    "ChangesAreAppended": Noticed("growing-details", "base._count: 1 -> 0"),
    "ClientsHearOfLostOffices": Noticed(
        "growing-details", "replication.accept_fetch_request: shared.negatively_acked -> shared.sent"
    ),
    "RestartsKeepWhatIsStored": Noticed("disturbed-details", "environment.restart_with_state: 0 -> 1"),
    "TheDeadKnowNothing": Noticed("disturbed-details", "environment.crash_lose_state: 0 -> 1"),
    "NewestConfigurationIsUsed": Noticed(
        "growing-details", "rules.most_recent_config: InitialMembers | AddedVoter -> InitialMembers"
    ),
    "LogsHoldWhatIsCommitted": Noticed("growing-details", "environment._append_config: me.current_epoch -> me.hwm"),
    "LeadersKnowTheirFollowers": Noticed("smoke-details", "replication.accept_fetch_request: 1 -> 0"),
    "DisturbancesAreCounted": Noticed(
        "smoke-details", "environment.change_network_connectivity: shared.connectivity_ctr -> shared.disk_id_gen"
    ),
    "ServersAreCounted": Noticed("growing-details", "environment.start_new_server: 1 -> 0"),
    "ServersStartAsObservers": Noticed("growing-details", "environment.start_new_server: 1 -> 0 (2)"),
    "FetchesHavePositions": Noticed("growing-details", "environment.start_new_server: 0 -> 1"),
}
"""By property."""
