"""Groups of arrays that Python owns and compiled functions read as attributes.

Numba counts references to arrays, with atomic instructions, wherever one is handed on. In a loop over states that costs
more than the work, and worse where several threads share the tables. So a compiled function is given a whole group as
one pointer, to a *directory* of addresses and shapes, and reads `group.name` as a *bare* array: the same memory,
without an owner. The group keeps its arrays alive, and must not be given others while compiled code runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils as llvm_utilities
from numba.core import types
from numba.core.datamodel import models
from numba.core.extending import NativeValue, register_model, typeof_impl, unbox
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.np import numpy_support
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

cgutils: Any = llvm_utilities  # what Numba exports without annotations
MOST_DIMENSIONS = 3
ENTRY = 1 + MOST_DIMENSIONS  # numbers in the directory for each array: its address, then its shape


class array:  # noqa: N801 - it reads as a declaration
    """Declares an array of a group.

    Parameters
    ----------
    kind
        The NumPy type of its numbers.
    shape
        Its dimensions but the first; -1 where a length may change.
    """

    def __init__(self, kind: type[np.generic], *shape: int) -> None:
        self.kind = np.dtype(kind)
        self.shape = (-1, *shape)

    def __set_name__(self, owner: type, name: str) -> None:
        declared = owner.__dict__.get("declared")
        if declared is None:
            declared = {}
            owner.declared = declared  # type: ignore[attr-defined]
        self.number = len(declared)
        declared[name] = self

    def __get__(self, group: Any, owner: type) -> NDArray[Any]:
        found: NDArray[Any] = group.held[self.number]
        return found

    def __set__(self, group: Any, given: NDArray[Any]) -> None:
        if given.dtype != self.kind or given.ndim != len(self.shape) or not given.flags.c_contiguous:
            found = f"{given.dtype} {given.shape}"
            raise TypeError(f"expected a contiguous array of {self.kind} {self.shape}, found {found}")
        group.held[self.number] = given
        group.directory[self.number, : 1 + given.ndim] = given.ctypes.data, *given.shape


class Arrays:
    """A group of arrays. Subclasses declare each with `array`; one class in a line of inheritance does."""

    declared: dict[str, array]

    def __init__(self) -> None:
        self.held: list[NDArray[Any] | None] = [None] * len(self.declared)
        self.directory = np.zeros((len(self.declared), ENTRY), np.int64)
        self.address = self.directory.ctypes.data
        for name, declared in self.declared.items():
            setattr(self, name, np.zeros([max(length, 0) for length in declared.shape], declared.kind))


class ArraysType(types.Type):  # type: ignore[misc]
    """The type of a group in compiled code."""

    def __init__(self, declaring: type[Arrays]) -> None:
        self.declaring = declaring
        super().__init__(f"{declaring.__module__}.{declaring.__qualname__}")


@typeof_impl.register(Arrays)  # type: ignore[misc]
def _type_of(group: Arrays, _context: Any) -> Any:
    declaring = next(cls for cls in type(group).__mro__ if "declared" in cls.__dict__)
    return ArraysType(declaring)


@register_model(ArraysType)  # type: ignore[misc]
class _Pointer(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.IntType(64).as_pointer())


@unbox(ArraysType)  # type: ignore[misc]
def _unbox(_kind: Any, group: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(group, "address")
    number = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.inttoptr(number, ir.IntType(64).as_pointer()))


def _array_type(declared: array) -> Any:
    return types.Array(numpy_support.from_dtype(declared.kind), len(declared.shape), "C")


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = ArraysType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        declared = kind.declaring.declared.get(name)
        return None if declared is None else _array_type(declared)


@lower_getattr_generic(ArraysType)  # type: ignore[misc]
def _read(context: Any, builder: Any, kind: Any, directory: Any, name: str) -> Any:
    """Make a bare array of an entry in the directory, which does not change while compiled code runs."""
    declared = kind.declaring.declared[name]

    def number(place: int) -> Any:
        at = builder.gep(directory, [ir.Constant(ir.IntType(64), ENTRY * declared.number + place)])
        loaded = builder.load(at)
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    result = context.make_array(_array_type(declared))(context, builder)
    size = ir.Constant(ir.IntType(64), declared.kind.itemsize)
    shape = [
        number(1 + axis) if length < 0 else ir.Constant(ir.IntType(64), length)
        for axis, length in enumerate(declared.shape)
    ]
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(number(0), result.data.type)
    populate_array(result, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return result._getvalue()
