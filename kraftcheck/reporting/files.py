"""Output files of commands. An unwritable file is refused before the work begins."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from kraftcheck.explorer.result import DEADLOCK, Violation
from kraftcheck.files import real_path, replacing
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.declarations import OF_BEHAVIOURS
from kraftcheck.spec.language.protocol import Protocol

STANDARD_OUTPUT = Path("-")
"""The file name of standard output. All other output then goes to standard error."""

REPORTS = (".html", ".md")
"""The file name extensions of reports."""


def require_writable(arguments: argparse.Namespace, *options: str) -> None:
    """Check that the output files of options can be written, without changing them."""
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
            raise InputError(f"{option} {path}: this file is an input; give another file")
        other = taken.setdefault(real_path(path), option)
        if other != option:
            raise InputError(f"{option} {path}: {other} writes the same file; give another file")
        _try_to_write(option, path)


def _try_to_write(option: str, path: Path) -> None:
    existed = path.exists()
    with writable(option, path):
        path.open("ab").close()
    if not existed:
        path.unlink()


@contextmanager
def writable(option: str, path: Path) -> Iterator[None]:
    """Convert an OSError of writing into InputError with the option's name: a disk may be full."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be written: {error.strerror or error}") from error


class OutputFiles:
    """The output files of a command. A write error does not prevent the printed result.

    The constructor refuses unwritable files. A later write error is raised at the end of the context.
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
        """Write the file of an option if the option is given."""
        path: Path | None = getattr(self._arguments, option, None)
        if path is not None:
            with self.of(f"--{option}", path):
                write(path)

    def json(self, content: Callable[[], object]) -> None:
        """Write the file of `--json`."""
        self.file("json", lambda path: write_json(path, content()))

    def lines(self, option: str, content: Callable[[], Iterable[str]]) -> None:
        """Write the lines of an option's file as a whole."""

        def write(path: Path) -> None:
            with replacing(path) as new:
                new.write_text("\n".join(content()) + "\n")

        self.file(option, write)

    @contextmanager
    def of(self, option: str, path: Path) -> Iterator[None]:
        """Record a write error of an option's file for the end of the context."""
        try:
            with writable(option, path):
                yield
        except InputError as error:
            self._failed = self._failed or error


def _inputs(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the arguments of a command line that may be input files."""
    for name in ("model", "config", "traces", "dump", "spec", "walk", "variants", "explained", "paths"):
        given = getattr(arguments, name, None) or ()
        for one in given if isinstance(given, list | tuple) else (given,):
            yield str(one).rpartition(":")[0] if name in ("model", "variants") and ":" in str(one) else str(one)


def require_report(path: Path | None) -> None:
    """Raise InputError for a report with an unknown extension."""
    if path is not None and path.suffix not in REPORTS:
        raise InputError(f"--report {path}: expected a file that ends in {' or '.join(REPORTS)}")


def write_json(path: Path, content: Any) -> None:
    """Write a value as indented JSON to a file, or to the process's standard output for the path `-`."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if path != STANDARD_OUTPUT:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")  # a file name that is not UTF-8: "\\udcff"
    elif sys.__stdout__ is not None:
        sys.__stdout__.write(text)
        sys.__stdout__.flush()


def write_counterexamples(protocol: Protocol, violations: Sequence[Violation], path: Path) -> None:
    """Write counterexamples in the format of the file's extension: TLC's text, ITF or TLC's JSON.

    JSON holds one trace, the first. Without violations, remove an existing file, which could pass for the result. An
    empty property name means that no property is violated.
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
