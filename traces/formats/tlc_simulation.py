r"""The format of TLC's ``-simulate file=``: a module for each trace, with states as ``STATE_1 == ...``.

Source: the output of TLC 2.15 and of the current TLC. Only the current TLC names the action, in a comment
before the state: ``\* <Action line 6, col 12 to line 6, col 50 of module M>``. Files of kraftcheck name actions
without a location.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from kraftcheck.traces.formats.tlc_log import MODULE_LINE, StateTextReader
from kraftcheck.traces.parsing import TraceFileReader, ValueCache
from kraftcheck.traces.trace import TraceEnd, TraceEvent, TraceFormat, TraceHead

_LINE_OUTSIDE_STATES = re.compile(
    rf"(?P<end>={{4,}}\s*)|STATE_(?P<state>\d{{1,9}}) ==\s*"
    rf"|(?P<comment>\\\*\s*(?:<(?P<label>.*)>)?.*)|(?:{MODULE_LINE.pattern})?"
)


class _SimulationFormat(TraceFormat):
    order = 1  # after the other formats of modules
    has_lines = True

    def recognises(self, first: str, beginning: str) -> bool:
        return MODULE_LINE.match(first) is not None

    def read(self, source: TraceFileReader, cache: ValueCache) -> Iterator[TraceEvent]:
        text = StateTextReader(source.file, cache)
        count = 0  # the number of read states
        label: str | None = None
        is_open = complete = False
        yield TraceHead(source.file, 0, self)
        for number, line in source.lines():
            if is_open:
                if text.take(number, line):
                    continue
                count += 1
                yield text.whole_state(count, label)
                is_open, label = False, None
            found = _parse_line_outside_state(source, line, count + 1)
            complete |= found["end"] is not None
            if found["state"]:
                is_open = True
                text.begin(number)
            elif found["comment"]:
                label = found["label"]
        if is_open and _is_last_state_complete(source, text, count):
            count += 1
            yield text.whole_state(count, label)
        if not count:
            raise source.at_end("the rest of the first state" if is_open else "'STATE_1 =='")
        yield TraceEnd(complete=complete)


def _parse_line_outside_state(source: TraceFileReader, line: str, number: int) -> re.Match[str]:
    """Parse a line outside of a state; `number` is the number of the next state."""
    found = _LINE_OUTSIDE_STATES.fullmatch(line)
    if found is None:
        expected = "'/\\ name = value', a comment, 'STATE_n ==' or the end of the module"
        raise source.error(f"'{line[:40]}'", expected)
    if found["state"] and int(found["state"]) != number:
        raise source.error(f"state {found['state']}", f"state {number}")
    return found


def _is_last_state_complete(source: TraceFileReader, text: StateTextReader, count: int) -> bool:
    """Whether the state at the end of a file is complete."""
    text.end_value()
    return bool(count) and source.ends_in_newline and text.has_all_variables


TLC_SIMULATION = _SimulationFormat("TLC -simulate file")


def simulation_module_lines(name: str, steps: Iterable[tuple[str | None, Mapping[str, str]]]) -> Iterator[str]:
    """Yield the text of a trace's module."""
    yield f"---------------- MODULE {name} -----------------\n"
    for number, (action, variables) in enumerate(steps, start=1):
        yield f"\\* <{action or 'Initial predicate'}>\n"
        yield f"STATE_{number} == \n"
        yield from (f"/\\ {variable} = {text}\n" for variable, text in variables.items())
        yield "\n\n"
    yield "=================================================\n"
