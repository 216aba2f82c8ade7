"""Protocols in the styles of `benchmarks/styles/` have TLC's counts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import PEERS, TOOLS, Peer, measured
from benchmarks.styles import SEARCHES, STYLES, Style
from kraftcheck import Protocol, Result, engines, load
from kraftcheck.api import Loaded
from kraftcheck.explorer import reference
from kraftcheck.explorer.bytecode import engine as bytecode
from kraftcheck.explorer.request import Progress, SearchRequest
from kraftcheck.explorer.result import Interrupted
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.explorer.tables.searches import bfs
from kraftcheck.spec import Record, State, Steps, become, constant, internal, invariant
from kraftcheck.spec.diagnosis.lint import lint
from kraftcheck.spec.errors import NoBytecodeError

pytestmark = pytest.mark.kernel
PAXOS = Style("paxos_shared.py:Paxos", "paxos_shared.cfg", 3_921, 17, None)
MOST_CALLS = {
    "paxos": 2_000,
    "ewd998": 8_000,
    "kip279-small": 40_000,
    "disruptor": 20_000,
    "mongo": 40_000,
    "ricart": 8_000,
    "craq": 8_000,
}
"""Upper limits on the calls of actions, which grow if inputs are no longer tracked by part."""


class Number(Record):
    id: int
    value: int


class EachNumber(Protocol):
    """Each number below a limit is an initial state."""

    numbers: int = constant("Numbers", default=100)

    def initial(self) -> Iterator[State]:
        for value in range(self.numbers):
            yield self.start([Number(0, value)])

    @internal
    def halve(self, me: Number) -> Steps:
        yield become(me.but(value=me.value // 2))


class Leaving(EachNumber):
    @internal
    def leave(self, me: Number) -> Steps:
        if me.value % 1_000 == 999:
            yield become(me.but(value=-me.value))

    @invariant
    def is_small(self, me: Number) -> bool:
        return me.value > -2_000


def loaded(style: Style) -> Loaded:
    constants = dict(constant.split("=") for constant in style.constants)
    return load(str(STYLES / style.model), STYLES / style.config, constants=constants)


def checked(style: Style, engine: str | None = "tables") -> Result:
    return loaded(style).check(engine=engine)


def tables_first(monkeypatch: pytest.MonkeyPatch, *, tried_by_bytecode: bool = False) -> None:
    """Let no other engine try before the table engine."""
    monkeypatch.setattr(engines, "_try_reference", lambda *_: None)
    monkeypatch.setattr(bytecode, "is_interpreter_compiled", lambda: True)
    if not tried_by_bytecode:
        monkeypatch.setattr(engines, "_try_bytecode", lambda *_: None)


def change_at_once(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """Let another engine be chosen at 64 states with a call in each step."""
    tables_first(monkeypatch)
    monkeypatch.setattr(engines, "ENGINE_CALL_THRESHOLDS", {"bytecode": ((64, 1.0),), "reference": ((64, 1.0),)})
    monkeypatch.setattr(bytecode, "untranslatable_reason", lambda *_: None if engine == "bytecode" else "a word")


@pytest.mark.slow
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
    change_at_once(monkeypatch, engine)
    limits = {"memory": "8G"} if engine == "bytecode" else {}
    found = loaded(SEARCHES["si-one"]).check(workers=2, **limits)
    assert (found.engine, checked(SEARCHES["si-one"]).engine) == (engine, "tables")
    why = f"the {engine} engine searched in one thread{'; a word' * (engine == 'reference')}; see"
    assert any("inputs of IsConflictSerializableInv" in note and why in note for note in found.notes), found.notes
    assert (found.distinct_states, found.generated_states, found.depth, found.actions) == (
        expected.distinct_states,
        expected.generated_states,
        expected.depth,
        expected.actions,
    )


@pytest.mark.parametrize(
    ("asked", "able"),
    [
        ({"workers": 2}, ["bytecode", "reference"]),
        ({"memory": 8 << 30}, ["bytecode"]),
        ({"memory": (8 << 30) - 1}, []),
        ({"checkpoint": "kept", "checkpoint_every": 60.0}, ["bytecode", "reference"]),
        ({"resume": "kept"}, []),
    ],
)
def test_other_engines_keep_the_limits(asked: dict[str, Any], able: list[str]) -> None:
    choice = engines.EngineChooser(load("die-hard").protocol, SearchRequest(**asked))
    assert choice._others == able


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["bytecode", "reference"])
def test_another_engine_ends_a_search_with_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str
) -> None:
    change_at_once(monkeypatch, engine)
    style, options = SEARCHES["si-one"], ("checkpoint", "checkpoint", "resume")
    for found in [loaded(style).check(**{option: tmp_path / "kept"}) for option in options]:
        assert (found.engine, found.distinct_states, found.depth) == (engine, style.states, style.depth)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["bytecode", "reference"])
@pytest.mark.parametrize("end", ["the next checkpoint", "Ctrl-C", "a limit"])
def test_the_table_engine_goes_on_from_its_checkpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str, end: str
) -> None:
    change_at_once(monkeypatch, engine)
    used: list[tuple[str, Any]] = []

    def noted(name: str, run: Callable[..., Result]) -> Callable[..., Result]:
        def explore(protocol: Protocol, options: SearchRequest, **more: bool) -> Result:
            used.append((name, options.resume))
            return run(protocol, options, **more)

        return explore

    def report(progress: Progress) -> None:
        if end == "Ctrl-C" and engine in dict(used) and progress.distinct_states > 1_000:
            raise KeyboardInterrupt

    for name, module in (("tables", tables), ("bytecode", bytecode), ("reference", reference)):
        monkeypatch.setattr(module, "explore", noted(name, module.explore))
    kept, style = tmp_path / "kept", loaded(SEARCHES["si-one"])
    if end == "the next checkpoint":
        found = style.check(checkpoint=kept, checkpoint_every=0.001)
    else:
        with pytest.raises(Interrupted) if end == "Ctrl-C" else nullcontext():
            style.check(checkpoint=kept, report=report, max_states=1_200)
        found = style.check(resume=kept)
    assert used == [("tables", None), (engine, None), ("tables", kept)]
    assert (found.engine, found.distinct_states, found.notes) == ("tables", SEARCHES["si-one"].states, [])


def test_another_engine_has_half_of_the_time_where_there_is_a_checkpoint() -> None:
    for asked, most in (({}, inf), ({"checkpoint": "kept"}, 300), ({"checkpoint": "kept", "time_limit": 8.0}, 4)):
        choice = engines.EngineChooser(load("die-hard").protocol, SearchRequest(**asked))
        choice.change()
        assert most - 1 <= choice._until - time.monotonic() <= most


@pytest.mark.parametrize(("calls", "is_dear"), [(32_000, True), (24_000, False), (3_000, False)])
def test_a_call_in_each_state_is_dear_even_if_there_are_more_steps(
    calls: int, is_dear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "is_interpreter_compiled", lambda: True)
    monkeypatch.setattr(bytecode, "untranslatable_reason", lambda *_: "a word")
    choice = engines.EngineChooser(load("die-hard").protocol, SearchRequest())
    progress = Progress(10_000, 40_000, 20, 100, 1.0, handler_calls={"FillSmallJug": calls})
    with pytest.raises(engines.EngineChangeSignal) if is_dear else nullcontext():
        choice.watched().report(progress)  # type: ignore[misc]
    assert [note.count(": the reference engine searched; a word; see") for note in choice.notes] == [1] * is_dear
    choice.change()
    assert choice.engine == ("reference" if is_dear else "tables")


@pytest.mark.slow
def test_a_long_search_leads_back_to_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    tables_first(monkeypatch)
    engines_used = []
    run = engines._run_engine

    def noted(engine: str, protocol: Protocol, options: SearchRequest) -> Result:
        engines_used.append(engine)
        return run(engine, protocol, options)

    monkeypatch.setattr(engines, "_run_engine", noted)
    monkeypatch.setattr(engines, "LONG_SEARCH_STATES", 4_000)
    found = checked(SEARCHES["mongo"], None)
    assert engines_used == ["tables", "bytecode", "tables"]
    assert (found.engine, found.distinct_states) == ("tables", 66_259)
    assert not any("bytecode" in note for note in found.notes)


@pytest.mark.slow
def test_the_bytecode_engine_ends_a_search_of_some_thousand_states(monkeypatch: pytest.MonkeyPatch) -> None:
    tables_first(monkeypatch, tried_by_bytecode=True)
    found = checked(SEARCHES["kip279-small"], None)
    assert (found.engine, found.distinct_states, found.depth) == ("bytecode", 9_027, 18)
    monkeypatch.setattr(engines, "BYTECODE_TRIAL_STATES", 9_026)
    job = loaded(SEARCHES["kip279-small"]).job()
    assert engines._try_bytecode(job.protocol, job.options) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ewd840", "elevator", "slush"])
def test_words_of_python_do_not_lead_to_the_reference_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers with `abs`, `replace`, `match`, nested functions, f-strings, and many initial states."""
    tables_first(monkeypatch)
    style, found = SEARCHES[name], checked(SEARCHES[name], None)
    assert (found.distinct_states, found.depth) == (style.states, style.depth)
    assert found.engine == ("bytecode" if name == "elevator" else "tables")
    assert checked(style, "bytecode").distinct_states == style.states


def test_engines_share_the_initial_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three engines try a search; its many initial states are made once, and kept no longer than the search."""
    engines_used, made, run = list[str](), list[str](), engines._run_engine
    protocol, initial = EachNumber(), EachNumber.initial

    def noted(engine: str, *given: Any) -> Result:
        engines_used.append(engine)
        return run(engine, *given)

    def counted(self: EachNumber) -> Iterator[State]:
        made.append("initial")
        return initial(self)

    monkeypatch.setattr(engines, "_run_engine", noted)
    monkeypatch.setattr(engines, "_try_reference", engines._small_search_by_reference)
    monkeypatch.setattr(engines, "SMALL_SEARCH_STATES", 10)
    monkeypatch.setattr(bytecode, "is_interpreter_compiled", lambda: True)
    monkeypatch.setattr(EachNumber, "initial", counted)
    for limit in ("BYTECODE_TRIAL_STATES", "GROWING_SEARCH_STATES"):
        monkeypatch.setattr(engines, limit, 9)  # fewer than the initial states, which count too
    for seconds, wanted in ((60.0, "bytecode"), (-60.0, "tables")):
        monkeypatch.setattr(engines, "BYTECODE_TRIAL_SECONDS", seconds)
        found = engines.search("tables", protocol, SearchRequest(deadlock=False), is_named=False)
        assert (found.engine, found.distinct_states) == (wanted, 100)
    assert engines_used == ["bytecode", "bytecode", "tables"]  # the reference engine is not called by `_run_engine`
    monkeypatch.setattr(bytecode, "untranslatable_reason", lambda *_: "a word")
    assert engines.search("tables", protocol, SearchRequest(deadlock=False), is_named=False).engine == "tables"
    assert engines_used[3:] == ["tables"], "many initial states are not encoded in vain"
    assert lint(protocol, complete=True) == []
    assert len(made) == 3
    assert protocol.kept_initial is None


@pytest.mark.slow
def test_calls_in_many_initial_states_choose_the_engine_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """All states are known at the start, so that their number never doubles."""
    tables_first(monkeypatch)
    protocol = EachNumber(numbers=20_000)
    found = engines.search("tables", protocol, SearchRequest(deadlock=False), is_named=False)
    assert (found.engine, found.distinct_states) == ("bytecode", 20_000)
    (calls,) = (re.search(r"\((.*) calls for", note) for note in found.notes if "hardly repeat" in note)
    assert calls is not None
    assert 0 < int(calls[1].replace(",", "")) < 6_000


@pytest.mark.parametrize("numbers", [900, 1_900, 3_500, pytest.param(9_000, marks=pytest.mark.slow)])
def test_a_violation_after_many_initial_states_ends_the_search_at_the_end_of_the_level(
    numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = Leaving(numbers=numbers)
    request = SearchRequest(properties=(protocol.properties["IsSmall"],), deadlock=False)
    ours, wanted = tables.explore(protocol, request), reference.explore(protocol, request, whole_levels=True)
    assert (ours.verdict, ours.distinct_states, ours.generated_states) == (
        wanted.verdict,
        wanted.distinct_states,
        wanted.generated_states,
    )
    monkeypatch.setattr(bfs, "FIRST_SLICE_STATES", numbers)
    whole = tables.explore(protocol, request)
    traces = [[[step.state for step in one.trace] for one in found.violations] for found in (ours, whole)]
    assert traces[0] == traces[1]
    assert len(traces[0]) == len(wanted.violations) == (numbers > 2_000)


def test_a_search_that_grows_is_not_tried_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    tables_first(monkeypatch, tried_by_bytecode=True)
    states, run = [], engines._run_engine

    def noted(engine: str, protocol: Protocol, options: SearchRequest) -> Result:
        def report(progress: Progress) -> None:
            states.append(progress.distinct_states)
            assert options.report is not None
            options.report(progress)

        return run(engine, protocol, replace(options, report=report))

    monkeypatch.setattr(engines, "_run_engine", noted)
    job = loaded(SEARCHES["mongo"]).job()
    assert engines._try_bytecode(job.protocol, job.options) is None
    assert 0 < states[-1] < 4_000


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [False, True])
def test_the_seconds_are_those_of_all_engines_that_searched(
    is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables_first(monkeypatch)
    run = engines._run_engine

    def late(engine: str, protocol: Protocol, options: SearchRequest) -> Result:
        report = options.report
        if engine != "tables" or report is None:
            return run(engine, protocol, options)
        return run(engine, protocol, replace(options, report=lambda at: report(replace(at, seconds=at.seconds + 500))))

    monkeypatch.setattr(engines, "_run_engine", late)
    asked = SearchRequest(deadlock=False, checkpoint=tmp_path / "kept" if is_kept else None)
    found = engines.search("tables", EachNumber(numbers=4_000), asked, is_named=False)
    assert found.engine == "bytecode"
    assert 500 < found.seconds < 600


@pytest.mark.slow
def test_a_translation_that_fails_in_the_search_leads_back_to_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def fails(*given: object) -> Result:
        tried.append(given)
        raise NoBytecodeError("an operation")

    tables_first(monkeypatch)
    monkeypatch.setattr(bytecode, "explore", fails)
    found = checked(SEARCHES["disruptor"], None)
    assert (found.engine, found.distinct_states, len(tried)) == ("tables", 14_365, 1)
    assert not any("bytecode" in note for note in found.notes)


def test_other_searches_keep_their_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    tables_first(monkeypatch)
    assert checked(PAXOS, None).engine == "tables"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
def test_programs_in_c_visit_as_many_states(peer: Peer, tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in TOOLS}
    ours, theirs = (measured(tools[name], peer, peer.sizes[0], tmp_path, 1) for name in ("kraftcheck", "C"))
    assert ours.states == theirs.states > 10


@pytest.mark.slow
def test_the_bytecode_engine_is_not_imported_for_messages() -> None:
    code = (
        "import sys; from kraftcheck import engines, load; engines._try_reference = lambda *_: None; "
        "job = load('two-phase-commit', 'smoke').job(); "
        "print(engines.search('tables', job.protocol, job.options, is_named=False).engine); "
        "print('kraftcheck.explorer.bytecode' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "tables\nFalse\n"


def chooser_at(*calls_per_step: float) -> engines.EngineChooser:
    """Return a chooser that changes to the bytecode engine at the last of some doublings of the states, from 128 on."""
    choice = engines.EngineChooser(load("die-hard").protocol, SearchRequest())
    report, steps, calls = choice.watched().report, 1, 0.0
    assert report is not None
    for number, often in enumerate(calls_per_step):
        calls, steps = calls + often * (256 << number) - often * steps, 256 << number
        is_last = number == len(calls_per_step) - 1
        with pytest.raises(engines.EngineChangeSignal) if is_last else nullcontext():
            report(Progress(128 << number, steps, 9, 9, 1.0, handler_calls={"FillSmallJug": round(calls)}))
    choice.change()
    assert choice.engine == "bytecode"
    return choice


def test_the_reference_engine_ends_where_it_pays_to_compile_the_bytecode_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bytecode, "untranslatable_reason", lambda *_: None)
    monkeypatch.setattr(bytecode, "is_interpreter_compiled", lambda: False)
    choice = engines.EngineChooser(load("die-hard").protocol, SearchRequest())
    for states, engine in ((4_096, "reference"), (engines.LEAST_BYTECODE_STATES, "bytecode")):
        report = choice.watched().report
        assert report is not None
        report(Progress(states // 4, states // 4, 9, 9, 1.0, handler_calls={"FillSmallJug": states // 2}))
        with pytest.raises(engines.EngineChangeSignal):
            report(Progress(states, states, 9, 9, 1.0, handler_calls={"FillSmallJug": 2 * states}))
        choice.change()
        assert choice.engine == engine
        assert [f": the {engine} engine searched; see" in note for note in choice.notes] == [True]
    choice.problem = "; a value of type dict"
    choice.change()
    assert (choice.engine, choice._others, choice.notes) == ("tables", ["reference"], [])


def test_calls_that_become_rarer_by_turns_are_no_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "untranslatable_reason", lambda *_: None)
    monkeypatch.setattr(bytecode, "is_interpreter_compiled", lambda: True)
    assert chooser_at(0.9, 0.3, 0.9, 0.3)._most == inf
    assert chooser_at(1.8, 0.9, 0.6, 0.3)._most == engines.LONG_SEARCH_STATES


def test_calls_that_become_rarer_slowly_stay_dear_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bank with a ledger: after 1,633 states 1.6 calls a step, 0.74 of those before; 0.05 after a million."""
    monkeypatch.setattr(bytecode, "untranslatable_reason", lambda *_: None)
    monkeypatch.setattr(bytecode, "is_interpreter_compiled", lambda: True)
    choice = chooser_at(2.9, 2.5, 2.1, 1.55)
    report = choice.watched().report
    assert report is not None
    report(Progress(2 * engines.LONG_SEARCH_STATES, 3_000_000, 9, 9, 6.0))
    with pytest.raises(engines.EngineChangeSignal):
        report(Progress(8 * engines.LONG_SEARCH_STATES, 9_000_000, 9, 9, 18.0))
    choice.change()
    assert (choice.engine, choice._others) == ("tables", [])


def test_expensive_steps_of_bytecode_bring_the_table_engine_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "untranslatable_reason", lambda *_: None)
    monkeypatch.setattr(bytecode, "is_interpreter_compiled", lambda: True)
    choice = chooser_at(0.9, 0.9, 0.9, 0.9)
    report = choice.watched().report
    assert report is not None
    report(Progress(100_000, 200_000, 9, 9, 12.0))  # 50 microseconds a step: less than the calls would take
    with pytest.raises(engines.EngineChangeSignal):
        report(Progress(100_000, 200_000, 9, 9, 25.0))
    choice.change()
    assert choice.engine == "tables"


def test_properties_over_whole_states_count_as_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "untranslatable_reason", lambda *_: None)
    monkeypatch.setattr(bytecode, "is_interpreter_compiled", lambda: True)
    choice = engines.EngineChooser(load("die-hard").protocol, SearchRequest())
    report = choice.watched().report
    assert report is not None
    with pytest.raises(engines.EngineChangeSignal):
        report(Progress(5_000, 20_000, 9, 9, 1.0, evaluations={"TypeOK": 5_000}))
    assert "the inputs of TypeOK hardly repeat (5,000 calls for 19,999 steps)" in choice.notes[0]
