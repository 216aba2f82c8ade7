"""The linter of English finds nothing in the product and its pages, and finds each kind of fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.words import CODE, ROOT, faults, texts

PAGES = ("docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


LONG = 17  # tables and option lists of help texts, which the linter takes for sentences


@pytest.mark.slow
def test_sentences_keep_the_rules() -> None:
    paths = [ROOT / name for name in (*CODE, *PAGES)]
    found = [(rule, one.kind, f"{one.path}:{one.line}: {text}") for one in texts(paths) for rule, text in faults(one)]
    long = [fault for fault in found if fault[:2] in (("length", "docstring"), ("length", "message"))]
    assert [fault for fault in found if fault not in long] == []
    assert len(long) <= LONG, long


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("What the user is told.", "opening"),
        ("The key that nobody has.", "phrase"),
        ("It was faster in those days.", "diary"),
        ("A search " * 20 + "ends.", "length"),
    ],
)
def test_a_fault_is_seen(sentence: str, rule: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# What a title is\n\nA good sentence.\n{sentence}\n")
    assert rule in {kind for one in texts([page]) for kind, _ in faults(one)}
    page.write_text("# What a title is\n\nA good sentence.\n")
    assert [kind for one in texts([page]) for kind, _ in faults(one)] == []
