"""Calls of handlers and properties: counts, purity tests, and read-tracking proxies."""

from kraftcheck.explorer.calls.handlers import MissingRead, action_with_function
from kraftcheck.explorer.calls.proxies import SharedRecordProxy

__all__ = ["MissingRead", "SharedRecordProxy", "action_with_function"]
