"""Calls of handlers and properties: counts, purity tests, and read-tracking proxies."""

from kraftcheck.explorer.calls.handlers import MissingRead, with_action_function
from kraftcheck.explorer.calls.proxies import SharedRecordProxy

__all__ = ["MissingRead", "SharedRecordProxy", "with_action_function"]
