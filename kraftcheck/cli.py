"""The command line. Each command is a file in `commands`; only the chosen one is imported, so `--help` stays fast.

A command's file has two functions: `add_arguments(parser)`, and `run(arguments)`, which returns the exit code. The
first line of its docstring is the command's summary, and the other lines are the end of its help.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import BufferedWriter, FileIO, TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

if TYPE_CHECKING:
    from kraftcheck.spec.errors import RaisedError

OVERVIEW = """\
kraftcheck, a model checker for KRaft and for message-passing protocols in Python

  kraftcheck models                   list the models that come with it
  kraftcheck check MODEL              search every state for a violation
  kraftcheck simulate MODEL           take random walks where there are too many states
  kraftcheck explore MODEL            walk through a model in the browser
  kraftcheck replay MODEL TRACE       compare a trace with a model

For a start: kraftcheck check reconfig --config smoke
All commands: kraftcheck --help; the options of one: kraftcheck check --help"""
"""The text that `kraftcheck` prints without a command."""
EXIT_ASSERTION = 14
"""The exit code of a failed `assert` to which no engine found a path."""
EXIT_BROKEN_PIPE = 141
"""The exit code where the reader of the output has closed it, as of a process that SIGPIPE ends."""
EMPTY_EXEC_CODE = ""
"""Empty code for `exec`. After an interrupted `exec`, as in dataclasses, CPython ends by the signal unless it runs
another `exec`."""
NEEDED_OPTIONS = {"--simplify-time": "--simplify", "--compare-states": "--spec"}
"""Options, of any command, that have an effect only with another one."""
TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that stop a command as Ctrl-C does."""
GC_THRESHOLDS = (500_000, 20, 10)
"""Rare garbage collection, because imports create hundreds of thousands of permanent objects."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default this process's own; return the exit code."""
    _prepare_streams()
    if arguments is not None:
        return _run_command_line(list(arguments))
    from kraftcheck.processes import end_soon_after_signal

    _tune_process()
    with end_soon_after_signal():
        try:
            return _run_command_line(sys.argv[1:])
        finally:  # the report is complete, so a signal ends the process without a traceback
            for number in (signal.SIGINT, *TERMINATION_SIGNALS):
                if signal.getsignal(number) is signal.default_int_handler:
                    signal.signal(number, signal.SIG_DFL)


def _run_command_line(words: list[str]) -> int:
    """Parse and run a command line; return the exit code."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        from kraftcheck.jobs import print_shell_completions

        print_shell_completions(build_parser(next(iter(os.environ["COMP_LINE"].split()[1:]), "")))
    if not words:
        print(OVERVIEW, file=sys.stderr)
        return 2
    try:
        given = build_parser(next(iter(words), "")).parse_args(words)
        _refuse_ineffective_options(words)
    except _UsageError as error:
        return _report_error(str(error), _json_file_of_arguments(words), program=error.program)
    except OSError as error:  # the help or the version cannot be written
        is_closed = isinstance(error, BrokenPipeError)
        return EXIT_BROKEN_PIPE if is_closed else _report_error(f"standard output: {error.strerror}")
    except KeyboardInterrupt:  # during imports
        return _report_interruption()
    given.words = words
    _interrupt_on_termination()
    shown = sys.stderr if str(getattr(given, "json", None)) == "-" else sys.stdout
    try:
        with redirect_stdout(shown):
            return _run_and_report_failure(given)
    except BrokenPipeError:  # the reader of the output has closed it
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return _report_interruption()
    finally:
        exec(EMPTY_EXEC_CODE)


def _run_and_report_failure(given: argparse.Namespace) -> int:
    """Run a command and return the exit code, also that of an error."""
    from kraftcheck.spec.errors import InputError, require_assertions_enabled

    try:
        require_assertions_enabled()
        code: int = given.run(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except (InputError, MemoryError, RuntimeError, OSError) as error:
        is_written = getattr(given, "json_is_written", False)
        return _report_failure(error, given, None if is_written else getattr(given, "json", None))


def _interrupt_on_termination() -> None:
    """Make termination signals raise KeyboardInterrupt, unless the caller handles them."""
    if threading.current_thread() is threading.main_thread():
        for number in TERMINATION_SIGNALS:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)


def _report_failure(error: Exception, given: argparse.Namespace, json: Path | None) -> int:
    """Print the error that ended a command and return the exit code. Raise an unexpected error again."""
    from kraftcheck.spec.errors import InputError, RaisedError

    if isinstance(error, InputError):
        if given.traceback:
            import traceback

            traceback.print_exception(error)
        return (
            _report_protocol_error(error, json)
            if isinstance(error, RaisedError)
            else _report_error(str(error), json, error.exit_code)
        )
    if isinstance(error, OSError):
        return _report_error(f"{error.filename}: {error.strerror}" if error.filename else str(error), json)
    return _report_error(_resource_shortage_message_or_reraise(error, given), json)


def _resource_shortage_message_or_reraise(error: Exception, given: argparse.Namespace) -> str:
    """Return a message for a lack of memory, stack or threads. Raise any other error again."""
    if isinstance(error, MemoryError):
        is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
        limited = " within the limit on address space (ulimit -v)" if is_limited else ""
        advice = "--memory limits a search by --search bfs, and --checkpoint keeps its states"
        return f"out of memory{limited}; {advice if hasattr(given, 'memory') else 'use smaller files or models'}"
    if isinstance(error, RecursionError):
        return "values or calls are nested too deeply; expected fewer than about a thousand levels"
    if str(error) != "can't start new thread":
        raise error
    return f"{error}: see ulimit -u and ulimit -v; --workers 1 needs fewer threads"


def _tune_process() -> None:
    """Make garbage collection rare, and limit OpenBLAS to one thread."""
    gc.set_threshold(*GC_THRESHOLDS)
    atexit.register(gc.freeze)  # else the last collection at exit traverses all memo tables
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else NumPy starts spinning threads


def _prepare_streams() -> None:
    """Make the standard streams safe to write to.

    A stream that the caller closed (`>&-`) leads to /dev/null; otherwise the next opened file would get its number.
    Characters outside a stream's encoding (`LC_ALL=C`, PYTHONIOENCODING) become ASCII escapes. Output that standard
    error cannot take, as on a full disk, is dropped, so it affects neither other files nor the exit code.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, f"__{name}__") is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            stream = open(number, mode, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - while it runs
            setattr(sys, f"__{name}__", stream)
            if getattr(sys, name) is None:
                setattr(sys, name, stream)
        elif mode == "w" and isinstance(stream := getattr(sys, f"__{name}__"), TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            raw = getattr(stream.buffer, "raw", stream.buffer)  # PYTHONUNBUFFERED: no buffer
            if getattr(sys, name) is stream and type(raw) is FileIO:
                changed = _stream_with_raw_file(stream, _StandardOutput if name == "stdout" else _StandardError)
                setattr(sys, name, changed)
                setattr(sys, f"__{name}__", changed)


class _StandardOutput(FileIO):
    """Standard output: an error of writing names it, and later output is dropped."""

    def write(self, data: Any, /) -> int:
        """Write bytes and return their number."""
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            error.filename = "standard output"
            raise


class _StandardError(FileIO):
    """Standard error, which drops unwritable output; a closed pipe still raises BrokenPipeError."""

    def write(self, data: Any, /) -> int:
        """Write bytes and return the number that were written or dropped."""
        try:
            written = super().write(data)
        except BrokenPipeError:
            raise
        except OSError:
            written = None
        return len(data) if written is None else written  # None also for a write that would block


def _stream_with_raw_file(stream: TextIOWrapper, kind: type[FileIO]) -> TextIOWrapper:
    """Return a text stream to the same file as `stream`, through a raw file of the given class."""
    with suppress(OSError):
        stream.flush()
    raw = cast("BinaryIO", BufferedWriter(kind(stream.fileno(), "w", closefd=False)))
    by_line = kind is _StandardError or stream.line_buffering or stream.write_through
    return TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=by_line)


def _report_interruption() -> int:
    """Print "interrupted" and return the exit code."""
    exec(EMPTY_EXEC_CODE)
    print("interrupted", file=sys.stderr)
    return 130


def _report_protocol_error(error: RaisedError, json: Path | None) -> int:
    """Print the path to an error in a protocol and the error itself; return the exit code."""
    from kraftcheck.reporting.as_json import trace_as_json
    from kraftcheck.reporting.counterexample import behaviour_lines
    from kraftcheck.reporting.lines import print_lines

    found: dict[str, Any] = {}
    if error.trace:
        path = behaviour_lines(error.protocol, error.trace, f"Path to the error in {error.name}")
        print_lines([*path, []], sys.stdout)
        found = {"states": trace_as_json(error.protocol, error.trace)}
    return _report_error(str(error), json, EXIT_ASSERTION if error.is_assertion else 2, **found)


def _json_file_of_arguments(words: Sequence[str]) -> Path | None:
    """Return the file of `--json` in a command line that the parser rejected."""
    named = [after for word, after in pairwise(words) if word == "--json"]
    named += [word.partition("=")[2] for word in words if word.startswith("--json=")]
    return Path(named[0]) if named else None


def _report_error(
    message: str, json: Path | None = None, code: int = 2, *, program: str = "kraftcheck", **more: Any
) -> int:
    """Print an error, write it to the file of `--json` if given, and return the exit code."""
    from kraftcheck.reporting.lines import escape_control_characters

    print(escape_control_characters(f"{program}: error: {message}"), file=sys.stderr)
    if json is not None and "--json" not in message:
        from kraftcheck.reporting.as_json import tool_header
        from kraftcheck.reporting.output import write_json

        with suppress(OSError):
            write_json(json, {**tool_header(), "result": "error", "error": message, "exit_code": code, **more})
    return code


def _refuse_ineffective_options(words: Sequence[str]) -> None:
    """Raise `_UsageError` for an option without the option that it belongs to."""
    given = {word.partition("=")[0] for word in words}
    for option, needed in NEEDED_OPTIONS.items():
        if option in given and needed not in given:
            raise _UsageError("kraftcheck", f"{option}: no effect without {needed}; add it, or leave out {option}")


class _HelpFormatter(argparse.HelpFormatter):
    """A formatter that fills paragraphs to the terminal's width and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = text.strip("\n").split("\n\n")
        fill = super()._fill_text
        return "\n\n".join(one if one.startswith("for example:") else fill(one, width, indent) for one in blocks)


class _UsageError(Exception):
    """An invalid command line."""

    def __init__(self, program: str, message: str) -> None:
        super().__init__(message)
        self.program = program


class _ArgumentParser(argparse.ArgumentParser):
    """A parser that prints the usage and raises `_UsageError`."""

    command = ""
    """The command whose help the user needs, if it is not this parser's own."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        names_option = message.startswith("argument -")  # then the message has the expected value
        raise _UsageError(self.prog, message if names_option else f"{message}; see {self.command or self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:
        print(message, end="", file=file or sys.stderr, flush=True)  # argparse would ignore a full disk


class _VersionAction(argparse.Action):
    """An action that looks up and prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from kraftcheck.persistence import program_version

        print(f"kraftcheck {program_version()}", flush=True)
        parser.exit()


def build_parser(chosen: str) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the arguments of the chosen command."""
    top = _ArgumentParser(
        prog="kraftcheck",
        description="A model checker for KRaft, Kafka's Raft, and for message-passing protocols in Python.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action=_VersionAction, nargs=0, help="print the version")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for file in sorted(Path(__file__).with_name("commands").glob("[!_]*.py")):
        first, _, rest = file.read_text("utf-8").split('"""')[1].partition("\n")
        summary = first[0].lower() + first[1:].removesuffix(".")
        command = commands.add_parser(
            file.stem,
            help=summary,
            description=summary,
            epilog=rest,
            allow_abbrev=False,
            formatter_class=_HelpFormatter,
        )
        if file.stem == chosen:
            module = import_module(f"kraftcheck.commands.{chosen}")
            module.add_arguments(command)
            top.command = command.prog
            traceback = "also show Python's traceback of an error in a protocol"
            command.add_argument("--traceback", action="store_true", help=traceback)
            command.set_defaults(run=module.run)
    return top
