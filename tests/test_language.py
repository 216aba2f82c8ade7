"""The language reference: every example runs, and every public name is in it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

import kraftcheck.spec
from kraftcheck import check
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
    engines = {"constant_values", "projected", "hidden", "symmetry_sets", "checked_initial"}
    assert public - fields - engines - words == set()
