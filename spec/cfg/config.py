r"""Parser of TLC's model configuration files (`.cfg`), and of settings such as `--set MaxRestarts=1`.

A file that both accept has the same meaning. Sections may be repeated and in any order, lists of names may be empty,
and strings keep their backslashes. Model values are ordered by first occurrence. Operators with arguments, such as
`f(1, 2) = 3`, constants and names of other modules, and the section TYPE are refused. Two probable mistakes that TLC
ignores are errors here. TLC silently takes the second assignment of a constant, and silently stops at an unknown
character.

>>> config = parse_config("CONSTANTS Hosts = {n2, n1}  MaxRestarts = 1  INVARIANT NoIllegalState", "tiny.cfg")
>>> config.constants["MaxRestarts"].value, config.model_values, config.invariants[0].name
(1, (n2, n1), 'NoIllegalState')
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftcheck.spec.errors import InputError, truncate_middle
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import ModelValue, Value, or_phrase, truncate_text

if TYPE_CHECKING:
    from lark import Lark, Token, Tree


LARGEST_FILE_BYTES = 4 * 1024 * 1024
MAX_DIGITS = 1000
SETTING_OPTION = "--set"
MAX_NESTING = 100
KEYWORDS_TEXT = (
    "CONSTANT, INIT, NEXT, SPECIFICATION, INVARIANT, PROPERTY, SYMMETRY, VIEW, CONSTRAINT, ACTION_CONSTRAINT, "
    "CHECK_DEADLOCK, ALIAS, POSTCONDITION"
)

_KEYWORD_TERMINALS = {"CONSTANTS", "ONE", "MANY", "CHECK_DEADLOCK", "UNSUPPORTED"}
_VALUE_TERMINALS = {"NUMBER", "BOOLEAN", "STRING", "NAME", "_LEFT"}
_PHRASE_OF_TERMINAL = {
    "_EQUALS": "'='",
    "_BECOMES": "'<-'",
    "_OPEN": "'['",
    "_SHUT": "']'",
    "_COMMA": "','",
    "_RIGHT": "'}'",
}

_FIELD_OF_KEYWORD = {
    "INIT": "init",
    "NEXT": "next",
    "SPECIFICATION": "specification",
    "SYMMETRY": "symmetry",
    "VIEW": "view",
    "ALIAS": "alias",
    "POSTCONDITION": "postcondition",
    "POSTCONDITIONS": "postcondition",
    "INVARIANT": "invariants",
    "INVARIANTS": "invariants",
    "PROPERTY": "properties",
    "PROPERTIES": "properties",
    "CONSTRAINT": "constraints",
    "CONSTRAINTS": "constraints",
    "ACTION_CONSTRAINT": "action_constraints",
    "ACTION_CONSTRAINTS": "action_constraints",
}

_LINE_END = re.compile(r"\r\n|\r|\n")
_COMMENTS_AND_STRINGS = re.compile(r'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+"?|\\\*[^\r\n]*|\(\*|[{}]')
_BLOCK_COMMENT_DELIMITER = re.compile(r"\(\*|\*\)")
_UNEXPECTED_TOKEN = re.compile(r"[\w!.]+|\S")


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
        return truncate_middle(f"{self.where}: {self.message}")


class SourceText:
    """A text that makes errors with the position of a character; `where`, if given, is shown instead."""

    def __init__(self, text: str, file: str, where: str | None = None) -> None:
        self.text = text
        self.file = file
        self.where = where

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *[match.end() for match in _LINE_END.finditer(self.text)]]

    def position(self, offset: int) -> TextPosition:
        """Return the position of the character at `offset`."""
        line = bisect_right(self._line_starts, offset)
        return TextPosition(self.file, line, offset - self._line_starts[line - 1] + 1)

    def error(self, message: str, offset: int) -> ConfigError:
        """Return an error at the character at `offset`."""
        return ConfigError(message, self.position(offset), self.where)


def _blank_comments(source: SourceText) -> str:
    """Return the text with comments blanked; every other character keeps its offset.

    Comments nest, so a pass before the lexer is needed. The pass also rejects deeply nested sets, on which recursion
    over the value would overflow the stack.
    """
    text = source.text
    pieces: list[str] = []
    kept = depth = at = 0
    while match := _COMMENTS_AND_STRINGS.search(text, at):
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
    while match := _BLOCK_COMMENT_DELIMITER.search(source.text, at):
        depth, at = depth + (1 if match[0] == "(*" else -1), match.end()
        if depth == 0:
            return at
    raise source.error("expected '*)' at the end of the comment that begins here, found end of text", start)


@cache
def _lark_parser() -> Lark:
    from kraftcheck.spec.tla.text import lark_parser

    return lark_parser(Path(__file__).with_name("cfg.lark"), lexer="basic", start=["config", "setting"])


def parse_tree(source: SourceText, start: str) -> Tree[Token]:
    """Return the syntax tree of a text."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        raise source.error("expected text in UTF-8, found something else", error.start) from None
    text = _blank_comments(source)
    parser: Any = _lark_parser().parse_interactive(text, start=start)
    previous: Token | None = None
    try:
        for token in parser.lexer_thread.lex(parser.parser_state):
            parser.feed_token(token)
            previous = token
        tree: Tree[Token] = parser.feed_eof()
        return tree
    except UnexpectedCharacters as error:
        offset = error.pos_in_stream or 0
        stray = _UNEXPECTED_TOKEN.match(text, offset)
        found = f"'{printable_excerpt(stray[0] if stray else text[offset], 30)}'"
        if text[offset] == '"':
            found = "a string that does not end on its line"
    except UnexpectedToken as error:
        if error.token.type == "$END":
            offset, found = len(text.rstrip()), "end of text"
        else:
            offset = error.token.start_pos or 0
            found = f"'{printable_excerpt(error.token, 30)}'"
            if error.token.type in _KEYWORD_TERMINALS:
                found = f"the keyword {error.token}"
    raise source.error(f"expected {_expected_phrase(parser.accepts(), previous)}, found {found}", offset)


def printable_excerpt(text: str, size: int) -> str:
    """Return text for a message: printable, and truncated to `size` characters."""
    shown = truncate_text(text, size)
    return shown if shown.isprintable() else ascii(shown)[1:-1]


def _expected_phrase(accepted: set[str], previous: Token | None) -> str:
    """Return what the parser accepts after the token `previous`, as a phrase for an error message."""
    before = "" if previous is None else previous.type
    words = {"NAME": "a name", "BOOLEAN": "TRUE or FALSE"}
    value = next((words[terminal] for terminal in words if terminal in accepted), "")
    if accepted >= _VALUE_TERMINALS:
        value = 'a value (a number, TRUE, FALSE, a "string", a name or a set such as {a, b})'
    choices = [
        *filter(None, [value]),
        *(words for terminal, words in _PHRASE_OF_TERMINAL.items() if terminal in accepted),
    ]
    if accepted & _KEYWORD_TERMINALS and not (before in _KEYWORD_TERMINALS and choices):
        choices.append(f"a keyword ({KEYWORDS_TEXT})")
    named = before in (_KEYWORD_TERMINALS | _VALUE_TERMINALS) - {"_LEFT"}
    return or_phrase(choices or ["end of text"]) + (f" after {previous}" if named else "")


@dataclass(frozen=True)
class ConstantAssignment:
    """A constant and its value."""

    name: str
    value: Value
    position: TextPosition


@dataclass(frozen=True)
class PositionedName:
    """A name in the specification, such as an invariant's, with its position."""

    name: str
    position: TextPosition


@dataclass(frozen=True)
class ModelConfig:
    """The contents of a `.cfg`."""

    file: str
    constants: dict[str, ConstantAssignment] = field(default_factory=dict)
    substitutions: dict[str, PositionedName] = field(default_factory=dict)
    init: PositionedName | None = None
    next: PositionedName | None = None
    specification: PositionedName | None = None
    invariants: tuple[PositionedName, ...] = ()
    properties: tuple[PositionedName, ...] = ()
    symmetry: PositionedName | None = None
    view: PositionedName | None = None
    constraints: tuple[PositionedName, ...] = ()
    action_constraints: tuple[PositionedName, ...] = ()
    check_deadlock: bool | None = None
    alias: PositionedName | None = None
    postcondition: PositionedName | None = None
    model_values: tuple[ModelValue, ...] = ()


def read_config(path: str | Path) -> ModelConfig:
    """Read a `.cfg`, gzipped or not."""
    name = str(path)
    data = _read_unpacked_bytes(name).removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise InputError(f"{name}: the file is empty; expected a TLC configuration, such as CONSTANT MaxRestarts = 1")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = SourceText(data[: error.start].decode(), name)
        message = f"expected text in UTF-8, found byte 0x{data[error.start]:02x}"
        raise ConfigError(message, before.position(len(before.text))) from None
    return parse_config(text, name)


def _read_unpacked_bytes(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            data = file.read(LARGEST_FILE_BYTES + 1)
            if data.startswith(b"\x1f\x8b"):
                file.seek(0)
                with gzip.open(file) as unpacked:
                    data = unpacked.read(LARGEST_FILE_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{name}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{name}: expected a .cfg file, found a folder") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{name}: the file is gzip but damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{name}: the file cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{name!r} is not the name of a file: {error}") from None
    if len(data) > LARGEST_FILE_BYTES:
        raise InputError(f"{name}: expected a .cfg file, found more than {LARGEST_FILE_BYTES // 1024 // 1024} MB")
    return data


def parse_config(text: str, file: str) -> ModelConfig:
    """Parse the text of a `.cfg`."""
    source = SourceText(text, file)
    reader = _SectionReader(source)
    for section in _child_trees(parse_tree(source, "config")):
        reader.section(section)
    return reader.config()


def parse_setting(text: str, config: ModelConfig | None) -> ConstantAssignment:
    """Parse one setting of the command line, `NAME=VALUE`.

    `config`: the configuration to override. Its model values keep their indexes; new ones get the next indexes.
    Several settings may be parsed with one `config`, since `with_assignments` renumbers them.
    """
    source = SourceText(text, SETTING_OPTION, where=f"{SETTING_OPTION} {printable_excerpt(text, 60)}")
    reader = _SectionReader(source, config.model_values if config is not None else ())
    (tree,) = _child_trees(parse_tree(source, "setting"))
    return reader.assignment(tree)


class _SectionReader:
    """Collector of the sections of a `.cfg`, or of one setting, into a `ModelConfig`."""

    def __init__(self, source: SourceText, known: Iterable[ModelValue] = ()) -> None:
        self._source = source
        self._model_values = {value.name: value for value in known}
        self._constants: dict[str, ConstantAssignment] = {}
        self._substitutions: dict[str, PositionedName] = {}
        self._fields: dict[str, Any] = {}
        self._groups: dict[str, dict[str, PositionedName]] = {}
        self._said: dict[str, Token] = {}

    def config(self) -> ModelConfig:
        self._fields.update({name: tuple(group.values()) for name, group in self._groups.items()})
        return ModelConfig(
            self._source.file,
            self._constants,
            self._substitutions,
            **self._fields,
            model_values=tuple(self._model_values.values()),
        )

    def section(self, tree: Tree[Token]) -> None:
        if tree.data == "constants":
            for binding in _child_trees(tree):
                self._binding(binding)
            return
        keyword, *names = _child_tokens(tree)
        if tree.data == "many":
            group = self._groups.setdefault(_FIELD_OF_KEYWORD[keyword], {})
            for name in names:  # a repeated name is checked once
                group.setdefault(str(name), self._named(name))
        elif tree.data == "one":
            self._refuse_both("INIT", "SPECIFICATION", keyword)
            self._refuse_both("NEXT", "SPECIFICATION", keyword)
            self._once(_FIELD_OF_KEYWORD[keyword].upper(), keyword)
            self._fields[_FIELD_OF_KEYWORD[keyword]] = self._named(names[0])
        elif tree.data == "deadlock":
            self._once(str(keyword), keyword)
            self._fields["check_deadlock"] = names[0] == "TRUE"
        else:
            raise self._error(f"{keyword} is not supported; expected a keyword ({KEYWORDS_TEXT})", keyword)

    def assignment(self, tree: Tree[Token]) -> ConstantAssignment:
        name, value = tree.children
        assert isinstance(name, str)
        if {"NUMBER", "BOOLEAN"} <= {token.type for token in tree.scan_values(lambda child: isinstance(child, str))}:
            # TLC cannot compare these, and in Python 1 == True: {1, TRUE} would lose an element.
            raise self._error(f"expected either numbers or TRUE and FALSE in {name}, found both", name)
        return ConstantAssignment(str(name), self._value(value), self._position(name))

    def _binding(self, tree: Tree[Token]) -> None:
        if tree.data == "assignment":
            assignment = self.assignment(tree)
            self._once(assignment.name, _child_tokens(tree)[0])
            self._constants[assignment.name] = assignment
        else:
            name, *module, replacement = _child_tokens(tree)
            replaced = f"[{module[0]}]{name}" if module else str(name)
            self._once(replaced, name)
            self._substitutions[replaced] = self._named(replacement)

    def _value(self, node: Tree[Token] | Token) -> Value:
        if not isinstance(node, str):
            return frozenset([self._value(child) for child in node.children])
        if node.type == "NUMBER":
            if len(node) > MAX_DIGITS:
                raise self._error(f"expected a number of at most {MAX_DIGITS} digits, found {len(node)}", node)
            return int(node)
        if node.type == "BOOLEAN":
            return node == "TRUE"
        if node.type == "STRING":
            return str(node[1:-1])
        return self._model_values.setdefault(str(node), ModelValue(str(node), len(self._model_values)))

    def _once(self, what: str, token: Token) -> None:
        first = self._said.setdefault(what, token)
        if first is not token:
            line = self._position(first).line
            raise self._error(f"expected {what} once, found it again (first on line {line})", token)

    def _refuse_both(self, one: str, other: str, token: Token) -> None:
        first = self._said.get({one: other, other: one}.get(token, ""))
        if first is not None:
            line = self._position(first).line
            raise self._error(f"expected either {one} or {other}, found both ({first} is on line {line})", token)

    def _named(self, token: Token) -> PositionedName:
        return PositionedName(str(token), self._position(token))

    def _position(self, token: Token) -> TextPosition:
        return self._source.position(token.start_pos or 0)

    def _error(self, message: str, token: Token) -> ConfigError:
        return self._source.error(message, token.start_pos or 0)


def _child_trees(tree: Tree[Token]) -> list[Tree[Token]]:
    return [child for child in tree.children if not isinstance(child, str)]


def _child_tokens(tree: Tree[Token]) -> list[Token]:
    return [child for child in tree.children if isinstance(child, str)]


class BoundConfig(NamedTuple):
    """A configuration bound to a protocol: the protocol with its constants, and the properties to check."""

    protocol: Protocol  # the protocol with its constants
    properties: tuple[Property, ...] = ()  # its invariants, step invariants and refinements to check
    constraints: tuple[Property, ...] = ()  # state predicates that bound the search
    action_constraints: tuple[Property, ...] = ()
    deadlock: bool = True  # whether to check for deadlock
    symmetry: str | None = None  # a symmetry and a view of the protocol, or None
    view: str | None = None
    init: str = "Init"  # the initial state: "Init" or the name of a scenario
    reachable: tuple[Property, ...] = ()  # reachability goals (AG EF)
    temporal: tuple[Property, ...] = ()  # its temporal properties to check
    fairness: tuple[Fairness, ...] = ()  # fairness that the temporal properties assume
