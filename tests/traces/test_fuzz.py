"""Files of every format with something broken in them: an error with a place, or traces; nothing else, and no crash.

A seed that found something is kept in `FOUND`, with what it found.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.spec.cfg.binding import bind_constants
from kraftcheck.spec.cfg.config import read_config
from kraftcheck.traces import TraceError, TraceFormat, detect_format, read_graph, read_states, read_traces, write_trace
from kraftcheck.traces.replay.replayer import Replayer, ReplayVerdict
from tests.support.samples import TLC, TOY, text_of
from tests.support.sizes import sizes

SAMPLES = {
    "log": TLC / "counterexamples" / "resigned.out.gz",
    "old log": TLC / "counterexamples" / "observerleader.v215.out.gz",
    "module": TLC / "counterexamples" / "resigned.tla.gz",
    "json": TLC / "counterexamples" / "resigned.json.gz",
    "simulation": TLC / "simulations" / "t_0_2.tla.gz",
    "lasso": TOY / "back.out",
    "tool": TOY / "tool.out",
    "difference": TOY / "difftrace.out",
    "several": TOY / "continue.out",
    "dump": TOY / "toy.dump",
    "graph": TOY / "toy.dot",
    "itf": TLC / "counterexamples" / "resigned.out.gz",  # written as ITF first
}
MARKS = ["{", "}", "<<", ">>", "[", "]", "(", ")", ",", "|->", ":>", "@@", "..", '"', "\\", "/\\", "State 2:", "1", "-"]
FOUND = [
    ("itf", 11546),  # an error repeated the whole name of a field, of any length
    ("json", 11814),
]
"""Pairs of a sample and a seed."""


def mutated(text: str, random: Random) -> bytes:
    """Return a text with one to three things broken in it."""
    for _ in range(random.randint(1, 3)):
        text = random.choice(MUTATIONS)(text, random)
    data = text.encode()
    if random.random() < 0.1 and data:
        place = random.randrange(len(data))
        data = data[:place] + bytes([random.randrange(256)]) + data[place + 1 :]
    return data


def _place(text: str, random: Random) -> int:
    return random.randrange(len(text) + 1)


def _cut(text: str, random: Random) -> str:
    return text[: _place(text, random)]


def _without_some(text: str, random: Random) -> str:
    place = _place(text, random)
    return text[:place] + text[place + random.randint(1, 40) :]


def _with_mark(text: str, random: Random) -> str:
    place = _place(text, random)
    return text[:place] + random.choice(MARKS) * random.choice((1, 1, 2, 300)) + text[place:]


def _with_character(text: str, random: Random) -> str:
    place = _place(text, random)
    code = random.choice((0, 9, 10, 13, 32, 0x85, 0x2028, 0x1F600, random.randrange(128)))
    return text[:place] + chr(code) + text[place:]


def _with_lines_moved(text: str, random: Random) -> str:
    lines = text.split("\n")
    start = random.randrange(len(lines))
    taken = lines[start : start + random.randint(1, 9)]
    del lines[start : start + len(taken)]
    where = random.randrange(len(lines) + 1)
    return "\n".join(lines[:where] + taken * random.choice((0, 1, 2)) + lines[where:])


def _with_words_exchanged(text: str, random: Random) -> str:
    words = sorted(set(text.split()))
    if len(words) < 2:
        return text
    one, other = random.sample(words, 2)
    return text.replace(one, other, random.choice((1, 1, 5)))


MUTATIONS: list[Callable[[str, Random], str]] = [
    _cut,
    _without_some,
    _with_mark,
    _with_character,
    _with_lines_moved,
    _with_words_exchanged,
]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = {name: text_of(path) for name, path in SAMPLES.items()}
    (trace,) = read_traces(SAMPLES["itf"])
    path = tmp_path_factory.mktemp("itf") / "trace.itf.json"
    write_trace(trace, path)
    found["itf"] = path.read_text()
    return found


@pytest.fixture(scope="module")
def walker() -> Replayer:
    return Replayer(bind_constants(Reconfig, read_config(TLC / "counterexamples" / "resigned.cfg")))


def read(text: str, seed: int, path: Path, walker: Replayer) -> str:
    """Break a text, and read it in every way; return what became of it."""
    path.write_bytes(mutated(text, Random(seed)))
    kind = detect_format(path)
    if kind in (TraceFormat.TLC_DUMP, TraceFormat.TLC_DOT):
        try:
            list(read_states(path)) if kind is TraceFormat.TLC_DUMP else read_graph(path)
        except TraceError as error:
            assert_placed(str(error), path)
            return "unreadable"
        return "read"
    verdicts = set()
    for replay in walker.replay(path):
        verdicts.add(replay.verdict)
        json.dumps([replay.reason, replay.actions, replay.notes])
        if replay.problem is not None:
            assert_placed(replay.problem, path)
        if replay.verdict is ReplayVerdict.CONFORMS:
            assert replay.steps == len(replay.actions)
    assert verdicts
    return " ".join(sorted(verdicts))


def assert_placed(message: str, path: Path) -> None:
    """Check that an error has the file, a line and a column, on one line of a sensible length."""
    assert message.startswith(f"{path}:")
    line, column, rest = message.removeprefix(f"{path}:").split(":", 2)
    assert int(line) >= 1
    assert int(column) >= 1
    assert "expected" in rest
    assert "found" in rest
    assert len(message) < 2_000


@pytest.mark.parametrize("name", SAMPLES)
def test_broken_files(name: str, texts: dict[str, str], walker: Replayer, tmp_path: Path) -> None:
    outcomes = {read(texts[name], seed, tmp_path / "broken", walker) for seed in range(25)}
    assert "unreadable" in outcomes


@pytest.mark.parametrize("count", sizes(None, 150, 400))
@pytest.mark.parametrize("name", SAMPLES)
def test_many_broken_files(name: str, count: int, texts: dict[str, str], walker: Replayer, tmp_path: Path) -> None:
    for seed in range(1_000, 1_000 + count):
        read(texts[name], seed, tmp_path / "broken", walker)


@pytest.mark.parametrize(("name", "seed"), FOUND)
def test_what_was_found(name: str, seed: int, texts: dict[str, str], walker: Replayer, tmp_path: Path) -> None:
    read(texts[name], seed, tmp_path / "broken", walker)
