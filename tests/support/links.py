"""Checks the links of Markdown files: a relative link or image leads to a file, a fragment to a heading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

FENCE = re.compile(r"^( *)(```|~~~).*?^ *\2[`~]*\s*?$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
TARGETS = (
    re.compile(r"\]\(\s*<?([^()\s<>]+(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+[\"'][^)]*)?\)"),  # [text](target "title")
    re.compile(r"^\s*\[[^\]^]+\]:\s*<?(\S+?)>?(?:\s|$)", re.MULTILINE),  # [name]: target
    re.compile(r"\b(?:href|src|srcset)=[\"']([^\"'\s]+)"),
)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
ANCHOR = re.compile(r"\b(?:id|name)=[\"']([^\"']+)")
PATH = re.compile(r"(?:docs/)?[\w-]+(?:/[\w-]+)*\.md")
"""The path of a page of `docs` as a code span: it should be a link."""


class BrokenLink(NamedTuple):
    """A link that leads nowhere, or a page's path that is no link."""

    file: Path
    line: int
    target: str
    problem: str


def blanked(text: str, *patterns: re.Pattern[str]) -> str:
    """Return a text without the matches of patterns, in which each line has its number."""
    for pattern in patterns:
        text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


def slug(heading: str) -> str:
    """Return the anchor that GitHub makes of a heading."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page: those of its headings, numbered where a heading repeats, and those of its HTML."""
    text = blanked(page.read_text(), FENCE, COMMENT)
    found: dict[str, int] = {}
    names = set(ANCHOR.findall(text))
    for heading in HEADING.findall(text):
        name = slug(heading)
        names.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return frozenset(names)


def targets(text: str) -> Iterator[tuple[int, str]]:
    """Yield each link's line and target."""
    plain = blanked(text, FENCE, COMMENT, SPAN)
    for pattern in TARGETS:
        for match in pattern.finditer(plain):
            yield plain.count("\n", 0, match.start(1)) + 1, match[1]


def broken_links(file: Path, root: Path) -> Iterator[BrokenLink]:
    """Yield what is wrong with the links of a Markdown file."""
    text = file.read_text()
    for line, target in targets(text):
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        found = (file.parent / unquote(parts.path)).resolve() if parts.path else file.resolve()
        if not found.exists():
            yield BrokenLink(file, line, target, "no such file")
        elif not found.is_relative_to(root):
            yield BrokenLink(file, line, target, "outside the repository")
        elif parts.fragment and found.suffix == ".md" and unquote(parts.fragment) not in anchors(found):
            yield BrokenLink(file, line, target, "no such heading")


def bare_paths(file: Path, root: Path) -> Iterator[BrokenLink]:
    """Yield the paths of pages that a Markdown file has as code spans instead of links."""
    plain = blanked(file.read_text(), FENCE, COMMENT)
    linked = {match.start() for match in re.finditer(r"(?<=\[)`[^`]+`(?=\]\()", plain)}
    for match in SPAN.finditer(plain):
        before = plain[: match.start()].rpartition("\n")[2]
        is_page = PATH.fullmatch(match[2]) and (root / "docs" / match[2].removeprefix("docs/")).exists()
        if is_page and match.start() not in linked and not before.startswith("    "):
            yield BrokenLink(file, plain.count("\n", 0, match.start()) + 1, match[2], "a path where a link belongs")
