"""Validation of stored data. A folder may be forged, digests included."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import cut

MOST = 1 << 62
"""The limit on numbers in a manifest, so that sums of a few stay within 64 bits."""

FACTOR = np.uint64(0x9E3779B97F4A7C15)


class CorruptFileError(Exception):
    """Invalid content of a file; `Checkpoint.rejecting` adds the folder to the message."""


def require(is_right: Any, problem: str) -> None:
    """Raise CorruptFileError unless a condition (or each of an array) is true."""
    if not np.all(is_right):
        raise CorruptFileError(problem)


@contextmanager
def reading(what: str, *others: type[BaseException]) -> Iterator[None]:
    """Convert any error into CorruptFileError: forged values raise many kinds in NumPy, Arrow and protocols."""
    known: tuple[type[BaseException], ...] = (CorruptFileError, InputError, MemoryError, *others)
    try:
        yield
    except known:
        raise
    except Exception as error:
        raise CorruptFileError(f"{what}: {type(error).__name__}: {error}") from None


def require_shape(value: Any, shape: Any, place: str = "it") -> None:
    """Raise CorruptFileError unless a JSON value has a shape.

    Shapes are `int` and `float` (numbers of at least 0), `str`, `bool`, `dict`, and `object` for any value. `[shape]`
    is a list, `(shape, ...)` a list of this length. `{name: shape}` is an object with these names, `{str: shape}` an
    object with any names.
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
    """Raise CorruptFileError if two 64-bit hashes are equal."""
    require(len(np.unique(hashes)) == len(hashes), f"two {what} are equal")


def mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64-bit hashes of numbers."""
    keys = (keys ^ (keys >> np.uint64(31))) * FACTOR + FACTOR  # maps 0 to another number
    keys = (keys ^ (keys >> np.uint64(29))) * FACTOR
    return keys ^ (keys >> np.uint64(32))
