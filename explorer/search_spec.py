"""Description of a search for other processes: names and canonical encodings."""

from __future__ import annotations

import json
import sys
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.spec.discovery import USER_MODULE_PREFIX, load_protocol
from kraftcheck.spec.encoding import DecodingVocabulary, decode, encode
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import ModelValue

SearchSpec = dict[str, Any]

PROPERTY_FIELDS = ("properties", "constraints", "action_constraints")
OPTION_FIELDS = ("deadlock", "symmetry", "view", "init")
"""Options in the description of a search."""


def to_spec(protocol: Protocol, options: SearchRequest) -> SearchSpec:
    """Return the description of a search, as JSON values."""
    lexicon = DecodingVocabulary()
    for value in protocol.constant_values().values():
        lexicon.note(value)
    cls, attributes = type(protocol), [declared.attribute for declared in protocol.constants.values()]
    return {
        "model": [cls.__module__, cls.__qualname__],
        "constants": {name: encode(getattr(protocol, name)).hex() for name in attributes},
        "classes": [[found.__module__, found.__qualname__] for found in lexicon.classes],
        "model_values": [[value.name, value.index] for value in lexicon.model_values.values()],
        **{name: [prop.name for prop in getattr(options, name)] for name in PROPERTY_FIELDS},
        **{name: getattr(options, name) for name in OPTION_FIELDS},
    }


def from_spec(spec: SearchSpec, user_files: Path) -> tuple[Protocol, SearchRequest]:
    """Return the protocol and the options of a described search."""
    module, name = spec["model"]
    cls = _class_by_name(module, name, user_files)
    lexicon = DecodingVocabulary(_class_by_name(module, name, user_files) for module, name in spec["classes"])
    for name, index in spec["model_values"]:
        lexicon.model_values[name] = ModelValue(name, index)
    constants = {name: decode(bytes.fromhex(data), lexicon) for name, data in spec["constants"].items()}
    protocol: Protocol = cls(**constants)
    checked: Any = {name: tuple(cls.properties[prop] for prop in spec[name]) for name in PROPERTY_FIELDS}
    asked = {name: spec[name] for name in OPTION_FIELDS}
    return protocol, SearchRequest(**checked, **asked, keep_going=True, workers=1)


def _class_by_name(module: str, name: str, user_files: Path) -> Any:
    """Return a class by its module and qualified name; a user's file is loaded as a module of its own."""
    outer, *inner = name.split(".")
    if module.startswith(USER_MODULE_PREFIX):
        if module not in sys.modules:
            load_protocol(user_files / f"{module.removeprefix(USER_MODULE_PREFIX)}.py", outer)
        found: Any = getattr(sys.modules[module], outer)
    else:
        found = getattr(import_module(module), outer)
    return reduce(getattr, inner, found)


def compact_json(content: Any) -> str:
    """Return JSON without spaces."""
    return json.dumps(content, separators=(",", ":"))
