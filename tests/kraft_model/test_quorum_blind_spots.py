"""Faults that properties of `quorum` once did not see, or saw only later."""

from __future__ import annotations

import pytest

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.records import (
    Answered,
    DescribeQuorumResponse,
    Error,
    FetchResponse,
    Key,
    Mode,
    Nil,
    Operation,
    Replica,
    Shared,
)
from kraftcheck.kraft_model.quorum.variants.faults import BusyLeaderRefuses
from kraftcheck.kraft_model.quorum.variants.kafka import with_known_kafka_differences
from kraftcheck.kraft_model.quorum.voters import ChangeOutcome
from kraftcheck.spec import ModelValue, Step, Steps, become
from kraftcheck.spec.cfg.binding import bind, with_assignments
from kraftcheck.spec.cfg.config import parse_setting
from tests.support.kraft_model.searches import search

UPGRADE = {"WatchAnswers": "TRUE", "PlainAnswers": "TRUE", "MaxElections": "1", "MaxPreVotes": "1", "MaxAppends": "0"}


class HighWatermarkForgotten(Quorum):
    """A follower takes over that its leader does not know yet what is committed."""

    def handle_fetch_response(self, me: Replica, response: FetchResponse, shared: Shared) -> Steps:
        for step in super().handle_fetch_response(me, response, shared):
            after = step.me
            assert isinstance(after, Replica)
            forgets = after.mode is Mode.FOLLOWER and response.high_watermark == 0
            yield step.but(me=after.but(high_watermark=0)) if forgets else step


class SnapshotBeforeAnybodyCommits(Quorum):
    """A process that has just started, and knows of nothing committed, takes a snapshot of its log."""

    def take_snapshot(self, me: Replica) -> Steps:
        if me.high_watermark == 0 < len(me.log) and me.start < len(me.log):
            yield become(me.but(start=len(me.log), flushed=len(me.log))).spend("snapshots")


class Describes(Quorum):
    """DescribeQuorum has something else in one field."""

    field = ""

    def describe_quorum(self, me: Replica) -> Steps:
        others: dict[str, object] = {
            "epoch": me.epoch + 1,
            "current": frozenset(),
            "observers": frozenset(me.offsets) | {me.key},
        }
        for step in super().describe_quorum(me):
            answers = [one for one in step.sent if isinstance(one, DescribeQuorumResponse)]
            told = (one.but(**{self.field: others[self.field]}) if one.error is Error.NONE else one for one in answers)
            yield step.but(sends=tuple(("send", one) for one in told))


class UpgradeWithoutSubject(Quorum):
    """An upgrade is answered at once, and nobody notes which version was asked for."""

    def begin_upgrade(self, me: Replica, version: int) -> ChangeOutcome:
        after, sends, error = super().begin_upgrade(me, version)
        if error is not None or after == me:
            return after, sends, error
        told = self.answer(me, Operation.UPDATE_FEATURES, Error.NONE, ModelValue("admin"))
        return after.but(change=Nil.NIL), [*sends, *(m.but(about=m.about.but(subject=Nil.NIL)) for m in told)], None


class AnotherSubject(Quorum):
    """What an answer is said to be about is another voter."""

    def answered(self, me: Replica, asked: Key | int | Nil) -> Answered:
        return super().answered(me, Key(me.id, 7) if isinstance(asked, Key) else asked)


class NotFoundWhileBusy(Quorum):
    """A leader that has to wait answers as if it knew no such voter."""

    def outcome_step(
        self,
        me: Replica,
        shared: Shared,
        outcome: ChangeOutcome,
        operation: Operation,
        client: ModelValue,
        *,
        consumes: bool,
    ) -> Step:
        after, sends, error = outcome
        hides = error is Error.REQUEST_TIMED_OUT and operation is Operation.REMOVE_VOTER and me.mode is Mode.LEADER
        given = after, sends, Error.VOTER_NOT_FOUND if hides else error
        return super().outcome_step(me, shared, given, operation, client, consumes=consumes)


def told(field: str) -> type[Quorum]:
    return type(f"Describes_{field}", (Describes,), {"field": field, "__doc__": Describes.__doc__})


@pytest.mark.sampled(3)
@pytest.mark.kernel
@pytest.mark.parametrize(
    ("kind", "config", "settings", "prop"),
    [
        (HighWatermarkForgotten, "default-resign", {}, "HighWatermarkNeverDecreases"),
        (SnapshotBeforeAnybodyCommits, "default-snapshot", {"MaxRestarts": "1"}, "SnapshotsAreCommitted"),
        *((told(field), "smoke-answers", {}, "DescriptionsAreTrue") for field in ("epoch", "observers")),
        (
            told("current"),
            "default-answers",
            {"Hosts": "{n1, n2, n3}", "InitialVoters": "{n1, n2}"},
            "DescriptionsAreTrue",
        ),
        (UpgradeWithoutSubject, "default-upgrade", UPGRADE, "ToldIsKept"),
        (UpgradeWithoutSubject, "default-upgrade", UPGRADE, "AnswersAreTrue"),
        (with_known_kafka_differences(Quorum), "default-upgrade", UPGRADE, "ToldIsKept"),
        (AnotherSubject, "smoke-answers", {}, "WhatIsWatchedIsSo"),
        (NotFoundWhileBusy, "fault.busy-leader-refuses", {}, "AnswersAreTrue"),
        (with_known_kafka_differences(BusyLeaderRefuses), "fault.busy-leader-refuses", {}, "AnswersAreTrue"),
    ],
)
def test_it_is_seen(kind: type[Quorum], config: str, settings: dict[str, str], prop: str) -> None:
    found = find_config_name_and_content(find_model("quorum"), config)[1]
    changed = with_assignments(found, [parse_setting(f"{name}={value}", found) for name, value in settings.items()])
    given = bind(kind, changed)
    properties = tuple(one for one in given.protocol.properties.values() if one.name == prop)
    given = given._replace(properties=properties)
    assert [violation.property for violation in search(given).violations] == [prop]
