"""The stream of events as NDJSON, one object a line: Kafka's agent and other implementations write it.

An event is a structured one, or a line of Kafka's log (`log`), which is read as a log file is. Each form of a JSON
value reads a value strictly, writes it, and has a JSON Schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import cut, visible
from kraftcheck.validation.events import Body, Event, Kind
from kraftcheck.validation.log4j import DROPPED_FIELDS, STATE_FIELDS, message_sender, read_lines


class Unfit(Exception):  # noqa: N818 - becomes an InputError with file and line
    """A JSON value has another form than the expected one."""

    def __init__(self, expected: str, found: Any, name: str = "") -> None:
        self.expected, self.found, self.name = expected, found, name
        shown = "nothing" if found is MISSING else visible(cut(repr(found), 60))
        super().__init__(f"expected {expected}{f' in {name}' if name else ''}, found {shown}")


MISSING = object()
"""The value of a field that an object lacks."""


class Form(NamedTuple):
    """A form; `default` is the value of a field that is left out, MISSING if it is required."""

    schema: dict[str, Any]
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value
    default: Any = MISSING

    def or_else(self, default: Any) -> Form:
        """Return the form of a field that may be left out; None as the default stands for null as well."""
        if default is not None:
            return self._replace(default=default)
        return Form(
            {"anyOf": [self.schema, {"type": "null"}]},
            lambda value: None if value is None else self.read(value),
            lambda value: None if value is None else self.write(value),
            None,
        )

    def of(self, name: str, definitions: dict[str, Any]) -> Form:
        """Return the form with its schema as a definition."""
        definitions[name] = self.schema
        return self._replace(schema={"$ref": f"#/$defs/{name}"})


def number(most: int = (1 << 63) - 1, least: int = 0) -> Form:
    """Return the form of an integer."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise Unfit(f"an integer from {least} to {most}", value)
        return value

    return Form({"type": "integer", "minimum": least, "maximum": most}, read)


def text() -> Form:
    """Return the form of a string."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise Unfit("a string", value)
        return value

    return Form({"type": "string"}, read)


def choice(values: Iterable[str]) -> Form:
    """Return the form of one of some strings."""
    known = tuple(values)

    def read(value: Any) -> str:
        if value not in known:
            raise Unfit(f"one of {', '.join(known)}", value)
        return str(value)

    return Form({"type": "string", "enum": list(known)}, read)


def listed(form: Form, kind: Callable[[Iterable[Any]], Any] = tuple) -> Form:
    """Return the form of an array; `kind` makes its value. A set is written in order."""

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise Unfit("an array", value)
        return kind(map(form.read, value))

    def write(value: Iterable[Any]) -> list[Any]:
        return [form.write(one) for one in (sorted(value) if kind is frozenset else value)]

    return Form({"type": "array", "items": form.schema}, read, write)


def mapped(form: Form) -> Form:
    """Return the form of an object whose names are numbers."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not all(n.isascii() and n.isdigit() and len(n) < 10 for n in value):
            raise Unfit("an object with numbers of nodes as names", value)
        return {name: form.read(one) for name, one in value.items()}

    schema = {"type": "object", "propertyNames": {"pattern": "^[0-9]{1,9}$"}, "additionalProperties": form.schema}
    return Form(schema, read)


def fields(forms: Mapping[str, Form]) -> Form:
    """Return the form of an object; its value is a dictionary without the optional fields that are left out."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Unfit("an object", value)
        unknown = next((name for name in value if name not in forms), None)
        if unknown is not None:
            raise Unfit(f"one of the fields {', '.join(forms)}", unknown)
        return {
            name: _within(name, form, value.get(name, MISSING))
            for name, form in forms.items()
            if name in value or form.default is MISSING
        }

    def write(value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: form.write(value[name]) for name, form in forms.items() if name in value}

    return Form(
        {
            "type": "object",
            "properties": {name: form.schema for name, form in forms.items()},
            "required": [name for name, form in forms.items() if form.default is MISSING],
            "additionalProperties": False,
        },
        read,
        write,
    )


def row(forms: Mapping[str, Form]) -> Form:
    """Return the form of an object whose value is a tuple of its fields; all are required."""
    form = fields(forms)
    return Form(
        form.schema,
        lambda value: tuple(form.read(value).values()),
        lambda value: form.write(dict(zip(forms, value, strict=True))),
    )


def _within(name: str, form: Form, value: Any) -> Any:
    if value is MISSING:
        raise Unfit("a value", MISSING, name)
    try:
        return form.read(value)
    except Unfit as problem:
        path = f"{name}.{problem.name}" if problem.name else name
        raise Unfit(problem.expected, problem.found, path) from None


LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
DEEPEST = 12
"""Arrays and objects of a message in one another."""

_UNQUOTED = ("DirectoryId", "directoryId", "topicId")
_RESTARTED = '{"seq":0,'
"""The first line of an agent: a killed process may have left an unfinished line before it."""


# Forms of events


def _flat(value: Any, depth: int = DEEPEST) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the scalar fields of a message, in order."""
    if depth == 0:
        raise Unfit(f"at most {DEEPEST} arrays and objects in one another", value)
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, dict):
            raise Unfit("an object", one)
        for name, inner in one.items():
            if isinstance(inner, list | dict):
                yield from _flat(inner, depth - 1)
            elif name not in DROPPED_FIELDS:
                yield intern(name), intern(_shown(name, inner))


def _shown(name: str, value: Any) -> str:
    """Return a value as Kafka's log shows it."""
    if isinstance(value, str):
        return value if name.endswith(_UNQUOTED) else f"'{value}'"
    return str(json.dumps(value))


def _value(shown: str) -> Any:
    """Return the JSON value of a field that a log shows."""
    if shown.startswith("'"):
        return shown[1:-1]
    if re.fullmatch(r"true|false|null|-?(0|[1-9]\d{0,18})", shown):
        return json.loads(shown)
    return shown


def _pairs(value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not isinstance(value, list | dict):
        raise Unfit("an object or an array of objects", value)
    pairs = list(_flat(value))
    return tuple(name for name, _ in pairs), tuple(shown for _, shown in pairs)


def _objects(value: tuple[tuple[str, ...], tuple[str, ...]]) -> list[dict[str, Any]]:
    """Return the fields of a message as objects: a name that comes again begins the next one."""
    found: list[dict[str, Any]] = [{}]
    for name, shown in zip(*value, strict=True):
        if name in found[-1]:
            found.append({})
        found[-1][name] = _value(shown)
    return found


DEFINITIONS: dict[str, Any] = {}
MODES = ("Unattached", "Prospective", "Candidate", "Leader", "Follower", "Resigned")
NODE, OFFSET, TIME = number((1 << 31) - 1), number(least=-1), number((1 << 45) - 1)
TEXT_NUMBER = NODE._replace(read=lambda value: str(NODE.read(value)), write=int)
VOTER = {"id": NODE, "directory": text(), "address": text(), "version": number(99)}
VOTERS = listed(row(VOTER)).of("voters", DEFINITIONS)
SNAPSHOTS = listed(row({"offset": OFFSET, "epoch": NODE}))
SERVERS = listed(row({"address": text(), "id": number((1 << 31) - 1, -(1 << 31))}))
KEY = {"id": NODE, "directory": text()}
NODES = listed(NODE, frozenset)
MESSAGE = Form(
    {
        "description": "the fields of Kafka's message, all of them and in its order; inner objects may be nested",
        "anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}],
    },
    _pairs,
    _objects,
).of("message", DEFINITIONS)
STATE_FORMS = {
    "leader": NODE.or_else(None),
    "voted": row(KEY).or_else(None),
    "granted": NODES,
    "rejected": NODES,
    "candidates": NODES,
    "voters": NODES.or_else(None),
    "update voters": NODES.or_else(None),
    "keys": listed(row({**KEY, "id": TEXT_NUMBER}), frozenset),
    "local key": listed(row({**KEY, "id": TEXT_NUMBER}), list),
    "leader voters": NODES,
    "start": OFFSET,
    "address": text().or_else(None),
    "high": OFFSET,
}
_REQUIRED = ("candidates", "leader voters", "start")


def _state_form() -> Form:
    """Return the form of an epoch state; a field may be given in the modes whose log lines show it."""
    by_mode: dict[str, Form] = {}
    for mode in MODES:
        forms = {"mode": choice([mode]), "epoch": NODE}
        for name, (modes, _) in STATE_FIELDS.items():
            if mode in modes:
                form = STATE_FORMS[name]
                forms[name.replace(" ", "_")] = form if name in _REQUIRED else form._replace(default=None)
        by_mode[mode] = fields(forms)

    def of(value: Any) -> Form:
        mode = value.get("mode") if isinstance(value, dict) else value
        if mode not in by_mode:
            raise Unfit(f"an object with one of the modes {', '.join(by_mode)}", value)
        return by_mode[mode]

    return Form(
        {"type": "object", "oneOf": [form.schema for form in by_mode.values()]},
        lambda value: {name.replace("_", " "): one for name, one in of(value).read(value).items()},
        lambda value: of(value).write({name.replace(" ", "_"): one for name, one in value.items()}),
    )


STATE = _state_form().of("state", DEFINITIONS)
REPLICA_FIELDS = {
    "mode": choice(MODES),
    "epoch": NODE,
    "leader": NODE.or_else(None),
    "voted": row(KEY).or_else(None),
    "start": OFFSET.or_else(0),
    "end": OFFSET,
    "last": OFFSET,
    "high_watermark": OFFSET.or_else(None),
    "version": number(99).or_else(None),
    "voters_offset": OFFSET.or_else(None),
    "voters": mapped(text().or_else(None)),
}
KINDS_WITH_MESSAGE = (Kind.REQUEST, Kind.RESPONSE, Kind.IGNORED, Kind.SEND, Kind.ANSWER)
KINDS_WITH_OFFSET = (
    Kind.FIRST_HIGH_WATERMARK,
    Kind.LEADER_HIGH_WATERMARK,
    Kind.FOLLOWER_HIGH_WATERMARK,
    Kind.TRUNCATED,
    Kind.REPLACED,
)
BODIES: dict[Kind, dict[str, Form]] = {
    Kind.DISK: {"snapshots": SNAPSHOTS},
    Kind.BOOTSTRAP: {"servers": SERVERS},
    Kind.BOOT: {},
    Kind.STARTING_VOTERS: {"voters": VOTERS},
    **{kind: {"api": text(), "fields": MESSAGE} for kind in KINDS_WITH_MESSAGE},
    **{kind: {"state": STATE, "from": STATE.or_else(None)} for kind in (Kind.ATTEMPT, Kind.TRANSITION)},
    Kind.APPEND: {"base": OFFSET, "end": OFFSET, "epoch": NODE},
    Kind.STORED: {"end": OFFSET, "epoch": NODE},
    **{kind: {"offset": OFFSET} for kind in KINDS_WITH_OFFSET},
    Kind.VOTERS: {"voters": VOTERS, "offset": OFFSET},
    Kind.VERSION: {"version": number(99), "offset": OFFSET},
    **{kind: {"offset": OFFSET, "epoch": NODE} for kind in (Kind.LOADED, Kind.FETCHING)},
    **{kind: {"offset": OFFSET, "directory": text()} for kind in (Kind.PARKED, Kind.REJECTED)},
    Kind.STATE: REPLICA_FIELDS,
}
"""The fields of each kind of event that are its body: one value, or a tuple of them in order."""

KINDS_WITH_PEER = (Kind.ANSWER, Kind.PARKED, Kind.REJECTED)
COMMON_FIELDS = {
    "time": TIME,
    "node": NODE.or_else(-1),
    "level": choice(LEVELS).or_else(""),
    "file": text().or_else(""),  # of the log in which the event stands
    "line": OFFSET.or_else(0),
    "seq": OFFSET.or_else(0),
}


def _form(kind: Kind) -> Form:
    known = {"event": choice([_name(kind)]), **COMMON_FIELDS, **BODIES[kind]}
    if kind in KINDS_WITH_MESSAGE:
        known |= {"correlation": OFFSET, "created": OFFSET.or_else(-1)}
    if kind is Kind.SEND:
        known["address"] = text().or_else("")
    if kind in KINDS_WITH_PEER:
        known["peer"] = NODE.or_else(None)
    return fields(known)


def _name(kind: Kind) -> str:
    return kind.value.replace(" ", "_")


LOG = "log"
FORMS = {_name(kind): _form(kind) for kind in BODIES}
FORMS[LOG] = fields({"event": choice([LOG]), **COMMON_FIELDS, "level": choice(LEVELS), "text": text()})
KINDS = {_name(kind): kind for kind in BODIES}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a line."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of the stream of events of kraftcheck validate",
        "description": "docs/validate.md describes the kinds of events",
        "type": "object",
        "oneOf": [form.schema for form in FORMS.values()],
        "$defs": DEFINITIONS,
    }


# Reading


def is_stream(head: bytes) -> bool:
    """Whether a file that begins so is a stream of events."""
    first = head.lstrip().partition(b"\n")[0]
    named = re.search(rb'"event"\s*:\s*"(\w+)"', first) if first.startswith(b"{") else None
    return named is not None and named[1].decode("ascii", "replace") in FORMS


def read_stream(lines: Iterable[str], file: str) -> Iterator[Event]:
    """Yield the events of a stream; node -1 stands for the node of the file.

    Raises InputError at a line of another form. A last line that is not finished is left out: its process was killed.
    """
    cut_off = 0
    for number_, line in enumerate(lines, start=1):
        if cut_off:
            raise InputError(f"{file}:{cut_off}: expected a JSON object on one line, found none; remove the line")
        if not line.strip():
            continue
        entry = _object(line)
        if entry is None:
            cut_off = number_
            continue
        yield from events_in(entry, file, number_)


def _object(line: str) -> Any:
    """Return the JSON value of a line, or of its last part that another process has begun; None for another line."""
    for begin in (0, line.rfind(_RESTARTED)):
        try:
            if begin >= 0:
                return json.loads(line[begin:])
        except (ValueError, RecursionError):
            continue
    return None


def events_in(entry: Any, file: str, line: int) -> Iterator[Event]:
    """Yield the events of a JSON object: one, or none for a line of a log that shows none."""
    name = entry.get("event") if isinstance(entry, dict) else None
    try:
        if not isinstance(name, str) or name not in FORMS:
            raise Unfit("an object with the name of an event", name if isinstance(entry, dict) else entry, "event")
        found = FORMS[name].read(entry)
    except Unfit as problem:
        raise InputError(f"{file}:{line}: {problem}; see docs/validate-events.schema.json") from None
    yield from _logged(found, file, line) if name == LOG else [event_of(KINDS[name], found, file, line)]


def event_of(kind: Kind, found: dict[str, Any], file: str = "", line: int = 0) -> Event:
    """Return an event from the fields that its form has read."""
    event = Event(found.get("node", -1), found["time"], kind, file, line, level=found.get("level", ""))
    body = tuple(found.get(name) for name in BODIES[kind])
    if kind in KINDS_WITH_MESSAGE:
        event.body = Body(intern(found["api"]), *found["fields"])
        event.correlation, event.created = found["correlation"], found.get("created", -1)
        event.address = found.get("address", "")
    elif kind is Kind.STATE:
        event.body = {name: found[name] for name in REPLICA_FIELDS if name in found}
    elif body:
        event.body = body[0] if len(body) == 1 else body
    event.peer = message_sender(event.body) if kind is Kind.REQUEST else found.get("peer")
    return event


def _logged(found: dict[str, Any], file: str, line: int) -> Iterator[Event]:
    shown = datetime.fromtimestamp(found["time"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    words = found["text"].replace("\n", " ")
    for event in read_lines([f"[{shown}] {found['level']} {words} (log)"], file):
        event.line, event.time = line, found["time"]
        event.node = found.get("node", event.node)
        yield event


# Writing


def write_stream(logs: Iterable[Iterable[Event]], versions: Iterable[str], path: Path) -> None:
    """Write the events of nodes, each in the order of its log, and Kafka's versions."""
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for event in chain.from_iterable(logs):
            for version in versions:
                _write(file, {"event": LOG, "time": event.time, "level": "INFO", "text": f"Kafka version: {version}"})
            versions = ()
            _write(file, entry_of(event))


def _write(file: Any, entry: dict[str, Any]) -> None:
    file.write(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n")


def _message_of(event: Event, body: Body) -> dict[str, Any]:
    found: dict[str, Any] = {"correlation": event.correlation, "api": body.api, "fields": (body.names, body.values)}
    if event.created >= 0:
        found["created"] = event.created
    if event.kind is Kind.SEND and event.address:
        found["address"] = event.address
    return found


def entry_of(event: Event) -> dict[str, Any]:
    """Return the JSON object of an event."""
    name, body = _name(event.kind), event.body
    found: dict[str, Any] = {"event": name, "node": event.node, "time": event.time}
    found |= {"level": event.level} if event.level in LEVELS else {}
    found |= {"file": event.file, "line": event.line}
    if isinstance(body, Body):
        found |= _message_of(event, body)
    elif event.kind is Kind.STATE:
        found |= {key: value for key, value in body.items() if key in REPLICA_FIELDS}
    else:
        names = list(BODIES[event.kind])
        found |= dict(zip(names, (body,) if len(names) == 1 else body or (), strict=True))
    if event.kind in KINDS_WITH_PEER and event.peer is not None:
        found["peer"] = event.peer
    return FORMS[name].write(found)  # type: ignore[no-any-return]
