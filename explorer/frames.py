"""Behaviours as pandas tables, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kraftcheck.explorer.result import Result, TraceStep, Violation
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import Record, Value, field_names, field_values, ordered, text_of

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(behaviour: Result | Violation | Iterable[TraceStep]) -> pd.DataFrame:
    """Return a behaviour as a table with a row for each state.

    Parameters
    ----------
    behaviour : Result, Violation or iterable of TraceStep
        A result (its first counterexample; no rows without one), a violation, or the steps themselves.

    Returns
    -------
    pandas.DataFrame
        The index is the number of the state, from 1. The first columns are the `action`, `actor` and `message` of the
        step to it. Each field of a replica (`n1.epoch`), each shared field, and the used amount of each bound follow.
        Numbers, truth values and strings are themselves; other values are text.

    Raises
    ------
    InputError
        If pandas, an extra, is not installed.
    """
    if find_spec("pandas") is None:
        raise InputError("to_pandas needs the package pandas: pip install 'kraftcheck[pandas]'")
    import pandas as pd

    steps = behaviour if not isinstance(behaviour, Result | Violation) else behaviour.trace
    rows = [_row(step) for step in steps]
    index = pd.RangeIndex(1, len(rows) + 1, name="state")
    return pd.DataFrame(rows, index=index, columns=None if rows else ["action", "actor", "message"])


def _row(step: TraceStep) -> dict[str, Any]:
    state = step.state
    row = {"action": step.action, "actor": _cell(step.actor), "message": _cell(step.message)}
    for key in ordered(state.replicas):
        replica = state.replicas[key]
        row |= {f"{text_of(key)}.{name}": cell for name, cell in _fields(replica).items() if name != "id"}
    return row | _fields(state.shared) | {name: state.spent[name] for name in ordered(state.spent)}


def _fields(record: Record) -> dict[str, Any]:
    return dict(zip(field_names(type(record)), map(_cell, field_values(record)), strict=True))


def _cell(value: Value) -> Any:
    return value if value is None or type(value) in (bool, int, str) else text_of(value)
