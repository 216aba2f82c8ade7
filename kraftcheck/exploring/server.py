"""The HTTP server of `explore`: loopback only, token-protected, same-origin.

Other pages in the same browser can send requests to this server. Three checks refuse them. The address has a random
token. The Host header is wrong after DNS rebinding. A cross-site request cannot forge the Origin header.
Sources: RFC 9110, sections 7.2 and 15.5.4; the Fetch standard, "Origin header".
"""

from __future__ import annotations

import json
import secrets
import sys
import traceback
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from kraftcheck.exploring.session import Session
from kraftcheck.spec.errors import InputError

ADDRESS = "127.0.0.1"
LONGEST_BODY = 4096
"""Maximum size of a request body, in bytes."""

PATIENCE = 30
"""Timeout of a request, in seconds."""

HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers of every response. The page itself has a stricter Content-Security-Policy."""


class RefusedError(Exception):
    """A refused request, with its HTTP status."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Answer(NamedTuple):
    kind: str
    content: bytes
    status: HTTPStatus = HTTPStatus.OK


class Server(ThreadingHTTPServer):
    """The HTTP server of the page."""

    daemon_threads = True

    def __init__(self, session: Session, port: int = 0) -> None:
        try:
            super().__init__((ADDRESS, port), _Handler)
        except OSError as error:
            raise InputError(f"--port {port}: not available: {error.strerror}; leave it out for a free one") from error
        self.session = session
        self.host = f"{ADDRESS}:{self.server_port}"
        self.token = secrets.token_urlsafe(24)
        self.address = f"http://{self.host}/{self.token}/"

    def handle_error(self, *_: object) -> None:
        """Ignore errors of connections that the client closed."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "kraftcheck"
    sys_version = ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, *_: object) -> None:
        """Log nothing to the terminal."""

    def _answer(self, method: str) -> None:
        try:
            found = self._found(method)
        except RefusedError as refused:
            found = _error(str(refused), refused.status)
        except InputError as error:
            found = _error(str(error), HTTPStatus.UNPROCESSABLE_ENTITY)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            found = _error(f"{type(error).__name__}: {error}", HTTPStatus.INTERNAL_SERVER_ERROR)
        self.send_response(found.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", found.kind)
        self.send_header("Content-Length", str(len(found.content)))
        self.end_headers()
        self.wfile.write(found.content)

    def _found(self, method: str) -> _Answer:
        """Check a request and return its answer."""
        self._require_ours(method)
        try:
            url = urlsplit(self.path)
        except ValueError:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "expected an address") from None
        if (method, url.path) == ("GET", "/favicon.ico"):
            return _Answer("image/x-icon", b"", HTTPStatus.NO_CONTENT)
        token, _, what = url.path.removeprefix("/").partition("/")
        if not compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            raise RefusedError(HTTPStatus.FORBIDDEN, "wrong token; use the address that kraftcheck explore printed")
        session = self.server.session
        given = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if (method, what) == ("GET", ""):
            return _Answer("text/html; charset=utf-8", session.page().encode("utf-8", "replace"))
        if (method, what) == ("GET", "walk"):
            return _json(session.walk(_number(given, "node")))
        if (method, what) == ("GET", "offers"):
            return _json(session.offers(_number(given, "node")))
        if (method, what) == ("GET", "save"):
            content = session.save(_number(given, "node"), str(given.get("name")))
            return _Answer("application/octet-stream", content)
        if (method, what) == ("POST", "take"):
            asked = self._body()
            return _json(session.take(_number(asked, "node"), _number(asked, "choice")))
        raise RefusedError(HTTPStatus.NOT_FOUND, "unknown address")

    def _require_ours(self, method: str) -> None:
        """Raise RefusedError unless the request comes from the page itself or from the address bar."""
        if self.headers.get_all("Host") != [self.server.host]:
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, f"expected the host {self.server.host}")
        origin = self.headers.get("Origin")
        if origin != f"http://{self.server.host}" and not (origin is None and method == "GET"):
            raise RefusedError(HTTPStatus.FORBIDDEN, "wrong Origin header; only the page itself may send requests")

    def _body(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected JSON")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= LONGEST_BODY):
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {LONGEST_BODY} bytes")
        try:
            found = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "expected a JSON object")
        return found


def _number(given: dict[str, Any], name: str) -> int:
    value = given.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise RefusedError(HTTPStatus.BAD_REQUEST, f"{name}: expected a number")


def _json(content: Any) -> _Answer:
    return _Answer("application/json", json.dumps(content, separators=(",", ":")).encode("ascii"))


def _error(message: str, status: HTTPStatus) -> _Answer:
    return _json({"error": message})._replace(status=status)
