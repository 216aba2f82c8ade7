"""The entry to the bytecode engine."""

from __future__ import annotations

from kraftcheck.explorer.bytecode.search import BytecodeSearch
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Result
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol


def explore(protocol: Protocol, options: SearchRequest) -> Result:
    """Search the reachable states of a protocol. Raise UntranslatableError for what the engine does not support."""
    return BytecodeSearch(protocol, options).run()


def is_supported(protocol: Protocol, options: SearchRequest) -> bool:
    """Return whether the engine can search a protocol, as far as that is known before the search."""
    try:
        BytecodeSearch(protocol, options)
    except InputError:
        return False
    return True
