"""Folders for resumable runs: checkpoints of searches, and output in batches.

    manifest.json      the identity of the run, and for a `Checkpoint` the valid length of its files
    lock               held by the process that uses the folder
    states.bin, ...    of a `Checkpoint`: append-only files
    done/00001.json    of a `BatchFolder`: a note for each finished batch

Data files are written first. A manifest or a note then replaces the old one atomically, so the folder is consistent at
all times. No content is trusted: links are refused, and form, digests and identity are checked before use.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Self

from kraftcheck.files import (
    UNFINISHED_FILE_PATTERN,
    LockedFolderError,
    atomic_replacement,
    lock_file,
    make_folder_refusing_link,
    remove_unfinished_files,
    require_local_path,
)
from kraftcheck.persistence import program_version
from kraftcheck.persistence.stored_files import DIGEST_BYTES, AppendOnlyFile, CorruptFileError, require_json_shape
from kraftcheck.spec.encoding import DecodingError
from kraftcheck.spec.errors import InputError, RaisedError

FORMAT_VERSION = 2
MANIFEST_FILE, LOCK_FILE, DONE_FOLDER, DATA_FILE_SUFFIX = "manifest.json", "lock", "done", ".bin"
OLD_MANIFEST_FILES = ("pipeline.json", "corpus.json", "mutation.json")  # of format 1, one for each kind of folder
CHECK_ACTIONS_OPTION = "--check-actions"  # may be left out on --resume, but not added: earlier calls were not tested
NO_CHECKPOINT_MESSAGE = "holds no checkpoint; give the folder of an earlier --checkpoint that was written"
NO_FOLDER_MESSAGE = "there is no such folder; give the folder of an earlier --checkpoint"

BatchNote = dict[str, Any]
Identity = dict[str, Any]


class LockedFolder:
    """A folder with a manifest, locked by this process."""

    SHAPE: ClassVar[BatchNote] = {"format": int, "kraftcheck": str, "written": str, "identity": dict, "checksum": str}
    """The shape of the manifest (see `require_json_shape`)."""

    NAME, USER, THERE, UNWRITABLE = "folder", "run", "there", "expected a folder that can be written to"
    """Words of error messages: kind of folder, kind of run, place of the old values, problem if unwritable."""

    OTHER: ClassVar[str]
    """The problem in the error message for a folder with another identity."""

    def __init__(self, path: Path, identity: Identity, option: str, inside: str = ".", *, alone: bool = False) -> None:
        """Lock a folder and read its manifest in the subfolder `inside`; `alone` refuses foreign files."""
        self.path, self.inner = path, path / inside
        self.identity, self._option = identity, option
        require_local_path(str(path), option)
        with self.writing():
            if path.exists() and not path.is_dir():
                raise self.error("expected a folder, found a file")
            path.mkdir(parents=True, exist_ok=True)
            if alone and not (self.inner / MANIFEST_FILE).is_file():
                self._require_alone(own=(Path(inside) / LOCK_FILE).parts[0])
            if self.inner != path:
                make_folder_refusing_link(self.inner)
            try:
                self._lock = lock_file(self.inner / LOCK_FILE)
            except LockedFolderError as error:
                problem = f"in use by another {self.USER} (process {error.owner}); wait for it or give another folder"
                raise self.error(problem) from None
        with self.closed_on_error():
            with self.writing():
                remove_unfinished_files(self.inner)
            self.manifest = self._read_manifest()

    def _require_alone(self, own: str) -> None:
        """Raise InputError for a folder without a manifest that holds files other than `own`."""
        if any((self.inner / name).exists() for name in OLD_MANIFEST_FILES):
            raise self.error(f"the {self.NAME} has format 1, this version reads {FORMAT_VERSION}; use a new one")
        strangers = {
            entry.name for entry in self.path.iterdir() if not UNFINISHED_FILE_PATTERN.fullmatch(entry.name)
        } - {own}
        if strangers:
            raise self.error(f"not a folder of an earlier run: it holds {min(strangers)}; give a new folder")

    def error(self, problem: str) -> InputError:
        """Return an InputError that names the folder and its option."""
        return InputError(f"{self._option} {self.path}: {problem}")

    def damaged(self, problem: str, name: str | None = None) -> InputError:
        """Return the error for a damaged folder or file."""
        where = "" if name is None else f"{self.inner / name}: "
        return self.error(f"the {self.NAME} is damaged: {where}{problem}")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Convert an OSError of the block into one that names the folder and its option."""
        try:
            yield
        except OSError as error:
            said = f"{self.UNWRITABLE}: {error.strerror or error}"
            raise OSError(error.errno, said, f"{self._option} {self.path}") from error

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Release the lock if an error is raised."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _read_manifest(self) -> BatchNote | None:
        """Return the content of the manifest; None if the folder has none."""
        path = self.inner / MANIFEST_FILE
        try:
            raw = path.read_bytes() if path.is_file() or not path.exists() else b""
        except FileNotFoundError:
            return None
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"it is not JSON: {error}", MANIFEST_FILE) from None
        if not isinstance(content, dict) or "format" not in content:
            raise self.damaged(f"expected the manifest of a {self.NAME}", MANIFEST_FILE)
        if content["format"] != FORMAT_VERSION:
            found = f"the {self.NAME} has format {content['format']!r}"
            raise self.error(f"{found}, this version reads {FORMAT_VERSION}; use a new one")
        try:
            if raw != manifest_bytes(content):
                raise CorruptFileError("its content has changed: its checksum is not the one noted")
            require_json_shape(content, self.SHAPE)
        except (CorruptFileError, RecursionError) as error:
            raise self.damaged(str(error), MANIFEST_FILE) from None
        return content

    def require_identity(self, manifest: BatchNote) -> None:
        """Raise InputError with the differences if a manifest belongs to another run."""
        different = list(identity_differences(manifest["identity"], self.identity, self.THERE))
        if different:
            raise self.error(f"{self.OTHER}: {'; '.join(different)}")

    def write_manifest(self, **more: Any) -> None:
        """Replace the manifest atomically."""
        content = {
            "format": FORMAT_VERSION,
            "kraftcheck": program_version(),
            "written": time.strftime("%Y-%m-%d %H:%M:%S %z"),
            "identity": self.identity,
            **more,
        }
        with self.writing(), atomic_replacement(self.inner / MANIFEST_FILE, durable=True) as new:
            new.write_bytes(manifest_bytes(content))
        self.manifest = content

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Checkpoint(LockedFolder):
    """The checkpoint folder of a search: append-only files, and the state of the search in the manifest."""

    SHAPE: ClassVar[BatchNote] = {
        **LockedFolder.SHAPE,
        "finished": bool,
        "files": {str: {"bytes": int, "digest": str}},
        "search": dict,
    }
    NAME, USER, THERE, UNWRITABLE = "checkpoint", "search", "in the checkpoint", "cannot be written"
    OTHER = "the checkpoint is of another search"

    def __init__(self, path: Path, identity: Identity, *, resume: bool, names: tuple[str, ...] = ()) -> None:
        """Open a checkpoint for resuming, or create one with files of these names."""
        if resume and not (path / MANIFEST_FILE).is_file():
            raise InputError(f"--resume {path}: {NO_CHECKPOINT_MESSAGE if path.is_dir() else NO_FOLDER_MESSAGE}")
        self.files: dict[str, AppendOnlyFile] = {}
        self.noted: BatchNote = {}
        super().__init__(path, identity, "--resume" if resume else "--checkpoint")
        with self.closed_on_error():
            if resume and self.manifest is not None:
                self._resume(self.manifest, names)
            else:
                self._begin(self.manifest, names)

    @contextmanager
    def rejecting(self) -> Iterator[None]:
        """Convert errors in a file's content into an InputError that names the folder."""
        try:
            yield
        except (CorruptFileError, DecodingError) as error:
            raise self.damaged(str(error)) from None
        except RaisedError as error:
            raise self.damaged(f"it contains an unreachable state: {error}") from None
        except InputError as error:
            raise self.error(f"{self.OTHER}: {error}") from None

    def _begin(self, manifest: BatchNote | None, names: tuple[str, ...]) -> None:
        if manifest is not None and not manifest["finished"]:
            raise self.error(
                f"holds the checkpoint of an unfinished search, written {manifest['written']}; resume it with --resume "
                f"{self.path}, or remove the folder"
            )
        with self.writing():
            (self.path / MANIFEST_FILE).unlink(missing_ok=True)
            self.manifest = None
            for name in names:
                self._open(name).clear()

    def _resume(self, manifest: BatchNote, names: tuple[str, ...]) -> None:
        """Check the version, identity and digests of a checkpoint and open its files."""
        if manifest["kraftcheck"] != program_version():
            versions = f"kraftcheck {manifest['kraftcheck']}, not by {program_version()}"
            raise self.error(f"the checkpoint was written by {versions}; start again")
        self.require_identity(manifest)
        if manifest["files"].keys() != set(names):
            expected = ", ".join(names) or "none"
            raise self.damaged(f"expected the files {expected}, found {', '.join(manifest['files'])}", MANIFEST_FILE)
        for name, noted in manifest["files"].items():
            if not (self.path / (name + DATA_FILE_SUFFIX)).is_file():
                raise self.damaged("it is missing", name + DATA_FILE_SUFFIX)
            try:
                self._open(name).restore(noted["bytes"], noted["digest"])
            except CorruptFileError as damage:
                raise self.damaged(str(damage), name + DATA_FILE_SUFFIX) from None
        self.noted = manifest["search"]

    def _open(self, name: str) -> AppendOnlyFile:
        path = self.path / (name + DATA_FILE_SUFFIX)
        file = self.files[name] = AppendOnlyFile.at(path, f"{self._option} {path}")
        return file

    def write(self, search: BatchNote, *, finished: bool) -> None:
        """Write the checkpoint: flush the files, then replace the manifest with the state of the search."""
        with self.writing():
            for file in self.files.values():
                file.sync()
        files = {name: {"bytes": file.length, "digest": file.digest} for name, file in self.files.items()}
        self.write_manifest(finished=finished, files=files, search=search)

    def finish(self) -> None:
        """Mark the checkpoint as finished, so a new search may use the folder."""
        if self.manifest is not None:
            self.write_manifest(**{**self.manifest, "finished": True})

    def close(self) -> None:
        """Close the files and release the lock."""
        for file in self.files.values():
            file.close()
        super().close()


class BatchFolder(LockedFolder):
    """An output folder that is filled in batches. A batch is valid once its note exists."""

    NOTES: ClassVar[str] = "."
    """The subfolder of the lock, the manifest and the notes."""

    OPTION: ClassVar[str] = "--out"

    LATE: ClassVar[bool] = False
    """Whether the folder belongs to no run before the first batch, so a run that does not start leaves it free."""

    def __init__(self, path: Path, identity: Identity, option: str | None = None) -> None:
        super().__init__(path, identity, option or self.OPTION, self.NOTES, alone=True)
        with self.closed_on_error():
            if self.manifest is not None:
                self.require_identity(self.manifest)
            if self.manifest is not None or not self.LATE:
                self.claim()
                for folder in (self.path, self.inner / DONE_FOLDER):
                    remove_unfinished_files(folder)

    def claim(self) -> None:
        """Make the folder that of this run."""
        if self.manifest is None:
            self.write_manifest()
        make_folder_refusing_link(self.inner / DONE_FOLDER)

    @classmethod
    def note_file(cls, path: Path, batch: int) -> Path:
        """Return the path of a batch's note."""
        return path / cls.NOTES / DONE_FOLDER / f"{batch:05}.json"

    def note_files(self) -> list[Path]:
        """Return the paths of the notes of all finished batches."""
        return sorted(path for path in (self.inner / DONE_FOLDER).glob("*.json") if path.stem.isdecimal())


def read_batch_note(path: Path, shape: Any = dict) -> BatchNote:
    """Read and validate a note; raise InputError if it is invalid."""
    try:
        found: BatchNote = json.loads(path.read_text())
        require_json_shape(found, shape)
    except (OSError, ValueError, RecursionError, CorruptFileError) as error:
        raise InputError(f"{path}: expected a note of an earlier run: {error}") from None
    return found


def write_batch_note(path: Path, content: BatchNote) -> None:
    """Write a note atomically. The last of several concurrent writers wins."""
    with atomic_replacement(path, durable=True) as new:
        new.write_text(json.dumps(content, indent=1))


def identity_differences(before: Identity, now: Identity, there: str) -> Iterator[str]:
    """Yield a clause for each difference of two identities: the value in the folder (`there`), and the value now."""
    for name, found in {**dict.fromkeys(before), **now}.items():
        was: Any = before.get(name, False if name == CHECK_ACTIONS_OPTION else None)
        if was == found or (name == CHECK_ACTIONS_OPTION and not found):
            continue
        if isinstance(was, dict) and isinstance(found, dict):
            yield from _identity_part_differences(name, was, found, there)
        else:
            yield f"{name}: {_identity_value_text(was)} {there}, now {_identity_value_text(found)}"


def _identity_part_differences(name: str, was: BatchNote, found: BatchNote, there: str) -> Iterator[str]:
    changed = [part for part in {**was, **found} if was.get(part) != found.get(part)]
    if name == "source":
        yield f"the source of the model has changed since ({', '.join(sorted(changed))})"
        return
    for constant in changed:
        (old, *_), (new, *_) = (_as_nonempty_list(one.get(constant)) for one in (was, found))
        yield f"the constant {constant}: {_identity_value_text(old)} {there}, now {_identity_value_text(new)}"


def _as_nonempty_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) and value else [value]


def _identity_value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def manifest_bytes(content: BatchNote) -> bytes:
    """Return the bytes of a manifest. They depend only on its content, so a changed byte is detected."""
    body = {name: value for name, value in content.items() if name != "checksum"}
    checksum = blake2b(json.dumps(body).encode(), digest_size=DIGEST_BYTES).hexdigest()
    return json.dumps({**body, "checksum": checksum}, indent=1).encode() + b"\n"
