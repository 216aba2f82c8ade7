"""Scenarios and traces as walks, and the cover of a state graph, without Kafka: the model plays its part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from kraftcheck.catalogue import find_config_name_and_content, find_model, scenario_model_and_config
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.variants.kafka import with_known_kafka_differences
from kraftcheck.lockstep.cover import EdgeCover, UntakenReason, build_state_graph
from kraftcheck.lockstep.driver_commands import TIMER_ACTIONS, can_drive_action
from kraftcheck.lockstep.lockstep import Lockstep, StepChooser
from kraftcheck.lockstep.scripts import (
    Script,
    ScriptStepChooser,
    read_traces_as_steps,
    require_playable_scenario_section,
    scenario_script,
    script_file_kind,
    trace_script,
)
from kraftcheck.lockstep.walks import ActionCandidateCache, ActionCandidates, StepChoice
from kraftcheck.spec import State
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import BoundConfig
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.traces.replay.replayer import Replayer
from kraftcheck.traces.scenarios import ScenarioError, read_scenario_sections
from tests.support.command_line import Run

SCENARIOS = Path(__file__).parents[1] / "scenarios"
After = Callable[[StepChoice, State], State]
"""What Kafka makes of a step: the state afterwards, given the model's."""


class Beside:
    """Stands for both sides: Kafka does what the model does, but for what `after` changes."""

    def __init__(self, bound: BoundConfig, after: After | None = None) -> None:
        self.protocol = bound.protocol
        self.semantics = Semantics(bound.protocol)
        self.also: tuple[str, object] | None = None
        self.after: After = after or (lambda _, state: state)

    def walk(self, choose: Callable[[Lockstep], StepChooser]) -> list[StepChoice]:
        menu = ActionCandidateCache(self.semantics, can_drive_action)
        picks, state, walked = choose(cast(Lockstep, self)), self.semantics.initial()[0], list[StepChoice]()
        while True:
            chosen = picks(ActionCandidates(menu, state))
            if chosen is None:
                return walked
            outcomes, which = chosen
            step = outcomes[which]
            walked.append(StepChoice(step.action, step.actor, step.message, which + 1))
            self.also = None
            state = self.after(walked[-1], step.target)


def smoke() -> BoundConfig:
    model = find_model("quorum")
    return bind(model.protocol, find_config_name_and_content(model, "smoke")[1])


def scripted(script: Callable[..., Script], what: object, lockstep: Lockstep, *more: str) -> ScriptStepChooser:
    return ScriptStepChooser(lambda begun: script(what, lockstep.semantics, *more, begun), lockstep)


def told(path: Path, after: After | None = None) -> tuple[list[StepChoice], Beside]:
    (story,) = read_scenario_sections(path)
    model, config = scenario_model_and_config(story.words)
    bound = bind(model.protocol, config)
    init = story.words.at or bound.init
    require_playable_scenario_section(story, init, Semantics(bound.protocol), Semantics(bound.protocol))
    beside = Beside(bound, after)
    walked = beside.walk(lambda lockstep: scripted(scenario_script, story, lockstep, init))
    return walked, beside


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(text)
    return path


START = "start quorum bounds=9 Hosts={n1, n2} InitialVoters={n1, n2}\n"


def test_a_scenario_is_a_walk() -> None:
    walked, _ = told(SCENARIOS / "quorum-election.txt")
    assert [(step.action, str(step.actor)) for step in walked[:3]] == [
        ("ElectionTimeout", "n1"), ("HandleVoteRequest", "n2"), ("HandleVoteRequest", "n3"),
    ]  # fmt: skip
    assert len(walked) == 30


def test_a_scenario_may_need_kafkas_known_differences(tmp_path: Path) -> None:
    """Only in Kafka does a voter whose fetch times out ask a bootstrap server (`retries-at-bootstrap-servers`)."""
    start = "start quorum at=Elected bounds=9 Hosts={n1, n2, n3} InitialVoters={n1, n2} BootstrapServers={n3}\n"
    (story,) = read_scenario_sections(written(tmp_path, start + "Retry by n2 to n3\n----\n"))
    _, config = scenario_model_and_config(story.words)
    plain, kafka = (Semantics(bind(kind, config).protocol) for kind in (Quorum, with_known_kafka_differences(Quorum)))
    require_playable_scenario_section(story, "Elected", plain, kafka)
    with pytest.raises(ScenarioError, match="Retry by n2"):
        require_playable_scenario_section(story, "Elected", plain, plain)


def test_steps_alike_are_shown_with_their_receivers(tmp_path: Path) -> None:
    start = "start quorum bounds=9 Hosts={n1, n2, n3} InitialVoters={n1, n2} BootstrapServers={n1, n2}\n"
    with pytest.raises(ScenarioError, match=r"n3, sends FetchRequest to n1\n  or .* by n3, sends FetchRequest to n2"):
        told(written(tmp_path, start + "FetchFromBootstrapServer by n3\n----\n"))


@pytest.mark.slow
def test_a_named_start_is_walked_to() -> None:
    walked, _ = told(SCENARIOS / "quorum-restart.txt")
    assert walked[0].action == "ElectionTimeout"
    assert len(walked) > 20


def test_a_step_that_kafka_took_at_once_is_not_asked_for_again(tmp_path: Path) -> None:
    path = written(tmp_path, START + "ElectionTimeout by n1\nElectionTimeout by n2\nPreVoteTimeout by n1\n----\n")
    whole, beside = told(path)
    assert [step.action for step in whole] == ["ElectionTimeout", "ElectionTimeout", "PreVoteTimeout"]
    beside = Beside(smoke())

    def at_once(taken: StepChoice, state: State) -> State:
        if taken.action == "ElectionTimeout" and str(taken.actor) == "n1":
            beside.also = "PreVoteTimeout", taken.actor
            return next(t.target for t in beside.semantics.transitions(state) if t.action == "PreVoteTimeout")
        return state

    beside.after = at_once
    (story,) = read_scenario_sections(path)
    walked = beside.walk(lambda lockstep: scripted(scenario_script, story, lockstep, "Init"))
    assert [(step.action, str(step.actor)) for step in walked] == [("ElectionTimeout", "n1"), ("ElectionTimeout", "n2")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ElectionTimeout by n1\n----\n", "story.txt:1:1: expected `start` first, found 'ElectionTimeout by n1'"),
        ("# Nothing.\n", "story.txt:1:1: expected `start MODEL`, found no command"),
        (START, "line 1: expected ---- after the commands"),
        (START + "Resign by n1\n----\n", "story.txt:2:1: Resign by n1: no such step; me.mode is not Mode.LEADER"),
        (START + "leave\n----\n", "story.txt:2:1: leave: unknown command leave"),
        (START + "Leave by\n----\n", "story.txt:2:1: Leave by: unknown action Leave"),
        (START + 'show "n1\n----\n', 'story.txt:2:1: show "n1: no closing quotation'),
        ("start quorum -> n1.epoch=3\n----\n", "story.txt:1:1: start quorum -> n1.epoch=3: no initial state has these"),
    ],
)
def test_a_scenario_that_cannot_be_walked(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        told(written(tmp_path, text))
    assert problem in str(caught.value)


def test_a_step_that_kafka_cannot_be_made_to_take(tmp_path: Path) -> None:
    path = written(tmp_path, START + "ElectionTimeout by n1\nDuplicateMessage by n2\n----\n")
    with pytest.raises(InputError, match=r"story.txt:3:1: DuplicateMessage is not driven: Kafka's channels are TCP"):
        told(path)


def test_what_the_model_alone_can_do(tmp_path: Path) -> None:
    def loses(_: StepChoice, state: State) -> State:
        return state.but(inboxes=state.inboxes.without(next(iter(state.inboxes))))

    path = written(tmp_path, START + "ElectionTimeout by n1\nHandleVoteRequest by n2\n----\n")
    with pytest.raises(ScenarioError, match=r"story.txt:3:1: HandleVoteRequest by n2 \(possible in the model, not b"):
        told(path, loses)


@pytest.mark.slow
def test_a_trace_is_a_walk(tmp_path: Path, run: Run) -> None:
    path, fault = tmp_path / "fault.out", "pre-vote-raises-epoch"
    config = f"fault.{fault}"
    done = run("check", "quorum", "--variant", fault, "--config", config, "--engine", "reference", "--trace", path)
    assert done.code == 12
    model = find_model("quorum", fault)
    bound = bind(model.protocol, find_config_name_and_content(model, config)[1])
    (trace,) = read_traces_as_steps(path, Replayer(bound.protocol), "Init")
    walked = Beside(bound).walk(lambda lockstep: scripted(trace_script, trace, lockstep))
    assert [step.action for step in walked] == ["ElectionTimeout"]
    with pytest.raises(InputError, match=r"fault.out: diverges from the model at state 2: state 2 does not follow"):
        read_traces_as_steps(path, Replayer(smoke().protocol), "Init")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("# A walk.\nmodel quorum\n", "walk"),
        ("ElectionTimeout by n1\n", "walk"),
        ("# A story.\n\nstart quorum\n----\n", "scenario"),
        ("TLC2 Version 2.19 of 08 August 2024\n", "trace"),
        ("---- MODULE Trace ----\n", "trace"),
        ('{"action": []}', "trace"),
    ],
)
def test_a_file_is_known_by_how_it_begins(text: str, kind: str, tmp_path: Path) -> None:
    assert script_file_kind(written(tmp_path, text)) == kind


# The cover


def covered(beside: Beside, depth: int | None = None) -> EdgeCover:
    cover = EdgeCover(build_state_graph(Semantics(smoke().protocol), "Init", depth))
    while cover.goes_on():
        beside.walk(cover.walk)
    return cover


def reasons(cover: EdgeCover) -> Counter[UntakenReason]:
    return Counter(reason for _, reason, _ in cover.untaken())


@pytest.mark.slow
def test_every_step_is_taken_where_kafka_follows() -> None:
    cover = covered(Beside(smoke()))
    assert (len(cover.graph.states), cover.graph.size, cover.taken) == (483, 1_028, 1_028)
    assert reasons(cover) == {}
    assert 30 < cover.walks < 400


def test_a_part_is_covered_to_a_depth() -> None:
    cover = covered(Beside(smoke()), 5)
    assert not cover.graph.is_whole
    assert cover.taken == cover.graph.size < 200


@pytest.mark.slow
def test_an_urgent_step_is_told_from_what_is_missing() -> None:
    beside = Beside(smoke())

    def at_once(taken: StepChoice, state: State) -> State:
        if taken.action != "HandleBeginQuorumEpochRequest":
            return state
        found = [t for t in beside.semantics.transitions(state) if t.action in TIMER_ACTIONS and t.actor == taken.actor]
        beside.also = (found[0].action, found[0].actor) if found else None
        return found[0].target if found else state

    beside.after = at_once
    found = reasons(covered(beside))
    assert set(found) == {UntakenReason.POSTPONED}
    assert found[UntakenReason.POSTPONED] > 50


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "reason"), [("VoteResponse", UntakenReason.STALE), ("VoteRequest", UntakenReason.MISSING)]
)
def test_a_message_that_kafka_drops(kind: str, reason: UntakenReason) -> None:
    def drops(_: StepChoice, state: State) -> State:
        """Lose what the second replica is sent of a kind."""
        second = sorted(state.replicas, key=str)[1]
        inbox = state.inboxes.get(second, ())
        for message in [found for found in inbox if type(found).__name__ == kind]:
            inbox = inbox.without(message)
        rest = state.inboxes.without(second)
        return state.but(inboxes=rest.put(second, inbox) if inbox else rest)

    found = reasons(covered(Beside(smoke(), drops)))
    assert found[reason] > 0
    assert set(found) == {reason}
