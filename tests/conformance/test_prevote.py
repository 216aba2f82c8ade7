"""The port of kraft_kip_996 beside TLC: counts, state graphs, and random behaviours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kraftcheck import load
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.reference import explore as explore_reference
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables.engine import explore as explore_tables
from kraftcheck.kraft_model.prevote import Prevote
from kraftcheck.kraft_model.prevote.records import FetchRequest, LastFetch, Nil, Server, ServerState
from kraftcheck.kraft_model.prevote.rules import is_voter
from kraftcheck.kraft_model.reconfig.rules import end_offset_for_epoch, is_quorum
from kraftcheck.spec import constraint, invariant
from kraftcheck.spec.cfg.binding import bind_leniently
from kraftcheck.spec.cfg.config import read_config
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.spec.tla.text import parse_value
from kraftcheck.traces.replay.replayer import Replayer, ReplayVerdict
from tests.support.tlc import TLC, bound, text_of

DATA = TLC / "prevote"
MODELS = sorted(path.stem for path in (DATA / "counts").glob("*.cfg"))
DUMPS = sorted(path.stem for path in (DATA / "dumps").glob("*.cfg"))
BEHAVIOURS = sorted((DATA / "simulations").glob("*.tla.gz"))
LARGE = ("two-voters-disruption", "two-voters-disruption-value", "two-voters-grow", "two-voters-restart")
SLOW = (
    *LARGE,
    "three-voters-cut",
    "diverging_24.tla.gz",
    "progress_5.tla.gz",
    "safety_4.tla.gz",
    "two-voters-progress",
)


def each(names: Iterable[str], slow: Container[str] = SLOW, exhaustive: Container[str] = ()) -> pytest.MarkDecorator:
    """Return the mark that makes a test of each name, some of them slow, or for a night."""

    def mark(name: str) -> list[pytest.MarkDecorator]:
        return [pytest.mark.exhaustive] if name in exhaustive else [pytest.mark.slow] if name in slow else []

    return pytest.mark.parametrize("name", [pytest.param(name, marks=mark(name)) for name in names])


@cache
def expected() -> dict[str, Any]:
    """Return what TLC counted in each model."""
    found: dict[str, Any] = json.loads((DATA / "counts" / "expected.json").read_text())
    return found


def prevote(name: str) -> Prevote:
    protocol = bound(f"prevote/counts/{name}", Prevote).protocol
    assert isinstance(protocol, Prevote)
    return protocol


def test_all_models_are_here() -> None:
    assert sorted(expected()) == MODELS
    assert len(MODELS) == 11


WAYS = ("AcceptFetchRequest", "CheckQuorumResign", "ConcludePreVote", "SendFetchRequest", "VoterFetchTimeout")
"""Actions whose condition is a disjunction of which more than one part can hold: TLC takes such a step for each."""


def ways(semantics: Semantics, state: State, taken: Transition) -> int:
    """Return in how many ways the condition of a step holds, which is how often TLC counts the step."""
    if taken.action not in WAYS:
        return 1
    protocol, me, message = semantics.protocol, state.replicas[taken.actor], taken.message
    assert isinstance(protocol, Prevote)
    assert isinstance(me, Server)
    given = {read.name: semantics.project(read, state) for read in protocol.actions[taken.action].reads}
    disrupts = protocol._may_disrupt(state.shared)
    last, pending = me.fetch_state.last_fetch_res, me.fetch_state.pending_fetch
    refused = isinstance(last, LastFetch) and last.error is not Nil.NIL and last.peer == me.leader
    match taken.action:
        case "AcceptFetchRequest":
            assert isinstance(message, FetchRequest)
            common = end_offset_for_epoch(me.log, message.last_fetched_epoch)
            agrees = message.fetch_offset <= common.offset + 1 and message.last_fetched_epoch == common.epoch
            return (message.fetch_offset == 1) + agrees
        case "CheckQuorumResign":
            return protocol._has_lost_majority(me, state.shared, given["standing"]) + disrupts
        case "ConcludePreVote":
            is_counted = protocol._all_counted(me, True, given["votes_under_way"])
            return is_quorum(me.config.members, me.votes_recv) + is_counted
    lost = pending is not Nil.NIL and not any(pending in fetches for fetches in given["fetches_under_way"].values())
    if taken.action == "VoterFetchTimeout":
        return refused + lost + disrupts
    if me.state is not ServerState.FOLLOWER:
        return 1
    fetch = taken.target.replicas[taken.actor].fetch_state.pending_fetch
    return (pending is Nil.NIL and fetch.dest == me.leader) + (not is_voter(me)) * (refused + lost)


@pytest.mark.sampled(2)
@each(MODELS, exhaustive=["two-voters-disruption-value", "two-voters-restart"])
def test_counts_are_those_of_tlc(name: str) -> None:
    theirs = expected()[name]
    search = ReferenceSearch(prevote(name), SearchRequest(deadlock=False))
    result = search.run()
    assert (result.distinct_states, result.depth) == (theirs["distinct_states"], theirs["depth"])
    counted = dict.fromkeys(result.actions, 0)
    for state in search.states():
        for taken in search.semantics.transitions(state):
            counted[taken.action] += ways(search.semantics, state, taken)
    assert counted == theirs["actions"]
    assert theirs["generated_states"] == 1 + sum(counted.values())


@pytest.mark.kernel
@each(MODELS, LARGE)
def test_the_table_engine_counts_the_same(name: str) -> None:
    theirs = expected()[name]
    model = bound(f"prevote/counts/{name}", Prevote)
    result = explore_tables(model.protocol, SearchRequest(properties=model.properties, deadlock=False))
    assert (result.distinct_states, result.depth) == (theirs["distinct_states"], theirs["depth"])
    assert not result.violations
    less = {action for action, n in theirs["actions"].items() if result.actions[action] != n}
    assert less <= set(WAYS)
    assert all(result.actions[action] <= n for action, n in theirs["actions"].items())


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize(
    ("symmetry", "orbits"),
    [("symmHosts", 2_241), ("symmHostsAndValues", 1_153)],
)
def test_symmetry_counts_what_tlc_counts(symmetry: str, orbits: int) -> None:
    """The numbers are what TLC printed for the same `.cfg` with a SYMMETRY."""
    protocol = bound("prevote/counts/one-voter-grows", Prevote, "Value={v1, v2}", "MaxValuesPerEpoch=2").protocol
    for explore in (explore_reference, explore_tables):
        result = explore(protocol, SearchRequest(deadlock=False, symmetry=symmetry))
        assert (result.distinct_states, result.depth) == (orbits, 30)


class Bounded(Prevote):
    """With TestLiveness TRUE the space is infinite: TLC was given the same CONSTRAINT."""

    @constraint
    def few(self, state: State) -> bool:
        """At most two pre-votes, and two epochs."""
        servers = state.replicas.values()
        return state.shared.counters.prevote_ctr <= 2 and all(server.current_epoch <= 2 for server in servers)


@pytest.mark.parametrize(("name", "distinct", "depth"), [("two-voters-cut", 52, 14), ("one-voter-grows", 336, 23)])
def test_counts_are_those_of_tlc_where_liveness_is_tested(name: str, distinct: int, depth: int) -> None:
    protocol = bound(f"prevote/counts/{name}", Bounded, "TestLiveness=TRUE").protocol
    result = explore_reference(protocol, SearchRequest(deadlock=False, constraints=(Bounded.properties["Few"],)))
    assert (result.distinct_states, result.depth) == (distinct, depth)


FOUR = ("EventuallyLeaderElected", "NotStuckInProspective", "ReconfigurationNotStuck", "ValuesEventuallyAcked")


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.kernel
@pytest.mark.parametrize(
    ("name", "fairness", "violated"),
    [
        ("two-voters-cut", "LivenessSpec", set()),
        ("two-voters-cut", "Spec", {"ValuesEventuallyAcked"}),
        ("one-voter-grows", "LivenessSpec", {"ValuesEventuallyAcked"}),
        ("one-voter-grows", "Spec", {"ValuesEventuallyAcked", "EventuallyLeaderElected"}),
    ],
)
def test_the_four_temporal_properties_where_liveness_is_tested(
    tmp_path: Path, name: str, fairness: str, violated: set[str]
) -> None:
    """In the same bounds; both engines say the same."""
    text = (DATA / "counts" / f"{name}.cfg").read_text().replace("TestLiveness = FALSE", "TestLiveness = TRUE")
    asked = f"SPECIFICATION {fairness}\nPROPERTIES {' '.join(FOUR)}\nCONSTRAINT Few"
    config = tmp_path / "tested.cfg"
    config.write_text(text.replace("SPECIFICATION Spec", asked))
    for engine in ("tables", "reference"):
        found = load(Bounded, config).check(engine=engine, keep_going=True)
        assert {one.property for one in found.violations} == violated


@each(DUMPS)
def test_states_and_labelled_steps_are_those_of_tlc(run, tmp_path: Path, name: str) -> None:
    config, dump, path = DATA / "dumps" / f"{name}.cfg", DATA / "dumps" / f"{name}.dot.gz", tmp_path / "result.json"
    outcome = run("crosscheck", "prevote", "--config", config, "--dump", dump, "--json", path)
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "EQUAL: the same states and labelled steps")
    found = json.loads(path.read_text())
    assert found["distinct_states"] == dict.fromkeys(("ours", "theirs"), expected()[name]["distinct_states"])
    assert found["edges"]["ours"] == found["edges"]["theirs"] > found["distinct_states"]["ours"]


def test_another_guard_leads_to_other_states(run, tmp_path: Path) -> None:
    (tmp_path / "changed.py").write_text(
        "from kraftcheck.kraft_model.prevote import Prevote\n"
        "class Changed(Prevote):\n"
        '    """A leader that has removed itself leads on."""\n'
        "    def _is_removed(self, me, hwm):\n"
        "        return False\n"
    )
    name = DATA / "dumps" / "two-voters-remove"
    outcome = run(
        *("crosscheck", f"{tmp_path / 'changed.py'}:Changed"),
        *("--config", name.with_suffix(".cfg"), "--dump", f"{name}.dot.gz"),
    )
    assert outcome.code == 1
    assert outcome.out.splitlines()[-1].startswith("DIFFERENT")


class Noted(Prevote):
    """Notes every state that a search finds."""

    found: ClassVar[set[State]] = set()

    @invariant
    def noted(self, state: State) -> bool:
        """It always holds."""
        self.found.add(state)
        return True


@pytest.mark.slow
@pytest.mark.kernel
@each(DUMPS)
def test_the_table_engine_finds_the_states_of_the_dump_and_takes_the_same_steps(name: str) -> None:
    protocol = bound(f"prevote/dumps/{name}", Noted).protocol
    Noted.found.clear()
    tables = explore_tables(protocol, SearchRequest(properties=(Noted.properties["Noted"],), deadlock=False))
    search = ReferenceSearch(protocol, SearchRequest(deadlock=False))
    reference = search.run()
    assert set(search.states()) == Noted.found
    assert (tables.actions, tables.depth) == (reference.actions, reference.depth)


@each(path.name for path in BEHAVIOURS)
def test_random_behaviours_conform(name: str) -> None:
    path = DATA / "simulations" / name
    config = path.with_name(f"{name.partition('_')[0]}.cfg")
    model, _ = bind_leniently(Prevote, read_config(config), whole_space=False)
    (replay,) = Replayer(model.protocol).replay(path)
    assert replay.verdict is ReplayVerdict.CONFORMS, replay.reason
    assert replay.steps + 1 == text_of(f"prevote/simulations/{path.stem}").count("STATE_") > 50


@pytest.mark.sampled(3)
@each(path.stem for path in sorted((DATA / "steps").glob("*.cfg")))
def test_the_next_states_of_a_state_are_those_of_tlc(name: str) -> None:
    """TLC was given the states as initial ones; the next states were the same, and the numbers are kept."""
    protocol = bound(f"prevote/steps/{name}", Prevote).protocol
    semantics, view = Semantics(protocol), TlaStateConverter(protocol)
    data = json.loads(text_of(f"prevote/steps/{name}.json"))
    found = Counter[str]()
    for variables in data["states"]:
        state = view.state({variable: parse_value(text) for variable, text in variables.items()})
        found.update(action for action, _ in {(taken.action, taken.target) for taken in semantics.transitions(state)})
    assert found == data["actions"]
