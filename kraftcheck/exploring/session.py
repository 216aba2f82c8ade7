"""The session of `explore`: walks, the steps and properties of a state, saved files, and the HTTP server.

The server is loopback only, token-protected and same-origin. Other pages in the same browser can send requests to it.
Three checks refuse them. The address has a random token. The Host header is wrong after DNS rebinding. A cross-site
request cannot forge the Origin header.
Sources: RFC 9110, sections 7.2 and 15.5.4; the Fetch standard, "Origin header".
"""

from __future__ import annotations

import json
import secrets
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from kraftcheck.catalogue import locate_protocol_errors
from kraftcheck.explorer.result import DEADLOCK, TraceStep, Violation
from kraftcheck.exploring.tree import StateTree, VisitedNode
from kraftcheck.reporting.as_json import job_as_json, tool_header, trace_state_as_json, value_as_json, violation_as_json
from kraftcheck.reporting.counterexample import messages_around_step, state_changes
from kraftcheck.reporting.lines import count_with_noun
from kraftcheck.reporting.output import REPORT_EXTENSIONS, write_counterexamples
from kraftcheck.reporting.report import (
    behaviour_as_report_data,
    deduplicate_page_data,
    html_document,
    shorten_source_path_in_reason,
    write_report,
)
from kraftcheck.reporting.scenarios import walk_as_scenario
from kraftcheck.spec.diagnosis.action_explanation import ENABLED_KIND, ActionExplanation, explain_action
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.declarations import Property
from kraftcheck.spec.language.semantics import Transition
from kraftcheck.spec.values import text_of

MESSAGE_MARKS = {"-": "consumed", "+": "sent", "*": "kept"}

SAVED_FILE_FORMATS = {
    "walk.out": "trace, as TLC prints it",
    "walk.itf.json": "trace, ITF",
    "walk.json": "trace, TLC's JSON",
    "walk.txt": "scenario",
    "walk.html": "page to share",
    "walk.md": "Mermaid, for a pull request",
}
"""The file names of a saved walk, with their descriptions."""

PAGE_SCRIPTS = ("data.js", "diagram.js", "details.js", "pane.js", "explore.js")
"""The parts of the page's script; all but the last are those of a report."""

CONNECT_POLICY = "connect-src 'self'; img-src 'self'; "
"""Allowed requests of the page: to this server, and for the icon."""


class StateInspector:
    """Evaluates the enabled steps, disabled actions and properties of visited states."""

    def __init__(self, tree: StateTree) -> None:
        self._tree = tree
        self._semantics = tree.semantics
        self._job = tree.job
        self._broken: dict[int, list[str]] = {}

    def offers(self, number: int) -> dict[str, Any]:
        """Return the enabled steps, the disabled actions with reasons, and the properties of a node."""
        node = self._tree.node(number)
        with locate_protocol_errors(self._job.model):
            offered = self._tree.offered(node)
            way = [one.step.state for one in node.way]
            enabled = [
                {**self._step(node, one, way), "node": self._tree.visited(number, choice)}
                for choice, one in enumerate(offered)
            ]
            taken = {one.action for one in offered}
            disabled = [self._disabled(node, action, is_taken=action in taken) for action in self._tree.actions]
        return {
            "node": number,
            "enabled": enabled,
            "disabled": [one for one in disabled if one["reasons"]],
            "properties": list(self._properties(node)),
            "deadlock": not offered and self._job.options.deadlock,
        }

    def broken(self, node: VisitedNode) -> list[str]:
        """Return the names of the violated properties of a node and of the step to it, and "Deadlock" in a deadlock."""
        if node.number not in self._broken:
            before = None if node.before is None else node.before.step
            found = self._false(before, node)
            with suppress(InputError):  # `offers` reports an action that raises
                if self._job.options.deadlock and not self._tree.offered(node):
                    found.append(DEADLOCK)
            self._broken[node.number] = found
        return self._broken[node.number]

    def why(self, node: VisitedNode, name: str) -> dict[str, Any] | None:
        """Return the reason of a violation in a node as JSON; None if the evaluation raises."""
        last = [one.step for one in node.way[-2:]]
        try:
            return shorten_source_path_in_reason(
                violation_as_json(self._job.protocol, Violation(name, tuple(last)))["why"]
            )
        except InputError:
            return None

    # Steps

    def _step(self, node: VisitedNode, taken: Transition, way: list[Any]) -> dict[str, Any]:
        protocol, before, after = self._job.protocol, node.step.state, taken.target
        under_way = messages_around_step(protocol.network, before, after, taken.message)
        is_own = taken.action in protocol.network.own_actions()
        next_one = VisitedNode(-1, node, taken, TraceStep(after))
        return {
            "action": taken.action,
            "by": "the network" if is_own else "the environment" if taken.actor is None else text_of(taken.actor),
            "on": None if taken.message is None else value_as_json(taken.message),
            "changes": [[one.path, one.text] for one in state_changes(protocol, before, after)],
            "messages": [
                [MESSAGE_MARKS[one.mark], value_as_json(one.message)] for one in under_way if one.mark in MESSAGE_MARKS
            ],
            "breaks": self._false(node.step, next_one),
            "outside": list(self._outside(node, taken)),
            "back": next((number for number, state in enumerate(way, start=1) if state == after), None),
        }

    def _outside(self, node: VisitedNode, taken: Transition) -> Iterator[str]:
        """Yield the constraints that a step violates; a search does not expand the step's target."""
        semantics, options = self._semantics, self._job.options
        yield from (one.name for one in options.constraints if not semantics.holds(one, taken.target))
        over = options.action_constraints
        yield from (one.name for one in over if not semantics.holds_over(one, node.step.state, taken.target))

    def _disabled(self, node: VisitedNode, action: str, *, is_taken: bool) -> dict[str, Any]:
        found = [one for one in explain_action(self._semantics, node.step.state, action) if one.kind != ENABLED_KIND]
        grouped: dict[tuple[str, str], list[ActionExplanation]] = {}
        for reason in found:
            grouped.setdefault((reason.text, _place_of_failed_condition(reason)), []).append(reason)
        reasons = [
            {
                "text": text,
                "place": place,
                "kind": alike[0].kind,
                "who": [_actor_and_message_json(one) for one in alike],
            }
            for (text, place), alike in grouped.items()
        ]
        return {"action": action, "reasons": reasons, "others": is_taken}

    # Properties

    def _false(self, before: TraceStep | None, node: VisitedNode) -> list[str]:
        """Return the names of the properties that are violated, or raise an error, in a node or the step to it."""
        return [prop.name for prop in self._job.options.properties if self._verdict(prop, before, node) is not True]

    def _verdict(self, prop: Property, before: TraceStep | None, node: VisitedNode) -> bool | str:
        """Return whether a property holds in a node, or over the step to it; the text of the error if it raises."""
        try:
            with locate_protocol_errors(self._job.model):
                if not prop.over_steps:
                    return self._semantics.holds(prop, node.step.state)
                if before is None or node.transition is None:
                    return self._semantics.begins(prop, node.step.state)
                return self._semantics.step_satisfies(prop, before.state, node.transition)
        except InputError as error:
            return str(error)

    def _properties(self, node: VisitedNode) -> Iterator[dict[str, Any]]:
        """Yield every property with its verdict, or with its error if the evaluation raised."""
        before = None if node.before is None else node.before.step
        options = self._job.options
        for prop in (*options.properties, *options.reachable, *options.constraints):
            verdict = self._verdict(prop, before, node)
            found: dict[str, Any] = {"name": prop.name, "kind": prop.kind.replace("_", " "), "holds": verdict is True}
            found["error"] = verdict if isinstance(verdict, str) else None
            found["why"] = self.why(node, prop.name) if verdict is False and prop in options.properties else None
            if prop.over_steps and before is None and verdict is True:
                found["holds"] = None
            yield found


def _actor_and_message_json(reason: ActionExplanation) -> list[Any]:
    """Return the replica and the message of an explanation, as JSON."""
    who = None if reason.actor is None else text_of(reason.actor)
    return [who, None if reason.message is None else value_as_json(reason.message)]


def _place_of_failed_condition(reason: ActionExplanation) -> str:
    """Return the place of the failed condition: the last two parts of the path, and the line."""
    return "" if reason.file is None else f"{'/'.join(reason.file.split('/')[-2:])}:{reason.line}"


def exported_walk_content(
    tree: StateTree, node: VisitedNode, name: str, run: Callable[[], dict[str, Any]], broken: Sequence[str]
) -> bytes:
    """Return the content of a file with the walk to a node, in the format of its name."""
    if name not in SAVED_FILE_FORMATS:
        raise InputError(f"expected a file called {', '.join(SAVED_FILE_FORMATS)}, found {name}")
    if name == "walk.txt":
        return walk_as_scenario_text(tree, node).encode()
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        if path.suffix in REPORT_EXTENSIONS:
            write_report(path, [run()])
        else:
            trace = tuple(one.step for one in node.way)
            write_counterexamples(tree.job.protocol, [Violation(next(iter(broken), ""), trace)], path)
        return path.read_bytes()


def walk_as_scenario_text(tree: StateTree, node: VisitedNode) -> str:
    """Return the walk to a node as a scenario."""
    job, way = tree.job, node.way
    variant = job.model.protocol.variant
    words = [job.model.name, *([f"variant={variant}"] if variant else [])]
    words += [] if job.config_name == "none" else [f"config={job.config_name}"]
    steps = [one.transition for one in way if one.transition is not None]
    words += tree.settings
    return walk_as_scenario(job.model.protocol, words, job.options.init, way[0].step.state, steps)


class Session:
    """A session of one protocol. A lock serializes its requests."""

    def __init__(self, tree: StateTree, warnings: Sequence[str] = ()) -> None:
        self._tree = tree
        self._inspector = StateInspector(tree)
        self._warnings = list(warnings)
        self._states: dict[int, dict[str, Any]] = {}
        self._lock = Lock()

    def page(self) -> str:
        """Return the page, whose script requests all other data."""
        job = self._tree.job
        return html_document(
            {
                **tool_header(),
                **job_as_json(job),
                "configuration": job.config_name.rpartition("/")[2],
                "starts": [one._asdict() for one in self._tree.starts],
                "forms": SAVED_FILE_FORMATS,
                "warnings": self._warnings,
            },
            PAGE_SCRIPTS,
            CONNECT_POLICY,
        )

    def walk(self, number: int) -> dict[str, Any]:
        """Return the walk to a node as report data."""
        with self._lock, locate_protocol_errors(self._tree.job.model):
            return deduplicate_page_data([self._run(self._tree.node(number))])

    def offers(self, number: int) -> dict[str, Any]:
        """Return the steps and properties of a node; see `StateInspector.offers`."""
        with self._lock:
            return self._inspector.offers(number)

    def take(self, number: int, choice: int) -> dict[str, Any]:
        """Take a step from a node and return the walk to the next node as report data."""
        with self._lock, locate_protocol_errors(self._tree.job.model):
            return deduplicate_page_data([self._run(self._tree.take(number, choice))])

    def save(self, number: int, name: str) -> bytes:
        """Return the content of a file with the walk to a node."""
        with self._lock, locate_protocol_errors(self._tree.job.model):
            node = self._tree.node(number)
            return exported_walk_content(self._tree, node, name, lambda: self._run(node), self._inspector.broken(node))

    def _run(self, node: VisitedNode) -> dict[str, Any]:
        """Return the walk to a node in the form of `search_as_report_data`."""
        job, way = self._tree.job, node.way
        states = [self._state(place, one) for place, one in enumerate(way, start=1)]
        broken = self._inspector.broken(node)
        trace = {
            "property": next(iter(broken), None),
            "why": self._inspector.why(node, broken[0]) if broken else None,
            "title": f"Walk, {count_with_noun(len(way), 'state')}",
            "end": f"violates {', '.join(broken)}" if broken else "",
            **behaviour_as_report_data(job.protocol, states, [one.step for one in way]),
        }
        return {
            **job_as_json(job),
            "result": "violation" if broken else "walk",
            "checked": [prop.name for prop in job.options.properties],
            "violations": list(dict.fromkeys(name for state in states for name in state["breaks"])),
            "actions": dict(Counter(one.step.action for one in way[1:])),
            "traces": [trace],
        }

    def _state(self, place: int, node: VisitedNode) -> dict[str, Any]:
        if node.number not in self._states:
            before = None if node.before is None else node.before.step
            found = trace_state_as_json(self._tree.job.protocol, place, before, node.step)
            self._states[node.number] = {**found, "node": node.number, "breaks": self._inspector.broken(node)}
        return self._states[node.number]


SERVER_ADDRESS = "127.0.0.1"
MOST_BODY_BYTES = 4096
"""Maximum size of a request body, in bytes."""

REQUEST_TIMEOUT_SECONDS = 30
"""Timeout of a request, in seconds."""

RESPONSE_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers of every response. The page itself has a stricter Content-Security-Policy."""


class RefusedRequestError(Exception):
    """A refused request, with its HTTP status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Response(NamedTuple):
    kind: str
    content: bytes
    status: HTTPStatus = HTTPStatus.OK


class Server(ThreadingHTTPServer):
    """The HTTP server of the page."""

    daemon_threads = True

    def __init__(self, session: Session, port: int = 0) -> None:
        try:
            super().__init__((SERVER_ADDRESS, port), _RequestHandler)
        except OSError as error:
            raise InputError(f"--port {port}: not available: {error.strerror}; leave it out for a free one") from error
        self.session = session
        self.host = f"{SERVER_ADDRESS}:{self.server_port}"
        self.token = secrets.token_urlsafe(24)
        self.address = f"http://{self.host}/{self.token}/"

    def handle_error(self, *_: object) -> None:
        """Ignore errors of connections that the client closed."""


class _RequestHandler(BaseHTTPRequestHandler):
    server: Server
    server_version = "kraftcheck"
    sys_version = ""
    timeout = REQUEST_TIMEOUT_SECONDS

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, *_: object) -> None:
        """Log nothing to the terminal."""

    def _answer(self, method: str) -> None:
        try:
            found = self._found(method)
        except RefusedRequestError as refused:
            found = _error_response(str(refused), refused.status)
        except InputError as error:
            found = _error_response(str(error), HTTPStatus.UNPROCESSABLE_ENTITY)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            found = _error_response(f"{type(error).__name__}: {error}", HTTPStatus.INTERNAL_SERVER_ERROR)
        self.send_response(found.status)
        for name, value in RESPONSE_HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", found.kind)
        self.send_header("Content-Length", str(len(found.content)))
        self.end_headers()
        self.wfile.write(found.content)

    def _found(self, method: str) -> _Response:
        """Check a request and return its answer."""
        self._require_ours(method)
        try:
            url = urlsplit(self.path)
        except ValueError:
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "expected an address") from None
        if (method, url.path) == ("GET", "/favicon.ico"):
            return _Response("image/x-icon", b"", HTTPStatus.NO_CONTENT)
        token, _, what = url.path.removeprefix("/").partition("/")
        if not compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            raise RefusedRequestError(
                HTTPStatus.FORBIDDEN, "wrong token; use the address that kraftcheck explore printed"
            )
        session = self.server.session
        given = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if (method, what) == ("GET", ""):
            return _Response("text/html; charset=utf-8", session.page().encode("utf-8", "replace"))
        if (method, what) == ("GET", "walk"):
            return _json_response(session.walk(_parse_number(given, "node")))
        if (method, what) == ("GET", "offers"):
            return _json_response(session.offers(_parse_number(given, "node")))
        if (method, what) == ("GET", "save"):
            content = session.save(_parse_number(given, "node"), str(given.get("name")))
            return _Response("application/octet-stream", content)
        if (method, what) == ("POST", "take"):
            asked = self._body()
            return _json_response(session.take(_parse_number(asked, "node"), _parse_number(asked, "choice")))
        raise RefusedRequestError(HTTPStatus.NOT_FOUND, "unknown address")

    def _require_ours(self, method: str) -> None:
        """Raise RefusedRequestError unless the request comes from the page itself or from the address bar."""
        if self.headers.get_all("Host") != [self.server.host]:
            raise RefusedRequestError(HTTPStatus.MISDIRECTED_REQUEST, f"expected the host {self.server.host}")
        origin = self.headers.get("Origin")
        if origin != f"http://{self.server.host}" and not (origin is None and method == "GET"):
            raise RefusedRequestError(
                HTTPStatus.FORBIDDEN, "wrong Origin header; only the page itself may send requests"
            )

    def _body(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise RefusedRequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected JSON")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= MOST_BODY_BYTES):
            raise RefusedRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {MOST_BODY_BYTES} bytes")
        try:
            found = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "expected a JSON object")
        return found


def _parse_number(given: dict[str, Any], name: str) -> int:
    value = given.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise RefusedRequestError(HTTPStatus.BAD_REQUEST, f"{name}: expected a number")


def _json_response(content: Any) -> _Response:
    return _Response("application/json", json.dumps(content, separators=(",", ":")).encode("ascii"))


def _error_response(message: str, status: HTTPStatus) -> _Response:
    return _json_response({"error": message})._replace(status=status)
