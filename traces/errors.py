"""The error for a file that is not the trace it should be."""

from kraftcheck.spec.tla.parsing import TlaSyntaxError


class TraceError(TlaSyntaxError):
    """A file is not the trace it should be. Says the file, line and column, what was found and what was expected."""
