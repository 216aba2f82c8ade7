"""A linter of English: docstrings, comments, messages and Markdown against the rules of CONTRIBUTING.md.

python -m tests.support.words [PATH...]     # prints `file:line: rule: text`, and a count a rule
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
CODE = ("spec", "kraft_model", "explorer", "traces", "kraftcheck")
MOST_WORDS = 25  # in a sentence

OPENING = re.compile(r"^(What|Whatever|Who|Whoever|Whose|Such|So is|So are|How much|How many|How a|Of which)\b")
PHRASES = re.compile(
    r"\b(so many|so much|such a|such an|that there is|that there are|of which|of whom|told|nobody|whoever|anew|"
    r"what is|what are|what was|what it|what they|what one|what a|what each|what may|what must|what else|"
    r"all else|is asked|are asked|is said|are said|that is so|who has|who is|whatever|wherever|one's own)\b",
    re.IGNORECASE,
)
DIARY = re.compile(r"\b(since then|on another day|on an earlier day|in those days|today's|nowadays)\b", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?;:])\s+(?=[A-Z`\"'(*\[])")


class Text(NamedTuple):
    path: Path
    line: int
    kind: str
    text: str


def docstrings_and_messages(path: Path) -> Iterator[Text]:
    """Yield the docstrings, comments and string literals of more than three words of a module."""
    source = path.read_text()
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    documented: set[int] = set()
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                documented.add(id(first.value))
                yield Text(path, first.lineno, "docstring", cleandoc(first.value.value))
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented | inside:
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        if text and len(re.findall(r"[A-Za-z]{2,}", text)) > 3:
            yield Text(path, node.lineno, "message", text)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(noqa|type:|pragma|!)", token.string):
            yield Text(path, token.start[0], "comment", token.string.lstrip("# "))


def prose(path: Path) -> Iterator[Text]:
    """Yield the paragraphs and list items of a Markdown page, without code, tables and headings."""
    paragraph: list[str] = []
    start, fenced = 0, False
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        stands_alone = fenced or line.startswith(("#", "|", "    ", "<", "```")) or not line.strip()
        begins = re.match(r"\s*([-*+]|\d+\.)\s", line)
        if paragraph and (stands_alone or begins):
            yield Text(path, start, "page", " ".join(paragraph))
            paragraph = []
        if not stands_alone and not line.lstrip().startswith("```"):
            start = start if paragraph else number
            paragraph.append(re.sub(r"^\s*([-*+]|\d+\.)\s+", "", line).strip())


def faults(text: Text) -> Iterator[tuple[str, str]]:
    """Yield (rule, sentence) for each rule that a sentence of a text breaks."""
    plain = re.sub(r"``?[^`]*``?|\]\([^)]*\)", " X ", text.text) if text.kind != "message" else text.text
    plain = re.sub(
        r"(?m)^ *(={4,}[ =]*\n.*\n *={4,}[ =]*\n(?:.*\n)*? *={4,}[ =]*$)|^ *>>>.*\n(?: *\S.*\n?)*", "", plain
    )
    plain = re.sub(r"(?m)^(\s*)[\w*, `]+\n(?=\1 {4}\S)", "\n\n", plain)  # the name of a parameter
    # Blank lines, underlined headings, and lists: `name: ...`, `name   ...`, an indented line.
    cut = re.split(r"\n\s*\n|\n\s*-{3,}|\n\s+(?=\w+ ?:)|;\s| {3,}|\n(?= {4}kraftcheck)", plain)
    for block in cut:
        for sentence in SENTENCE.split(" ".join(block.split())):
            if OPENING.match(sentence):
                yield "opening", sentence
            if PHRASES.search(sentence):
                yield "phrase", sentence
            if text.kind == "page" and DIARY.search(sentence):
                yield "diary", sentence
            if len(re.findall(r"[\w`'.-]*\w", sentence)) > MOST_WORDS:
                yield "length", sentence


def texts(paths: list[Path]) -> Iterator[Text]:
    for path in paths:
        if path.is_dir():
            found = (p for p in sorted(path.rglob("*")) if p.suffix in {".py", ".md"})
            yield from texts([p for p in found if not any(parent.is_symlink() for parent in (p, *p.parents))])
        else:
            yield from prose(path) if path.suffix == ".md" else docstrings_and_messages(path)


def main(arguments: list[str]) -> int:
    paths = [Path(argument).resolve() for argument in arguments]
    count: Counter[str] = Counter()
    for text in texts(paths or [*(ROOT / package for package in CODE), ROOT / "docs", ROOT / "README.md"]):
        for rule, sentence in faults(text):
            count[f"{text.kind}: {rule}"] += 1
            print(f"{text.path.relative_to(ROOT)}:{text.line}: {rule}: {sentence[:200]}")
    print(dict(count))
    return bool(count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
