"""Disks of Kafka's controllers and brokers, in folders and tarballs: metadata log, snapshots, quorum-state."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np

from kraftcheck.files import real_path
from kraftcheck.spec.errors import InputError
from kraftcheck.validation.records import (
    BATCH_HEADER,
    MOST_BATCHES,
    BatchScan,
    BatchScanner,
    KRaftVersion,
    MalformedBytesError,
    SnapshotHeader,
    Voter,
    VotersRecord,
    starts_with_batch,
)

DEFAULT_LIMIT_BYTES = 64 << 30
"""Default limit on the unpacked size of a tarball, in bytes."""
MOST_FILES = 100_000
DEEPEST_TARBALL = 4
"""Tarballs in tarballs."""
SMALL_FILE_BYTES = 1 << 20
"""Maximum size of quorum-state and meta.properties."""

PARTITION_FOLDER = "__cluster_metadata-0"
META_PROPERTIES_FILE = "meta.properties"
_ARCHIVE_SEPARATOR = "\0"
"""Between the name of a tarball and a name in it."""
_SINGLE_FILE_MARK = _ARCHIVE_SEPARATOR * 2
"""Behind the name of a segment or a snapshot that is named alone."""
_SEGMENT_NAME = re.compile(r"(\d{20})\.log")
_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_TARBALL_NAME = re.compile(r".+\.(tar|tgz|tar\.gz)")
_PARTITION_FILE_NAME = re.compile(rf"{_SEGMENT_NAME.pattern}|{_SNAPSHOT_NAME.pattern}|quorum-state|meta\.properties")
_NON_PARTITION_FILE_NAME = re.compile(r"(?!\d{20}|\.).+", re.DOTALL)
"""The files to be read in a folder that is no partition: any of them may be a tarball."""
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\u00a0-\ud7ff]")


@dataclass(frozen=True)
class QuorumState:
    """The file quorum-state; an id is -1 where there is none."""

    epoch: int
    leader: int
    voted: int
    voted_directory: str
    version: int
    voters: tuple[int, ...] = ()
    """The voters of data version 0."""


@dataclass(frozen=True)
class MetadataSnapshot:
    """A snapshot: its id, and the control records in it."""

    offset: int
    epoch: int
    file: str
    scan: BatchScan

    @property
    def voters(self) -> tuple[Voter, ...] | None:
        """The voter set, if the snapshot has one."""
        return next((one.body.voters for one in self.scan.controls if isinstance(one.body, VotersRecord)), None)

    @property
    def version(self) -> int | None:
        """The value of kraft.version, if the snapshot has one."""
        return next((one.body.version for one in self.scan.controls if isinstance(one.body, KRaftVersion)), None)

    @property
    def time(self) -> int | None:
        """Time of the last record that the snapshot contains, in ms."""
        return next((one.body.time for one in self.scan.controls if isinstance(one.body, SnapshotHeader)), None)


@dataclass(frozen=True)
class NonLogFileProblem:
    """A problem of a file that is not a log or a snapshot."""

    file: str
    message: str


@dataclass
class ReplicaDisk:
    """The metadata partition of one replica."""

    path: str
    node_id: int | None = None
    directory_id: str = ""
    cluster_id: str = ""
    quorum_state: QuorumState | None = None
    log: BatchScan = field(default_factory=BatchScan)
    files: list[str] = field(default_factory=list)
    """The segments, in order of their offsets."""
    starts: list[int] = field(default_factory=list)
    """The first offsets of the segments, from their names."""
    snapshots: list[MetadataSnapshot] = field(default_factory=list)
    """By offset and epoch."""
    problems: list[NonLogFileProblem] = field(default_factory=list)
    is_alone: bool = False
    """Whether it is a single named file, and other files of the disk are unknown."""

    @property
    def name(self) -> str:
        """The node's number, or the path where it is unknown."""
        return f"node {self.node_id}" if self.node_id is not None else self.path

    @property
    def start(self) -> int:
        """First offset of the log."""
        return int(self.log.batches["base"][0]) if len(self.log.batches) else self.end

    @property
    def end(self) -> int:
        """Offset behind the last batch."""
        if len(self.log.batches):
            return int(self.log.batches["last"][-1]) + 1
        return self.starts[-1] if self.starts else 0

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch, or of the last snapshot of an empty log."""
        if len(self.log.batches):
            return int(self.log.batches["epoch"][-1])
        return self.snapshots[-1].epoch if self.snapshots else 0

    @cached_property
    def voters(self) -> list[tuple[int, tuple[Voter, ...], str]]:
        """Voter sets by the offset from which each is in force, with the file of each."""
        found = [(one.offset - 1, one.voters, one.file) for one in self.snapshots if one.voters is not None]
        bodies = ((one, one.body) for one in self.log.controls)
        found += [
            (one.offset, body.voters, self.files[one.file]) for one, body in bodies if isinstance(body, VotersRecord)
        ]
        return _values_at_changes(found)

    @cached_property
    def versions(self) -> list[tuple[int, int, str]]:
        """The values of kraft.version, likewise."""
        found = [(one.offset - 1, one.version, one.file) for one in self.snapshots if one.version is not None]
        bodies = ((one, one.body) for one in self.log.controls)
        found += [
            (one.offset, body.version, self.files[one.file]) for one, body in bodies if isinstance(body, KRaftVersion)
        ]
        return _values_at_changes(found)

    def batch_at(self, offset: int) -> np.void | None:
        """Return the batch that holds an offset."""
        place = int(np.searchsorted(self.log.batches["base"], offset, "right")) - 1
        if place < 0 or self.log.batches["last"][place] < offset:
            return None
        return cast(np.void, self.log.batches[place])


_T = TypeVar("_T")


def _values_at_changes(found: list[tuple[int, _T, str]]) -> list[tuple[int, _T, str]]:
    """Return values in order of their offsets, each where it replaces another one."""
    ordered = sorted(found, key=lambda one: one[0])
    return [one for before, one in zip([None, *ordered], ordered, strict=False) if not before or before[1] != one[1]]


@dataclass(frozen=True)
class _OpenableDiskFile:
    label: str
    open: Callable[[], BinaryIO]


def _file_opener(path: Path) -> Callable[[], BinaryIO]:
    return lambda: path.open("rb")


def escape_unprintable(text: str) -> str:
    """Escape control characters of a name from a tarball or a file."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text[:300])


class _BoundedFile(io.RawIOBase):
    """A file of a tarball that is read in small parts, up to a limit: headers may ask for any size."""

    def __init__(self, stream: BinaryIO, name: str, limit: int) -> None:
        self._stream, self._name, self._limit = stream, name, limit

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= 32 << 20:
            raise InputError(f"{self._name}: expected a tarball with headers of at most 32 MiB, found more; repack it")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        place = self._stream.tell() if whence == os.SEEK_CUR else 0
        if place + offset > self._limit:
            raise InputError(f"{self._name}: expected at most {self._limit:,} bytes, unpacked, found more; split it")
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _unpack_if_gzipped(stream: BinaryIO, name: str, limit: int) -> _BoundedFile:
    """Return a possibly gzipped stream, unpacked."""
    magic = stream.read(2)
    stream.seek(0)
    return _BoundedFile(cast(BinaryIO, gzip.GzipFile(fileobj=stream)) if magic == b"\x1f\x8b" else stream, name, limit)


_DAMAGE_ERRORS = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError, OverflowError)


@contextmanager
def _damage_as_input_error(name: str) -> Iterator[None]:
    """Turn errors of a file's content into InputError."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{name}: not found; name a data folder or a tarball of data folders") from None
    except MalformedBytesError as error:
        raise InputError(
            f"{name}: expected the log of a cluster's metadata, found {error}; leave the file out"
        ) from None
    except _DAMAGE_ERRORS as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name}: cannot be read: {escape_unprintable(reason)}; copy the file again") from None


def _is_tar(stream: BinaryIO, name: str) -> bool:
    """Whether a file begins as a tarball does, gzipped or not."""
    try:
        block = _unpack_if_gzipped(stream, name, DEFAULT_LIMIT_BYTES).read(512)
    except _DAMAGE_ERRORS:
        block = b""
    finally:
        stream.seek(0)
    return block[257:262] == b"ustar"


class _FileCollector:
    """Finds the files to be read, in folders and tarballs."""

    def __init__(self, limit: int, stack: ExitStack) -> None:
        self._limit, self._stack = limit, stack
        self.folders: dict[str, dict[str, _OpenableDiskFile]] = {}
        self.order: list[tuple[str, str]] = []

    def add(self, folder: str, name: str, file: _OpenableDiskFile) -> None:
        if len(self.order) >= MOST_FILES:
            raise InputError(f"{file.label}: expected at most {MOST_FILES:,} files; name fewer folders")
        if name not in self.folders.setdefault(folder, {}):
            self.order.append((folder, name))
        self.folders[folder][name] = file

    def path(self, path: Path) -> None:
        """Collect the files of a folder or a tarball."""
        name = escape_unprintable(str(path))
        with _damage_as_input_error(name):
            if path.is_dir():
                self._folder(path)
                return
            if not path.is_file() and path.exists():
                raise InputError(f"{name}: expected a folder or a tarball, found a device or a pipe; name a folder")
            with path.open("rb") as stream:
                found = _is_tar(stream, name)
                base = stream.read(8)
            if is_record_batch_file_by_content(path):
                known = path.name if _PARTITION_FILE_NAME.fullmatch(path.name) else f"{int.from_bytes(base):020}.log"
                self.add(
                    f"{real_path(path)}{_SINGLE_FILE_MARK}/{PARTITION_FOLDER}",
                    known,
                    _OpenableDiskFile(name, _file_opener(path)),
                )
                return
            if not found:
                raise InputError(f"{name}: expected a data folder or a tarball of data folders; name one")
            self._tarball(_file_opener(path), name, str(real_path(path)), 1)

    def _folder(self, path: Path) -> None:
        for where, _, names in os.walk(path, onerror=_refuse_unlistable_partition):
            folder, is_partition = str(real_path(where)), _is_metadata_partition(where, names)
            wanted = _PARTITION_FILE_NAME if is_partition else _NON_PARTITION_FILE_NAME
            for name in sorted(filter(wanted.fullmatch, names)):
                file = Path(where, name)
                if file.is_file() and not file.is_symlink():
                    self._found(file, folder)

    def _found(self, file: Path, folder: str) -> None:
        label = escape_unprintable(str(file))
        if _PARTITION_FILE_NAME.fullmatch(file.name):
            self.add(folder, file.name, _OpenableDiskFile(label, _file_opener(file)))
            return
        with _damage_as_input_error(label), file.open("rb") as stream:
            found = _is_tar(stream, label)
        if found:
            self._tarball(_file_opener(file), label, str(real_path(file)), 1)

    def _tarball(self, opened: Callable[[], BinaryIO], label: str, key: str, depth: int) -> None:
        """Collect the files of a tarball, without unpacking it to disk."""
        if depth > DEEPEST_TARBALL:
            raise InputError(f"{label}: expected at most {DEEPEST_TARBALL} tarballs in one another; unpack it")
        with _damage_as_input_error(label):
            unpacked = _unpack_if_gzipped(self._stack.enter_context(opened()), label, self._limit)
            archive = tarfile.open(fileobj=unpacked, mode="r:")  # noqa: SIM115
            for number, member in enumerate(archive):
                if number > 10 * MOST_FILES:
                    raise InputError(f"{label}: expected at most {10 * MOST_FILES:,} entries; repack the data folders")
                if member.isreg():
                    self._member(partial(_open_archived_file, archive, member), member.name, label, key, depth)
            _require_complete_tarball(unpacked, archive.offset, label)

    def _member(self, opened: Callable[[], BinaryIO], name: str, label: str, key: str, depth: int) -> None:
        place = PurePosixPath("/", name)
        inner = f"{label}:{escape_unprintable(str(place)[1:])}"
        if ".." in place.parts:
            return
        if _PARTITION_FILE_NAME.fullmatch(place.name):
            self.add(f"{key}{_ARCHIVE_SEPARATOR}{place.parent}", place.name, _OpenableDiskFile(inner, opened))
        elif _TARBALL_NAME.fullmatch(place.name) and _is_tar(opened(), inner):
            self._tarball(opened, inner, f"{key}{_ARCHIVE_SEPARATOR}{place}", depth + 1)


def _open_archived_file(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO:
    found = archive.extractfile(member)
    assert found is not None
    return cast(BinaryIO, found)


def _require_complete_tarball(stream: _BoundedFile, offset: int, label: str) -> None:
    """Raise InputError unless a tarball has an end, which tarfile does not require, and gzip's checksum is right."""
    stream.seek(offset)
    block = stream.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE or block.strip(b"\0"):
        found = "a damaged header" if block else "none"
        raise InputError(f"{label}: expected the end of a tarball at byte {offset}, found {found}; copy the file again")
    while stream.read(1 << 20):
        stream.seek(0, os.SEEK_CUR)  # compares the place with the limit


def _refuse_unlistable_partition(error: OSError) -> None:
    """Refuse a metadata partition that cannot be listed; other folders, such as lost+found, do not matter."""
    name = escape_unprintable(str(error.filename))
    if Path(name).name == PARTITION_FOLDER:
        raise InputError(f"{name}: cannot be read: {error.strerror}; copy it, or read it as its owner")


def _is_metadata_partition(folder: str, names: Iterable[str]) -> bool:
    """Whether files are those of the metadata partition: other partitions have segments alone."""
    if PurePosixPath(folder.rpartition(_ARCHIVE_SEPARATOR)[2]).name == PARTITION_FOLDER:
        return any(name != META_PROPERTIES_FILE for name in names)
    return any(name == "quorum-state" or _SNAPSHOT_NAME.fullmatch(name) for name in names)


def may_hold_disk_files(path: str | Path) -> bool:
    """Whether a path is, or holds, a replica's metadata partition, or a folder or tarball that cannot be read."""
    try:
        with ExitStack() as stack:
            collector = _FileCollector(DEFAULT_LIMIT_BYTES, stack)
            collector.path(Path(path))
            return any(_is_metadata_partition(folder, names) for folder, names in collector.folders.items())
    except InputError:
        if not os.path.isfile(path):
            return os.path.isdir(path)
        with _damage_as_input_error(str(path)), open(path, "rb") as stream:
            return _is_tar(stream, str(path))


def is_record_batch_file_by_content(path: Path) -> bool:
    """Whether a file is a segment or a snapshot by its content: it begins with a batch."""
    if not path.is_file():
        return False
    with _damage_as_input_error(str(path)), path.open("rb") as stream:
        return starts_with_batch(stream.read(BATCH_HEADER.size))


def read_disks(paths: Iterable[str | Path], *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> list[ReplicaDisk]:
    """Read the disks in folders and tarballs, by node id."""
    disks: list[ReplicaDisk] = []
    room, seen = MOST_BATCHES, set[str]()
    for path in paths:
        with ExitStack() as stack:
            collector = _FileCollector(limit_bytes, stack)
            collector.path(Path(path))
            found = _read_collected_disks(collector, room, seen)
        room -= sum(len(disk.log.batches) for disk in found)
        if not any(_is_metadata_partition(folder, names) for folder, names in collector.folders.items()):
            name = escape_unprintable(str(path))
            raise InputError(
                f"{name}: expected a folder {PARTITION_FOLDER}, found none; name a data folder of a controller"
            )
        disks += found
    return sorted(disks, key=lambda disk: (disk.node_id is None, disk.node_id or 0, disk.path))


def _read_collected_disks(collector: _FileCollector, room: int, seen: set[str]) -> list[ReplicaDisk]:
    """Read the collected partitions that were not seen, files in the order of the archives.

    A seek backwards would unpack an archive again.
    """
    folders = {folder: names for folder, names in collector.folders.items() if folder not in seen}
    partitions = {folder: names for folder, names in folders.items() if _is_metadata_partition(folder, names)}
    seen.update(partitions)
    segments = {folder: sorted(filter(_SEGMENT_NAME.fullmatch, names)) for folder, names in partitions.items()}
    contents: dict[tuple[str, str], bytes | BatchScan] = {}
    for folder, name in collector.order:
        file = collector.folders[folder][name]
        if not name.endswith((".log", ".checkpoint")):
            contents[folder, name] = _read_small_file(file)
        elif folder in partitions:
            scanner = BatchScanner(room)
            with _damage_as_input_error(file.label), file.open() as stream:
                scanner.read(stream, segments[folder].index(name) if name.endswith(".log") else 0)
            scan = contents[folder, name] = scanner.finish()
            room -= len(scan.batches)
    return [_build_disk(folder, names, segments[folder], contents) for folder, names in partitions.items()]


def _build_disk(
    folder: str,
    names: dict[str, _OpenableDiskFile],
    segments: list[str],
    contents: dict[tuple[str, str], bytes | BatchScan],
) -> ReplicaDisk:
    """Build a disk from its files; meta.properties is in the folder above, or beside the segments."""
    name, file = next(iter(names.items()))
    disk = ReplicaDisk(file.label.removesuffix(name).rstrip("/:"), is_alone=_SINGLE_FILE_MARK in folder)
    _fill_meta_properties(disk, folder, contents)
    if isinstance(raw := contents.get((folder, "quorum-state")), bytes):
        _fill_quorum_state(disk, names["quorum-state"].label, raw)
    scans = [contents[folder, segment] for segment in segments]
    for segment, scan in zip(segments, scans, strict=True):
        assert isinstance(scan, BatchScan)
        disk.files.append(names[segment].label)
        disk.starts.append(int(segment[:20]))
        disk.log.controls += scan.controls
        disk.log.faults += scan.faults
        disk.log.broken += scan.broken
    if scans:
        disk.log.batches = np.concatenate([scan.batches for scan in scans if isinstance(scan, BatchScan)])
    for name in sorted(names):
        scan = contents[folder, name]
        if isinstance(scan, BatchScan) and (found := _SNAPSHOT_NAME.fullmatch(name)):
            disk.snapshots.append(MetadataSnapshot(int(found[1]), int(found[2]), names[name].label, scan))
    return disk


def _read_small_file(file: _OpenableDiskFile) -> bytes:
    with _damage_as_input_error(file.label), file.open() as stream:
        raw = stream.read(SMALL_FILE_BYTES + 1)
    if len(raw) > SMALL_FILE_BYTES:
        raise InputError(f"{file.label}: expected at most {SMALL_FILE_BYTES:,} bytes, found more; copy the file again")
    return raw


def _fill_meta_properties(disk: ReplicaDisk, folder: str, contents: dict[tuple[str, str], bytes | BatchScan]) -> None:
    container, separator, inner = folder.rpartition(_ARCHIVE_SEPARATOR)
    above = str(PurePosixPath(inner).parent)
    raw = contents.get((container + separator + above, META_PROPERTIES_FILE)) or contents.get(
        (folder, META_PROPERTIES_FILE)
    )
    if raw is None and not separator and Path(above, META_PROPERTIES_FILE).is_file():
        raw = _read_small_file(
            _OpenableDiskFile(
                escape_unprintable(f"{above}/{META_PROPERTIES_FILE}"), _file_opener(Path(above, META_PROPERTIES_FILE))
            )
        )
    if not isinstance(raw, bytes):
        return
    lines = raw.decode(errors="replace").splitlines()
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!"))]
    found = {key.strip(): escape_unprintable(value.strip().replace("\\", "")) for key, value in pairs}
    number = found.get("node.id", found.get("broker.id", ""))
    if re.fullmatch(r"[0-9]{1,9}", number):
        disk.node_id = int(number)
    else:
        disk.problems.append(
            NonLogFileProblem(
                f"{disk.path}/{META_PROPERTIES_FILE}", f"expected node.id to be a number, found {number!r}"
            )
        )
    disk.directory_id = found.get("directory.id", "")
    disk.cluster_id = found.get("cluster.id", "")


def _fill_quorum_state(disk: ReplicaDisk, file: str, raw: bytes) -> None:
    try:
        found: Any = json.loads(raw)
        numbers = [found["leaderEpoch"], found.get("leaderId", -1), found.get("votedId", -1), found["data_version"]]
        if not all(type(number) is int and -1 <= number < 1 << 31 for number in numbers):
            raise ValueError("a number out of its range")
        epoch, leader, voted, version = numbers
        voters = tuple(int(one["voterId"]) for one in found.get("currentVoters") or ())
        directory = escape_unprintable(str(found.get("votedDirectoryId", "")))
        disk.quorum_state = QuorumState(epoch, leader, voted, directory, version, voters)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else escape_unprintable(str(error))
        disk.problems.append(NonLogFileProblem(file, f"expected a quorum-state of Kafka, found {reason}"))
