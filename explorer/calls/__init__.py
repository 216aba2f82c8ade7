"""Calls of handlers and properties: counted, tested for purity, and given proxies that track what is read."""

from kraftcheck.explorer.calls.handlers import MissingRead, with_function
from kraftcheck.explorer.calls.proxies import SharedProxy

__all__ = ["MissingRead", "SharedProxy", "with_function"]
