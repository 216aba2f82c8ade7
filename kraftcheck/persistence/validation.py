"""Checks of what was read back: a folder may come from strangers, with digests of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import cut

MOST = 1 << 62
"""No number in a manifest is larger: sums of some stay within 64 bits."""

FACTOR = np.uint64(0x9E3779B97F4A7C15)


class CorruptFileError(Exception):
    """A file does not hold what it should; `Checkpoint.rejecting` adds the user's name for the folder."""


def require(is_right: Any, problem: str) -> None:
    """Raise CorruptFileError unless all is right."""
    if not np.all(is_right):
        raise CorruptFileError(problem)


@contextmanager
def reading(what: str, *others: type[BaseException]) -> Iterator[None]:
    """Turn any error into CorruptFileError: NumPy, Arrow and a protocol raise many kinds for values of strangers."""
    known: tuple[type[BaseException], ...] = (CorruptFileError, InputError, MemoryError, *others)
    try:
        yield
    except known:
        raise
    except Exception as error:
        raise CorruptFileError(f"{what}: {type(error).__name__}: {error}") from None


def require_shape(value: Any, shape: Any, place: str = "it") -> None:
    """Raise CorruptFileError unless a JSON value has a form.

    `shape`: `int` or `float` for numbers that are not negative, `str`, `bool` or `dict`; `[shape]` for a list, `(shape,
    ...)` for one of that length; `{name: shape}` for an object with these names, `{str: shape}` with any; `object` for
    anything.
    """
    if isinstance(shape, list | tuple):
        _require_list(value, shape, place)
    elif isinstance(shape, dict):
        _require_object(value, shape, place)
    elif shape in (int, float):
        if type(value) not in {int, shape} or not 0 <= value < MOST:
            raise CorruptFileError(f"{place}: expected a number of at least 0, found {_short(value)}")
    elif shape is not object and type(value) is not shape:
        raise CorruptFileError(f"{place}: expected {shape.__name__}, found {_short(value)}")


def _require_list(value: Any, shape: list[Any] | tuple[Any, ...], place: str) -> None:
    length = len(shape) if isinstance(shape, tuple) else None
    if type(value) is not list or length not in (None, len(value)):
        raise CorruptFileError(f"{place}: expected a list{f' of {length}' if length else ''}, found {_short(value)}")
    shapes = cast("list[Any]", shape) * len(value) if length is None else shape
    for number, (one, its_shape) in enumerate(zip(value, shapes, strict=True)):
        require_shape(one, its_shape, f"{place}[{number}]")


def _require_object(value: Any, shape: dict[Any, Any], place: str) -> None:
    if type(value) is not dict or (str not in shape and value.keys() != shape.keys()):
        names = "an object" if str in shape else f"an object with {', '.join(shape)}"
        raise CorruptFileError(f"{place}: expected {names}, found {_short(value)}")
    for name, one in value.items():
        require_shape(one, shape[str if str in shape else name], f"{place}.{name}")


def _short(value: Any) -> str:
    return cut(", ".join(value) if isinstance(value, dict) else repr(value), 60)


def require_distinct(hashes: NDArray[np.uint64], what: str) -> None:
    """Require that no two hashes of 64 bits are equal."""
    require(len(np.unique(hashes)) == len(hashes), f"two {what} are equal")


def mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of numbers."""
    keys = (keys ^ (keys >> np.uint64(31))) * FACTOR + FACTOR  # 0 becomes another number
    keys = (keys ^ (keys >> np.uint64(29))) * FACTOR
    return keys ^ (keys >> np.uint64(32))
