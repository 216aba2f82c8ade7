"""Bootstrap of a Spark executor: makes the project's code importable. Spark carries this module by value.

The module reaches an executor before the rest of the project, so it imports nothing of it. The code comes as a zip
through `SparkContext.addFile`. It is unpacked beside the compiled kernel's cache, under a name derived from its
content: Numba caches by path, so a machine compiles the kernel once. An executor with the same code installed uses the
installed code.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

PACKAGE_NAME = "kraftcheck"
SOURCE_ENDINGS = (".py", ".lark", ".toml")  # endings of the project's source files
USER_FOLDER = "user"  # the folder within the zip for a user's own files
FIXED_FILE_TIME = 1_000_000_000  # modification time of every file, in seconds, which Numba's cache compares

PartitionFunction = Callable[[Iterator[Any]], Iterator[Any]]


def source_files(folder: Path) -> list[tuple[str, Path]]:
    """Return the project's source files in a folder, with their relative names; links are followed."""
    found = []
    for place, _, names in os.walk(folder / PACKAGE_NAME, followlinks=True):
        found += [Path(place, name) for name in names if name.endswith(SOURCE_ENDINGS)]
    return sorted((path.relative_to(folder).as_posix(), path) for path in found)


def files_digest(files: Iterable[tuple[str, Path]]) -> str:
    """Return a digest of the names and the contents of files."""
    digest = blake2b(digest_size=16)
    for name, path in files:
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def unpacked_code_parent_folder() -> Path:
    """Return the folder for unpacked code, beside the compiled kernel's cache."""
    given = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return Path(given or Path.home() / ".cache") / "kraftcheck" / "code"


def ensure_unpacked(name: str, archive: Path | BytesIO, parents: tuple[Path, ...]) -> Path:
    """Return the folder of a zip's files; if there is none yet, unpack the zip into the first usable parent folder."""
    for parent in parents:
        folder = parent / name
        if folder.is_dir():
            if all(map(_is_trusted_folder, (parent, folder))):  # its files are executed
                return folder
            continue
        new = parent / f"{name}.{os.getpid()}.new"
        try:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.mkdir(mode=0o700)
            with zipfile.ZipFile(archive) as file:
                file.extractall(new)
            for path in new.rglob("*"):
                os.utime(path, (FIXED_FILE_TIME, FIXED_FILE_TIME))
            try:
                new.rename(folder)
            except OSError:  # another process was first
                shutil.rmtree(new, ignore_errors=True)
        except OSError:  # not writable
            continue
        return folder
    raise OSError(f"no writable folder to unpack {name} in")


def _is_trusted_folder(folder: Path) -> bool:
    found = folder.stat()
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & stat.S_IWOTH


def remote_task(
    task: str, arguments: str, archive: str, digest: str, content: bytes | None = None
) -> PartitionFunction:
    """Return the function that runs a task on an executor; `content` is the zip if Spark does not distribute it."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import json
        from importlib import import_module
        from importlib.util import find_spec

        from pyspark import SparkFiles

        code = Path(SparkFiles.get(f"{archive}.zip")) if content is None else BytesIO(content)
        folder = ensure_unpacked(
            archive, code, (unpacked_code_parent_folder(), Path(SparkFiles.getRootDirectory()) / "code")
        )
        if "kraftcheck.explorer" not in sys.modules:
            found = find_spec(PACKAGE_NAME)
            installed = None if found is None or found.origin is None else Path(found.origin).parents[1]
            if installed is None or files_digest(source_files(installed)) != digest:
                sys.path.insert(0, str(folder))
                for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE_NAME]:
                    del sys.modules[name]
        user = str(folder / USER_FOLDER)
        if user not in sys.path:
            sys.path.append(user)
        from kraftcheck.explorer.kernel_compilation import replace_unusable_cache_folder

        replace_unusable_cache_folder()
        module, _, name = task.rpartition(":")
        yield from getattr(import_module(module), name)({**json.loads(arguments), "user_files": user}, batches)

    return run
