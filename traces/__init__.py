"""Comparing a protocol with the outside world: traces of other tools, read and written."""

from traces.model import Ending, Location, Trace, TraceEnd, TraceError, TraceEvent, TraceFormat, TraceHead, TraceState
from traces.read import detect_format, read_graph, read_states, read_traces, stream_traces
from traces.value_cache import ValueCache
from traces.write import as_json, as_text, write_trace

__all__ = [
    "Ending",
    "Location",
    "Trace",
    "TraceEnd",
    "TraceError",
    "TraceEvent",
    "TraceFormat",
    "TraceHead",
    "TraceState",
    "ValueCache",
    "as_json",
    "as_text",
    "detect_format",
    "read_graph",
    "read_states",
    "read_traces",
    "stream_traces",
    "write_trace",
]
