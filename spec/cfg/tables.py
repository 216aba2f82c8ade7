r"""Parser of shipped configurations: one TOML file per model, one table per `.cfg`.

    [default-add]
    about = "Two voters and an observer that is added."
    inherits = "default"
    constants = "Hosts = {n1, n2, n3}  MaxAddVoters = 1"
    properties = "+VersionsAreTold -VotersAreRemoved"

`inherits` names earlier tables, and the last one takes precedence; `without` removes inherited keys. `constants` is
`.cfg` text. A list of names replaces the inherited list; names with `+` or `-` edit it. The other keys are keywords of
a `.cfg` in lower case. A table whose name begins with `_` is abstract: it is only inherited.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kraftcheck.spec.errors import InputError, unknown

ONE = ("specification", "init", "next", "symmetry", "view", "alias", "postcondition")
MANY = ("constraints", "action_constraints", "invariants", "properties")
DEADLOCK = "check_deadlock"
KEYS = ("about", "inherits", "without", "constants", *ONE, *MANY, DEADLOCK)
_ASSIGNMENT = re.compile(r"(\w+)\s*=\s*(\{(?:[^{}]|\{[^{}]*\})*\}|\"[^\"]*\"|[^\s{}\"]+)\s*")
_WIDTH = 118


class ShippedConfig(NamedTuple):
    """A shipped configuration: its name, a description, and the text of its `.cfg`."""

    name: str
    about: str
    text: str

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        sentence, dot, _ = self.about.partition(". ")
        return sentence + dot.strip()

    @property
    def file(self) -> str:
        """The name of the `.cfg` in messages."""
        return f"{self.name}.cfg"


@cache
def read_configurations(path: Path) -> dict[str, ShippedConfig]:
    """Return the configurations of a TOML file by name, in the file's order."""
    tables: dict[str, dict[str, Any]] = {}
    for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items():
        tables[name] = _resolve(f"{path.name}: {name}", table, tables)
    return {
        name: ShippedConfig(name, table.get("about", ""), _as_cfg(table))
        for name, table in tables.items()
        if not name.startswith("_")
    }


def _resolve(place: str, table: dict[str, Any], tables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Merge a table with the tables that it inherits."""
    base: dict[str, Any] = {"constants": {}}
    for parent in table.get("inherits", "").split():
        if parent not in tables:
            raise InputError(f"{place}: inherits: {unknown('configuration', parent, tables)}")
        inherited = tables[parent]
        base |= {**inherited, "constants": base["constants"] | inherited["constants"]}
    for name in table.get("without", "").split():
        base.pop(name, None)
        base["constants"].pop(name, None)
    for key, value in table.items():
        if key == "constants":
            base[key] = base[key] | _constants(place, value)
        elif key in MANY:
            base[key] = _edited(base.get(key, ()), value.split())
        elif key in (*ONE, DEADLOCK, "about"):
            base[key] = value
        elif key not in ("inherits", "without"):
            raise InputError(f"{place}: {unknown('key', key, KEYS)}")
    base["about"] = " ".join(table.get("about", "").split())
    return base


def _constants(place: str, text: str) -> dict[str, str]:
    """Split `A = 1  B = {n1, n2}` into names and values."""
    rest = _ASSIGNMENT.sub("", text).strip()
    if rest:
        raise InputError(f"{place}: constants: expected NAME = VALUE, found {rest}")
    return dict(_ASSIGNMENT.findall(text))


def _edited(names: tuple[str, ...], change: list[str]) -> tuple[str, ...]:
    """Return `names` after the edits `+Name` and `-Name` of `change`; without such signs `change` replaces `names`."""
    if not all(word[0] in "+-" for word in change):
        return tuple(change)
    removed = {word[1:] for word in change if word[0] == "-"}
    return (*(name for name in names if name not in removed), *(word[1:] for word in change if word[0] == "+"))


def _as_cfg(table: dict[str, Any]) -> str:
    """Return the text of the `.cfg`."""
    lines = [f"\\* {line}" for line in textwrap.wrap(table["about"], _WIDTH, break_on_hyphens=False)]
    if table["constants"]:
        lines += ["CONSTANTS", *(f"    {name} = {value}" for name, value in table["constants"].items())]
    for key in (*ONE, *MANY):
        value = table.get(key)
        if isinstance(value, str):
            lines.append(f"{key.upper()} {value}")
        elif value:
            indent = "    "
            names = textwrap.wrap(" ".join(value), _WIDTH, initial_indent=indent, subsequent_indent=indent)
            lines += [key.upper(), *names]
    if DEADLOCK in table:
        lines.append(f"{DEADLOCK.upper()} {str(table[DEADLOCK]).upper()}")
    return "\n".join(lines) + "\n"
