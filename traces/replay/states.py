"""States of a file as states of a protocol, with an error for what cannot be one."""

from __future__ import annotations

from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.records import few
from kraftcheck.spec.tla.view import StateView, ViewError
from kraftcheck.traces.errors import TraceError
from kraftcheck.traces.parsing.places import place_of
from kraftcheck.traces.trace import TraceState


class StateReader:
    """Reads the states of one file.

    Parameters
    ----------
    view
        The protocol's states as variables.
    name
        The protocol's name, for errors.
    file
        The file's name.
    limit_bytes
        What the file may unpack to.
    untyped
        Whether values are those of JSON.
    """

    def __init__(self, view: StateView, name: str, file: str, *, limit_bytes: int, untyped: bool = False) -> None:
        self._view = view
        self._name = name
        self._file = file
        self._limit = limit_bytes
        self._untyped = untyped

    def state(self, found: TraceState) -> State | ViewError:
        """Return the protocol's state that has the variables of one in the file.

        Parameters
        ----------
        found
            The state in the file.

        Returns
        -------
        State or ViewError
            The state; or why there is none, where every value is of the right kind.

        Raises
        ------
        TraceError
            The file's variables are not the protocol's, or one has another kind of value: this is not about the
            same specification.
        """
        self._require_variables(found)
        try:
            return self._view.state(found.variables, untyped=self._untyped)
        except ViewError as error:
            if not error.wrong_kind:
                return error
            raise self._at(found, error) from None

    def _require_variables(self, found: TraceState) -> None:
        names = self._view.names
        missing = [name for name in names if name not in found.variables]
        unknown = [name for name in found.variables if name not in names]
        if missing or unknown:
            parts = [f"without {few(missing)}"] if missing else []
            parts += [f"with {few(unknown)}"] if unknown else []
            expected = f"the variables of {self._name}"
            raise TraceError(self._file, found.line, 1, f"a state {' and '.join(parts)}", expected)

    def _at(self, found: TraceState, error: ViewError) -> TraceError:
        line, column = place_of(self._file, found.line, error.variable, limit_bytes=self._limit)
        expected = f"{error.expected} for {error.path} in state {found.number}"
        return TraceError(self._file, line, column, error.found, expected)
