"""The logs and disks of a cluster, recognized by their content, with the events of each node in order.

Files in folders, tarballs and gzip streams are read once from front to back in bounded memory.
"""

from __future__ import annotations

import os
import re
import tarfile
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from gzip import BadGzipFile, GzipFile
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from kraftcheck.processes import machine_memory_bytes
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import escape_invisible, truncate_text
from kraftcheck.validation.event_stream import is_event_stream, read_event_stream
from kraftcheck.validation.events import Event, EventKind
from kraftcheck.validation.log4j import DEFAULT_PATTERN, events_of_lines, line_regex_of_log4j_pattern, text_behind_nul
from kraftcheck.validation.replay_state import count_events_before_replay

LONGEST_LINE = 32 << 20
"""Maximum length of a line, in bytes."""

LARGEST_TAR_HEADER = 16 << 20
"""Maximum size of a tarball's headers of one member, in bytes."""

DEEPEST_ARCHIVE = 4
"""Tarballs and gzip streams in one another."""

MOST_MEMBERS = 1_000_000

_CHUNK_BYTES = 1 << 20


class FileStream:
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
        with damage_as_input_error(self.name):
            return self._raw.read(size)

    def lines(self) -> Iterator[str]:
        """Yield the lines without their ends; bytes that are not UTF-8 become U+FFFD."""
        rest, number = b"", 1
        while chunk := self.read(_CHUNK_BYTES):
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


class FileEntry(NamedTuple):
    """A file to be recognized; its stream is valid until the next entry."""

    stream: FileStream
    is_named: bool  # the user named this very file


@contextmanager
def damage_as_input_error(name: str) -> Iterator[None]:
    """Turn errors of a damaged file into InputError."""
    try:
        yield
    except EOFError:
        raise InputError(f"{name}: cannot be read: its gzip stream ends too early; copy the file again") from None
    except (BadGzipFile, zlib.error, tarfile.TarError) as error:
        raise InputError(f"{name}: cannot be read: {escape_invisible(str(error))}; copy the file again") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}; copy the file again") from None


def file_entries(path: Path, limit: int, skip: Callable[[str], object]) -> Iterator[FileEntry]:
    """Yield the files of a path in order of their names; `skip` tells which names to leave out of folders.

    Links and devices in folders and tarballs are left out.
    """
    name = escape_invisible(str(path))
    if path.is_dir():
        for folder, folders, names in os.walk(path):
            folders.sort()
            for one in sorted(names):
                file = Path(folder, one)
                if not skip(one) and not file.is_symlink() and file.is_file():
                    yield from _open_entries(file, escape_invisible(str(file)), limit, skip, is_named=False)
    elif path.is_file():
        yield from _open_entries(path, name, limit, skip, is_named=True)
    elif path.exists():
        raise InputError(f"{name}: expected a file or a folder, found a device or a pipe; name a file")
    else:
        raise InputError(f"{name}: not found; name a log file, a data folder, or a folder of them")


def _open_entries(
    path: Path, name: str, limit: int, skip: Callable[[str], object], *, is_named: bool
) -> Iterator[FileEntry]:
    with damage_as_input_error(name):
        file = path.open("rb", buffering=_CHUNK_BYTES)
    with file:
        yield from _unpacked_entries(FileStream(name, file, limit), skip, 0, is_named=is_named)


def _unpacked_entries(
    stream: FileStream, skip: Callable[[str], object], depth: int, *, is_named: bool
) -> Iterator[FileEntry]:
    """Yield a stream, unpacked if it is gzipped, or the members of a tarball."""
    is_gzip = stream.peek(2) == b"\x1f\x8b"
    is_tar = not is_gzip and stream.peek(512)[257:262] == b"ustar"
    if (is_gzip or is_tar) and depth >= DEEPEST_ARCHIVE:
        raise InputError(f"{stream.name}: expected at most {DEEPEST_ARCHIVE} archives in one another; unpack it")
    if is_gzip:
        raw = cast(BinaryIO, GzipFile(fileobj=cast(BinaryIO, stream)))
        yield from _unpacked_entries(FileStream(stream.name, raw, stream.limit), skip, depth + 1, is_named=is_named)
    elif is_tar:
        yield from _tarball_members(stream, skip, depth + 1)
    else:
        yield FileEntry(stream, is_named)


def _tarball_members(stream: FileStream, skip: Callable[[str], object], depth: int) -> Iterator[FileEntry]:
    limit = stream.limit
    with damage_as_input_error(stream.name):
        stream.limit = LARGEST_TAR_HEADER
        archive = tarfile.open(fileobj=cast(Any, stream), mode="r|", bufsize=_CHUNK_BYTES)  # noqa: SIM115
    for _ in range(MOST_MEMBERS):
        with damage_as_input_error(stream.name):
            stream.limit = min(limit, stream.position + LARGEST_TAR_HEADER)  # forged headers may ask for any size
            member = archive.next()
            archive.members = []  # type: ignore[attr-defined]
            stream.limit = limit
        if member is None:
            return
        base = member.name.rpartition("/")[2]
        if not member.isreg() or skip(base):
            _seek_end_of_member(archive, member, stream)
            continue
        file = archive.extractfile(member)
        assert file is not None
        inner = FileStream(f"{stream.name}:{escape_invisible(member.name)}", cast(BinaryIO, file), limit)
        yield from _unpacked_entries(inner, skip, depth, is_named=False)
        _seek_end_of_member(archive, member, stream)
    raise InputError(f"{stream.name}: expected at most {MOST_MEMBERS:,} entries, found more; repack it")


def _seek_end_of_member(archive: tarfile.TarFile, member: tarfile.TarInfo, stream: FileStream) -> None:
    """Go to the end of a member."""
    if member.isreg():
        with damage_as_input_error(stream.name):
            archive.fileobj.seek(archive.offset)


DEFAULT_LIMIT_BYTES = 64 << 30
"""Default limit on the unpacked size of a file, in bytes."""

MEMORY_BYTES_AN_EVENT = 2048
"""Memory of an event and of its part of the replay."""

HEAD_BYTES = 1 << 16
"""Bytes of a file that decide whether it is a log."""

MESSAGE_KINDS = frozenset({EventKind.REQUEST, EventKind.RESPONSE, EventKind.IGNORED, EventKind.SEND, EventKind.ANSWER})
"""Kinds of events that only DEBUG or TRACE shows; without them a log cannot be replayed."""

_KAFKA_VERSION_PATTERN = re.compile(r"(?:Kafka version: |clientSoftwareVersion=')(\d+\.\d+[\w.-]{0,20})")
_DISK_FILE_NAME_PATTERN = re.compile(
    r"\d{20}.*|quorum-state|meta\.properties|leader-epoch-checkpoint|partition\.metadata|\..*"
)
_RAFT_LOGGERS = ("RaftManager", "org.apache.kafka.raft")
_TIMED_LINE_PATTERN = re.compile(r"""[^\s"<].{0,60}?\d\d:\d\d:\d\d""")


LineReader = Callable[[Iterable[str], str], Iterator[Event]]
"""Reader of the lines of a file, given its name."""


@dataclass
class LogFile:
    """A log file of one node, or its part of a file of several nodes."""

    name: str
    node: int
    events: list[Event]

    @property
    def shows_steps(self) -> bool:
        """Whether the log has lines that INFO does not show."""
        return any(event.kind in MESSAGE_KINDS or event.level == "TRACE" for event in self.events)

    @property
    def first(self) -> int:
        """The time of the first event."""
        return self.events[0].time

    @property
    def last(self) -> int:
        """The time of the last event."""
        return self.events[-1].time


@dataclass
class ClusterLogs:
    """The events of each node in order, the files that have them, and notes."""

    logs: dict[int, list[Event]] = field(default_factory=dict)  # of logs that show messages
    quiet: dict[int, list[Event]] = field(default_factory=dict)  # of logs that do not, such as those of INFO
    late: dict[int, list[Event]] = field(default_factory=dict)  # before a node's first start: not to be replayed
    files: list[LogFile] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)  # Kafka's versions, with the place that shows each
    notes: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)  # problems of Raft's logs in folders that were left out
    others: int = 0  # files in folders and tarballs that are neither logs nor disks

    @property
    def every(self) -> dict[int, list[Event]]:
        """The events of all nodes; those of INFO where a node has both."""
        whole = {node: self.late.get(node, []) + self.logs.get(node, []) for node in (*self.late, *self.logs)}
        return dict(sorted({**whole, **self.quiet}.items()))

    @property
    def written(self) -> list[list[Event]]:
        """The events of each node for an output: those of INFO only where a node has no others."""
        every = {**self.quiet, **self.logs}
        return [self.late.get(node, []) + every.get(node, []) for node in sorted({*every, *self.late})]


@dataclass(frozen=True)
class LogOptions:
    """How to read logs: log4j's pattern, the range of times, and the limit on unpacked bytes."""

    pattern: str = DEFAULT_PATTERN
    since: int | None = None  # milliseconds
    until: int | None = None
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    report: Callable[[int], object] = lambda count: None


def read_cluster_logs(
    paths: Iterable[Path], nodes: Sequence[tuple[int, Path]] = (), wanted: LogOptions | None = None
) -> ClusterLogs:
    """Read the logs in files, folders and tarballs; `nodes` gives paths whose events are those of one node."""
    reader = _LogsReader(wanted or LogOptions())
    for path in paths:
        reader.path(path)
    for node, path in nodes:
        reader.path(path, node)
    return reader.sources()


class _LogsReader:
    """Reads logs one after another."""

    def __init__(self, wanted: LogOptions) -> None:
        line_regex_of_log4j_pattern(wanted.pattern)
        self._wanted = wanted
        self._found: list[LogFile] = []
        self._result = ClusterLogs()
        self._count = 0
        self._most = machine_memory_bytes() // MEMORY_BYTES_AN_EVENT

    def path(self, path: Path, node: int | None = None) -> None:
        """Read a file, or every log of a folder or a tarball."""
        for entry in file_entries(path, self._wanted.limit_bytes, _DISK_FILE_NAME_PATTERN.fullmatch):
            problem = self._entry(entry, node)
            if problem is not None:
                if entry.is_named:
                    raise InputError(problem)
                self._result.others += 1

    def _entry(self, entry: FileEntry, node: int | None) -> str | None:
        """Read a log; return the problem if the file is none."""
        stream = entry.stream
        if stream.peek(3) == BOM_UTF8:
            stream.read(3)
        while (head := stream.peek(HEAD_BYTES)) and not head.strip(b"\0"):  # a sparse file of a rotation by copying
            stream.read(len(head))
        if not head:
            return f"{stream.name}: expected a log, found an empty file; leave the file out"
        if is_event_stream(head):
            return self._log(stream, node, read_event_stream)
        problem = _log_format_problem(stream.name, head, self._wanted.pattern)
        if problem is None:
            return self._log(stream, node, partial(events_of_lines, pattern=self._wanted.pattern))
        if _shows_raft_lines(head):
            self._result.unread.append(problem)
        return problem

    def _log(self, stream: FileStream, node: int | None, read: LineReader) -> str | None:
        events, lines = list[Event](), 0
        wanted = self._wanted

        def watched() -> Iterator[str]:
            nonlocal lines
            for lines, line in enumerate(stream.lines(), start=1):
                if "Kafka version: " in line or "SoftwareVersion='" in line:
                    self._version(line, f"{stream.name}:{lines}")
                yield line

        has_raft = False
        for event in read(watched(), stream.name):
            has_raft = True
            if (wanted.since is None or event.time >= wanted.since) and (
                wanted.until is None or event.time <= wanted.until
            ):
                events.append(event)
                self._counted()
        if not has_raft:
            return (
                f"{stream.name}:1: expected lines of org.apache.kafka.raft in the pattern {wanted.pattern}, found none"
                f" in {lines:,} lines; name the log that has them, or give another pattern by --pattern"
            )
        return self._split(stream.name, events, node) if events else None

    def _counted(self) -> None:
        self._count += 1
        if self._count % 1000 == 0:
            self._wanted.report(self._count)
            if self._count > self._most:
                raise InputError(
                    f"logs: expected at most {self._most:,} events, for which there is memory, found more;"
                    " limit them by --from, --to"
                )

    def _version(self, line: str, place: str) -> None:
        found = _KAFKA_VERSION_PATTERN.search(line)
        if found:
            self._result.versions.setdefault(found[1], place)

    def _split(self, name: str, events: list[Event], node: int | None) -> str | None:
        """Give each event its node: that of its line, else of the file; return the problem if no line names one."""
        named = {event.node for event in events} - {-1}
        if node is not None:
            named = {node}
        if not named:
            place = f"{name}:{events[0].line}"
            said = f"{place}: expected a line with [RaftManager id=N], found none; name the node by --node ID={name}"
            self._result.unread.append(said)
            return said
        if len(named) == 1:
            (only,) = named
            for event in events:
                event.node = only
        else:
            _refuse_unassignable_events(name, events)
            _assign_nodes_to_events(events)
            self._result.notes.append(f"{name}: has the lines of nodes {', '.join(map(str, sorted(named)))}")
        for one in sorted(named):
            own = [event for event in events if event.node == one] if len(named) > 1 else events
            if own:
                self._found.append(LogFile(name, one, own))
        return None

    def sources(self) -> ClusterLogs:
        """Return the events of each node, in the order of its files."""
        result = self._result
        of_node: dict[int, list[LogFile]] = {}
        for file in self._found:
            of_node.setdefault(file.node, []).append(file)
        for node, files in sorted(of_node.items()):
            kept = _files_in_time_order(_files_without_repeated_events(files, result.notes))
            result.files += kept
            for logs, chosen in zip((result.logs, result.quiet), _files_of_steps_and_others(kept), strict=True):
                _note_overlapping_files(chosen, result.notes)
                if chosen:
                    logs[node] = [event for file in chosen for event in file.events]
            self._from_start(node)
        if result.others:
            result.notes.append(f"{result.others:,} files in folders and tarballs are neither logs nor disks")
        return result

    def _from_start(self, node: int) -> None:
        """Set aside a node's events before the first ones that can be replayed: their state is unknown."""
        events = self._result.logs.get(node, [])
        start = count_events_before_replay(events)
        if start:
            self._result.late[node] = events[:start]
            self._result.logs[node] = events[start:]
            if start == len(events):
                del self._result.logs[node]


def _is_utf16(head: bytes) -> bool:
    """Whether a file begins as UTF-16, such as the output of PowerShell: by its mark, or by names of loggers."""
    words = (word.encode(code) for word in _RAFT_LOGGERS for code in ("utf-16-le", "utf-16-be"))
    return head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or any(word in head for word in words)


def _shows_raft_lines(head: bytes) -> bool:
    """Whether a file begins as a log of Raft in some encoding and form: a line with a time names a logger of Raft."""
    lines = head.replace(b"\0", b"").decode("utf-8", "replace").split("\n")
    return any(_TIMED_LINE_PATTERN.match(line) and any(word in line for word in _RAFT_LOGGERS) for line in lines)


def _log_format_problem(name: str, head: bytes, pattern: str) -> str | None:
    """Return the problem of a file that is no log4j file in the pattern, by its beginning."""
    if _is_utf16(head):
        return f"{name}: expected a log in UTF-8, found text in UTF-16; convert it by iconv -f UTF-16"
    if head.lstrip()[:1] == b"{":
        return (
            f"{name}:1: expected a log4j file or a stream of events (docs/validate-events.schema.json),"
            " found JSON of another program; leave the file out"
        )
    problem = _pattern_mismatch_problem(name, head, pattern)
    if problem is not None and b"\0" in head:
        return (
            f"{name}: expected a log4j file, found binary data; of a disk, name the folder that holds"
            " __cluster_metadata-0"
        )
    return problem


def _pattern_mismatch_problem(name: str, head: bytes, pattern: str) -> str | None:
    """Return the problem of a file in whose beginning no line has the pattern."""
    match = line_regex_of_log4j_pattern(pattern).match
    lines = head.decode("utf-8", "replace").split("\n")
    if any(match(text_behind_nul(line.rstrip("\r"))) for line in lines):
        return None
    raft = (number for number, line in enumerate(lines) if any(word in line for word in _RAFT_LOGGERS))
    number = next(raft, 0)
    return (
        f"{name}:{number + 1}: expected a line of log4j in the pattern {pattern}, found"
        f" {escape_invisible(truncate_text(lines[number], 60))!r}; give the pattern of the file by --pattern"
    )


def _refuse_unassignable_events(name: str, events: Sequence[Event]) -> None:
    """Raise InputError if lines of several nodes alternate, and one names no node: nothing says whose it is.

    A line with a wrong id, or a log in two parts, has few blocks. The replay finds the former.
    """
    blocks = [node for node, _ in groupby(event.node for event in events if event.node >= 0)]
    unnamed = next((event for event in events if event.node < 0), None)
    if unnamed is not None and len(blocks) > 2 * len(set(blocks)):
        raise InputError(
            f"{name}:{unnamed.line}: expected [RaftManager id=N] where lines of nodes"
            f" {', '.join(map(str, sorted(set(blocks))))} alternate, found none; give each node a file of its own"
        )


def _assign_nodes_to_events(events: Sequence[Event]) -> None:
    """Give events of a file of several nodes a node: the snapshots of a start the next named one, others the last."""
    following = -1
    for event in reversed(events):
        if event.node >= 0:
            following = event.node
        elif event.kind is EventKind.DISK:
            event.node = following
    last = next(event.node for event in events if event.node >= 0)
    for event in events:
        if event.node < 0:
            event.node = last
        last = event.node


def _files_without_repeated_events(files: Sequence[LogFile], notes: list[str]) -> list[LogFile]:
    """Leave out what another file of a node has: a copy, a part, or the part before a file goes on.

    Kafka writes the same lines to `server.log`, whose parts it rotates, and to `kafkaServer.out`.
    """
    kept: list[LogFile] = []
    for file in sorted(files, key=lambda one: (one.first, -len(one.events), one.name)):
        for whole in kept:
            count = _count_repeated_events(whole, file)
            if count:
                notes.append(f"{file.name}: repeats {count:,} events of {whole.name}; read once")
                file = replace(file, events=file.events[count:])
            if not file.events:
                break
        else:
            kept.append(file)
    return kept


def _count_repeated_events(whole: LogFile, part: LogFile) -> int:
    """Return the number of events at the beginning of a file that another one has in a row, up to an end of either."""
    if not whole.first <= part.first <= whole.last or not part.first:  # a line without a date is like others
        return 0
    for place, event in enumerate(whole.events):
        if event.time == part.first and all(map(_are_events_copies, islice(whole.events, place, None), part.events)):
            return min(len(whole.events) - place, len(part.events))
    return 0


def _are_events_copies(one: Event, other: Event) -> bool:
    return _event_comparison_key(one) == _event_comparison_key(other)


def _files_of_steps_and_others(files: Sequence[LogFile]) -> tuple[list[LogFile], list[LogFile]]:
    """Divide the files of a node: those of the log that shows steps, and those without steps."""
    loud = [file for file in files if file.shows_steps]
    of_steps = [file for file in files if file.shows_steps or _is_later_part_of_step_logs(file, loud)]
    return of_steps, [file for file in files if file not in of_steps]


def _is_later_part_of_step_logs(file: LogFile, loud: Sequence[LogFile]) -> bool:
    """Whether a file is a later part of the logs that show steps, and not another log beside them."""
    is_beside = any(other.first < file.last and file.first < other.last for other in loud)
    return bool(loud) and loud[0].first <= file.first and not is_beside


def _event_comparison_key(event: Event) -> tuple[object, ...]:
    """Return the parts of an event that are equal in a copy of its log file."""
    return event.time, event.kind, event.correlation, event.body


def _files_in_time_order(files: Iterable[LogFile]) -> list[LogFile]:
    """Return the files of a node by the time of their first lines, the only use of time."""
    found = sorted(files, key=lambda file: (file.first, file.last, file.name))
    if len(found) > 1 and not found[1].first:
        raise InputError(
            f"{found[1].name}:{found[1].events[0].line}: expected a date and a time, which order the files of"
            f" node {found[1].node}, found another form; join its files in their order"
        )
    return found


def _note_overlapping_files(files: Sequence[LogFile], notes: list[str]) -> None:
    for before, after in pairwise(files):
        if after.first < before.last:
            notes.append(f"node {after.node}: {after.name} begins before {before.name} ends")


def read_line_of_event(paths: Iterable[Path], event: Event, limit: int = DEFAULT_LIMIT_BYTES) -> str:
    """Return the text of an event's line, read again; empty if it has changed since."""
    try:
        for path in paths:
            for entry in file_entries(path, limit, _DISK_FILE_NAME_PATTERN.fullmatch):
                if entry.stream.name == event.file:
                    return next(islice(entry.stream.lines(), event.line - 1, None), "").strip()
    except InputError:
        pass
    return ""


def voter_ids_in_logs(logs: Mapping[int, Sequence[Event]]) -> set[int]:
    """Return the nodes that some voter set of the logs has."""
    found: set[int] = set()
    for events in logs.values():
        for event in events:
            if event.kind is EventKind.VOTERS:
                found.update(voter[0] for voter in event.body[0])
            elif event.kind is EventKind.STARTING_VOTERS:
                found.update(voter[0] for voter in event.body)
            elif event.kind is EventKind.TRANSITION:
                found.update(event.body[0].get("voters") or ())
    return found


def count_events_by_kind(events: Iterable[Event]) -> Counter[EventKind]:
    """Count events by kind."""
    return Counter(event.kind for event in events)
