"""For each property of `prevote` a mutant that it notices."""

from __future__ import annotations

from tests.support.kraft_model.mutants import Noticed

PREVOTE = {
    "VotesAreAnswered": Noticed("disturbed-details", "elections._grants_pre_vote: False -> True"),
    "VotesAreRemembered": Noticed("default-details", "elections.handle_vote_request: me.current_epoch -> me.hwm (2)"),
    "VotesAreCounted": Noticed("default-details", "elections.handle_vote_response: consume -> become"),
    "MessagesTellWhoLeads": Noticed("smoke-details", "followers._follow: me.voted_for -> me.leader"),
    "AnnouncementsAreFollowed": Noticed("growing-details", "followers.accept_begin_quorum_request: consume -> become"),
    "FetchesAreAnswered": Noticed("smoke-details", "leader._valid_position: 1 -> 0"),
    "AnswersTellWhatFollows": Noticed("smoke-details", "leader._is_removed: any -> all"),
    "FetchesAreNoted": Noticed("growing-details", "leader.accept_fetch_request: 0 -> 1 (2)"),
    "WhatIsFetchedIsKept": Noticed("growing-details", "followers._follow: response.hwm -> response.source"),
    "FollowersUseWhatTheirLogsSay": Noticed("growing-details", "followers._follow: 0 -> 1"),
    "ProspectivesAskForPreVotes": Noticed("default-details", "elections.conclude_pre_vote: False -> True"),
    "CandidatesHavePreVotes": Noticed("default-details", "elections.conclude_pre_vote: me.current_epoch -> me.hwm"),
    "ProspectivesGiveUp": Noticed("default-details", "elections.conclude_pre_vote: me.leader -> me.voted_for"),
    "ElectedLeadersAnnounceThemselves": Noticed("growing-details", "elections.become_leader: 1 -> 2"),
    "AnnouncementsAreRepeated": Noticed("default-details", "leader.resend_begin_quorum_epoch_request: 1 -> 2"),
    "ResignedLeadersGoOn": Noticed("smoke-details", "base.zeros: 0 -> 1"),
    "FetchesGoToLeaders": Noticed("smoke-details", "base._send: on.dest -> on.source"),
    "ClientsValuesAreAppended": Noticed("growing-details", "leader.handle_client_request: 1 -> 2"),
    "ChangesAreAppended": Noticed("growing-details", "base._count: 1 -> 0"),
    "ClientsHearOfLostOffices": Noticed(
        "growing-details", "leader.accept_fetch_request: shared.negatively_acked -> shared.sent"
    ),
    "RestartsKeepWhatIsStored": Noticed("disturbed-details", "disturbances.restart_with_state: 0 -> 1"),
    "TheDeadKnowNothing": Noticed("disturbed-details", "disturbances.crash_lose_state: 0 -> 1"),
    "NewestConfigurationIsUsed": Noticed(
        "growing-details", "log.most_recent_config: InitialMembers | AddedVoter -> InitialMembers"
    ),
    "LogsHoldWhatIsCommitted": Noticed("growing-details", "membership._append_config: me.current_epoch -> me.hwm"),
    "LeadersKnowTheirFollowers": Noticed("smoke-details", "leader.accept_fetch_request: 1 -> 0"),
    "DisturbancesAreCounted": Noticed(
        "smoke-details", "disturbances.change_network_connectivity: shared.connectivity_ctr -> shared.disk_id_gen"
    ),
    "ServersAreCounted": Noticed("growing-details", "membership.start_new_server: 1 -> 0"),
    "ServersStartAsObservers": Noticed("growing-details", "membership.start_new_server: 1 -> 0 (2)"),
    "FetchesHavePositions": Noticed("growing-details", "membership.start_new_server: 0 -> 1"),
}
"""By property."""
