"""Files that only ever grow at their end, with a digest of what they hold."""

from __future__ import annotations

import os
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGEST_BYTES = 16
PIECE = 1 << 20  # bytes hashed at a time


class Damaged(Exception):  # noqa: N818 - it becomes an InputError where the user's name for the file is known
    """A file does not hold what it should."""


class GrowingFile:
    """A file to append to and to read anywhere; several threads may read at a time.

    Parameters
    ----------
    file
        The file, open for reading and writing, without a buffer.
    hashed
        Whether to keep a digest of what is appended.

    Attributes
    ----------
    length
        Bytes that belong to it; what lies beyond is overwritten.
    """

    def __init__(self, file: FileIO, *, hashed: bool) -> None:
        self.length = 0
        self._file = file
        self._hash = blake2b(digest_size=DIGEST_BYTES) if hashed else None

    @classmethod
    def temporary(cls, folder: Path | None = None) -> GrowingFile:
        """Return a new file without a name, which is gone with the process, however that ends.

        Parameters
        ----------
        folder
            Where its space is taken from; by default the system's place for temporary files.
        """
        return cls(TemporaryFile(buffering=0, dir=folder), hashed=False)

    @classmethod
    def at(cls, path: Path) -> GrowingFile:
        """Return the file at a path, made if it is not there, of which nothing counts yet."""
        return cls(FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+"), hashed=True)

    @property
    def digest(self) -> str:
        """The digest of its bytes."""
        assert self._hash is not None
        return self._hash.hexdigest()

    def append(self, data: bytes | NDArray[Any]) -> int:
        """Append bytes; return where they start."""
        view = _bytes_of(np.ascontiguousarray(data)) if isinstance(data, np.ndarray) else memoryview(data)
        start = at = self.length
        while at < start + len(view):
            at += os.pwrite(self._file.fileno(), view[at - start :], at)
        if self._hash is not None:
            self._hash.update(view)
        self.length = at
        return start

    def read_into(self, offset: int, array: NDArray[Any]) -> None:
        """Fill an array with what stands from an offset on."""
        view, at = _bytes_of(array), 0
        while at < len(view):
            found = os.preadv(self._file.fileno(), [view[at:]], offset + at)
            if found == 0:
                raise Damaged(f"it ends after {offset + at} bytes")
            at += found

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes from an offset on."""
        array = np.empty(count, np.uint8)
        self.read_into(offset, array)
        return array.tobytes()

    def restore(self, length: int, digest: str) -> None:
        """Take the first `length` bytes for what it holds and cut off the rest.

        Raises
        ------
        Damaged
            Where they are not there, or have another digest.
        """
        size = os.fstat(self._file.fileno()).st_size
        if size < length:
            raise Damaged(f"expected {length} bytes, found {size}")
        assert self._hash is not None
        for offset in range(0, length, PIECE):
            self._hash.update(self.read(offset, min(PIECE, length - offset)))
        if self.digest != digest:
            raise Damaged("its content has changed: its checksum is not the one noted")
        os.ftruncate(self._file.fileno(), length)
        self.length = length

    def clear(self) -> None:
        """Forget everything in it and give the space back."""
        os.ftruncate(self._file.fileno(), 0)
        self.length = 0
        if self._hash is not None:
            self._hash = blake2b(digest_size=DIGEST_BYTES)

    def sync(self) -> None:
        """See to it that what was appended outlives the machine's failure."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close it."""
        self._file.close()


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.data.cast("B") if array.size else memoryview(b"")
