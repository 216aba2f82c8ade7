"""A corpus made on Spark: the files that `simulate --out` writes, however often it is begun again."""

from __future__ import annotations

import filecmp
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.explorer.random_walks import RandomWalks, WalkPlan, simulate
from kraftcheck.explorer.result import Result, SearchRequest, Verdict
from kraftcheck.persistence.folder import write_batch_note
from kraftcheck.spec.discovery import load_protocol
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.corpus import (
    WALKS_A_CHUNK,
    CorpusFolder,
    SparkCorpusMaker,
    identity_of_corpus,
    split_walks_into_chunks,
)
from tests.support.command_line import Run
from tests.support.tlc import bound

pytestmark = pytest.mark.kernel

QUIET = SearchRequest(deadlock=False)

# Walks of a least length, and from any number on


def walks_of(plan: WalkPlan, name: str = "grow-with-election") -> dict[int, Any]:
    found: dict[int, Any] = {}
    simulate(bound(f"counts/{name}").protocol, QUIET, plan, found.__setitem__)
    return found


@pytest.mark.slow
def test_short_walks_are_made_again_and_the_others_stay() -> None:
    as_they_come = walks_of(WalkPlan(60, 40, 2))
    least = sorted(map(len, as_they_come.values()))[30]
    made_again = walks_of(WalkPlan(60, 40, 2, least=least))
    assert min(map(len, as_they_come.values())) < least == min(map(len, made_again.values()))
    for number, walk in as_they_come.items():
        assert (made_again[number] == walk) == (len(walk) >= least)


@pytest.mark.slow
def test_walks_from_a_number_on() -> None:
    whole = walks_of(WalkPlan(30, 40, 2, least=20))
    part = walks_of(WalkPlan(7, 40, 2, first=11, least=20))
    assert part == {number: whole[number] for number in range(11, 18)}


@pytest.mark.slow
def test_more_walks_of_a_search_that_knows_some() -> None:
    plan = WalkPlan(40, 40, 2, least=20)
    whole = walks_of(plan)
    found: dict[int, Any] = {}
    protocol = bound("counts/grow-with-election").protocol
    walker = RandomWalks(protocol, replace(QUIET, workers=1), WalkPlan(0, 40, 2, least=20), found.__setitem__)
    walker.run()
    states = 0
    for first in (20, 0):
        result = walker.more(WalkPlan(20, 40, 2, first=first, least=20))
        assert result.runs == 20
        states += result.generated_states
        assert sum(result.actions.values()) == result.generated_states - 20
    assert found == whole
    assert states == sum(map(len, whole.values()))


@pytest.mark.slow
def test_walks_that_always_end_too_early_are_refused() -> None:
    with pytest.raises(InputError, match=r"walk \d+ ends before it has 90 states, 200 times out of 200"):
        walks_of(WalkPlan(3, 100, 2, least=90))
    with pytest.raises(InputError, match="expected at most 10 states for the shortest walk, found 11"):
        walks_of(WalkPlan(3, 10, 2, least=11))


# The folder


def test_chunks() -> None:
    assert next(split_walks_into_chunks(2 * 10**10)).runs == WALKS_A_CHUNK
    assert [tuple(chunk) for chunk in split_walks_into_chunks(2 * WALKS_A_CHUNK + 5)] == [
        (0, 0, WALKS_A_CHUNK), (1, WALKS_A_CHUNK, WALKS_A_CHUNK), (2, 2 * WALKS_A_CHUNK, 5)
    ]  # fmt: skip


def test_a_chunk_counts_with_its_note_and_all_its_files(tmp_path: Path) -> None:
    identity = {"--seed": 1}
    runs = WALKS_A_CHUNK + 3
    note = {"runs": 3, "checked": [], "states": 9, "longest": 3, "actions": {}, "violated": {}}
    with CorpusFolder(tmp_path / "c", identity) as folder:
        for number in range(runs):
            (folder.path / f"walk_{number}.tla").write_text("")
        assert folder.done(runs) == {}
        write_batch_note(folder.note_file(folder.path, 1), note)
        assert folder.done(runs) == {1: note}
        assert folder.done(runs, ["Fine"]) == {}
        write_batch_note(folder.note_file(folder.path, 1), {**note, "checked": ["Deadlock", "Fine"]})
        assert list(folder.done(runs, ["Fine"])) == [1]
        assert folder.done(runs, ["Fine", "Other"]) == {}
        assert list(folder.done(2 * 10**10)) == []  # the second chunk is longer then
        (folder.path / f"walk_{WALKS_A_CHUNK}.tla").unlink()
        assert folder.done(runs) == {}
        with pytest.raises(InputError, match="in use by another run"):
            CorpusFolder(tmp_path / "c", identity)
        with pytest.raises(InputError, match=r"it holds more walks than 50 \(walk_50.tla\)"):
            folder.done(50)
    with pytest.raises(InputError, match="it holds other walks: --seed: 1 there, now 2"):
        CorpusFolder(tmp_path / "c", {"--seed": 2})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter").write_text("")
    with pytest.raises(InputError, match="not a folder of an earlier run: it holds letter; give a new folder"):
        CorpusFolder(tmp_path / "other", identity)


class Alone:
    """Stands in for a Spark application: it runs the task in this process."""

    parallelism = 1

    def describe(self, text: str) -> None:
        pass

    def cancel(self) -> None:
        raise AssertionError("nobody interrupts this")

    def run(self, count: int, name: str, arguments: str, schema: str) -> Any:
        pa = pytest.importorskip("pyarrow")
        from kraftcheck.traces.corpus import generate_walk_chunks

        numbers = pa.RecordBatch.from_pydict({"id": list(range(count))})
        return pa.Table.from_batches(generate_walk_chunks({**json.loads(arguments), "user_files": ""}, iter([numbers])))


def corpus(folder: Path, model: str, *properties: str) -> Result:
    """Make twenty walks of a user's model in a folder."""
    protocol = load_protocol(*model.split(":"))()
    options = SearchRequest(deadlock=False, properties=tuple(protocol.properties[name] for name in properties))
    plan = WalkPlan(20, depth=10)
    cluster: Any = Alone()
    with CorpusFolder(folder, identity_of_corpus(protocol, options, plan)) as made:
        return SparkCorpusMaker(cluster, protocol, options, plan, made).run()


def test_what_was_not_checked_before_is_checked_now(tmp_path: Path, ping: str) -> None:
    assert corpus(tmp_path / "c", ping).verdict is Verdict.OK
    found = corpus(tmp_path / "c", ping, "ShortLog")
    assert found.verdict is Verdict.VIOLATION
    assert found.notes == []
    again = corpus(tmp_path / "c", ping, "ShortLog")
    assert again.verdict is Verdict.VIOLATION
    assert again.notes == ["--out: 20 walks existed already and were kept"]


@pytest.mark.parametrize("place", ["        number = me.pings + 1", "        return len(me.log) < 2"])
@pytest.mark.parametrize("claim", ["me.pings < 1", "me.pings > 1"])
def test_an_assert_that_fails_on_a_walk(tmp_path: Path, ping: str, place: str, claim: str) -> None:
    path = Path(ping.partition(":")[0])
    path.write_text(path.read_text().replace(place, f"        assert {claim}\n{place}"))
    for _ in range(2):
        found = corpus(tmp_path / "c", ping, "ShortLog")
        assert found.verdict is Verdict.ASSERTION
        assert found.violations[0].failed is not None


# On Spark

SHAPE = ("--seed", "3", "--depth", "20", "--min-depth", "15")
WORDS = ("simulate", "two-phase-commit", *SHAPE, "--no-deadlock", "--quiet")
ON_SPARK = ("--engine", "spark", "--master", "local[2]", "--conf", "spark.ui.enabled=false")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


@pytest.mark.spark
@pytest.mark.slow
def test_the_same_files_however_they_are_made(run: Run, tmp_path: Path) -> None:
    expected, made = tmp_path / "expected", tmp_path / "made"
    assert run(*WORDS, "--runs", "230", "--out", expected).code == 0
    assert run(*WORDS, "--runs", "110", "--out", made, *ON_SPARK).code == 0
    (made / "walk_5.tla").unlink()  # so the first chunk is made again, and the second has grown
    outcome = run(*WORDS, "--runs", "230", "--out", made, *ON_SPARK, "--json", tmp_path / "made.json")
    assert outcome.code == 0
    assert files(made) == files(expected)
    names = [name for name in files(made) if name != ".corpus"]
    assert len(names) == 230
    assert filecmp.cmpfiles(expected, made, names, shallow=False) == (names, [], [])
    found = json.loads((tmp_path / "made.json").read_text())
    assert run(*WORDS, "--runs", "230", "--json", tmp_path / "expected.json").code == 0
    said = json.loads((tmp_path / "expected.json").read_text())
    for name in ("runs", "generated_states", "depth", "actions", "result", "violations"):
        assert found[name] == said[name], name
    assert found["distinct_states"] is None
    outcome = run(*WORDS, "--runs", "230", "--out", made, *ON_SPARK)
    assert "Note: --out: 230 walks existed already and were kept" in outcome.out
    assert run(*WORDS, "--runs", "230", "--out", made, *ON_SPARK, "--seed", "4").code == 2


@pytest.mark.spark
@pytest.mark.slow
def test_a_violation_on_a_walk_is_shown(run: Run, tmp_path: Path, ping: str) -> None:
    words = ("simulate", ping, "--runs", "120", "--no-deadlock", "--continue", "--quiet")
    shown = [run(*words, *more) for more in ((), (*ON_SPARK, "--out", tmp_path / "made"))]
    assert [outcome.code for outcome in shown] == [12, 12]
    counterexamples = [outcome.out[: outcome.out.index("VIOLATION: ")] for outcome in shown]
    assert "State 1" in counterexamples[0]
    assert counterexamples[0] == counterexamples[1]


def test_bad_usage(run: Run, tmp_path: Path) -> None:
    outcome = run(*WORDS, "--runs", "5", "--engine", "spark")
    assert outcome.code == 2
    assert "--engine spark: no output folder; add --out DIR" in outcome.err
    outcome = run(*WORDS, "--runs", "5", "--engine", "spark", "--out", tmp_path / "o", "--max-states", "7")
    assert outcome.code == 2
    assert "--max-states: not supported for random walks on Spark" in outcome.err
    assert "use tables or spark" in run(*WORDS, "--engine", "reference").err
