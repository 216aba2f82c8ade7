"""Compares searches by model, constants and options: a checkpoint is restored into the same search only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from kraftcheck.explorer.result import Options
from kraftcheck.spec.discovery import modules_of, source_of
from kraftcheck.spec.display import text_of
from kraftcheck.spec.encoding import Lexicon, encode
from kraftcheck.spec.language.property import Property
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import ModelValue, order_key

SearchIdentity = dict[str, Any]
CHECK_ACTIONS = "--check-actions"  # a search that goes on may leave it out; what was found without it was not tested


def identity_of_search(protocol: Protocol, options: Options) -> SearchIdentity:
    """Return what must agree between a search and the checkpoint that it goes on from, as JSON can hold it.

    Limits, workers and memory are not part of it: they do not change what is found.
    """
    cls = type(protocol)
    return {
        "model": f"{cls.__module__}:{cls.__qualname__}",
        "source": dict(_sources(cls)),
        "constants": {name: [text_of(v), encode(v).hex()] for name, v in protocol.constant_values().items()},
        "order of model values": [value.name for value in model_values_of(protocol)],
        "properties": _names(options.properties),
        "what should stay reachable": _names(options.reachable),
        "temporal properties": _names(options.temporal),
        "fairness": ", ".join(map(str, options.fairness)),
        "constraints": _names(options.constraints),
        "action constraints": _names(options.action_constraints),
        "deadlock": options.deadlock,
        "symmetry": options.symmetry,
        "view": options.view,
        "start": options.init,
        "search": str(options.search),
        "--continue": options.keep_going,
        CHECK_ACTIONS: options.check_actions,
    }


def differences(before: SearchIdentity, now: SearchIdentity) -> Iterator[str]:
    """Yield a clause for each thing in which two searches differ: what it was in the checkpoint, and is now."""
    for name, found in {**dict.fromkeys(before), **now}.items():
        was: Any = before.get(name, False if name == CHECK_ACTIONS else None)
        if was == found or (name == CHECK_ACTIONS and not found):
            continue
        if not isinstance(was, dict) or not isinstance(found, dict):
            yield f"{name}: {_shown(was)} in the checkpoint, now {_shown(found)}"
        elif name == "source":
            changed = sorted(module for module in {*was, *found} if was.get(module) != found.get(module))
            yield f"the source of the model has changed since ({', '.join(changed)})"
        else:
            for constant in {**was, **found}:
                (old, *_), (new, *_) = (_listed(one.get(constant)) for one in (was, found))
                if was.get(constant) != found.get(constant):
                    yield f"the constant {constant}: {_shown(old)} in the checkpoint, now {_shown(new)}"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) and value else [value]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(properties: Iterable[Property]) -> list[str]:
    return sorted(prop.name for prop in properties)


def _sources(cls: type[Protocol]) -> Iterator[tuple[str, str]]:
    """Yield the modules that a protocol is made of, with digests of their sources."""
    for module in modules_of(cls):
        path = source_of(module)
        if path is not None and path.is_file():
            yield module.__name__, blake2b(path.read_bytes(), digest_size=16).hexdigest()


def model_values_of(protocol: Protocol) -> list[ModelValue]:
    """Return the model values of a protocol's constants, in their order."""
    found = Lexicon()
    for value in protocol.constant_values().values():
        found.note(value)
    return sorted(found.model_values.values(), key=order_key)
