"""The language reference: every example runs, and every public name is in it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kraftcheck.spec
from benchmarks import fast
from kraftcheck import Verdict, check, load
from tests.support.pages import Section, module_of, problems, sections

DOCS = Path(__file__).parents[1] / "docs"
LANGUAGE = sections(DOCS / "language.md")


EACH = pytest.mark.parametrize("section", LANGUAGE, ids=[section.title for section in LANGUAGE])


@EACH
def test_a_section_is_what_happens(section: Section, tmp_path: Path) -> None:
    with module_of(section, tmp_path) as module:
        vars(module)["check"] = partial(check, engine="reference")
        assert problems(section, module) == ""


@pytest.mark.slow
@pytest.mark.kernel
@EACH
def test_and_so_it_is_with_the_engine_that_is_taken(section: Section, tmp_path: Path) -> None:
    with module_of(section, tmp_path) as module:
        assert problems(section, module) == ""


def test_every_public_name_is_in_an_example() -> None:
    words = set(re.findall(r"\w+", "\n".join(section.program + section.sessions for section in LANGUAGE)))
    assert set(kraftcheck.spec.__all__) - words == set()


def test_every_method_of_a_step_and_setting_of_a_protocol_is_told() -> None:
    words = set(re.findall(r"\w+", (DOCS / "language.md").read_text()))
    step, protocol = kraftcheck.spec.Step, kraftcheck.spec.Protocol
    public = {name for cls in (step, protocol) for name in vars(cls) if not name.startswith("_")}
    fields = {*kraftcheck.spec.values.field_names(step), "properties", "constants", "bounds"}
    engines = {"constant_values", "projected", "hidden", "symmetry_sets", "checked_initial", "constant_of"}
    assert public - fields - engines - words == set()


# How to make it fast


@pytest.mark.kernel
def test_advice_changes_what_is_called_and_not_what_is_found(tmp_path: Path) -> None:
    """Each pair of the page: the same verdict, the same states where the page says so, and fewer calls."""
    section = fast.whole_page()
    with module_of(section, tmp_path) as page:
        for before, after in fast.PAIRS:
            a, b = (
                check(getattr(page, name)(workers=3, jobs=2), deadlock=False, engine="tables", workers=1)
                for name in (before, after)
            )
            assert a.verdict is b.verdict is Verdict.OK
            assert a.distinct_states == b.distinct_states
            assert sum(a.handler_calls.values()) > 2 * sum(b.handler_calls.values())


@pytest.mark.slow
@pytest.mark.kernel
def test_the_page_has_what_the_benchmark_prints(tmp_path: Path) -> None:
    """The times are the machine's; the numbers of states and calls are not."""
    text = (DOCS / "fast.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([\d,]+) → ([\d,]+) \| ([\d,]+) → ([\d,]+) \| ", text, re.MULTILINE)
    assert [row[:2] for row in rows] == [*fast.PAIRS]
    with module_of(fast.whole_page(), tmp_path) as page:
        for *names, states, fewer_states, calls, fewer_calls in rows:
            for name, distinct, called in zip(names, (states, fewer_states), (calls, fewer_calls), strict=True):
                found = check(getattr(page, name)(), deadlock=False, engine="tables", workers=1)
                assert f"{found.distinct_states:,}" == distinct
                assert f"{sum(found.handler_calls.values()):,}" == called


# Coming from TLA+


def from_tla(folder: Path) -> list[tuple[str, str]]:
    """Write the files of the page; return its commands and what they print."""
    text = (DOCS / "from-tla.md").read_text()
    for name, content in re.findall(r"`([\w.]+)`:\n\n```\w+\n((?:.*\n)*?)```$", text, re.MULTILINE):
        (folder / name).write_text(content)
    return re.findall(r"^```console\n\$ kraftcheck (.+)\n((?:.*\n)*?)```$", text, re.MULTILINE)


def test_the_ring_is_the_ring(tmp_path: Path) -> None:
    from_tla(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"Ring.tla", "ring.py", "ring.cfg"}
    found = load(f"{tmp_path / 'ring.py'}:Ring").check(engine="reference")
    assert (found.verdict, found.distinct_states, found.depth) == (Verdict.OK, 7, 6)


@pytest.mark.slow
@pytest.mark.tlc
@pytest.mark.kernel
def test_tlc_finds_the_same_ring(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((command, shown),) = from_tla(tmp_path)
    monkeypatch.chdir(tmp_path)
    outcome = run(*command.split())
    assert outcome.code == 0
    assert outcome.out == shown
