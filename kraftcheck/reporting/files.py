"""The files that commands write, and whether they can be written before the work begins."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from kraftcheck.explorer.result import DEADLOCK, Violation
from kraftcheck.files import real_path
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.declarations import OF_BEHAVIOURS
from kraftcheck.spec.language.protocol import Protocol

STANDARD_OUTPUT = Path("-")
"""Stands for standard output, where a file is asked for; what else is told goes to standard error then."""

REPORTS = (".html", ".md")
"""How the name of a report ends."""


def require_writable(arguments: argparse.Namespace, *options: str) -> None:
    """Check that the files that options name can be written, without changing any."""
    taken: dict[Path, str] = {}
    inputs = {real_path(name) for name in _inputs(arguments)}
    for option in options:
        path: Path | None = getattr(arguments, option)
        if path is None or (option == "json" and path == STANDARD_OUTPUT):
            continue
        option = f"--{option}"
        if path.is_dir():
            raise InputError(f"{option} {path}: expected a file to write, found a folder")
        if real_path(path) in inputs and path.is_file():
            raise InputError(f"{option} {path}: this file is read; expected another one to write")
        other = taken.setdefault(real_path(path), option)
        if other != option:
            raise InputError(f"{option} {path}: {other} writes this file too")
        _try_to_write(option, path)


def _try_to_write(option: str, path: Path) -> None:
    existed = path.exists()
    with writable(option, path):
        path.open("ab").close()
    if not existed:
        path.unlink()


@contextmanager
def writable(option: str, path: Path) -> Iterator[None]:
    """Raise InputError, which names the option, where its file cannot be written: a disk may be full by now."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be written: {error.strerror or error}") from error


class OutputFiles:
    """Writes the files that options name, of which one that cannot be written keeps nobody from hearing the result.

    Made before the work begins, it refuses what cannot be written. What fails later is raised at its end.
    """

    def __init__(self, arguments: argparse.Namespace, *options: str) -> None:
        require_writable(arguments, *options)
        require_report(getattr(arguments, "report", None))
        self._arguments = arguments
        self._failed: InputError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._failed is not None:
            raise self._failed

    def file(self, option: str, write: Callable[[Path], object]) -> None:
        """Write the file of an option, if the user asks for it."""
        path: Path | None = getattr(self._arguments, option, None)
        if path is not None:
            with self.of(f"--{option}", path):
                write(path)

    def json(self, content: Callable[[], object]) -> None:
        """Write the file of `--json`."""
        self.file("json", lambda path: write_json(path, content()))

    @contextmanager
    def of(self, option: str, path: Path) -> Iterator[None]:
        """Note that the file of an option cannot be written, where it cannot."""
        try:
            with writable(option, path):
                yield
        except InputError as error:
            self._failed = self._failed or error


def _inputs(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the names, of files perhaps, of what a command line has the command read."""
    for name in ("model", "config", "traces", "dump", "spec", "walk", "variants", "explained"):
        given = getattr(arguments, name, None) or ()
        for one in given if isinstance(given, list | tuple) else (given,):
            yield str(one).rpartition(":")[0] if name in ("model", "variants") and ":" in str(one) else str(one)


def require_report(path: Path | None) -> None:
    """Raise InputError for a report of a form that there is not."""
    if path is not None and path.suffix not in REPORTS:
        raise InputError(f"--report {path}: expected a file that ends in {' or '.join(REPORTS)}")


def write_json(path: Path, content: Any) -> None:
    """Write a value as JSON that people can read too; to the process's standard output where the path is `-`."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if path != STANDARD_OUTPUT:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")  # a name that is no text: "\\udcff"
    elif sys.__stdout__ is not None:
        sys.__stdout__.write(text)
        sys.__stdout__.flush()


def write_counterexamples(protocol: Protocol, violations: Sequence[Violation], path: Path) -> None:
    """Write counterexamples in the format that the file's name says: as TLC prints error traces, or as JSON.

    `violations`: what to write, one after another; JSON holds one trace, the first. Where there is none, no file of an
    earlier run is left that could be taken for one. A property without a name stands for none.
    """
    if not violations:
        if path.is_file():
            path.unlink()
        return
    from kraftcheck.spec.tla.view import StateView
    from kraftcheck.traces.trace import Ending, Trace, TraceFormat, TraceState, form_of, write_trace

    view = StateView(protocol)

    def trace_of(index: int, violation: Violation) -> Trace:
        steps = enumerate(violation.trace, start=1)
        states = tuple(TraceState(number, view.variables(step.state), step.action) for number, step in steps)
        loop, ending = violation.loop, None
        if loop is not None:
            ending = Ending() if loop.again is None else Ending(loop.back_to, loop.again.action)
        violated = None if violation.failed else violation.property or None
        problem = _problem(protocol, violation)
        return Trace(str(path), index, TraceFormat.TLC_LOG, states, ending, violated, problem)

    traces = [trace_of(index, violation) for index, violation in enumerate(violations)]
    if form_of(path) != "text":
        write_trace(traces[0], path)
        return
    with path.open("w", encoding="utf-8") as file:
        for trace in traces:
            file.writelines(TraceFormat.TLC_LOG.write(trace))


def _problem(protocol: Protocol, violation: Violation) -> str | None:
    name = violation.property
    if not name:
        return None
    if violation.failed is not None:
        return f"An assert failed in {name}."
    if name == DEADLOCK:
        return "Deadlock reached."
    prop = protocol.properties.get(name)
    if prop is not None and prop.over_steps:
        return f"Action property {name} is violated."
    if prop is not None and prop.kind in OF_BEHAVIOURS:
        return f"Temporal properties {name} were violated."
    return f"Invariant {name} is violated."
