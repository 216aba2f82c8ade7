"""Describes a search to other processes, by names and canonical encodings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from kraftcheck.explorer.result import Options
from kraftcheck.spec.decoding import Lexicon, decode
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.loading.user_files import PREFIX, load
from kraftcheck.spec.values import ModelValue, encode

Description = dict[str, Any]


def describe(protocol: Protocol, options: Options) -> Description:
    """Return what another process needs to make the same search, as JSON can hold it.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What is checked.
    """
    lexicon = Lexicon()
    for value in protocol.constant_values().values():
        lexicon.note(value)
    cls = type(protocol)
    return {
        "model": [cls.__module__, cls.__qualname__],
        "constants": {
            declared.attribute: encode(getattr(protocol, declared.attribute)).hex()
            for declared in protocol.constants.values()
        },
        "classes": [[found.__module__, found.__qualname__] for found in lexicon.classes],
        "model_values": [[value.name, value.index] for value in lexicon.model_values.values()],
        "properties": _names(options.properties),
        "constraints": _names(options.constraints),
        "action_constraints": _names(options.action_constraints),
        "deadlock": options.deadlock,
        "symmetry": options.symmetry,
        "view": options.view,
        "init": options.init,
    }


def revive(description: Description, user_files: Path) -> tuple[Protocol, Options]:
    """Return the protocol and the options of a search that was described.

    Parameters
    ----------
    description
        What `describe` returned.
    user_files
        The folder with the files of a user's model.
    """
    module, name = description["model"]
    cls = _class(module, name, user_files)
    lexicon = Lexicon(_class(module, name, user_files) for module, name in description["classes"])
    for name, index in description["model_values"]:
        lexicon.model_values[name] = ModelValue(name, index)
    constants = {name: decode(bytes.fromhex(data), lexicon) for name, data in description["constants"].items()}
    protocol: Protocol = cls(**constants)
    known = cls.properties
    return protocol, Options(
        properties=tuple(known[name] for name in description["properties"]),
        constraints=tuple(known[name] for name in description["constraints"]),
        action_constraints=tuple(known[name] for name in description["action_constraints"]),
        deadlock=description["deadlock"],
        symmetry=description["symmetry"],
        view=description["view"],
        init=description["init"],
        keep_going=True,
        workers=1,
    )


def _names(properties: Iterable[Property]) -> list[str]:
    return [prop.name for prop in properties]


def _class(module: str, name: str, user_files: Path) -> Any:
    """Return a class by its module and qualified name; a user's file is loaded as a module of its own."""
    outer, *inner = name.split(".")
    if module.startswith(PREFIX):
        if module not in sys.modules:
            load(user_files / f"{module.removeprefix(PREFIX)}.py", outer)
        found: Any = getattr(sys.modules[module], outer)
    else:
        found = getattr(import_module(module), outer)
    return reduce(getattr, inner, found)


def as_text(content: Any) -> str:
    """Return JSON without spaces."""
    return json.dumps(content, separators=(",", ":"))
