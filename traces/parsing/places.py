"""Where in a file a variable of a state stands. It is looked for only when an error must say it."""

from __future__ import annotations

import re
from typing import NamedTuple

from kraftcheck.traces.errors import TraceError
from kraftcheck.traces.parsing.lines import Source


class Place(NamedTuple):
    """A line and a column, both from 1."""

    line: int
    column: int


def place_of(file: str, state_line: int, variable: str, *, limit_bytes: int) -> Place:
    """Return where the value of a variable begins.

    Parameters
    ----------
    file
        The file.
    state_line
        The line on which the state begins.
    variable
        The variable's name.
    limit_bytes
        What the file may unpack to.

    Returns
    -------
    Place
        The place; that of the state where the file is no text of variables, or does not show the variable there.
    """
    value = re.compile(rf"(?:/\\ )?{re.escape(variable)} = (?=.)")
    try:
        for number, line in Source(file, limit_bytes=limit_bytes).lines():
            found = value.match(line) if number >= state_line else None
            if found is not None:
                return Place(number, found.end() + 1)
            if number > state_line and not line:
                break
    except TraceError:  # it was read before
        pass
    return Place(state_line, 1)
