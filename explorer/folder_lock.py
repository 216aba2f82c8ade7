"""A folder that one process alone may use at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TextIO


class InUseError(Exception):
    """Another process holds the folder; `owner` is its number, or "unknown"."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


def hold(path: Path) -> TextIO:
    """Hold a folder, by a file in it that is locked until it is closed or the process ends.

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
