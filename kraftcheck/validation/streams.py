"""Files in folders, tarballs and gzip streams, read once from front to back in bounded memory."""

from __future__ import annotations

import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from gzip import BadGzipFile, GzipFile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import visible

LONGEST_LINE = 32 << 20
"""Maximum length of a line, in bytes."""

LARGEST_HEADER = 16 << 20
"""Maximum size of a tarball's headers of one member, in bytes."""

DEEPEST = 4
"""Tarballs and gzip streams in one another."""

MOST_MEMBERS = 1_000_000

_CHUNK = 1 << 20


class Stream:
    """A file's content: peek at its beginning, then read it once. `limit` bounds the bytes that are read."""

    def __init__(self, name: str, raw: BinaryIO, limit: int) -> None:
        self.name = name
        self.position = 0
        self.limit = limit
        self._raw = raw
        self._head = b""

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes, or those up to the end, without consuming them."""
        while len(self._head) < size and (more := self._more(size - len(self._head))):
            self._head += more
        return self._head[:size]

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; fewer only at the end or from the peeked part."""
        if size < 0:
            raise ValueError("a stream of unknown size is read in parts")
        if self._head:
            found, self._head = self._head[:size], self._head[size:]
        else:
            found = self._more(size)
        self.position += len(found)
        return found

    def _more(self, size: int) -> bytes:
        if self.position + len(self._head) > self.limit:
            raise InputError(f"{self.name}: expected at most {self.limit:,} bytes, unpacked, found more; split it")
        with reported(self.name):
            return self._raw.read(size)

    def lines(self) -> Iterator[str]:
        """Yield the lines without their ends; bytes that are not UTF-8 become U+FFFD."""
        rest, number = b"", 1
        while chunk := self.read(_CHUNK):
            whole, end, more = chunk.rpartition(b"\n")
            if not end:
                rest += more
            else:
                found = (rest + whole).decode("utf-8", "replace").split("\n")
                number += len(found)
                yield from found
                rest = more
            if len(rest) > LONGEST_LINE:
                raise InputError(
                    f"{self.name}:{number}: expected a line of at most {LONGEST_LINE:,} bytes, found a longer one;"
                    " leave the file out"
                )
        if rest:
            yield rest.decode("utf-8", "replace")


class Entry(NamedTuple):
    """A file to be recognized; its stream is valid until the next entry."""

    stream: Stream
    is_named: bool  # the user named this very file


@contextmanager
def reported(name: str) -> Iterator[None]:
    """Turn errors of a damaged file into InputError."""
    try:
        yield
    except EOFError:
        raise InputError(f"{name}: cannot be read: its gzip stream ends too early; copy the file again") from None
    except (BadGzipFile, zlib.error, tarfile.TarError) as error:
        raise InputError(f"{name}: cannot be read: {visible(str(error))}; copy the file again") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}; copy the file again") from None


def entries(path: Path, limit: int, skip: Callable[[str], object]) -> Iterator[Entry]:
    """Yield the files of a path in order of their names; `skip` tells which names to leave out of folders.

    Links and devices in folders and tarballs are left out.
    """
    name = visible(str(path))
    if path.is_dir():
        for folder, folders, names in os.walk(path):
            folders.sort()
            for one in sorted(names):
                file = Path(folder, one)
                if not skip(one) and not file.is_symlink() and file.is_file():
                    yield from _opened(file, visible(str(file)), limit, skip, is_named=False)
    elif path.is_file():
        yield from _opened(path, name, limit, skip, is_named=True)
    elif path.exists():
        raise InputError(f"{name}: expected a file or a folder, found a device or a pipe; name a file")
    else:
        raise InputError(f"{name}: not found; name a log file, a data folder, or a folder of them")


def _opened(path: Path, name: str, limit: int, skip: Callable[[str], object], *, is_named: bool) -> Iterator[Entry]:
    with reported(name):
        file = path.open("rb", buffering=_CHUNK)
    with file:
        yield from _unpacked(Stream(name, file, limit), skip, 0, is_named=is_named)


def _unpacked(stream: Stream, skip: Callable[[str], object], depth: int, *, is_named: bool) -> Iterator[Entry]:
    """Yield a stream, unpacked if it is gzipped, or the members of a tarball."""
    is_gzip = stream.peek(2) == b"\x1f\x8b"
    is_tar = not is_gzip and stream.peek(512)[257:262] == b"ustar"
    if (is_gzip or is_tar) and depth >= DEEPEST:
        raise InputError(f"{stream.name}: expected at most {DEEPEST} archives in one another; unpack it")
    if is_gzip:
        raw = cast(BinaryIO, GzipFile(fileobj=cast(BinaryIO, stream)))
        yield from _unpacked(Stream(stream.name, raw, stream.limit), skip, depth + 1, is_named=is_named)
    elif is_tar:
        yield from _members(stream, skip, depth + 1)
    else:
        yield Entry(stream, is_named)


def _members(stream: Stream, skip: Callable[[str], object], depth: int) -> Iterator[Entry]:
    limit = stream.limit
    with reported(stream.name):
        stream.limit = LARGEST_HEADER
        archive = tarfile.open(fileobj=cast(Any, stream), mode="r|", bufsize=_CHUNK)  # noqa: SIM115
    for _ in range(MOST_MEMBERS):
        with reported(stream.name):
            stream.limit = min(limit, stream.position + LARGEST_HEADER)  # forged headers may ask for any size
            member = archive.next()
            archive.members = []  # type: ignore[attr-defined]
            stream.limit = limit
        if member is None:
            return
        base = member.name.rpartition("/")[2]
        if not member.isreg() or skip(base):
            _skip(archive, member, stream)
            continue
        file = archive.extractfile(member)
        assert file is not None
        inner = Stream(f"{stream.name}:{visible(member.name)}", cast(BinaryIO, file), limit)
        yield from _unpacked(inner, skip, depth, is_named=False)
        _skip(archive, member, stream)
    raise InputError(f"{stream.name}: expected at most {MOST_MEMBERS:,} entries, found more; repack it")


def _skip(archive: tarfile.TarFile, member: tarfile.TarInfo, stream: Stream) -> None:
    """Go to the end of a member."""
    if member.isreg():
        with reported(stream.name):
            archive.fileobj.seek(archive.offset)
