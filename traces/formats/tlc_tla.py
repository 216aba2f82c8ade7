"""The modules that TLC writes with ``-dumpTrace tla``: a record of states and steps, as a TLA+ value.

Source: what the current TLC writes, and ``tlc2/value/impl/CounterExample.java`` of the tlaplus repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kraftcheck.traces.parsing.counterexample import read_record
from kraftcheck.traces.parsing.lines import Source
from kraftcheck.traces.parsing.states import MODULE
from kraftcheck.traces.parsing.value_cache import ValueCache
from kraftcheck.traces.trace import TraceEvent, TraceFormat, TraceHead

_BODY = re.compile(r"CounterExample\s*==\s*")
_BODY_LINE = re.compile(f"^{_BODY.pattern}", re.MULTILINE)
_END = re.compile(r"\n={4,}\s*$")


class _Module(TraceFormat):
    def recognises(self, first: str, beginning: str) -> bool:
        return MODULE.match(first) is not None and _BODY_LINE.search(beginning) is not None

    def read(self, source: Source, cache: ValueCache) -> Iterator[TraceEvent]:
        text = source.document()
        body, end = _BODY.search(text), _END.search(text)
        if body is None:
            raise source.at_end("'CounterExample =='")
        if end is None:
            raise source.at_end("'====', the end of the module")
        line = text.count("\n", 0, body.end()) + 1
        column = body.end() - text.rfind("\n", 0, body.end())
        value, _ = cache.read(text[body.end() : end.start()], where=source.file, line=line, column=column)
        yield TraceHead(source.file, 0, self)
        yield from read_record(source, value, line)


FORMAT = _Module("TLC -dumpTrace tla")
