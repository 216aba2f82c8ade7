"""The properties of `registration`. Each names its source."""

from __future__ import annotations

from kraftcheck.kraft_model.registration.base import RegistrationBase
from kraftcheck.kraft_model.registration.image import image_of, needed_level
from kraftcheck.kraft_model.registration.records import (
    Admin,
    Broker,
    Command,
    Controller,
    Error,
    FeatureLevelRecord,
    Nil,
    Outcome,
    Shared,
    Tool,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    VotersRecord,
)
from kraftcheck.spec import invariant, reachable


class RegistrationProperties(RegistrationBase):
    """The invariants, and what should stay reachable."""

    @invariant
    def no_member_below_finalized_level(self, me: Controller | Broker, shared: Shared) -> bool:
        """No running node that is registered by the committed records is below the finalized level.

        Motivation ("determining if all cluster members support a feature level during upgrades").
        """
        image = self.committed_image(shared)
        return not me.running or me.supports >= image.level or not self._is_member(me, shared)

    @invariant
    def voters_support_finalized_level(self, me: Controller, shared: Shared) -> bool:
        """No voter that runs is below the finalized level. KAFKA-20865; Motivation."""
        image = self.committed_image(shared)
        voters = shared.voters if self.static else image.voters
        return not me.running or me.supports >= image.level or me.id not in voters

    @invariant
    def records_are_understood(self, me: Controller | Broker, shared: Shared) -> bool:
        """Every running node that is registered can read every record. Rejected Alternatives ("it is unsafe")."""
        ahead = shared.log[me.cursor : shared.committed]
        unreadable = any(
            needed_level(record) > me.supports for record in ahead if not isinstance(record, FeatureLevelRecord)
        )
        return not me.running or not unreadable or not self._is_member(me, shared)

    @invariant
    def told_is_kept(self, shared: Shared) -> bool:
        """A record that the operator was told is committed stays in the log.

        CLI changes, kafka-cluster, step 3 ("When this record is committed, return a response").
        """
        return all(shared.log[offset - 1 : offset] == (record,) for offset, record in shared.told)

    @invariant
    def records_replay(self, shared: Shared) -> bool:
        """Each record fits the state that it is applied to: a registration ends once, a level rises, voters remain.

        Kafka, ClusterControlManager.replay ("no controller registration found for that id"); KIP-584.
        """
        return all(self._fits(shared, place) for place in range(len(shared.log)))

    def _fits(self, shared: Shared, place: int) -> bool:
        image, record = image_of(self.snapshot(), shared.log[:place]), shared.log[place]
        if isinstance(record, UnregisterControllerRecord):
            return record.controller in image.controllers
        if isinstance(record, UnregisterBrokerRecord):
            return record.broker in image.brokers
        if isinstance(record, VotersRecord):
            return bool(record.voters)
        return not isinstance(record, FeatureLevelRecord) or record.level > image.level

    @invariant
    def removed_before_unregistered(self, me: Admin, shared: Shared) -> bool:
        """`remove-controller --unregister` unregisters nobody who is still a voter. kafka-metadata-quorum, step 4."""
        if not isinstance(me.command, Command) or me.command.tool is not Tool.REMOVE_AND_UNREGISTER:
            return True
        image = self.committed_image(shared)
        return not me.unregistering or me.command.target not in image.voters

    @invariant
    def active_is_voter(self, shared: Shared) -> bool:
        """The active controller is a voter, by what is committed: one that is removed leaves office.

        KIP-853, "RemoveVoter", step 7.
        """
        voters = shared.voters if self.static else self.committed_image(shared).voters
        return isinstance(shared.active, Nil) or shared.active in voters

    @invariant
    def not_found_is_no_voter(self, me: Admin, shared: Shared) -> bool:
        """A tool that ends with VOTER_NOT_FOUND was given a node that is no voter. KIP-853, "RemoveVoter".

        Nothing adds a voter here, so who is none stays none.
        """
        if not isinstance(me.outcome, Outcome) or me.outcome.error is not Error.VOTER_NOT_FOUND:
            return True
        return me.outcome.command.target not in self.committed_image(shared).voters

    @reachable
    def controllers_can_be_registered(self, me: Controller, shared: Shared) -> bool:
        """A controller that runs, and was unregistered by accident, can be registered again. Motivation."""
        return not me.running or me.id in self.committed_image(shared).controllers

    @reachable(without=["Replace", "ChangeConfiguration"])
    def upgrades_need_no_help(self, shared: Shared) -> bool:
        """An upgrade can be made, though nobody brings up another node or changes the configuration. Motivation."""
        return self.committed_image(shared).level > self.initial_level
