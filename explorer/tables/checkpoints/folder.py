"""The folder of a checkpoint: what a search needs to go on after its process ended, however that ended.

A checkpoint is a folder of files that only grow and a small manifest that says how much of them counts. The files are
written first, then a new manifest takes the old one's place in one go. So there is always a whole checkpoint: the last.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TextIO

from kraftcheck.explorer.checkpoints.search_identity import SearchIdentity, differences
from kraftcheck.explorer.checkpoints.shapes import Damaged, require_shape
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.tables.states.files import DIGEST_BYTES, GrowingFile
from kraftcheck.files import InUseError, lock_file, remove_unfinished, replacing
from kraftcheck.spec.encoding import DecodingError
from kraftcheck.spec.errors import InputError, RaisedError

FORMAT = 1
MANIFEST, LOCK, STATES = "manifest.json", "lock", "states"
SUFFIX = ".bin"

SHAPE = {
    "format": int,
    "kraftcheck": str,
    "written": str,
    "finished": bool,
    "identity": dict,
    "files": {str: {"bytes": int, "digest": str}},
    "search": dict,
    "checksum": str,
}
"""The form of a manifest: see `require_shape`."""

Noted = dict[str, Any]


def folder_of(options: Options) -> Path | None:
    """Return the folder in which a search keeps its checkpoint, or None."""
    if options.resume is not None and options.checkpoint not in (None, options.resume):
        raise InputError(
            f"--checkpoint {options.checkpoint}: a search that is resumed keeps its checkpoint where it is; "
            f"leave this out, or copy {options.resume}"
        )
    folder = options.checkpoint if options.resume is None else options.resume
    return None if folder is None else Path(folder)


class Checkpoint:
    """A folder with a checkpoint, locked by this process."""

    def __init__(self, folder: Path, identity: SearchIdentity, *, resume: bool, names: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.identity = identity
        self._names = names
        self.files: dict[str, GrowingFile] = {}
        self.noted: Noted = {}
        self._option = "--resume" if resume else "--checkpoint"
        if resume and not (self.folder / MANIFEST).is_file():
            raise self.error(
                "it holds no checkpoint; expected a folder that --checkpoint was given, after the first was written"
                if self.folder.is_dir()
                else "there is no such folder; expected one that --checkpoint was given"
            )
        if self.folder.exists() and not self.folder.is_dir():
            raise self.error("expected a folder, found a file")
        with self.writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked()
        try:
            with self.writing():
                remove_unfinished(self.folder)
            manifest = self._read_manifest()
            if resume and manifest is not None:
                self._take_up(manifest)
            else:
                with self.writing():
                    self._begin(manifest)
        except BaseException:
            self.close()
            raise

    def error(self, problem: str) -> InputError:
        """Return an error that names the folder, and the option that it was given with."""
        return InputError(f"{self._option} {self.folder}: {problem}")

    def damaged(self, problem: str) -> InputError:
        """Return the error for a checkpoint that is damaged."""
        return self.error(f"the checkpoint is damaged: {problem}")

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Have what is wrong with the content be an error that names the folder."""
        try:
            yield
        except (Damaged, DecodingError) as error:
            raise self.damaged(str(error)) from None
        except RaisedError as error:
            raise self.damaged(f"it leads to a state that is not reached: {error}") from None
        except InputError as error:
            raise self.error(f"the checkpoint is of another search: {error}") from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Have an OSError name the folder, and the option that it was given with."""
        try:
            yield
        except OSError as error:
            said = f"cannot be written: {error.strerror or error}"
            raise OSError(error.errno, said, f"{self._option} {self.folder}") from error

    def _locked(self) -> TextIO:
        try:
            return lock_file(self.folder / LOCK)
        except InUseError as error:
            raise self.error(f"it is in use by another search (process {error.owner})") from None

    # The manifest

    def _read_manifest(self) -> Noted | None:
        """Return what the manifest says, or None where there is none."""
        path = self.folder / MANIFEST
        try:
            raw = path.read_bytes() if path.is_file() or not path.exists() else b""
        except FileNotFoundError:
            return None
        try:
            content = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise self._damaged_file(MANIFEST, f"it is not JSON: {error}") from None
        if not isinstance(content, dict) or "format" not in content:
            raise self._damaged_file(MANIFEST, "it is no manifest of a checkpoint")
        if content["format"] != FORMAT:
            raise self.error(f"the checkpoint has format {content['format']!r}; this kraftcheck reads {FORMAT}")
        try:
            if raw != _manifest_text(content):
                raise Damaged("its content has changed: its checksum is not the one noted")
            require_shape(content, SHAPE)
        except (Damaged, RecursionError) as error:
            raise self._damaged_file(MANIFEST, str(error)) from None
        return content

    def _damaged_file(self, name: str, problem: str) -> InputError:
        return self.damaged(f"{self.folder / name}: {problem}")

    def _begin(self, manifest: Noted | None) -> None:
        """Begin a new checkpoint."""
        if manifest is not None and not manifest["finished"]:
            raise self.error(
                f"it holds the checkpoint of {manifest['written']} of an unfinished search; go on with --resume "
                f"{self.folder}, or remove the folder"
            )
        (self.folder / MANIFEST).unlink(missing_ok=True)
        for name in self._names:
            self.files[name] = self._file(name)
            self.files[name].clear()

    def _take_up(self, manifest: Noted) -> None:
        """Open the files of a checkpoint, after checking that all is well with them."""
        if manifest["kraftcheck"] != program_version():
            raise self.error(
                f"the checkpoint was written by kraftcheck {manifest['kraftcheck']}, this is {program_version()}"
            )
        different = list(differences(manifest["identity"], self.identity))
        if different:
            raise self.error(f"the checkpoint is of another search: {'; '.join(different)}")
        if manifest["files"].keys() != set(self._names):
            expected = ", ".join(self._names) or "none"
            raise self._damaged_file(MANIFEST, f"expected the files {expected}, found {', '.join(manifest['files'])}")
        for name, noted in manifest["files"].items():
            path = self.folder / (name + SUFFIX)
            if not path.is_file():
                raise self._damaged_file(path.name, "it is missing")
            self.files[name] = self._file(name)
            try:
                self.files[name].restore(noted["bytes"], noted["digest"])
            except Damaged as damage:
                raise self._damaged_file(path.name, str(damage)) from None
        self.noted = manifest["search"]

    def _file(self, name: str) -> GrowingFile:
        path = self.folder / (name + SUFFIX)
        return GrowingFile.at(path, f"{self._option} {path}")

    def write(self, search: Noted, *, finished: bool) -> None:
        """Make what was appended to the files, and what is noted of the search, the checkpoint."""
        with self.writing():
            for file in self.files.values():
                file.sync()
        self._write_manifest(
            {
                "format": FORMAT,
                "kraftcheck": program_version(),
                "written": time.strftime("%Y-%m-%d %H:%M:%S %z"),
                "finished": finished,
                "identity": self.identity,
                "files": {name: {"bytes": file.length, "digest": file.digest} for name, file in self.files.items()},
                "search": search,
            }
        )

    def finish(self) -> None:
        """Note that the search is over: another may begin a checkpoint here. What the last one holds stays as it is."""
        manifest = self._read_manifest()
        if manifest is not None:
            self._write_manifest({**manifest, "finished": True})

    def _write_manifest(self, content: Noted) -> None:
        with self.writing(), replacing(self.folder / MANIFEST, durable=True) as new:
            new.write_bytes(_manifest_text(content))

    def close(self) -> None:
        """Close the files and let other processes have the folder."""
        for file in self.files.values():
            file.close()
        self._lock.close()


def _manifest_text(content: Noted) -> bytes:
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
