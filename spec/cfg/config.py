r"""Reads TLC's model configuration files (`.cfg`), and settings such as `--set MaxRestarts=1`.

Whatever TLC accepts is accepted, with the same meaning: sections in any order and any number, empty lists of names,
model values in the order in which the file first names them, backslashes in strings as they are written. Probable slips
that TLC hides are errors here: of two assignments of a constant TLC silently takes the second, and it silently stops
reading at a character that it does not know.

>>> config = parse_config("CONSTANTS Hosts = {n2, n1}  MaxRestarts = 1  INVARIANT NoIllegalState", "tiny.cfg")
>>> config.constants["MaxRestarts"].value, config.model_values, config.invariants[0].name
(1, (n2, n1), 'NoIllegalState')
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraftcheck.spec.cfg.parsing import KEYWORDS, ConfigError, SourceText, TextPosition, parse_tree, printable
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import ModelValue, Value, transform

if TYPE_CHECKING:  # lark is slow to import; kraftcheck.spec.cfg.parsing does so when the first text is read
    from lark import Token, Tree

MAX_BYTES = 4 * 1024 * 1024
MAX_DIGITS = 1000
SETTING = "--set"

_FIELDS = {
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


@dataclass(frozen=True)
class Assignment:
    """A constant and its value."""

    name: str
    value: Value
    position: TextPosition


@dataclass(frozen=True)
class Named:
    """A name of something in the specification, such as an invariant."""

    name: str
    position: TextPosition


@dataclass(frozen=True)
class ModelConfig:
    """What a `.cfg` says."""

    file: str
    constants: dict[str, Assignment] = field(default_factory=dict)
    substitutions: dict[str, Named] = field(default_factory=dict)
    init: Named | None = None
    next: Named | None = None
    specification: Named | None = None
    invariants: tuple[Named, ...] = ()
    properties: tuple[Named, ...] = ()
    symmetry: Named | None = None
    view: Named | None = None
    constraints: tuple[Named, ...] = ()
    action_constraints: tuple[Named, ...] = ()
    check_deadlock: bool | None = None
    alias: Named | None = None
    postcondition: Named | None = None
    model_values: tuple[ModelValue, ...] = ()


def read_config(path: str | Path) -> ModelConfig:
    """Read a `.cfg`, gzipped or not."""
    name = str(path)
    data = _read_bytes(name).removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise InputError(f"{name}: the file is empty; expected a TLC configuration, such as CONSTANT MaxRestarts = 1")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = SourceText(data[: error.start].decode(), name)
        message = f"expected text in UTF-8, found byte 0x{data[error.start]:02x}"
        raise ConfigError(message, before.position(len(before.text))) from None
    return parse_config(text, name)


def _read_bytes(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
            if data.startswith(b"\x1f\x8b"):
                file.seek(0)
                with gzip.open(file) as unpacked:
                    data = unpacked.read(MAX_BYTES + 1)
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
    if len(data) > MAX_BYTES:
        raise InputError(f"{name}: expected a .cfg file, found more than {MAX_BYTES // 1024 // 1024} MB")
    return data


def parse_config(text: str, file: str) -> ModelConfig:
    """Read the text of a `.cfg`."""
    source = SourceText(text, file)
    reader = _SectionReader(source)
    for section in _subtrees(parse_tree(source, "config")):
        reader.section(section)
    return reader.config()


def parse_setting(text: str, config: ModelConfig | None) -> Assignment:
    """Read one setting of the command line, `NAME=VALUE`.

    `config`: the configuration that the setting is to `override`. Its model values keep their indexes; new ones get the
    next. Several settings may be read with the same `config`, since `override` numbers them in turn.
    """
    source = SourceText(text, SETTING, where=f"{SETTING} {printable(text, 60)}")
    reader = _SectionReader(source, config.model_values if config is not None else ())
    (tree,) = _subtrees(parse_tree(source, "setting"))
    return reader.assignment(tree)


def override(config: ModelConfig, assignments: Iterable[Assignment]) -> ModelConfig:
    """Put settings into a configuration. A later setting of a constant wins over an earlier one."""
    known = {value.name: value for value in config.model_values}
    constants = dict(config.constants)
    substitutions = dict(config.substitutions)
    for assignment in assignments:
        for new in sorted(set(_model_values(assignment.value)), key=lambda value: value.index):
            known.setdefault(new.name, ModelValue(new.name, len(known)))
        value = transform(assignment.value, lambda leaf: known[leaf.name])
        constants[assignment.name] = replace(assignment, value=value)
        substitutions.pop(assignment.name, None)
    return replace(config, constants=constants, substitutions=substitutions, model_values=tuple(known.values()))


class _SectionReader:
    """Collects the contents of a text, section by section."""

    def __init__(self, source: SourceText, known: Iterable[ModelValue] = ()) -> None:
        self._source = source
        self._model_values = {value.name: value for value in known}
        self._constants: dict[str, Assignment] = {}
        self._substitutions: dict[str, Named] = {}
        self._fields: dict[str, Any] = {}
        self._groups: dict[str, dict[str, Named]] = {}
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
            for binding in _subtrees(tree):
                self._binding(binding)
            return
        keyword, *names = _tokens(tree)
        if tree.data == "many":
            group = self._groups.setdefault(_FIELDS[keyword], {})
            for name in names:  # a name given twice is checked once
                group.setdefault(str(name), self._named(name))
        elif tree.data == "one":
            self._refuse_both("INIT", "SPECIFICATION", keyword)
            self._refuse_both("NEXT", "SPECIFICATION", keyword)
            self._once(_FIELDS[keyword].upper(), keyword)
            self._fields[_FIELDS[keyword]] = self._named(names[0])
        elif tree.data == "deadlock":
            self._once(str(keyword), keyword)
            self._fields["check_deadlock"] = names[0] == "TRUE"
        else:
            raise self._error(f"{keyword} is not supported; expected a keyword ({KEYWORDS})", keyword)

    def assignment(self, tree: Tree[Token]) -> Assignment:
        name, value = tree.children
        assert isinstance(name, str)
        if {"NUMBER", "BOOLEAN"} <= {token.type for token in tree.scan_values(lambda child: isinstance(child, str))}:
            # TLC cannot compare these, and in Python 1 == True: {1, TRUE} would lose an element.
            raise self._error(f"expected either numbers or TRUE and FALSE in {name}, found both", name)
        return Assignment(str(name), self._value(value), self._position(name))

    def _binding(self, tree: Tree[Token]) -> None:
        if tree.data == "assignment":
            assignment = self.assignment(tree)
            self._once(assignment.name, _tokens(tree)[0])
            self._constants[assignment.name] = assignment
        else:
            name, *module, replacement = _tokens(tree)
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

    def _named(self, token: Token) -> Named:
        return Named(str(token), self._position(token))

    def _position(self, token: Token) -> TextPosition:
        return self._source.position(token.start_pos or 0)

    def _error(self, message: str, token: Token) -> ConfigError:
        return self._source.error(message, token.start_pos or 0)


def _subtrees(tree: Tree[Token]) -> list[Tree[Token]]:
    return [child for child in tree.children if not isinstance(child, str)]


def _tokens(tree: Tree[Token]) -> list[Token]:
    return [child for child in tree.children if isinstance(child, str)]


def _model_values(value: Value) -> Iterator[ModelValue]:
    if isinstance(value, ModelValue):
        yield value
    elif isinstance(value, frozenset):
        for item in value:
            yield from _model_values(item)
