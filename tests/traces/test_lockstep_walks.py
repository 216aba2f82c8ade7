"""Walk files and the drawing and shortening of walks, without Kafka."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.lockstep.driver_commands import NOT_DRIVEN_REASONS, can_drive_action
from kraftcheck.lockstep.driver_process import Driver
from kraftcheck.lockstep.kafka_cluster import KafkaCluster
from kraftcheck.lockstep.walks import (
    ActionCandidateCache,
    ActionCandidates,
    GivenStepChooser,
    RandomStepChooser,
    StepChoice,
    WalkFile,
    WalkFileStep,
    read_walk,
    text_of_message,
    write_walk,
)
from kraftcheck.spec import State, ordered
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.errors import InputError, ProtocolError
from kraftcheck.spec.language.semantics import Semantics, take, transition_matching_take
from tests.support.lockstep import bound

STEPS = (
    WalkFileStep("ElectionTimeout", "n1", line=6),
    WalkFileStep("HandleVoteRequest", "n2", "VoteRequest(epoch=0, source=n1, dest=n2)", line=7),
    WalkFileStep("RemoveVoter", "n1", "", 2, line=8),
)


def semantics() -> Semantics:
    model = find_model("quorum")
    return Semantics(bind(model.protocol, find_config_name_and_content(model, "smoke")[1]).protocol)


def test_a_walk_file_comes_back(tmp_path: Path) -> None:
    path, walk = tmp_path / "a.walk", WalkFile("quorum", "draft", ("Hosts = {n1}",), True, STEPS)
    write_walk(path, walk, ["violated: LastVoterSetIsUsed"])
    head = "# violated: LastVoterSetIsUsed\nmodel quorum\nvariant draft\nset Hosts = {n1}\n"
    assert path.read_text().startswith(head)
    found = read_walk(path)
    assert found._replace(steps=()) == walk._replace(steps=())
    assert [step._replace(line=0) for step in found.steps] == [step._replace(line=0) for step in STEPS]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model quorum\nset x\n", ":2:1: expected ACTION by REPLICA, `set NAME = VALUE` or `go on`, found 'set x'"),
        ("model quorum\nElectionTimeout\n", ":2:1: expected ACTION by REPLICA"),
        ("ElectionTimeout by n1\n", ":1:1: expected a line `model NAME`, found none"),
        ("", "expected a walk file, found an empty one"),
    ],
)
def test_what_is_no_walk_file(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.walk"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_walk(path)
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


def test_bytes_that_are_no_text_and_a_file_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.walk"
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_walk(path)
    with pytest.raises(InputError, match="cannot be read: expected at most 4,194,304 bytes, found more"):
        read_walk(Path("/dev/zero"))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="expected a walk file, found bytes that are not UTF-8"):
        read_walk(path)


def offers(known: Semantics, state: State) -> ActionCandidates:
    return ActionCandidates(ActionCandidateCache(known, lambda *_: True), state)


def test_a_drawn_walk_is_taken_again() -> None:
    known = semantics()
    draw, taken = RandomStepChooser("1", Counter()), list[WalkFileStep]()
    state = known.initial()[0]
    states = [state]
    for _ in range(50):
        offered = offers(known, state)
        chosen = draw(offered)
        if chosen is None:
            break
        outcomes, which = chosen
        transition = outcomes[which]
        taken.append(WalkFileStep.of(StepChoice(transition.action, transition.actor, transition.message, which + 1)))
        state = transition.target
        states.append(state)
    again = GivenStepChooser(taken)
    for before, after in pairwise(states):
        chosen = again(offers(known, before))
        assert chosen is not None
        assert chosen[0][chosen[1]].target == after
    assert len(taken) > 5
    assert GivenStepChooser([])(offers(known, states[-1])) is None


def test_what_is_offered_is_what_is_enabled() -> None:
    known = semantics()
    state = known.initial()[0]
    for _ in range(20):
        enabled = list(known.transitions(state))
        assert set(offers(known, state).enabled()) == set(enabled)
        if not enabled:
            break
        state = enabled[-1].target


def test_a_step_that_is_not_enabled_is_skipped_or_an_error() -> None:
    known = semantics()
    offered = offers(known, known.initial()[0])
    wrong, right = WalkFileStep("Resign", "n1", line=7), WalkFileStep("ElectionTimeout", "n2")
    with pytest.raises(InputError, match="line 7: Resign by n1 is not enabled there; enabled are ElectionTimeout by"):
        GivenStepChooser([wrong, right])(offered)
    chosen = GivenStepChooser([wrong, right], skips=True)(offered)
    assert chosen is not None
    (transition,), _ = chosen
    assert (transition.action, str(transition.actor)) == ("ElectionTimeout", "n2")


def test_an_error_shows_the_messages_of_the_same_action() -> None:
    known = semantics()
    state = next(t.target for t in known.transitions(known.initial()[0]) if t.action == "ElectionTimeout")
    enabled = next(t for t in known.transitions(state) if t.action == "HandleVoteRequest")
    wrong = WalkFileStep("HandleVoteRequest", str(enabled.actor), "VoteRequest()", line=7)
    with pytest.raises(InputError) as caught:
        GivenStepChooser([wrong])(offers(known, state))
    right = f"HandleVoteRequest by {enabled.actor} on {text_of_message(enabled.message)}"
    assert str(caught.value) == f"line 7: {wrong} is not enabled there; enabled are {right}"


def test_a_scenario_step_of_a_model_shows_messages_and_receivers() -> None:
    found = find_model("quorum")
    known = Semantics(bind(found.protocol, find_config_name_and_content(found, "default-broker")[1]).protocol)
    state, observer = known.initial()[0], ordered(known.initial()[0].replicas)[-1]
    with pytest.raises(ProtocolError, match=r"is not enabled; enabled are (?!.*VoteRequest)"):
        transition_matching_take(known, state, take("HandleVoteRequest", observer))
    asked = next(t.target for t in known.transitions(state) if t.action == "FetchFromBootstrapServer")
    with pytest.raises(ProtocolError, match=r"enabled are HandleFetchRequest by n1 on FetchRequest\(epoch=0"):
        transition_matching_take(known, asked, take("HandleFetchRequest", source=ordered(state.replicas)[0]))
    with pytest.raises(ProtocolError, match=r"add fields or result=: .*ElectionTimeout by n1, sends VoteRequest to n2"):
        transition_matching_take(known, state, take("ElectionTimeout"))


def test_every_action_is_driven_or_it_is_said_why_not() -> None:
    actions = find_model("quorum").protocol.actions
    delivers = {name: bool(action.messages) for name, action in actions.items()}
    left_out = {name for name, has_message in delivers.items() if not can_drive_action(name, has_message)}
    assert not left_out
    assert set(NOT_DRIVEN_REASONS) == {"DuplicateMessage"}


def test_a_model_without_pre_votes_is_not_driven() -> None:
    protocol = bound({"WithoutPreVote": "{n1}"})
    with pytest.raises(InputError, match="every supported version of Kafka has pre-votes"):
        KafkaCluster(cast(Driver, None), protocol).start()
