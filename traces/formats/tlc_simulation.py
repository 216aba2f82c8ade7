r"""The modules that TLC writes with ``-simulate file=``: a behaviour each, its states as ``STATE_1 == ...``.

Source: what TLC 2.15 and the current TLC write. Only the current one says which action was taken, in a comment
before the state: ``\* <Action line 6, col 12 to line 6, col 50 of module M>``. What we write names actions without a
place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from kraftcheck.traces.formats.tlc_log import MODULE, StateText
from kraftcheck.traces.parsing import Source, ValueCache
from kraftcheck.traces.trace import TraceEnd, TraceEvent, TraceFormat, TraceHead

_STATE = re.compile(r"STATE_(\d+) ==\s*")
_COMMENT = re.compile(r"\\\*\s*(?:<(.*)>)?.*")
_END = re.compile(r"={4,}\s*")


class _Simulation(TraceFormat):
    order = 1  # other modules have been recognised before
    has_lines = True

    def recognises(self, first: str, beginning: str) -> bool:
        return MODULE.match(first) is not None

    def read(self, source: Source, cache: ValueCache) -> Iterator[TraceEvent]:
        text = StateText(source.file, cache)
        count = 0  # of states read
        label: str | None = None
        is_open = complete = False
        yield TraceHead(source.file, 0, self)
        for number, line in source.lines():
            if is_open and text.take(number, line):
                continue
            if is_open:
                count += 1
                yield text.whole_state(count, label)
                is_open, label = False, None
            if not line or MODULE.fullmatch(line):
                continue
            if _END.fullmatch(line):
                complete = True
            elif heading := _STATE.fullmatch(line):
                if int(heading[1]) != count + 1:
                    raise source.error(f"state {heading[1]}", f"state {count + 1}")
                is_open = True
                text.begin(number)
            elif comment := _COMMENT.fullmatch(line):
                label = comment[1]
            else:
                raise source.error(
                    f"'{line[:40]}'", "'/\\ name = value', a comment, 'STATE_n ==' or the end of the module"
                )
        if is_open:
            text.end_value()
            if count and source.ends_in_newline and text.has_all_variables:
                count += 1
                yield text.whole_state(count, label)
        if not count:
            raise source.at_end("the rest of the first state" if is_open else "'STATE_1 =='")
        yield TraceEnd(complete=complete)


TLC_SIMULATION = _Simulation("TLC -simulate file")


def as_module(name: str, steps: Iterable[tuple[str | None, Mapping[str, str]]]) -> Iterator[str]:
    """Yield the text of the module of a behaviour."""
    yield f"---------------- MODULE {name} -----------------\n"
    for number, (action, variables) in enumerate(steps, start=1):
        yield f"\\* <{action or 'Initial predicate'}>\n"
        yield f"STATE_{number} == \n"
        yield from (f"/\\ {variable} = {text}\n" for variable, text in variables.items())
        yield "\n\n"
    yield "=================================================\n"
