"""Traces of other tools: reading, writing, replay through a protocol, and comparison with TLC."""

from kraftcheck.traces.formats.tlc_dump import as_json, read_graph, read_states
from kraftcheck.traces.formats.tlc_log import as_text
from kraftcheck.traces.parsing import TraceError, ValueCache
from kraftcheck.traces.trace import (
    Ending,
    Location,
    Trace,
    TraceEnd,
    TraceEvent,
    TraceFormat,
    TraceHead,
    TraceState,
    detect_format,
    read_traces,
    stream_traces,
    write_trace,
)

if __name__ != "kraftcheck.traces":
    raise ImportError("this package is kraftcheck.traces: import that", name=__name__)

__all__ = [
    "Ending", "Location", "Trace", "TraceEnd", "TraceError", "TraceEvent", "TraceFormat", "TraceHead",
    "TraceState", "ValueCache", "as_json", "as_text", "detect_format", "read_graph", "read_states",
    "read_traces", "stream_traces", "write_trace",
]  # fmt: skip
