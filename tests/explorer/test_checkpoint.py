"""Searches that end before their time, and go on from their checkpoint to the same result."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraftcheck import load
from kraftcheck.explorer import reference
from kraftcheck.explorer.result import Interrupted, Progress, Result, SearchRequest
from kraftcheck.explorer.symbolic import engine as symbolic
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.explorer.tables.interner_checkpoint import restore_ruleless_inbox_contents
from kraftcheck.explorer.tables.learning import shared_sets
from kraftcheck.explorer.tables.learning.shared_sets import ExplodedSets
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.spec import MessageSetWithMemory, Record, State, Steps, become, consume, internal, invariant, on
from kraftcheck.spec import bound as bounded_by
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from tests.support.command_line import heed_interrupts
from tests.support.explorer.boards import Boards, TwoBoards, take_apart_at
from tests.support.explorer.comparison import TEN_MILLION, found
from tests.support.explorer.random_protocols import sample
from tests.support.mclive import MCLive
from tests.support.tlc import COUNTS, MCReconfig, bound, expected

pytestmark = pytest.mark.kernel

ALWAYS, NEVER = 0.0, 1e9  # seconds between two checkpoints


class Stopper:
    """Interrupts a search, as Ctrl-C does, after it has reported some times."""

    def __init__(self, reports: int) -> None:
        self.left = reports

    def __call__(self, progress: Progress) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


def in_pieces(search: BreadthFirstSearch, reports: int) -> Result | None:
    """Run a search until it is over (then return its result) or has reported some times since it last stood."""
    search.monitor.options = replace(search.options, report=Stopper(reports))
    try:
        return search.run()
    except Interrupted:
        return None


@pytest.mark.parametrize("elements", [1, pytest.param(31, marks=pytest.mark.slow)])
@pytest.mark.parametrize("protocol", [TwoBoards, pytest.param(Boards, marks=pytest.mark.slow)])
def test_exploded_sets_go_on(
    protocol: type[Protocol], elements: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def noting(sets: ExplodedSets, *given: Any) -> None:
        exploded.append(len(given[4]))
        explode(sets, *given)

    model, exploded, explode = load(protocol), list[int](), ExplodedSets.explode
    checked = tuple(one for one in model.protocol.properties.values() if one.kind == "invariant")
    options = SearchRequest(properties=checked, deadlock=False, keep_going=True, max_depth=7)
    expected = reference.explore(model.protocol, options)
    take_apart_at(2, monkeypatch)
    monkeypatch.setattr(shared_sets, "ELEMENTS_A_COLUMN", elements)
    monkeypatch.setattr(ExplodedSets, "explode", noting)
    options, batch = replace(options, checkpoint_every=ALWAYS), max(expected.distinct_states // 20, 3)
    result = in_pieces(BreadthFirstSearch(model.protocol, replace(options, checkpoint=tmp_path), 1, batch), 4)
    for more in range(20):
        assert result is not None or more < 19
        if result is None:
            search = BreadthFirstSearch(model.protocol, replace(options, resume=tmp_path), 1, batch)
            result = in_pieces(search, expected.distinct_states // batch + 40 + 5 * more)
    assert found(result) == found(expected)
    assert any(exploded), "no set was exploded as it was read"


@pytest.mark.slow
@pytest.mark.parametrize("is_exploded", [False, True])
def test_random_protocols_go_on_to_the_same_result(
    is_exploded: bool, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_exploded:
        take_apart_at(1, monkeypatch)

    @settings(max_examples=10, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 10**9), st.sampled_from((None, 20_000)), st.sampled_from((ALWAYS, NEVER)))
    def check(seed: int, memory: int | None, every: float) -> None:
        random = Random(seed)
        for drawn in sample(1, seed=seed, large=300, most=2_000):
            folder = tmp_path_factory.mktemp("search") / "checkpoint"
            options = replace(drawn.description.options(drawn.protocol), memory=memory, checkpoint_every=every)
            batch = max(drawn.result.distinct_states // 20, 3)
            result = in_pieces(BreadthFirstSearch(drawn.protocol, replace(options, checkpoint=folder), 1, batch), 3)
            pieces = 1
            while result is None:
                # those of rebuilding count, too
                reports = random.choice((1, 5)) + drawn.result.distinct_states // batch + 40
                search = BreadthFirstSearch(drawn.protocol, replace(options, resume=folder), 1, batch)
                result = in_pieces(search, reports)
                pieces += 1
            assert found(result) == found(drawn.result), drawn.description
            assert result.complete == drawn.result.complete

    check()


def loops(result: Result) -> dict[str, object]:
    """Return how each counterexample goes on for ever."""
    return {one.property: one.loop and (one.loop.back_to, one.loop.again is None) for one in result.violations}


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_temporal_properties_are_judged_alike_wherever_a_search_is_interrupted(runs: int, tmp_path: Path) -> None:
    protocol = bound("counts/two-voters", MCLive).protocol
    options = SearchRequest(
        deadlock=False,
        keep_going=True,
        fairness=tuple(MCLive.specifications["LivenessSpec"]),  # type: ignore[arg-type]
        temporal=tuple(protocol.properties[name] for name in ("AlwaysAgainALeader", "SteadyOrSilent")),
    )
    whole = BreadthFirstSearch(protocol, options, 1).run()
    assert set(loops(whole)) == {"AlwaysAgainALeader"}
    for seed in range(runs):
        random, folder = Random(seed), tmp_path / str(seed)
        asked = replace(options, checkpoint=folder, checkpoint_every=NEVER, memory=random.choice((None, 20_000)))
        reports = random.randrange(60)
        result = in_pieces(BreadthFirstSearch(protocol, asked, 1, batch=40), reports)
        while result is None:
            reports += random.randrange(200)
            again = replace(asked, checkpoint=None, resume=folder)
            result = in_pieces(BreadthFirstSearch(protocol, again, 1, batch=40), reports)
        assert found(result) == found(whole)
        assert loops(result) == loops(whole)


def interrupted(folder: Path, *, reports: int = 12, constants: tuple[str, ...] = ()) -> tuple[Any, SearchRequest]:
    """Leave a checkpoint of a search that is under way; return its protocol and its options."""
    protocol = bound("counts/two-voters-remove", MCReconfig, *constants).protocol
    options = SearchRequest(
        properties=tuple(p for p in protocol.properties.values() if p.kind.endswith("invariant")),
        deadlock=False,
        keep_going=True,
    )
    search = BreadthFirstSearch(protocol, replace(options, checkpoint=folder), 1, batch=100)
    assert in_pieces(search, reports) is None
    return protocol, options


@pytest.mark.slow
class Peer(Record):
    id: int
    seen: int = 0


class Number(Record):
    number: int
    dest: int


class Remembering(Protocol):
    """The network remembers the messages that were processed, so two contents may have the same messages in flight."""

    sends: int = bounded_by("MaxSends", default=3)
    network = MessageSetWithMemory()

    def initial(self) -> Iterator[State]:
        yield self.start([Peer(1), Peer(2)])

    @internal
    def send(self, me: Peer) -> Steps:
        for number in (1, 2):
            yield become(me).send(Number(number, 3 - me.id)).spend("sends")

    @on(Number)
    def receive(self, me: Peer, message: Number) -> Steps:
        yield consume(me.but(seen=max(me.seen, message.number)))


def test_a_network_with_memory_comes_back(tmp_path: Path) -> None:
    options = SearchRequest(checkpoint=tmp_path / "search", deadlock=False)
    tables.explore(Remembering(), replace(options, max_states=40))
    result = tables.explore(Remembering(), replace(options, checkpoint=None, resume=tmp_path / "search"))
    assert (result.distinct_states, result.generated_states, result.depth) == (137, 333, 7)


@pytest.mark.slow
def test_violations_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    protocol, options = interrupted(folder, reports=60)
    whole = BreadthFirstSearch(protocol, options, 1).run()
    result = BreadthFirstSearch(protocol, replace(options, resume=folder), 1).run()
    assert found(result) == found(whole)
    assert [v.trace for v in result.violations][:1] == [v.trace for v in whole.violations][:1]
    assert result.violations


class Counting(Remembering):
    @invariant
    def few(self, state: State) -> bool:
        total = sum(peer.seen for peer in state.replicas.values())
        return total < 2 or 1 // (total - 3) > 0


@pytest.mark.parametrize("engine", [tables, symbolic])
def test_a_property_may_raise_an_error_after_it_is_violated(engine: Any, tmp_path: Path) -> None:
    folder, few = tmp_path / "search", Counting.properties["Few"]
    options = SearchRequest(properties=(few,), keep_going=True, deadlock=False)
    whole = engine.explore(Counting(), options)
    engine.explore(Counting(), replace(options, checkpoint=folder, max_depth=6))
    assert found(engine.explore(Counting(), replace(options, resume=folder))) == found(whole)


def test_a_search_that_is_over_gives_its_result_again(tmp_path: Path) -> None:
    protocol = bound("counts/two-voters").protocol
    options = SearchRequest(deadlock=False, checkpoint=tmp_path / "c")
    whole = BreadthFirstSearch(protocol, options, 1).run()
    again = BreadthFirstSearch(protocol, replace(options, checkpoint=None, resume=tmp_path / "c"), 1).run()
    assert found(again) == found(whole)
    assert whole.distinct_states == expected()["two-voters"]["distinct_states"]


def test_a_limit_can_be_raised(tmp_path: Path) -> None:
    protocol = bound("counts/two-voters").protocol
    options = SearchRequest(deadlock=False, checkpoint=tmp_path / "c", max_depth=7)
    assert BreadthFirstSearch(protocol, options, 1).run().limit == "max_depth"
    further = replace(options, checkpoint=None, resume=tmp_path / "c", max_depth=None)
    result = BreadthFirstSearch(protocol, further, 1).run()
    counts = expected()["two-voters"]
    assert (result.distinct_states, result.depth) == (counts["distinct_states"], counts["depth"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("limit", "less"), [({"max_depth": 7}, {"max_depth": 3}), ({"max_states": 100}, {"max_states": 5})]
)
@pytest.mark.parametrize("explore", [tables.explore, symbolic.explore])
def test_a_limit_that_is_passed_already_ends_it_with_what_is_there(
    explore: Callable[[Protocol, SearchRequest], Result], limit: dict[str, int], less: dict[str, int], tmp_path: Path
) -> None:
    protocol = bound("counts/two-voters").protocol
    first = explore(protocol, SearchRequest(deadlock=False, workers=1, checkpoint=tmp_path / "c", **limit))
    again = explore(protocol, SearchRequest(deadlock=False, workers=1, resume=tmp_path / "c", **less))
    assert first.limit == again.limit == next(iter(limit))
    assert first.distinct_states <= again.distinct_states < first.distinct_states + 100
    assert first.distinct_states < expected()["two-voters"]["distinct_states"] / 2


# What is refused


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["states.bin", "values.bin", "controls.bin", "inboxes.bin", "inbox_items.bin"])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "c"
    protocol, options = interrupted(folder)
    whole = (folder / name).read_bytes()
    for number in range(12):
        place = Random(number).randrange(len(whole))
        damaged = bytearray(whole)
        damaged[place] ^= 1 << number % 8
        (folder / name).write_bytes(damaged if number % 2 else whole[:place])
        with pytest.raises(InputError, match=rf"--resume .*: the checkpoint is damaged: .*{name}: (expected|its)"):
            BreadthFirstSearch(protocol, replace(options, resume=folder), 1)
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"damaged: .*{name}: it is missing"):
        BreadthFirstSearch(protocol, replace(options, resume=folder), 1)


@pytest.mark.slow
def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    protocol, options = interrupted(folder)
    path = folder / "manifest.json"
    whole = path.read_bytes()
    for number in range(60):
        place = Random(number).randrange(len(whole) - 1)
        damaged = bytearray(whole)
        damaged[place] ^= 1 << number % 7
        path.write_bytes(b"[" * 100_000 if number == 0 else damaged if number % 2 else whole[:place])
        with pytest.raises(InputError, match=r"--resume .*: the checkpoint (is damaged: .*manifest|has format)"):
            BreadthFirstSearch(protocol, replace(options, resume=folder), 1)


@pytest.mark.slow
def test_a_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    protocol, options = interrupted(folder)
    other = bound("counts/two-voters-remove", MCReconfig, "MaxElections=2").protocol
    with pytest.raises(InputError, match="another search: the constant MaxElections: 1 in the checkpoint, now 2"):
        BreadthFirstSearch(other, replace(options, resume=folder), 1)
    with pytest.raises(InputError, match="another search: deadlock: false in the checkpoint, now true"):
        BreadthFirstSearch(protocol, replace(options, resume=folder, deadlock=True), 1)
    with pytest.raises(InputError, match="another search: --check-actions: false in the checkpoint, now true"):
        BreadthFirstSearch(protocol, replace(options, resume=folder, check_actions=True), 1)
    with pytest.raises(InputError, match=r"--checkpoint .*: holds the checkpoint .*resume it with --resume"):
        BreadthFirstSearch(protocol, replace(options, checkpoint=folder), 1)
    with pytest.raises(InputError, match=r"--resume .*: there is no such folder"):
        BreadthFirstSearch(protocol, replace(options, resume=tmp_path / "none"), 1)
    first = BreadthFirstSearch(protocol, replace(options, resume=folder), 1)
    with pytest.raises(InputError, match=r"in use by another search \(process \d+\)"):
        BreadthFirstSearch(protocol, replace(options, resume=folder), 1)
    first.close()


# Killed processes


def command(folder: Path, report: Path, *arguments: str) -> list[str]:
    option = "--resume" if (folder / "manifest.json").exists() else "--checkpoint"
    return [
        *(sys.executable, "-m", "kraftcheck", "check", "reconfig", *arguments, "--engine", "tables", "--no-deadlock"),
        *(option, str(folder), "--checkpoint-every", "0.5", "--json", str(report), "--quiet"),
    ]  # fmt: skip


def counts_of(report: Path) -> tuple[str, int, int, int]:
    content = json.loads(report.read_text())
    return content["result"], content["distinct_states"], content["generated_states"], content["depth"]


def killed_at_random(
    folder: Path, arguments: tuple[str, ...], most: float, random: Random
) -> tuple[str, int, int, int]:
    """Start a search and kill it at a random moment, up to three times; then let it go to its end."""
    report = folder.parent / "report.json"
    for _ in range(random.randint(1, 3)):
        process = subprocess.Popen(command(folder, report, *arguments), stdout=subprocess.DEVNULL)
        time.sleep(random.uniform(0.3, most))
        process.kill()
        if process.wait() != -signal.SIGKILL:  # it was over before
            break
    if not report.exists():
        subprocess.run(command(folder, report, *arguments), check=True, stdout=subprocess.DEVNULL, timeout=600)
    return counts_of(report)


@pytest.mark.slow
@pytest.mark.parametrize("run", [1, 0])
def test_killed_and_resumed(tmp_path: Path, run: int) -> None:
    name = "three-voters-remove"
    arguments = ("--config", str(COUNTS / f"{name}.cfg"))
    counts = expected()[name]
    outcome = killed_at_random(tmp_path / "c", arguments, 2.5, Random(run))
    assert outcome == ("ok", counts["distinct_states"], counts["generated_states"], counts["depth"])


@pytest.mark.slow
def test_a_temporal_property_is_judged_after_kills(tmp_path: Path) -> None:
    config = tmp_path / "x.cfg"
    text = (COUNTS / "three-voters.cfg").read_text().split("INIT Init")[0]
    config.write_text(f"{text}SPECIFICATION LivenessSpec\nPROPERTY ValuesNotStuck\nCHECK_DEADLOCK FALSE\n")
    counts = expected()["three-voters"]
    outcome = killed_at_random(tmp_path / "c", ("--config", str(config)), 8, Random(3))
    assert outcome == ("ok", counts["distinct_states"], counts["generated_states"], counts["depth"])


@pytest.mark.exhaustive
def test_ten_million_states_killed_and_resumed_twenty_times(tmp_path: Path) -> None:
    name, given_settings, distinct, generated, depth = TEN_MILLION
    arguments = ["--config", str(COUNTS / f"{name}.cfg"), *(w for text in given_settings for w in ("--set", text))]
    for run in range(20):
        (tmp_path / str(run)).mkdir()
        outcome = killed_at_random(tmp_path / str(run) / "c", tuple(arguments), 20, Random(run))
        assert outcome == ("ok", distinct, generated, depth), run


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_keeps_the_checkpoint_and_the_user_is_told_how_to_go_on(tmp_path: Path, number: int) -> None:
    folder, report = tmp_path / "c", tmp_path / "report.json"
    words = command(folder, report, "--config", "large")
    process = subprocess.Popen(
        [w for w in words if w != "--quiet"], stdout=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    while not (folder / "manifest.json").exists():
        time.sleep(0.05)
        assert process.poll() is None
    time.sleep(0.5)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    (line,) = [line for line in out.splitlines() if line.startswith("To go on: kraftcheck ")]
    before = counts_of(report)
    assert before[0] == "incomplete"
    again = [sys.executable, "-m", *shlex.split(line.removeprefix("To go on: ")), "--max-states", str(before[1] + 1000)]
    done = subprocess.run(again, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 20, done.stderr
    after = counts_of(report)
    assert after[1] == before[1] + 1000


def test_what_was_learned_of_channels_before_they_had_a_rule_is_refused() -> None:
    job = load("lamport-mutex", "smoke").job(workers=1)
    search = BreadthFirstSearch(job.protocol, job.options, 1)
    search.run()
    interner = search.expander.learner.interner
    inbox = interner.inboxes.decode_content(1)
    assert inbox != interner.protocol.network.empty
    with pytest.raises(InputError, match="made by an older kraftcheck"):
        restore_ruleless_inbox_contents(interner, [(1, inbox)])
