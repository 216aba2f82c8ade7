"""Protocols in the styles of `benchmarks/styles/` have TLC's counts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.peers import PEERS, TOOLS, Peer, measured
from benchmarks.styles import SEARCHES, STYLES, Style
from kraftcheck import Result, engines, load
from kraftcheck.explorer.bytecode import engine as bytecode
from kraftcheck.spec.errors import UntranslatableError

pytestmark = pytest.mark.kernel
PAXOS = Style("paxos_shared.py:Paxos", "paxos_shared.cfg", 3_921, 17, None)
MOST_CALLS = {"paxos": 4_000, "ewd998": 8_000, "kip279-small": 40_000, "disruptor": 20_000, "mongo": 40_000}
"""Upper limits on the calls of actions, which grow if inputs are no longer tracked by part."""


def checked(style: Style, engine: str | None = "tables") -> Result:
    constants = dict(constant.split("=") for constant in style.constants)
    model = load(str(STYLES / style.model), STYLES / style.config, constants=constants)
    return model.check(engine=engine)


@pytest.mark.parametrize("name", ["si-one", *(pytest.param(name, marks=pytest.mark.slow) for name in MOST_CALLS)])
def test_counts_are_those_of_tlc(name: str) -> None:
    style, found = SEARCHES[name], checked(SEARCHES[name])
    assert (found.distinct_states, found.depth) == (style.states, style.depth)
    assert sum(found.handler_calls.values()) < MOST_CALLS.get(name, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, style in SEARCHES.items() if style.module])
def test_protocols_of_papers_have_the_counts_of_their_modules(name: str) -> None:
    style, found = SEARCHES[name], checked(SEARCHES[name], None)
    assert (found.distinct_states, found.depth) == (style.states, style.depth)


def test_loops_in_order_over_a_shared_set_are_read_element_by_element() -> None:
    found = checked(PAXOS)
    assert (found.distinct_states, found.depth) == (PAXOS.states, PAXOS.depth)
    assert sum(found.handler_calls.values()) < 1_000, "of 25,000 that sets as a whole would take"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["bytecode", "reference"])
def test_a_search_whose_inputs_hardly_repeat_goes_on_without_tables(
    monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    expected = checked(SEARCHES["si-one"], "reference")
    monkeypatch.setattr(engines, "TRIAL_STATES", 16)
    monkeypatch.setattr(engines, "_tried_by_reference", lambda *_: None)
    monkeypatch.setattr(bytecode, "is_supported", lambda *_: engine == "bytecode")
    monkeypatch.setattr(bytecode, "is_compiled", lambda: True)
    found = checked(SEARCHES["si-one"], None)
    assert (found.engine, checked(SEARCHES["si-one"]).engine) == (engine, "tables")
    assert any("AbortTxn, AllFinished" in note and f"the {engine} engine searched" in note for note in found.notes)
    assert (found.distinct_states, found.generated_states, found.depth, found.actions) == (
        expected.distinct_states,
        expected.generated_states,
        expected.depth,
        expected.actions,
    )


@pytest.mark.slow
def test_a_translation_that_fails_in_the_search_leads_back_to_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fails(*given: object) -> Result:
        tried.append(given)
        raise UntranslatableError("an operation")

    monkeypatch.setattr(engines, "_tried_by_reference", lambda *_: None)
    monkeypatch.setattr(bytecode, "explore", fails)
    monkeypatch.setattr(bytecode, "is_compiled", lambda: True)
    found = checked(SEARCHES["disruptor"], None)
    assert (found.engine, found.distinct_states, len(tried)) == ("tables", 14_365, 1)
    assert not any("bytecode" in note for note in found.notes)


def test_other_searches_keep_their_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_tried_by_reference", lambda *_: None)
    assert checked(PAXOS, None).engine == "tables"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
def test_programs_in_c_visit_as_many_states(peer: Peer, tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in TOOLS}
    ours, theirs = (measured(tools[name], peer, peer.sizes[0], tmp_path, 1) for name in ("kraftcheck", "C"))
    assert ours.states == theirs.states > 10
