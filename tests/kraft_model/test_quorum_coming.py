"""`quorum`: changes of KRaft to come. Each variant changes a rule, and without it the properties hold.

The lengths and counts of `docs/findings.md` are checked with its commands, in `tests/test_docs.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.explorer import reference
from kraftcheck.explorer.result import SearchRequest, Verdict
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.records import (
    ADMIN,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Batch,
    Data,
    Error,
    Key,
    Mode,
    Nil,
    UpdateVoterRequest,
    UpdateVoterResponse,
    Voter,
    VoteResponse,
    Voters,
)
from kraftcheck.kraft_model.quorum.rules import replica_keys
from kraftcheck.kraft_model.quorum.variants import coming, formatting
from kraftcheck.spec import Map
from kraftcheck.spec.cfg.binding import bind, with_assignments
from kraftcheck.spec.cfg.config import BoundConfig, parse_setting
from tests.support.kraft_model.quorum_steps import ALL, FIRST, N1, N2, N3, N4, QUIET, only, quorum, replica, sent, vote
from tests.support.kraft_model.searches import bound, search

MODEL = "quorum"
CHANGES = (coming.__name__, formatting.__name__)


class Broken(NamedTuple):
    """A variant, the property that it violates in its configuration, the states of the shortest run."""

    variant: str
    property: str
    length: int


BROKEN = [
    Broken("removed-by-controller-id", "VotersChangeAsAsked", 11),
    Broken("added-by-controller-id", "VotersChangeAsAsked", 5),
    Broken("overridden-alone", "StateMachineSafety", 7),
    Broken("overridden-voters", "LeaderCompleteness", 6),
    Broken("formatted-with-new-voters", "ElectionSafety", 10),
    Broken("waits-for-cluster-id", "LeaderCompleteness", 7),
    Broken("metadata-downgraded", "OldBinariesRun", 8),
]
KEPT = {"removed-later", "overridden-endpoints", "updates-checked", "formatting-needed", "downgraded-together"}
"""Variants that break no invariant: the rule that is lost, a remedy, and a change that breaks progress alone."""


def test_every_change_is_tested_and_configured() -> None:
    model = find_model(MODEL)
    found = {name for name, variant in model.variants.items() if variant.__module__ in CHANGES}
    assert found == {one.variant for one in BROKEN} | KEPT
    named = {model.variants[name].configuration for name in found}
    others = {"coming.overridden-voters", "coming.updates-checked"}
    assert {name for name in model.configurations if name.startswith("coming.")} == named | others
    for one in BROKEN:
        about = " ".join(model.configurations[f"coming.{one.variant}"].about.split())
        assert f"Variant {one.variant} violates {one.property} in a trace of {one.length} states" in about


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize("one", BROKEN, ids=lambda one: one.variant)
def test_a_change_breaks_what_its_configuration_says(one: Broken) -> None:
    (violation,) = search(bound(MODEL, None, one.variant)).violations
    assert (violation.property, len(violation.trace)) == (one.property, one.length)


def given(config: str, variant: str | None, **settings: object) -> BoundConfig:
    found = find_model(MODEL, variant)
    _, text = find_config_name_and_content(found, config)
    parsed = [parse_setting(f"{name}={value}", text) for name, value in settings.items()]
    return bind(found.protocol, with_assignments(text, parsed))


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize(
    ("config", "variant", "settings", "depth"),
    [
        ("coming.removed-by-controller-id", "removed-later", {}, 12),
        ("coming.added-by-controller-id", None, {}, 6),
        ("coming.overridden-alone", "overridden-alone", {"MaxOverrides": 0}, 7),
    ],
)
def test_without_the_change_it_holds_as_deep(
    config: str, variant: str | None, settings: dict[str, object], depth: int
) -> None:
    found = search(given(config, variant, **settings), max_depth=depth)
    assert (found.verdict, found.depth) == (Verdict.INCOMPLETE, depth)


class Unchecked(coming.UpdatedEndpointChecked):
    """UpdateVoter as it is today, with the start and the property of the variant."""

    begin_updating = Quorum.begin_updating
    add_if_caught_up = Quorum.add_if_caught_up


@pytest.mark.slow
@pytest.mark.kernel
def test_an_update_that_asks_nobody_ends_by_itself() -> None:
    config = find_config_name_and_content(find_model(MODEL), "coming.update-of-the-dead")[1]
    assert search(bind(Unchecked, config)).verdict is Verdict.OK


@pytest.mark.slow
@pytest.mark.kernel
def test_engines_agree_on_overridden_endpoints() -> None:
    config = given("coming.overridden-voters", "overridden-endpoints")
    options = SearchRequest.of(config)
    one, other = (engine.explore(config.protocol, options) for engine in (reference, tables))
    assert (one.verdict, one.distinct_states, one.depth) == (Verdict.OK, 1_097, 15)
    assert (other.verdict, other.distinct_states, other.depth) == (Verdict.OK, 1_097, 15)


def test_a_removal_by_id_takes_the_new_disk_and_one_by_directory_id_does_not() -> None:
    new = frozenset({*ALL, Voter(Key(N3, 2))} - {Voter(Key(N3))})
    leader = replica(N1, Mode.LEADER, log=(FIRST, Batch(1, (Voters(new),))), leader=N1, high_watermark=2, offsets=Map())
    for variant, error in ((None, Error.VOTER_NOT_FOUND), ("removed-by-controller-id", None)):
        after, _, found = quorum(variant).begin_removing(leader, Key(N3), ADMIN)
        assert found is error
        assert (Key(N3, 2) in replica_keys(after.voters)) is (variant is None)


def test_an_addition_by_id_takes_the_lost_disk_of_an_observer() -> None:
    leader = replica(N1, Mode.LEADER, leader=N1, high_watermark=1, offsets=Map({Key(N4): 1, Key(N4, 2): 1}))
    for variant, directory in ((None, 2), ("added-by-controller-id", 1)):
        after, _, error = quorum(variant).begin_adding(leader, Voter(Key(N4, 2)), ADMIN)
        assert (error, after.change.voter.key, after.change.asked) == (None, Key(N4, directory), Key(N4, 2))


def test_an_update_is_appended_and_answered_once_its_endpoint_has_answered() -> None:
    model = quorum("updates-checked")
    leader = replica(N1, Mode.LEADER, leader=N1, high_watermark=1, offsets=Map({Key(N2): 1, Key(N3): 1}))
    request = UpdateVoterRequest(1, Voter(Key(N2), 2), 1, N2, N1)
    asked, sends, error = model.begin_updating(leader, request)
    assert (asked.log, error, [(type(m), m.address) for m in sends]) == (leader.log, None, [(ApiVersionsRequest, 2)])
    assert model.begin_removing(asked, Key(N2), ADMIN)[2] is Error.REQUEST_TIMED_OUT
    (step,) = model.handle_api_versions_response(asked, ApiVersionsResponse(1, 1, N2, N1), QUIET)
    assert Voter(Key(N2), 2) in step.me.voters
    assert isinstance(step.me.change, Nil)
    answer = sent(step, UpdateVoterResponse)
    assert (answer.dest, answer.error) == (N2, Error.NONE)


def test_voters_of_formatting_are_overridden_until_a_newer_record() -> None:
    model = quorum("overridden-voters", OverrideVoters="{n1, n3}", MaxOverrides=1)
    me = model.replica_type(N1, log=(FIRST,), voters=ALL, version=1, epoch=1)
    identity = Map({host: Voter(Key(host), 5) for host in (N1, N2, N3)})
    (step,) = model.override(me, identity)
    assert step.me.voters == {Voter(Key(N1), 5), Voter(Key(N3), 5)}
    newer = model.with_log(step.me, (FIRST, Batch(2, (Voters(ALL),))), flushes=True)
    assert newer.voters == ALL
    assert model.with_log(newer, (FIRST,), flushes=True).voters == step.me.voters


def test_a_disk_that_is_lost_keeps_the_process_down_where_formatting_is_needed() -> None:
    for variant, mode in ((None, Mode.UNATTACHED), ("formatting-needed", Mode.DOWN)):
        model = quorum(variant, KRaftVersion=0)
        (step,) = model.lose_disk(model.formatted(N2, 1), QUIET)
        assert (step.me.mode, step.me.key, step.me.log) == (mode, Key(N2, 2), ())


def test_a_voter_without_a_cluster_id_neither_votes_nor_stands_until_it_has_fetched() -> None:
    model = quorum("waits-for-cluster-id", KRaftVersion=0, Unformatted="{n2}")
    one, two = model.formatted(N1, 1), model.formatted(N2, 1)
    assert [model.may_stand(me) for me in (one, two)] == [True, False]
    for me, granted in ((one, True), (two, False)):
        step = only(model.handle_vote_request(me, vote(source=N3, dest=me.id, voter=Key(me.id, 0)).but(epoch=2), QUIET))
        assert sent(step, VoteResponse).granted is granted


def test_old_binaries_read_a_log_from_the_lower_level_on() -> None:
    model = quorum("metadata-downgraded", MaxMetadataDowngrades=1, MaxOldBinaries=1)
    log = (FIRST, Batch(1, (coming.Level(0),)), Batch(1, (Data(1),)))
    me = model.with_log(model.formatted(N1, 1), log, flushes=True)
    assert [model.can_read(me.but(binary=b, start=start)) for b, start in ((1, 0), (0, 0), (0, 1), (0, 2))] == [
        *(True, False, False, True)
    ]
    for all_lowered in (True, False):
        lowered = Map({N1: True, N2: all_lowered, N3: True})
        together = quorum("downgraded-together", MaxMetadataDowngrades=1, MaxOldBinaries=1)
        assert len(list(model.change_binary(me.but(start=2), lowered))) == 1
        assert len(list(together.change_binary(me.but(start=2), lowered))) == all_lowered
