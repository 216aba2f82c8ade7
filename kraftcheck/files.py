"""Atomic replacement of files, and safe access to folders that other users may have written to."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TextIO
from uuid import uuid4

from kraftcheck.spec.errors import InputError

LINK_REFUSED_MESSAGE = "found a link, which is not followed; remove it"
_TEMPORARY_PREFIX, _OWNER_FILE = "kraftcheck-", "owner"
UNFINISHED_FILE_PATTERN = re.compile(r"\..+\.[0-9a-f]{32}\.new")
"""The temporary names of `atomic_replacement`; a killed process leaves them behind."""


_URI_SCHEME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_uri(name: str) -> bool:
    """Whether a name is a URI, such as `s3a://bucket/out`, rather than a path."""
    return _URI_SCHEME_PATTERN.match(name) is not None


def require_local_path(name: str, option: str = "", fix: str = "mount the storage, or copy the files") -> None:
    """Raise InputError for a URI, such as `s3a://bucket/out`, which would be taken for a relative path."""
    if is_uri(name):
        said = "expected a path in the file system of this machine, found a URI"
        raise InputError(f"{option} {name}: {said}; {fix}".lstrip())


def real_path(path: str | Path) -> Path:
    """Resolve symbolic links, without an error for a cycle of links.

    Before Python 3.13 `Path.resolve` raises RuntimeError for a cycle.
    """
    return Path(os.path.realpath(path))


@contextmanager
def atomic_replacement(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write to; then rename it to `path`, so `path` is a complete file at all times.

    The last of several concurrent writers wins. An exception leaves `path` unchanged.
    """
    new = path.with_name(f".{path.name}.{uuid4().hex}.new")
    try:
        yield new
        if durable:
            fsync_path(new)
        new.replace(path)
    except BaseException as error:
        new.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(new)):
            error.filename = str(path)
        raise
    if durable:
        fsync_path(path.parent)


def remove_unfinished_files(folder: Path) -> None:
    """Remove the temporary files of `atomic_replacement` that killed processes left in a folder."""
    for path in folder.iterdir():
        if UNFINISHED_FILE_PATTERN.fullmatch(path.name):
            path.unlink(missing_ok=True)


def fsync_path(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to disk with fsync."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_small_text_file(path: Path, most: int = 4 << 20) -> str:
    """Return the text of a file of at most `most` bytes."""
    with path.open("rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, f"expected at most {most:,} bytes, found more", str(path))
    return raw.decode()


def read_text_file(path: Path, what: str) -> str:
    """Return the text of a small text file, such as a scenario; raise InputError if it cannot be read."""
    try:
        return read_small_text_file(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected a {what}, found bytes that are not UTF-8") from None


def open_refusing_link(path: Path) -> int:
    """Open a file in an output folder for reading and writing; create it if it is missing.

    Refuse a link, which could overwrite a file outside of the folder.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR):
            raise InputError(
                f"{path}: expected a file, {'found a folder' if path.is_dir() else LINK_REFUSED_MESSAGE}"
            ) from None
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise InputError(
            f"{path}: expected a file, {LINK_REFUSED_MESSAGE if found.st_nlink > 1 else 'found a device or a pipe'}"
        )
    return descriptor


def make_folder_refusing_link(path: Path) -> None:
    """Create a folder in an output folder if it is missing."""
    try:
        path.mkdir()
    except FileExistsError:
        if path.is_symlink() or not path.is_dir():
            raise InputError(
                f"{path}: expected a folder, {LINK_REFUSED_MESSAGE if path.is_symlink() else 'found a file'}"
            ) from None


def remove_path(path: Path) -> None:
    """Remove a file, a folder with its content, or a link, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def folder_distrust_reason(folder: Path) -> str | None:
    """Return the reason why another user could have written to a folder or its files; None if no other user could.

    Skip the subfolders of a folder that only its owner can enter: they may hold thousands of files.
    """
    is_closed = not folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH)
    inside = islice(os.walk(folder), 1 if is_closed else None)
    paths = (os.path.join(where, name) for where, folders, files in inside for name in folders + files)
    for path in chain([str(folder)], paths):
        with suppress(FileNotFoundError):  # replaced by another process meanwhile
            found = os.stat(path)
            if found.st_uid not in (0, os.geteuid()):
                return f"{path} belongs to the user {found.st_uid}"
            is_private = found.st_gid == found.st_uid  # the user's own group
            if not is_closed and found.st_mode & (stat.S_IWOTH if is_private else stat.S_IWOTH | stat.S_IWGRP):
                return f"other users can write to {path}"
    return None


class LockedFolderError(Exception):
    """Another process holds the lock; `owner` is its process id or "unknown"."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self.owner = owner


def lock_file(path: Path) -> TextIO:
    """Lock a file until it is closed or the process ends. The lock stands for the file's folder."""
    lock = os.fdopen(open_refusing_link(path), "r+", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = lock.read(20).strip()
        lock.close()
        raise LockedFolderError(owner or "unknown") from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


class TemporaryFolder:
    """A temporary folder. If the process is killed, the next temporary folder's creation removes this one."""

    def __init__(self) -> None:
        for path in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY_PREFIX}*"):
            _remove_orphaned_folder(path)
        self.path = Path(tempfile.mkdtemp(prefix=_TEMPORARY_PREFIX))
        self._lock = lock_file(self.path / _OWNER_FILE)

    @contextmanager
    def made_within(self) -> Iterator[None]:
        """Direct the temporary files of other modules into the folder."""
        before, tempfile.tempdir = tempfile.tempdir, str(self.path)
        try:
            yield
        finally:
            tempfile.tempdir = before

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_orphaned_folder(path: Path) -> None:
    """Remove a temporary folder of the same user whose process has ended."""
    with suppress(OSError, InputError, LockedFolderError):
        if not path.is_symlink() and path.stat().st_uid == os.getuid() and (path / _OWNER_FILE).is_file():
            lock = lock_file(path / _OWNER_FILE)
            shutil.rmtree(path, ignore_errors=True)
            lock.close()
