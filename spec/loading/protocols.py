"""Finds the protocol of a module and the variants of a protocol."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from kraftcheck.spec.errors import InputError, ProtocolError, unknown
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.loading.user_files import PREFIX, protocols_of


def protocol_in(module: ModuleType) -> type[Protocol]:
    """Return the protocol of a model's module: the one class defined there that is a protocol and no variant."""
    found = [protocol for protocol in protocols_of(module) if protocol.variant is None]
    if len(found) != 1:
        names = ", ".join(protocol.__name__ for protocol in found) or "none"
        raise ProtocolError(f"{module.__name__}: expected one protocol that is no variant, found {names}")
    return found[0]


def variants_of(protocol: type[Protocol]) -> dict[str, type[Protocol]]:
    """Return the variants of a protocol, by name.

    The module `variants` of the protocol's package is imported first, if there is one. A user's file may add variants
    to a shipped protocol: these are left out, since users name them by their file.
    """
    owner = next(base for base in protocol.__mro__ if "variants" in vars(base))
    package = sys.modules.get(owner.__module__)
    if hasattr(package, "__path__") and find_spec(f"{owner.__module__}.variants") is not None:
        import_module(f"{owner.__module__}.variants")
    is_users = protocol.__module__.startswith(PREFIX)
    return {
        name: changed
        for name, changed in protocol.variants.items()
        if is_users or not changed.__module__.startswith(PREFIX)
    }


def variant(protocol: type[Protocol], name: str) -> type[Protocol]:
    """Return the variant of a protocol that has a name."""
    known = variants_of(protocol)
    if name not in known:
        raise InputError(unknown("variant", name, known, protocol.name()))
    return known[name]


def first_sentence(protocol: type[Protocol]) -> str:
    """Return the first sentence of a protocol's own docstring, on one line; "" if it has none."""
    paragraph = (protocol.__dict__.get("__doc__") or "").strip().split("\n\n")[0]
    text = " ".join(paragraph.split())
    sentence, dot, _ = text.partition(". ")
    return sentence + dot.strip()
