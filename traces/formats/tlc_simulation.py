r"""The modules that TLC writes with ``-simulate file=``: a behaviour each, its states as ``STATE_1 == ...``.

Source: what TLC 2.15 and the current TLC write. Only the current one says which action was taken, in a comment
before the state: ``\* <Action line 6, col 12 to line 6, col 50 of module M>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kraftcheck.traces.parsing.lines import Source
from kraftcheck.traces.parsing.states import StateText, action_of
from kraftcheck.traces.parsing.value_cache import ValueCache
from kraftcheck.traces.trace import TraceEnd, TraceEvent, TraceFormat, TraceHead, TraceState

MODULE = re.compile(r"-{4,}\s*MODULE\s+(\w+)\s*-{4,}\s*")
STATE = re.compile(r"STATE_(\d+) ==\s*")
_COMMENT = re.compile(r"\\\*\s*(?:<(.*)>)?.*")
_END = re.compile(r"={4,}\s*")


def read_simulation(source: Source, cache: ValueCache) -> Iterator[TraceEvent]:
    """Read the behaviour of a module.

    Parameters
    ----------
    source
        The file.
    cache
        What reads the values.

    Yields
    ------
    TraceEvent
        A `TraceHead`, the states and a `TraceEnd`, which says whether the module is complete.

    Raises
    ------
    TraceError
        The file is not such a module.
    """
    text = StateText(source.file, cache)
    last: TraceState | None = None
    label: str | None = None
    is_open = complete = False
    yield TraceHead(source.file, 0, TraceFormat.TLC_SIMULATION)
    for number, line in source.lines():
        if is_open and text.take(number, line):
            continue
        if is_open:
            last = _state(text, last, label)
            yield last
            is_open, label = False, None
        if not line or MODULE.fullmatch(line):
            continue
        if _END.fullmatch(line):
            complete = True
        elif heading := STATE.fullmatch(line):
            expected = 1 if last is None else last.number + 1
            if int(heading[1]) != expected:
                raise source.error(f"state {heading[1]}", f"state {expected}")
            is_open = True
            text.begin(number)
        elif comment := _COMMENT.fullmatch(line):
            label = comment[1]
        else:
            raise source.error(f"'{line[:40]}'", "'/\\ name = value', a comment, 'STATE_n ==' or the end of the module")
    if is_open:
        text.end_value()
        if last and source.ends_in_newline and last.variables.keys() == text.variables.keys():
            yield _state(text, last, label)
    if last is None:
        raise source.at_end("the rest of the first state" if is_open else "'STATE_1 =='")
    yield TraceEnd(complete=complete)


def _state(text: StateText, last: TraceState | None, label: str | None) -> TraceState:
    text.end_value()
    text.check(last.variables if last else text.variables)
    action, parameters, location = action_of(label or "")
    if last is None:
        action = parameters = location = None
    number = 1 if last is None else last.number + 1
    return TraceState(number, text.variables, action, parameters, location, text.line, text.fingerprints)
