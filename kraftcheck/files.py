"""Files that appear whole or not at all, folders that one process alone may use at a time, and where links lead."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from uuid import uuid4


def real_path(path: str | Path) -> Path:
    """Return where symbolic links lead; where they lead round in a circle, the path, which nothing can be read from.

    `Path.resolve` raises RuntimeError there, before Python 3.13.
    """
    return Path(os.path.realpath(path))


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a new file to write; then give it the name of another, so that this leads to a whole file at any time.

    Of two processes that write the same file, the later one's content counts. An exception leaves all as it was.

    Parameters
    ----------
    path
        The file to replace; it need not be there.
    durable
        Whether the content must survive a loss of power.
    """
    new = path.with_name(f".{path.name}.{uuid4().hex}.new")
    try:
        yield new
        if durable:
            sync(new)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Make a file's content, or what was created, renamed or removed in a folder, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_small(path: Path, most: int = 4 << 20) -> str:
    """Return the text of a file that people write, of at most so many bytes.

    Raises
    ------
    OSError
        Where it is larger, or cannot be read.
    UnicodeDecodeError
        Where it is not UTF-8.
    """
    with path.open("rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"expected at most {most:,} bytes, found more", str(path))
    return raw.decode()


class InUseError(Exception):
    """Another process holds the folder; `owner` is its number, or "unknown"."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


def lock_file(path: Path) -> TextIO:
    """Lock a file, and so the folder it stands for, until it is closed or the process ends.

    Parameters
    ----------
    path
        The file; made where it is not there. It holds the number of the process.

    Raises
    ------
    InUseError
        Where another process holds it.
    OSError
        Where the file cannot be made.
    """
    lock = path.open("a+", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        owner = lock.read().strip()
        lock.close()
        raise InUseError(owner or "unknown") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
