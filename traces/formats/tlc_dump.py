"""The states that TLC writes with ``-dump``: ``State 1:`` and so on, in no order of time.

Source: what TLC 2.15 and the current TLC write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kraftcheck.traces.parsing.lines import Source
from kraftcheck.traces.parsing.states import StateText
from kraftcheck.traces.parsing.value_cache import ValueCache
from kraftcheck.traces.trace import TraceFormat, TraceState

_STATE = re.compile(r"State (\d+):\s*")


class _Dump(TraceFormat):
    holds = "the states of a model"

    def recognises(self, first: str, beginning: str) -> bool:
        return _STATE.fullmatch(first) is not None


FORMAT = _Dump("TLC -dump")


def read_dump(source: Source, cache: ValueCache) -> Iterator[TraceState]:
    """Read the states of a dump one by one."""
    text = StateText(source.file, cache)
    is_empty = True
    open_state: int | None = None  # the number of the state that is being read
    for number, line in source.lines():
        if open_state is not None:
            if text.take(number, line):
                continue
            yield _state(source, text, open_state)
            is_empty, open_state = False, None
        if not line:
            continue
        heading = _STATE.fullmatch(line)
        if heading is None:
            raise source.error(f"'{line[:40]}'", "'/\\ name = value', an empty line or 'State n:'")
        open_state = int(heading[1])
        text.begin(number)
    if open_state is not None:
        text.end_value()
        if is_empty or not source.ends_in_newline:
            raise source.at_end("the rest of the state, and an empty line")
        yield _state(source, text, open_state)
    elif is_empty:
        raise source.at_end("'State 1:'")


def _state(source: Source, text: StateText, number: int) -> TraceState:
    text.end_value()
    if not text.variables:
        raise source.error("a state without variables", "'/\\ name = value'", line=text.line + 1)
    return text.whole_state(number)
