"""What TLC writes with ``-dump``: every state that it found, as ``State 1:`` and so on, in no order of time.

Source: what TLC 2.15 and the current TLC write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kraftcheck.traces.parsing.lines import Source
from kraftcheck.traces.parsing.states import StateText
from kraftcheck.traces.parsing.value_cache import ValueCache
from kraftcheck.traces.trace import TraceState

STATE = re.compile(r"State (\d+):\s*")


def read_states(source: Source, cache: ValueCache) -> Iterator[TraceState]:
    """Read the states of a dump one by one.

    Parameters
    ----------
    source
        The file.
    cache
        What reads the values.

    Yields
    ------
    TraceState
        A state, with its number in the file.

    Raises
    ------
    TraceError
        The file is not a dump, or it ends within a state.
    """
    text = StateText(source.file, cache)
    first: TraceState | None = None
    number_of_state: int | None = None
    for number, line in source.lines():
        if number_of_state is not None:
            if text.take(number, line):
                continue
            state = _state(source, text, number_of_state, first)
            first = first or state
            number_of_state = None
            yield state
        if not line:
            continue
        heading = STATE.fullmatch(line)
        if heading is None:
            raise source.error(f"'{line[:40]}'", "'/\\ name = value', an empty line or 'State n:'")
        number_of_state = int(heading[1])
        text.begin(number)
    if number_of_state is not None:
        text.end_value()
        if first is None or not source.ends_in_newline:
            raise source.at_end("the rest of the state, and an empty line")
        first = _state(source, text, number_of_state, first)
        yield first
    if first is None:
        raise source.at_end("'State 1:'")


def _state(source: Source, text: StateText, number: int, first: TraceState | None) -> TraceState:
    text.end_value()
    if not text.variables:
        raise source.error("a state without variables", "'/\\ name = value'", line=text.line + 1)
    text.check(first.variables if first else text.variables)
    return TraceState(number, text.variables, line=text.line, fingerprints=text.fingerprints)
