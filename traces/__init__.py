"""Traces of other tools: reading, writing, replay through a protocol, and comparison with TLC."""

from kraftcheck.traces.formats.tlc_dump import read_graph, read_states, trace_as_tlc_json
from kraftcheck.traces.formats.tlc_log import trace_as_tlc_text
from kraftcheck.traces.parsing import TraceError, ValueCache
from kraftcheck.traces.trace import (
    ActionLocation,
    InfiniteEnding,
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
    "ActionLocation", "InfiniteEnding", "Trace", "TraceEnd", "TraceError", "TraceEvent", "TraceFormat", "TraceHead",
    "TraceState", "ValueCache", "detect_format", "read_graph", "read_states", "read_traces", "stream_traces",
    "trace_as_tlc_json", "trace_as_tlc_text", "write_trace",
]  # fmt: skip
