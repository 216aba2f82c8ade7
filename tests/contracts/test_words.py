"""The English of docstrings, comments, messages and pages keeps the rules of CONTRIBUTING.md."""

from __future__ import annotations

from pathlib import Path

from tests.support.words import CODE, ROOT, Text, faults, texts

PAGES = ("docs", "README.md", "CONTRIBUTING.md")


def test_texts_keep_the_rules() -> None:
    found = texts([ROOT / name for name in (*CODE, *PAGES)])
    assert [
        f"{text.path.relative_to(ROOT)}:{text.line}: {rule}: {part}" for text in found for rule, part in faults(text)
    ] == []


def test_a_fault_of_each_rule_is_found() -> None:
    sentences = {
        "opening": "What is left.",
        "phrase": "It is told anew.",
        "length": "One " + "more word and " * 9 + "end.",
        "diary": "It was slower; since then it is fast.",
    }
    for rule, sentence in sentences.items():
        assert rule in {one for one, _ in faults(Text(Path("page.md"), 1, "page", sentence))}
    assert list(faults(Text(Path("page.md"), 1, "page", "A search visits each state once."))) == []
