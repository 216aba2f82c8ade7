"""Files as lines of text: gzip or not, in bounded memory, with an error for everything that is not text."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from os import PathLike, fspath
from typing import BinaryIO, cast

from kraftcheck.traces.errors import TraceError

DEFAULT_LIMIT = 4 * 2**30
"""Bytes that a file may have once it is unpacked, unless told otherwise."""

LONGEST_LINE = 32 * 2**20
"""Bytes that a line may have."""

LARGEST_DOCUMENT = 32 * 2**20
"""Bytes that a file may have that can only be read as a whole, such as JSON."""

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK = 2**20


class Source:
    """A file that is read once, from its beginning."""

    def __init__(self, path: str | PathLike[str], *, limit_bytes: int = DEFAULT_LIMIT) -> None:
        self.file = fspath(path)
        self.line = 0
        """The number of the last line read."""
        self.ends_in_newline = True
        """Whether the last line read had an end of line."""
        self._limit = limit_bytes

    def lines(self) -> Iterator[tuple[int, str]]:
        """Return the lines with their numbers from 1, without their ends (LF or CRLF)."""
        read = 0
        stream = self._open()
        with stream:
            while raw := self._read(stream, LONGEST_LINE + 1):
                self.line += 1
                read += len(raw)
                if len(raw) > LONGEST_LINE:
                    raise self.error("one that is longer", f"a line of at most {LONGEST_LINE:,} bytes")
                if read > self._limit:
                    raise self.error("more", f"at most {self._limit:,} bytes, unpacked (the limit can be raised)")
                if self.line == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                self.ends_in_newline = raw.endswith(b"\n")
                yield self.line, self._decode(raw.rstrip(b"\r\n"))

    def document(self) -> str:
        """Return the whole text, for a format that cannot be read line by line."""
        parts: list[str] = []
        size = 0
        for _, text in self.lines():
            size += len(text) + 1
            if size > LARGEST_DOCUMENT:
                raise self.error("one that is larger", f"a file of at most {LARGEST_DOCUMENT:,} bytes in this format")
            parts.append(text)
        return "\n".join(parts)

    def beginning(self, size: int) -> str:
        """Return about `size` bytes of the beginning, whatever they are, to tell the format by."""
        with self._open() as stream:
            try:
                raw = stream.read(size)
            except (OSError, EOFError, zlib.error):
                raw = b""  # reading the lines says what is wrong
        return raw.removeprefix(_BYTE_ORDER_MARK).decode(errors="replace")

    def error(self, found: str, expected: str, *, line: int | None = None, column: int = 1) -> TraceError:
        """Return an error at a line, by default the last one read."""
        return TraceError(self.file, max(1, self.line) if line is None else line, column, found, expected)

    def at_end(self, expected: str) -> TraceError:
        """Return an error at the end of the file."""
        return self.error("the end of the file", expected, line=self.line + 1)

    def _open(self) -> BinaryIO:
        try:
            return open_unpacked(self.file)
        except OSError as error:
            found = f"one that cannot ({error.strerror})"
            raise TraceError(self.file, 1, 1, found, "a file that can be read") from None

    def _read(self, stream: BinaryIO, size: int) -> bytes:
        try:
            return stream.readline(size)
        except EOFError:
            raise self.at_end("the rest of the gzip file") from None
        except (OSError, zlib.error) as error:
            raise self.error(f"damaged data ({error})", "a whole gzip file", line=self.line + 1) from None

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            column = len(raw[: error.start].decode()) + 1
            raise self.error(f"the byte 0x{raw[error.start]:02x}", "text in UTF-8", column=column) from None


def open_unpacked(path: str | PathLike[str]) -> BinaryIO:
    """Open a file that may be gzipped, whatever its name; reading yields what it unpacks to."""
    with open(path, "rb") as stream:
        is_gzip = stream.read(2) == _GZIP_MAGIC
    if not is_gzip:
        return open(path, "rb", buffering=_CHUNK)
    unpacked = cast(io.RawIOBase, gzip.open(path))  # noqa: SIM115  (the reader around it closes it)
    return cast(BinaryIO, io.BufferedReader(unpacked, _CHUNK))
