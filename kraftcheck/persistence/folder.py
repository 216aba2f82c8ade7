"""Folders that a run fills and another goes on with, however the first ended.

    manifest.json      which run it is of, and for a `Checkpoint` how much of its files counts
    lock               held by the process that uses the folder
    states.bin, ...    of a `Checkpoint`: files that only grow
    done/00001.json    of a `BatchFolder`: a note for each batch that is done

Files are written first. Then a manifest or a note takes its place in one go, so what counts is whole at any time.
Nothing that is read is trusted: no link is followed, and form, digests and identity are checked before use.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Self

from kraftcheck.files import UNFINISHED, InUseError, lock_file, make_folder, remove_unfinished, replacing
from kraftcheck.persistence.growing_file import DIGEST_BYTES, GrowingFile
from kraftcheck.persistence.validation import CorruptFileError, require_shape
from kraftcheck.spec.encoding import DecodingError
from kraftcheck.spec.errors import InputError, RaisedError

FORMAT = 2
MANIFEST, LOCK, DONE, SUFFIX = "manifest.json", "lock", "done", ".bin"
FORMER = ("pipeline.json", "corpus.json", "mutation.json")  # manifests of format 1, which had a name for each use
CHECK_ACTIONS = "--check-actions"  # a search that goes on may leave it out; what was found without it was not tested
NO_CHECKPOINT = "it holds no checkpoint; expected a folder that --checkpoint was given, after the first was written"
NO_FOLDER = "there is no such folder; expected one that --checkpoint was given"

Noted = dict[str, Any]
Identity = dict[str, Any]


class Folder:
    """A folder with a manifest, locked by this process."""

    SHAPE: ClassVar[Noted] = {"format": int, "kraftcheck": str, "written": str, "identity": dict, "checksum": str}
    """The form of the manifest: see `require_shape`."""

    NAME, USER, THERE, UNWRITABLE = "folder", "run", "there", "expected a folder that can be written to"
    """What errors call the folder, who uses it, and what it has; and what they say where it cannot be written."""

    OTHER: ClassVar[str]
    """What an error says of a folder with another identity."""

    def __init__(self, path: Path, identity: Identity, option: str, inside: str = ".", *, alone: bool = False) -> None:
        """Lock a folder and read its manifest, which is `inside` it; `alone` refuses files of strangers."""
        self.path, self.inner = path, path / inside
        self.identity, self._option = identity, option
        with self.writing():
            if path.exists() and not path.is_dir():
                raise self.error("expected a folder, found a file")
            path.mkdir(parents=True, exist_ok=True)
            if alone and not (self.inner / MANIFEST).is_file():
                self._require_alone(own=(Path(inside) / LOCK).parts[0])
            if self.inner != path:
                make_folder(self.inner)
            try:
                self._lock = lock_file(self.inner / LOCK)
            except InUseError as error:
                raise self.error(f"it is in use by another {self.USER} (process {error.owner})") from None
        with self.closed_on_error():
            with self.writing():
                remove_unfinished(self.inner)
            self.manifest = self._read_manifest()

    def _require_alone(self, own: str) -> None:
        """Raise InputError where a folder without a manifest holds something besides `own`."""
        if any((self.inner / name).exists() for name in FORMER):
            raise self.error(f"the {self.NAME} has format 1; this kraftcheck reads {FORMAT}")
        strangers = {entry.name for entry in self.path.iterdir() if not UNFINISHED.fullmatch(entry.name)} - {own}
        if strangers:
            raise self.error(f"expected a folder that is new or of an earlier run, found {min(strangers)} in it")

    def error(self, problem: str) -> InputError:
        """Return an error that names the folder, and the option that it was given with."""
        return InputError(f"{self._option} {self.path}: {problem}")

    def damaged(self, problem: str, name: str | None = None) -> InputError:
        """Return the error for a folder that is damaged, in one of its files."""
        where = "" if name is None else f"{self.inner / name}: "
        return self.error(f"the {self.NAME} is damaged: {where}{problem}")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make an OSError name the folder, and the option that it was given with."""
        try:
            yield
        except OSError as error:
            said = f"{self.UNWRITABLE}: {error.strerror or error}"
            raise OSError(error.errno, said, f"{self._option} {self.path}") from error

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Let other processes have the folder where an error is raised."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _read_manifest(self) -> Noted | None:
        """Return what the manifest says, or None where there is none."""
        path = self.inner / MANIFEST
        try:
            raw = path.read_bytes() if path.is_file() or not path.exists() else b""
        except FileNotFoundError:
            return None
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"it is not JSON: {error}", MANIFEST) from None
        if not isinstance(content, dict) or "format" not in content:
            raise self.damaged(f"it is no manifest of a {self.NAME}", MANIFEST)
        if content["format"] != FORMAT:
            raise self.error(f"the {self.NAME} has format {content['format']!r}; this kraftcheck reads {FORMAT}")
        try:
            if raw != manifest_text(content):
                raise CorruptFileError("its content has changed: its checksum is not the one noted")
            require_shape(content, self.SHAPE)
        except (CorruptFileError, RecursionError) as error:
            raise self.damaged(str(error), MANIFEST) from None
        return content

    def require_identity(self, manifest: Noted) -> None:
        """Raise InputError where a manifest is of another run, naming what differs."""
        different = list(differences(manifest["identity"], self.identity, self.THERE))
        if different:
            raise self.error(f"{self.OTHER}: {'; '.join(different)}")

    def write_manifest(self, **more: Any) -> None:
        """Write the manifest in one go."""
        content = {
            "format": FORMAT,
            "kraftcheck": program_version(),
            "written": time.strftime("%Y-%m-%d %H:%M:%S %z"),
            "identity": self.identity,
            **more,
        }
        with self.writing(), replacing(self.inner / MANIFEST, durable=True) as new:
            new.write_bytes(manifest_text(content))
        self.manifest = content

    def close(self) -> None:
        """Let other processes have the folder."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Checkpoint(Folder):
    """A folder with what a search needs to go on: files that only grow, and what the manifest notes of it."""

    SHAPE: ClassVar[Noted] = {
        **Folder.SHAPE,
        "finished": bool,
        "files": {str: {"bytes": int, "digest": str}},
        "search": dict,
    }
    NAME, USER, THERE, UNWRITABLE = "checkpoint", "search", "in the checkpoint", "cannot be written"
    OTHER = "the checkpoint is of another search"

    def __init__(self, path: Path, identity: Identity, *, resume: bool, names: tuple[str, ...] = ()) -> None:
        """Open a checkpoint to go on from, or begin one; `names` are those of its files."""
        if resume and not (path / MANIFEST).is_file():
            raise InputError(f"--resume {path}: {NO_CHECKPOINT if path.is_dir() else NO_FOLDER}")
        self.files: dict[str, GrowingFile] = {}
        self.noted: Noted = {}
        super().__init__(path, identity, "--resume" if resume else "--checkpoint")
        with self.closed_on_error():
            if resume and self.manifest is not None:
                self._resume(self.manifest, names)
            else:
                self._begin(self.manifest, names)

    @contextmanager
    def rejecting(self) -> Iterator[None]:
        """Turn what is wrong with the content into an error that names the folder."""
        try:
            yield
        except (CorruptFileError, DecodingError) as error:
            raise self.damaged(str(error)) from None
        except RaisedError as error:
            raise self.damaged(f"it leads to a state that is not reached: {error}") from None
        except InputError as error:
            raise self.error(f"{self.OTHER}: {error}") from None

    def _begin(self, manifest: Noted | None, names: tuple[str, ...]) -> None:
        if manifest is not None and not manifest["finished"]:
            raise self.error(
                f"it holds the checkpoint of {manifest['written']} of an unfinished search; go on with --resume "
                f"{self.path}, or remove the folder"
            )
        with self.writing():
            (self.path / MANIFEST).unlink(missing_ok=True)
            self.manifest = None
            for name in names:
                self._open(name).clear()

    def _resume(self, manifest: Noted, names: tuple[str, ...]) -> None:
        """Open the files of a checkpoint, after checking that all is well with them."""
        if manifest["kraftcheck"] != program_version():
            raise self.error(
                f"the checkpoint was written by kraftcheck {manifest['kraftcheck']}, this is {program_version()}"
            )
        self.require_identity(manifest)
        if manifest["files"].keys() != set(names):
            expected = ", ".join(names) or "none"
            raise self.damaged(f"expected the files {expected}, found {', '.join(manifest['files'])}", MANIFEST)
        for name, noted in manifest["files"].items():
            if not (self.path / (name + SUFFIX)).is_file():
                raise self.damaged("it is missing", name + SUFFIX)
            try:
                self._open(name).restore(noted["bytes"], noted["digest"])
            except CorruptFileError as damage:
                raise self.damaged(str(damage), name + SUFFIX) from None
        self.noted = manifest["search"]

    def _open(self, name: str) -> GrowingFile:
        path = self.path / (name + SUFFIX)
        file = self.files[name] = GrowingFile.at(path, f"{self._option} {path}")
        return file

    def write(self, search: Noted, *, finished: bool) -> None:
        """Make what was appended to the files, and what is noted of the search, the checkpoint."""
        with self.writing():
            for file in self.files.values():
                file.sync()
        files = {name: {"bytes": file.length, "digest": file.digest} for name, file in self.files.items()}
        self.write_manifest(finished=finished, files=files, search=search)

    def finish(self) -> None:
        """Mark the checkpoint as finished, so that another search may begin one here."""
        if self.manifest is not None:
            self.write_manifest(**{**self.manifest, "finished": True})

    def close(self) -> None:
        """Close the files and let other processes have the folder."""
        for file in self.files.values():
            file.close()
        super().close()


class BatchFolder(Folder):
    """An output folder that is filled batch by batch. A batch counts with its note, and not before."""

    NOTES: ClassVar[str] = "."
    """The folder, in this one, of the lock, the manifest and the notes."""

    OPTION: ClassVar[str] = "--out"

    def __init__(self, path: Path, identity: Identity, option: str | None = None) -> None:
        super().__init__(path, identity, option or self.OPTION, self.NOTES, alone=True)
        with self.closed_on_error():
            if self.manifest is None:
                self.write_manifest()
            else:
                self.require_identity(self.manifest)
            make_folder(self.inner / DONE)
            for folder in (self.path, self.inner / DONE):
                remove_unfinished(folder)

    @classmethod
    def note_file(cls, path: Path, batch: int) -> Path:
        """Return the file of the note of a batch, given the folder."""
        return path / cls.NOTES / DONE / f"{batch:05}.json"

    def note_files(self) -> list[Path]:
        """Return the files of the notes of all batches that are done."""
        return sorted(path for path in (self.inner / DONE).glob("*.json") if path.stem.isdecimal())


def read_note(path: Path, shape: Any = dict) -> Noted:
    """Return the content of a note."""
    try:
        found: Noted = json.loads(path.read_text())
        require_shape(found, shape)
    except (OSError, ValueError, RecursionError, CorruptFileError) as error:
        raise InputError(f"{path}: expected a note of an earlier run: {error}") from None
    return found


def write_note(path: Path, content: Noted) -> None:
    """Write a note in one go; of two processes that write the same one, the later one's counts."""
    with replacing(path, durable=True) as new:
        new.write_text(json.dumps(content, indent=1))


def differences(before: Identity, now: Identity, there: str) -> Iterator[str]:
    """Yield a clause for each thing in which two runs differ: what it was `there`, and is now."""
    for name, found in {**dict.fromkeys(before), **now}.items():
        was: Any = before.get(name, False if name == CHECK_ACTIONS else None)
        if was == found or (name == CHECK_ACTIONS and not found):
            continue
        if isinstance(was, dict) and isinstance(found, dict):
            yield from _changed_parts(name, was, found, there)
        else:
            yield f"{name}: {_shown(was)} {there}, now {_shown(found)}"


def _changed_parts(name: str, was: Noted, found: Noted, there: str) -> Iterator[str]:
    changed = [part for part in {**was, **found} if was.get(part) != found.get(part)]
    if name == "source":
        yield f"the source of the model has changed since ({', '.join(sorted(changed))})"
        return
    for constant in changed:
        (old, *_), (new, *_) = (_listed(one.get(constant)) for one in (was, found))
        yield f"the constant {constant}: {_shown(old)} {there}, now {_shown(new)}"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) and value else [value]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def manifest_text(content: Noted) -> bytes:
    """Return a manifest's file; its text follows from its content, so that a changed byte shows."""
    body = {name: value for name, value in content.items() if name != "checksum"}
    checksum = blake2b(json.dumps(body).encode(), digest_size=DIGEST_BYTES).hexdigest()
    return json.dumps({**body, "checksum": checksum}, indent=1).encode() + b"\n"


@cache
def program_version() -> str:
    """Return the version of kraftcheck, or "unknown" where it runs without being installed."""
    from importlib.metadata import PackageNotFoundError, version  # late: it is slow to import

    try:
        return version("kraftcheck")
    except PackageNotFoundError:
        return "unknown"
