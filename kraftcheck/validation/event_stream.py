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
from kraftcheck.spec.values import escape_invisible, truncate_text
from kraftcheck.validation.events import Event, EventKind, MessageBody
from kraftcheck.validation.log4j import DROPPED_FIELDS, STATE_FIELD_PARSERS, events_of_lines, sender_of_request


class InvalidJsonValueError(Exception):
    """A JSON value has another form than the expected one."""

    def __init__(self, expected: str, found: Any, name: str = "") -> None:
        self.expected, self.found, self.name = expected, found, name
        shown = "nothing" if found is MISSING_VALUE else escape_invisible(truncate_text(repr(found), 60))
        super().__init__(f"expected {expected}{f' in {name}' if name else ''}, found {shown}")


MISSING_VALUE = object()
"""The value of a field that an object lacks."""


class JsonCodec(NamedTuple):
    """A form; `default` is the value of a field that is left out, MISSING_VALUE if it is required."""

    schema: dict[str, Any]
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value
    default: Any = MISSING_VALUE

    def or_else(self, default: Any) -> JsonCodec:
        """Return the form of a field that may be left out; None as the default stands for null as well."""
        if default is not None:
            return self._replace(default=default)
        return JsonCodec(
            {"anyOf": [self.schema, {"type": "null"}]},
            lambda value: None if value is None else self.read(value),
            lambda value: None if value is None else self.write(value),
            None,
        )

    def of(self, name: str, definitions: dict[str, Any]) -> JsonCodec:
        """Return the form with its schema as a definition."""
        definitions[name] = self.schema
        return self._replace(schema={"$ref": f"#/$defs/{name}"})


def integer_codec(most: int = (1 << 63) - 1, least: int = 0) -> JsonCodec:
    """Return the form of an integer."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise InvalidJsonValueError(f"an integer from {least} to {most}", value)
        return value

    return JsonCodec({"type": "integer", "minimum": least, "maximum": most}, read)


def string_codec() -> JsonCodec:
    """Return the form of a string."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise InvalidJsonValueError("a string", value)
        return value

    return JsonCodec({"type": "string"}, read)


def choice_codec(values: Iterable[str]) -> JsonCodec:
    """Return the form of one of some strings."""
    known = tuple(values)

    def read(value: Any) -> str:
        if value not in known:
            raise InvalidJsonValueError(f"one of {', '.join(known)}", value)
        return str(value)

    return JsonCodec({"type": "string", "enum": list(known)}, read)


def array_codec(form: JsonCodec, kind: Callable[[Iterable[Any]], Any] = tuple) -> JsonCodec:
    """Return the form of an array; `kind` makes its value. A set is written in order."""

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise InvalidJsonValueError("an array", value)
        return kind(map(form.read, value))

    def write(value: Iterable[Any]) -> list[Any]:
        return [form.write(one) for one in (sorted(value) if kind is frozenset else value)]

    return JsonCodec({"type": "array", "items": form.schema}, read, write)


def node_mapping_codec(form: JsonCodec) -> JsonCodec:
    """Return the form of an object whose names are numbers."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not all(n.isascii() and n.isdigit() and len(n) < 10 for n in value):
            raise InvalidJsonValueError("an object with numbers of nodes as names", value)
        return {name: form.read(one) for name, one in value.items()}

    schema = {"type": "object", "propertyNames": {"pattern": "^[0-9]{1,9}$"}, "additionalProperties": form.schema}
    return JsonCodec(schema, read)


def object_codec(forms: Mapping[str, JsonCodec]) -> JsonCodec:
    """Return the form of an object; its value is a dictionary without the optional fields that are left out."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InvalidJsonValueError("an object", value)
        unknown = next((name for name in value if name not in forms), None)
        if unknown is not None:
            raise InvalidJsonValueError(f"one of the fields {', '.join(forms)}", unknown)
        return {
            name: _decode_field(name, form, value.get(name, MISSING_VALUE))
            for name, form in forms.items()
            if name in value or form.default is MISSING_VALUE
        }

    def write(value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: form.write(value[name]) for name, form in forms.items() if name in value}

    return JsonCodec(
        {
            "type": "object",
            "properties": {name: form.schema for name, form in forms.items()},
            "required": [name for name, form in forms.items() if form.default is MISSING_VALUE],
            "additionalProperties": False,
        },
        read,
        write,
    )


def object_as_tuple_codec(forms: Mapping[str, JsonCodec]) -> JsonCodec:
    """Return the form of an object whose value is a tuple of its fields; all are required."""
    form = object_codec(forms)
    return JsonCodec(
        form.schema,
        lambda value: tuple(form.read(value).values()),
        lambda value: form.write(dict(zip(forms, value, strict=True))),
    )


def _decode_field(name: str, form: JsonCodec, value: Any) -> Any:
    if value is MISSING_VALUE:
        raise InvalidJsonValueError("a value", MISSING_VALUE, name)
    try:
        return form.read(value)
    except InvalidJsonValueError as problem:
        path = f"{name}.{problem.name}" if problem.name else name
        raise InvalidJsonValueError(problem.expected, problem.found, path) from None


LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
DEEPEST_NESTING = 12
"""Arrays and objects of a message in one another."""

_UNQUOTED_FIELDS = ("DirectoryId", "directoryId", "topicId")
_FIRST_LINE_PREFIX = '{"seq":0,'
"""The first line of an agent: a killed process may have left an unfinished line before it."""


# Forms of events


def _scalar_fields_in_order(value: Any, depth: int = DEEPEST_NESTING) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the scalar fields of a message, in order."""
    if depth == 0:
        raise InvalidJsonValueError(f"at most {DEEPEST_NESTING} arrays and objects in one another", value)
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, dict):
            raise InvalidJsonValueError("an object", one)
        for name, inner in one.items():
            if isinstance(inner, list | dict):
                yield from _scalar_fields_in_order(inner, depth - 1)
            elif name not in DROPPED_FIELDS:
                yield intern(name), intern(_value_as_logged(name, inner))


def _value_as_logged(name: str, value: Any) -> str:
    """Return a value as Kafka's log shows it."""
    if isinstance(value, str):
        return value if name.endswith(_UNQUOTED_FIELDS) else f"'{value}'"
    return str(json.dumps(value))


def _value_from_log(shown: str) -> Any:
    """Return the JSON value of a field that a log shows."""
    if shown.startswith("'"):
        return shown[1:-1]
    if re.fullmatch(r"true|false|null|-?(0|[1-9]\d{0,18})", shown):
        return json.loads(shown)
    return shown


def _field_names_and_values(value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not isinstance(value, list | dict):
        raise InvalidJsonValueError("an object or an array of objects", value)
    pairs = list(_scalar_fields_in_order(value))
    return tuple(name for name, _ in pairs), tuple(shown for _, shown in pairs)


def _fields_as_json_objects(value: tuple[tuple[str, ...], tuple[str, ...]]) -> list[dict[str, Any]]:
    """Return the fields of a message as objects: a name that comes again begins the next one."""
    found: list[dict[str, Any]] = [{}]
    for name, shown in zip(*value, strict=True):
        if name in found[-1]:
            found.append({})
        found[-1][name] = _value_from_log(shown)
    return found


SCHEMA_DEFINITIONS: dict[str, Any] = {}
MODE_NAMES = ("Unattached", "Prospective", "Candidate", "Leader", "Follower", "Resigned")
NODE_CODEC, OFFSET_CODEC = integer_codec((1 << 31) - 1), integer_codec(least=-1)
TIME_CODEC = integer_codec((1 << 45) - 1)
NUMBER_AS_TEXT_CODEC = NODE_CODEC._replace(read=lambda value: str(NODE_CODEC.read(value)), write=int)
VOTER_CODEC_FIELDS = {
    "id": NODE_CODEC,
    "directory": string_codec(),
    "address": string_codec(),
    "version": integer_codec(99),
}
VOTERS_CODEC = array_codec(object_as_tuple_codec(VOTER_CODEC_FIELDS)).of("voters", SCHEMA_DEFINITIONS)
SNAPSHOTS_CODEC = array_codec(object_as_tuple_codec({"offset": OFFSET_CODEC, "epoch": NODE_CODEC}))
SERVERS_CODEC = array_codec(
    object_as_tuple_codec({"address": string_codec(), "id": integer_codec((1 << 31) - 1, -(1 << 31))})
)
REPLICA_KEY_CODEC_FIELDS = {"id": NODE_CODEC, "directory": string_codec()}
NODES_CODEC = array_codec(NODE_CODEC, frozenset)
MESSAGE_CODEC = JsonCodec(
    {
        "description": "the fields of Kafka's message, all of them and in its order; inner objects may be nested",
        "anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}],
    },
    _field_names_and_values,
    _fields_as_json_objects,
).of("message", SCHEMA_DEFINITIONS)
STATE_FIELD_CODECS = {
    "leader": NODE_CODEC.or_else(None),
    "voted": object_as_tuple_codec(REPLICA_KEY_CODEC_FIELDS).or_else(None),
    "granted": NODES_CODEC,
    "rejected": NODES_CODEC,
    "candidates": NODES_CODEC,
    "voters": NODES_CODEC.or_else(None),
    "update voters": NODES_CODEC.or_else(None),
    "keys": array_codec(object_as_tuple_codec({**REPLICA_KEY_CODEC_FIELDS, "id": NUMBER_AS_TEXT_CODEC}), frozenset),
    "local key": array_codec(object_as_tuple_codec({**REPLICA_KEY_CODEC_FIELDS, "id": NUMBER_AS_TEXT_CODEC}), list),
    "leader voters": NODES_CODEC,
    "start": OFFSET_CODEC,
    "address": string_codec().or_else(None),
    "high": OFFSET_CODEC,
}
_REQUIRED_STATE_FIELDS = ("candidates", "leader voters", "start")


def _make_epoch_state_codec() -> JsonCodec:
    """Return the form of an epoch state; a field may be given in the modes whose log lines show it."""
    by_mode: dict[str, JsonCodec] = {}
    for mode in MODE_NAMES:
        forms = {"mode": choice_codec([mode]), "epoch": NODE_CODEC}
        for name, (modes, _) in STATE_FIELD_PARSERS.items():
            if mode in modes:
                form = STATE_FIELD_CODECS[name]
                forms[name.replace(" ", "_")] = form if name in _REQUIRED_STATE_FIELDS else form._replace(default=None)
        by_mode[mode] = object_codec(forms)

    def of(value: Any) -> JsonCodec:
        mode = value.get("mode") if isinstance(value, dict) else value
        if mode not in by_mode:
            raise InvalidJsonValueError(f"an object with one of the modes {', '.join(by_mode)}", value)
        return by_mode[mode]

    return JsonCodec(
        {"type": "object", "oneOf": [form.schema for form in by_mode.values()]},
        lambda value: {name.replace("_", " "): one for name, one in of(value).read(value).items()},
        lambda value: of(value).write({name.replace(" ", "_"): one for name, one in value.items()}),
    )


STATE_CODEC = _make_epoch_state_codec().of("state", SCHEMA_DEFINITIONS)
REPLICA_FIELD_CODECS = {
    "mode": choice_codec(MODE_NAMES),
    "epoch": NODE_CODEC,
    "leader": NODE_CODEC.or_else(None),
    "voted": object_as_tuple_codec(REPLICA_KEY_CODEC_FIELDS).or_else(None),
    "start": OFFSET_CODEC.or_else(0),
    "end": OFFSET_CODEC,
    "last": OFFSET_CODEC,
    "high_watermark": OFFSET_CODEC.or_else(None),
    "version": integer_codec(99).or_else(None),
    "voters_offset": OFFSET_CODEC.or_else(None),
    "voters": node_mapping_codec(string_codec().or_else(None)),
}
KINDS_WITH_MESSAGE = (EventKind.REQUEST, EventKind.RESPONSE, EventKind.IGNORED, EventKind.SEND, EventKind.ANSWER)
KINDS_WITH_OFFSET = (
    EventKind.FIRST_HIGH_WATERMARK,
    EventKind.LEADER_HIGH_WATERMARK,
    EventKind.FOLLOWER_HIGH_WATERMARK,
    EventKind.TRUNCATED,
    EventKind.REPLACED,
)
BODY_CODECS: dict[EventKind, dict[str, JsonCodec]] = {
    EventKind.DISK: {"snapshots": SNAPSHOTS_CODEC},
    EventKind.BOOTSTRAP: {"servers": SERVERS_CODEC},
    EventKind.BOOT: {},
    EventKind.STARTING_VOTERS: {"voters": VOTERS_CODEC},
    **{kind: {"api": string_codec(), "fields": MESSAGE_CODEC} for kind in KINDS_WITH_MESSAGE},
    **{
        kind: {"state": STATE_CODEC, "from": STATE_CODEC.or_else(None)}
        for kind in (EventKind.ATTEMPT, EventKind.TRANSITION)
    },
    EventKind.APPEND: {"base": OFFSET_CODEC, "end": OFFSET_CODEC, "epoch": NODE_CODEC},
    EventKind.STORED: {"end": OFFSET_CODEC, "epoch": NODE_CODEC},
    **{kind: {"offset": OFFSET_CODEC} for kind in KINDS_WITH_OFFSET},
    EventKind.VOTERS: {"voters": VOTERS_CODEC, "offset": OFFSET_CODEC},
    EventKind.VERSION: {"version": integer_codec(99), "offset": OFFSET_CODEC},
    **{kind: {"offset": OFFSET_CODEC, "epoch": NODE_CODEC} for kind in (EventKind.LOADED, EventKind.FETCHING)},
    **{kind: {"offset": OFFSET_CODEC, "directory": string_codec()} for kind in (EventKind.PARKED, EventKind.REJECTED)},
    EventKind.STATE: REPLICA_FIELD_CODECS,
}
"""The fields of each kind of event that are its body: one value, or a tuple of them in order."""

KINDS_WITH_PEER = (EventKind.ANSWER, EventKind.PARKED, EventKind.REJECTED)
COMMON_FIELD_CODECS = {
    "time": TIME_CODEC,
    "node": NODE_CODEC.or_else(-1),
    "level": choice_codec(LOG_LEVELS).or_else(""),
    "file": string_codec().or_else(""),  # of the log in which the event stands
    "line": OFFSET_CODEC.or_else(0),
    "seq": OFFSET_CODEC.or_else(0),
}


def _event_codec(kind: EventKind) -> JsonCodec:
    known = {"event": choice_codec([_event_name(kind)]), **COMMON_FIELD_CODECS, **BODY_CODECS[kind]}
    if kind in KINDS_WITH_MESSAGE:
        known |= {"correlation": OFFSET_CODEC, "created": OFFSET_CODEC.or_else(-1)}
    if kind is EventKind.SEND:
        known["address"] = string_codec().or_else("")
    if kind in KINDS_WITH_PEER:
        known["peer"] = NODE_CODEC.or_else(None)
    return object_codec(known)


def _event_name(kind: EventKind) -> str:
    return kind.value.replace(" ", "_")


LOG_LINE_EVENT = "log"
CODEC_OF_EVENT = {_event_name(kind): _event_codec(kind) for kind in BODY_CODECS}
CODEC_OF_EVENT[LOG_LINE_EVENT] = object_codec(
    {
        "event": choice_codec([LOG_LINE_EVENT]),
        **COMMON_FIELD_CODECS,
        "level": choice_codec(LOG_LEVELS),
        "text": string_codec(),
    }
)
KIND_OF_EVENT = {_event_name(kind): kind for kind in BODY_CODECS}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a line."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of the stream of events of kraftcheck validate",
        "description": "docs/validate.md describes the kinds of events",
        "type": "object",
        "oneOf": [form.schema for form in CODEC_OF_EVENT.values()],
        "$defs": SCHEMA_DEFINITIONS,
    }


# Reading


def is_event_stream(head: bytes) -> bool:
    """Whether a file that begins so is a stream of events."""
    first = head.lstrip().partition(b"\n")[0]
    named = re.search(rb'"event"\s*:\s*"(\w+)"', first) if first.startswith(b"{") else None
    return named is not None and named[1].decode("ascii", "replace") in CODEC_OF_EVENT


def read_event_stream(lines: Iterable[str], file: str) -> Iterator[Event]:
    """Yield the events of a stream; node -1 stands for the node of the file.

    Raises InputError at a line of another form. A last line that is not finished is left out: its process was killed.
    """
    cut_off = 0
    for number_, line in enumerate(lines, start=1):
        if cut_off:
            raise InputError(f"{file}:{cut_off}: expected a JSON object on one line, found none; remove the line")
        if not line.strip():
            continue
        entry = _json_of_line_or_none(line)
        if entry is None:
            cut_off = number_
            continue
        yield from events_from_json_object(entry, file, number_)


def _json_of_line_or_none(line: str) -> Any:
    """Return the JSON value of a line, or of its last part that another process has begun; None for another line."""
    for begin in (0, line.rfind(_FIRST_LINE_PREFIX)):
        try:
            if begin >= 0:
                return json.loads(line[begin:])
        except (ValueError, RecursionError):
            continue
    return None


def events_from_json_object(entry: Any, file: str, line: int) -> Iterator[Event]:
    """Yield the events of a JSON object: one, or none for a line of a log that shows none."""
    name = entry.get("event") if isinstance(entry, dict) else None
    try:
        if not isinstance(name, str) or name not in CODEC_OF_EVENT:
            raise InvalidJsonValueError(
                "an object with the name of an event", name if isinstance(entry, dict) else entry, "event"
            )
        found = CODEC_OF_EVENT[name].read(entry)
    except InvalidJsonValueError as problem:
        raise InputError(f"{file}:{line}: {problem}; see docs/validate-events.schema.json") from None
    yield from (
        _events_of_log_text(found, file, line)
        if name == LOG_LINE_EVENT
        else [event_from_fields(KIND_OF_EVENT[name], found, file, line)]
    )


def event_from_fields(kind: EventKind, found: dict[str, Any], file: str = "", line: int = 0) -> Event:
    """Return an event from the fields that its form has read."""
    event = Event(found.get("node", -1), found["time"], kind, file, line, level=found.get("level", ""))
    body = tuple(found.get(name) for name in BODY_CODECS[kind])
    if kind in KINDS_WITH_MESSAGE:
        event.body = MessageBody(intern(found["api"]), *found["fields"])
        event.correlation, event.created = found["correlation"], found.get("created", -1)
        event.address = found.get("address", "")
    elif kind is EventKind.STATE:
        event.body = {name: found[name] for name in REPLICA_FIELD_CODECS if name in found}
    elif body:
        event.body = body[0] if len(body) == 1 else body
    event.peer = sender_of_request(event.body) if kind is EventKind.REQUEST else found.get("peer")
    return event


def _events_of_log_text(found: dict[str, Any], file: str, line: int) -> Iterator[Event]:
    shown = datetime.fromtimestamp(found["time"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    words = found["text"].replace("\n", " ")
    for event in events_of_lines([f"[{shown}] {found['level']} {words} (log)"], file):
        event.line, event.time = line, found["time"]
        event.node = found.get("node", event.node)
        yield event


# Writing


def write_event_stream(logs: Iterable[Iterable[Event]], versions: Iterable[str], path: Path) -> None:
    """Write the events of nodes, each in the order of its log, and Kafka's versions."""
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for event in chain.from_iterable(logs):
            for version in versions:
                _write_entry(
                    file,
                    {"event": LOG_LINE_EVENT, "time": event.time, "level": "INFO", "text": f"Kafka version: {version}"},
                )
            versions = ()
            _write_entry(file, event_as_json(event))


def _write_entry(file: Any, entry: dict[str, Any]) -> None:
    file.write(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n")


def _fields_of_message_event(event: Event, body: MessageBody) -> dict[str, Any]:
    found: dict[str, Any] = {"correlation": event.correlation, "api": body.api, "fields": (body.names, body.values)}
    if event.created >= 0:
        found["created"] = event.created
    if event.kind is EventKind.SEND and event.address:
        found["address"] = event.address
    return found


def event_as_json(event: Event) -> dict[str, Any]:
    """Return the JSON object of an event."""
    name, body = _event_name(event.kind), event.body
    found: dict[str, Any] = {"event": name, "node": event.node, "time": event.time}
    found |= {"level": event.level} if event.level in LOG_LEVELS else {}
    found |= {"file": event.file, "line": event.line}
    if isinstance(body, MessageBody):
        found |= _fields_of_message_event(event, body)
    elif event.kind is EventKind.STATE:
        found |= {key: value for key, value in body.items() if key in REPLICA_FIELD_CODECS}
    else:
        names = list(BODY_CODECS[event.kind])
        found |= dict(zip(names, (body,) if len(names) == 1 else body or (), strict=True))
    if event.kind in KINDS_WITH_PEER and event.peer is not None:
        found["peer"] = event.peer
    return CODEC_OF_EVENT[name].write(found)  # type: ignore[no-any-return]
