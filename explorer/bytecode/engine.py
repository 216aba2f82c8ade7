"""The entry to the bytecode engine."""

from __future__ import annotations

from contextlib import suppress

from kraftcheck.explorer.bytecode.kernel.expanding import expand_states
from kraftcheck.explorer.bytecode.search import BytecodeSearch
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Result
from kraftcheck.spec.errors import InputError, NoBytecodeError
from kraftcheck.spec.language.protocol import Protocol

TRANSLATED_STARTS = 1 << 10
"""Initial states that are translated to find whether a protocol is supported."""


def explore(protocol: Protocol, options: SearchRequest) -> Result:
    """Search the reachable states of a protocol. Raise NoBytecodeError for what the engine does not support."""
    try:
        return BytecodeSearch(protocol, options).run()
    except RecursionError:
        raise NoBytecodeError("so deep a recursion or nesting of values") from None


def untranslatable_reason(protocol: Protocol, options: SearchRequest) -> str | None:
    """Return what keeps the engine from searching a protocol, as far as that is known before the search, or None."""
    try:
        BytecodeSearch(protocol, options, starts=TRANSLATED_STARTS)
    except RecursionError:
        return "so deep a recursion or nesting of values"
    except InputError as error:
        return str(error).partition("; expected")[0]
    return None


def is_interpreter_compiled() -> bool:
    """Whether the interpreter is compiled, in this process or in Numba's cache."""
    with suppress(OSError):
        return bool(expand_states.signatures or expand_states._cache._cache_file._load_index())
    return True
