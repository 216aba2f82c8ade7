"""Groups of arrays that Python owns and compiled functions read as attributes; memory for arrays that grow.

Numba counts references to an array, by atomic instructions, at each call that takes the array. In a loop over states
that costs more than the work, and more still when threads share the tables. So a compiled function takes a whole
group as one pointer, to a *directory* of addresses and shapes. It reads `group.name` as a *bare* array: the same
memory, without an owner. The group keeps its arrays alive, and no array may be replaced while compiled code runs.

Fresh memory comes from the system page by page. Each page must be cleared, and threads of one process wait for each
other meanwhile. So a table reserves more address space than it needs, and grows in place. The memory of a replaced
table goes to the next table that grows in the same thread.
"""

from __future__ import annotations

import math
import mmap
from contextlib import suppress
from mmap import mmap as map_memory
from threading import local
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, extending, imputils, types
from numba.core.datamodel import models
from numba.core.typing import templates
from numba.np import arrayobj, numpy_support
from numpy.typing import NDArray

_numba_extending: Any = extending  # Numba's API has no annotations
_numba_lower_attribute: Any = imputils.lower_getattr_generic
_numba_infer_attribute: Any = templates.infer_getattr
_NumbaAttributeTemplate: Any = templates.AttributeTemplate
_NumbaPrimitiveModel: Any = models.PrimitiveModel
_NumbaType: Any = types.Type
_numba_arrayobj: Any = arrayobj
_ir: Any = vars(cgutils)["ir"]
_INT64_TYPE = _ir.IntType(64)

MOST_DIMENSIONS = 3
DIRECTORY_ENTRY_NUMBERS = 1 + MOST_DIMENSIONS  # numbers in an array's directory entry: its address, then its shape


class DeclaredArray(NamedTuple):
    """A declared array: its place in the directory, its element type, and its dimensions (-1: any length)."""

    number: int
    kind: np.dtype[Any]
    shape: tuple[int, ...]


def declare_array(kind: type[np.generic], *shape: int) -> Any:
    """Declare an array of an `ArrayGroup`: its first dimension has any length, the others are given by `shape`."""
    return DeclaredArray(0, np.dtype(kind), (-1, *shape))


class ArrayGroup:
    """A group of arrays, passed to compiled code as one pointer; a direct subclass declares each by `declare_array`."""

    _numba_type_: ArrayGroupType
    declared: dict[str, DeclaredArray]

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, DeclaredArray)}
        if own:
            cls._numba_type_ = ArrayGroupType(cls)  # where Numba looks for the type of an argument
            cls.declared = {name: value._replace(number=number) for number, (name, value) in enumerate(own.items())}

    def __init__(self) -> None:
        self.directory = np.zeros((len(self.declared), DIRECTORY_ENTRY_NUMBERS), np.int64)
        self.address = self.directory.ctypes.data
        for name, declared in self.declared.items():
            setattr(self, name, np.zeros([max(length, 0) for length in declared.shape], declared.kind))

    def __setattr__(self, name: str, value: Any) -> None:
        declared = self.declared.get(name)
        if declared is not None and value is not self.__dict__.get(name):
            fits = value.ndim == len(declared.shape) and all(
                length in (-1, found) for length, found in zip(declared.shape, value.shape, strict=True)
            )
            if value.dtype != declared.kind or not fits or not value.flags.c_contiguous:
                expected = f"expected a contiguous array of {declared.kind} {declared.shape}"
                raise TypeError(f"{name}: {expected}, found {value.dtype} {value.shape}")
            self.directory[declared.number, : 1 + value.ndim] = value.ctypes.data, *value.shape
        object.__setattr__(self, name, value)


class ArrayGroupType(_NumbaType):  # type: ignore[misc]
    """The Numba type of an `ArrayGroup` group."""

    def __init__(self, declaring: type[ArrayGroup]) -> None:
        self.declaring = declaring
        super().__init__(f"{declaring.__module__}.{declaring.__qualname__}")


@_numba_extending.register_model(ArrayGroupType)
class _PointerModel(_NumbaPrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _INT64_TYPE.as_pointer())


@_numba_extending.unbox(ArrayGroupType)  # type: ignore[untyped-decorator]
def _unbox_group(_kind: Any, group: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(group, "address")
    number = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    return _numba_extending.NativeValue(c.builder.inttoptr(number, _INT64_TYPE.as_pointer()))


def _numba_array_type(declared: DeclaredArray) -> Any:
    return types.Array(numpy_support.from_dtype(declared.kind), len(declared.shape), "C")


@_numba_infer_attribute
class _GroupAttributeTemplate(_NumbaAttributeTemplate):  # type: ignore[misc]
    key = ArrayGroupType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        declared = kind.declaring.declared.get(name)
        return None if declared is None else _numba_array_type(declared)


@_numba_lower_attribute(ArrayGroupType)  # type: ignore[untyped-decorator]
def _generate_read_of_group_attribute(context: Any, builder: Any, kind: Any, directory: Any, name: str) -> Any:
    """Generate code that reads the array `name` of a group from the group's directory of addresses and shapes."""
    declared = kind.declaring.declared[name]

    def number(place: int) -> Any:
        at = builder.gep(directory, [_ir.Constant(_INT64_TYPE, DIRECTORY_ENTRY_NUMBERS * declared.number + place)])
        loaded = builder.load(at)
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    result = context.make_array(_numba_array_type(declared))(context, builder)
    size = _ir.Constant(_INT64_TYPE, declared.kind.itemsize)
    lengths = enumerate(declared.shape, start=1)
    shape = [number(place) if length < 0 else _ir.Constant(_INT64_TYPE, length) for place, length in lengths]
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(number(0), result.data.type)
    _numba_arrayobj.populate_array(result, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return result._getvalue()


OWN_PAGES_FROM_BYTES = 1 << 18  # bytes from which on a table gets pages of its own
HUGE_PAGES_FROM_BYTES = 1 << 25  # default bytes from which on a table gets huge pages: the last is half empty
RESERVED_ADDRESSES_RATIO = 4  # ratio of reserved addresses to bytes


def reserve_zeroed_bytes(count: int, large: int = HUGE_PAGES_FROM_BYTES) -> Any:
    """Return at least `count` zero bytes; pages that are never written take no memory."""
    if count < OWN_PAGES_FROM_BYTES:
        return np.zeros(count, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        pages = map_memory(-1, RESERVED_ADDRESSES_RATIO * count, flags=flags)
    except OSError:  # too little address space
        pages = map_memory(-1, count, flags=flags)
    if count >= large and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def zeros_in_small_pages(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Return a zeroed array in small pages, for random writes; NumPy would request huge pages.

    A small array is an ordinary NumPy array, in recycled memory.
    """
    count = math.prod(shape) * np.dtype(kind).itemsize
    if count >= OWN_PAGES_FROM_BYTES:
        with suppress(OSError):
            pages = map_memory(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            return np.frombuffer(pages, kind).reshape(shape)
    return np.zeros(shape, kind)


class ThreadSpareArray(local):
    """The largest array that this thread has released, kept for reuse by tables of one kind."""

    def __init__(self) -> None:
        self._spare = reserve_zeroed_bytes(0)

    def take(self, count: int) -> Any:
        """Return an array of at least `count` bytes with arbitrary contents: the spare array, or a new one."""
        taken, self._spare = self._spare, reserve_zeroed_bytes(0)
        return taken if len(taken) >= count else reserve_zeroed_bytes(count)

    def leave(self, left: Any) -> None:
        """Release an array for reuse; keep it if it is larger than the spare array."""
        if len(left) > len(self._spare):
            self._spare = left


def grow_array(array: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    """Return an array of at least `size` rows: the array itself, or a copy of at least twice its length."""
    if len(array) >= size:
        return array
    shape = (max(size, 2 * len(array)), *array.shape[1:])
    larger = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)  # zeros take no time
    larger[: len(array)] = array
    return larger
