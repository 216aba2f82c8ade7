"""Parses the text of a `.cfg` into the tree of `cfg.lark`; words the errors for people."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraftcheck.spec.display import cut, one_of
from kraftcheck.spec.errors import InputError

if TYPE_CHECKING:  # lark is imported when the first text is read: importing this module must stay cheap
    from lark import Lark, Token, Tree

MAX_NESTING = 100
KEYWORDS = (
    "CONSTANT, INIT, NEXT, SPECIFICATION, INVARIANT, PROPERTY, SYMMETRY, VIEW, CONSTRAINT, ACTION_CONSTRAINT, "
    "CHECK_DEADLOCK, ALIAS, POSTCONDITION"
)

_KEYWORD_TERMINALS = {"CONSTANTS", "ONE", "MANY", "CHECK_DEADLOCK", "UNSUPPORTED"}
_VALUE_TERMINALS = {"NUMBER", "BOOLEAN", "STRING", "NAME", "_LEFT"}
_WORDS = {"_EQUALS": "'='", "_BECOMES": "'<-'", "_OPEN": "'['", "_SHUT": "']'", "_COMMA": "','", "_RIGHT": "'}'"}

_LINE_END = re.compile(r"\r\n|\r|\n")
_SCAN = re.compile(r'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+"?|\\\*[^\r\n]*|\(\*|[{}]')
_COMMENT_MARK = re.compile(r"\(\*|\*\)")
_STRAY = re.compile(r"[\w!.]+|\S")


@dataclass(frozen=True)
class TextPosition:
    """A place in a text. Lines and columns, in characters, are counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ConfigError(InputError):
    """A configuration or a setting that cannot be read."""

    def __init__(self, message: str, position: TextPosition, where: str | None = None) -> None:
        super().__init__(message, position, where)
        self.message = message
        self.position = position
        self.where = str(position) if where is None else where

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class SourceText:
    """A text that knows the positions of its characters. If `where` is given, messages show it for any position."""

    def __init__(self, text: str, file: str, where: str | None = None) -> None:
        self.text = text
        self.file = file
        self.where = where

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *[match.end() for match in _LINE_END.finditer(self.text)]]

    def position(self, offset: int) -> TextPosition:
        """Return the place of the character at `offset`."""
        line = bisect_right(self._line_starts, offset)
        return TextPosition(self.file, line, offset - self._line_starts[line - 1] + 1)

    def error(self, message: str, offset: int) -> ConfigError:
        """Return an error at the character at `offset`."""
        return ConfigError(message, self.position(offset), self.where)


def _blank_comments(source: SourceText) -> str:
    """Return the text with spaces for comments; every other character stays at its place.

    Comments nest, which no regular expression can match; hence this pass before the lexer. It also refuses sets that
    are nested so deeply that walking over the value would overflow the stack.
    """
    text = source.text
    pieces: list[str] = []
    kept = depth = at = 0
    while match := _SCAN.search(text, at):
        token, at = match[0], match.end()
        if token in "{}":
            depth += 1 if token == "{" else -1
            if depth > MAX_NESTING:
                message = f"expected sets nested at most {MAX_NESTING} deep, found a deeper one"
                raise source.error(message, match.start())
        elif token[0] != '"':
            if token == "(*":
                at = _comment_end(source, match.start())
            pieces += [text[kept : match.start()], re.sub(r"[^\r\n]", " ", text[match.start() : at])]
            kept = at
    return "".join([*pieces, text[kept:]])


def _comment_end(source: SourceText, start: int) -> int:
    depth, at = 0, start
    while match := _COMMENT_MARK.search(source.text, at):
        depth, at = depth + (1 if match[0] == "(*" else -1), match.end()
        if depth == 0:
            return at
    raise source.error("expected '*)' at the end of the comment that begins here, found end of text", start)


@cache
def _parser() -> Lark:
    from lark import Lark

    grammar = Path(__file__).with_name("cfg.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", start=["config", "setting"])


def parse_tree(source: SourceText, start: str) -> Tree[Token]:
    """Return the tree of a text."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        raise source.error("expected text in UTF-8, found something else", error.start) from None
    text = _blank_comments(source)
    parser: Any = _parser().parse_interactive(text, start=start)
    previous: Token | None = None
    try:
        for token in parser.lexer_thread.lex(parser.parser_state):
            parser.feed_token(token)
            previous = token
        tree: Tree[Token] = parser.feed_eof()
        return tree
    except UnexpectedCharacters as error:
        offset = error.pos_in_stream or 0
        stray = _STRAY.match(text, offset)
        found = f"'{printable(stray[0] if stray else text[offset], 30)}'"
        if text[offset] == '"':
            found = "a string that does not end on its line"
    except UnexpectedToken as error:
        if error.token.type == "$END":
            offset, found = len(text.rstrip()), "end of text"
        else:
            offset = error.token.start_pos or 0
            found = f"'{printable(error.token, 30)}'"
            if error.token.type in _KEYWORD_TERMINALS:
                found = f"the keyword {error.token}"
    raise source.error(f"expected {_expected(parser.accepts(), previous)}, found {found}", offset)


def printable(text: str, size: int) -> str:
    """Return text for a message: cut to `size` characters, and printable."""
    shown = cut(text, size)
    return shown if shown.isprintable() else ascii(shown)[1:-1]


def _expected(accepted: set[str], previous: Token | None) -> str:
    """Describe for people which terminals could have come after `previous`."""
    after_keyword = previous is not None and previous.type in _KEYWORD_TERMINALS
    choices = []
    if accepted >= _VALUE_TERMINALS:
        choices.append('a value (a number, TRUE, FALSE, a "string", a name or a set such as {a, b})')
    elif "NAME" in accepted:
        choices.append("a name")
    elif "BOOLEAN" in accepted:
        choices.append("TRUE or FALSE")
    choices += [words for terminal, words in _WORDS.items() if terminal in accepted]
    if accepted & _KEYWORD_TERMINALS and not (after_keyword and choices):
        choices.append(f"a keyword ({KEYWORDS})")
    if not choices:
        choices.append("end of text")
    named = previous is not None and (after_keyword or previous.type in _VALUE_TERMINALS - {"_LEFT"})
    return one_of(choices) + (f" after {previous}" if named else "")
