"""The command line. A command is a file in `commands`; the one that runs is imported, so `--help` stays quick.

A command's file has a docstring, whose first line says what the command does and whose rest is the end of its help,
and two functions: `declare(parser)`, which adds its arguments, and `run(arguments)`, which returns the exit code.
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
from contextlib import nullcontext, redirect_stdout, suppress
from importlib import import_module
from io import BufferedWriter, FileIO, TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

if TYPE_CHECKING:
    from kraftcheck.spec.errors import RaisedError

ASSERTION = 14
"""The exit code where an `assert` failed and no engine found the way to it."""
END_BY_CODE = ""
"""Does nothing. Where `exec` was interrupted, as in dataclasses, CPython ends by the signal, unless another follows."""
SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""What stops a command in the same way as Ctrl-C."""
COLLECT = (50_000, 20, 10)
"""When Python looks for cycles: seldom, as what is imported makes hundreds of thousands of objects that all stay."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line."""
    _prepare_streams()
    if arguments is not None:
        return _run(list(arguments))
    from kraftcheck.explorer.interruption import ending_soon

    _tune_process()
    with ending_soon():
        try:
            return _run(sys.argv[1:])
        finally:  # the result is reported: from here on a signal ends the process without a traceback
            for number in (signal.SIGINT, *SIGNALS):
                if signal.getsignal(number) is signal.default_int_handler:
                    signal.signal(number, signal.SIG_DFL)


def _run(words: list[str]) -> int:
    """Run a command line; return the exit code."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what the word under its cursor may become
        from kraftcheck.options import complete

        complete(parser(next(iter(os.environ["COMP_LINE"].split()[1:]), "")))
    try:
        given = parser(next(iter(words), "")).parse_args(words)
        from kraftcheck.spec.errors import InputError, require_assertions
    except _BadUsage as error:
        return _complain(str(error), _json_in(words), program=error.program)
    except KeyboardInterrupt:  # while modules are imported
        return _interrupted()
    given.words = words
    _heed_signals()
    json = getattr(given, "json", None)
    before = _stamp(json)
    try:
        require_assertions()
        with redirect_stdout(sys.stderr) if str(json) == "-" else nullcontext():
            code: int = given.run(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (InputError, MemoryError, RuntimeError, OSError) as error:
        return _failed(error, given, _unwritten(json, before))
    except KeyboardInterrupt:
        return _interrupted()
    finally:
        exec(END_BY_CODE)


def _heed_signals() -> None:
    """Have the signals that end a process stop the command as Ctrl-C does, unless the caller handles them."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)


def _failed(error: Exception, given: argparse.Namespace, json: Path | None) -> int:
    """Tell what ended a command; return the exit code. An error of ours is raised again."""
    from kraftcheck.spec.errors import InputError, RaisedError

    if isinstance(error, InputError):
        if given.traceback:
            import traceback

            traceback.print_exception(error)
        return _told(error, json) if isinstance(error, RaisedError) else _complain(str(error), json)
    if isinstance(error, OSError):
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error), json)
    return _complain(_shortage(error, given), json)


def _shortage(error: Exception, given: argparse.Namespace) -> str:
    """Return what the process has too little of; an error that says something else is raised again."""
    if isinstance(error, MemoryError):
        is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
        limited = " within the limit on address space (ulimit -v)" if is_limited else ""
        advice = "--search bfs has --memory, and --checkpoint, which keeps what is found"
        return f"out of memory{limited}; {advice if hasattr(given, 'memory') else 'expected smaller files or models'}"
    if str(error) != "can't start new thread":
        raise error
    return f"{error}; --workers 1 needs fewer, the limits are ulimit -u and ulimit -v"


def _tune_process() -> None:
    """Keep what the process would do besides its work as short as it can be."""
    gc.set_threshold(*COLLECT)
    atexit.register(gc.freeze)  # else all that was learned is looked through once more, when it no longer matters
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else NumPy starts threads that spin; we multiply no matrices


def _prepare_streams() -> None:
    """Open to nowhere what the caller closed (`>&-`): else a file of ours would have the number of a stream.

    What a stream's encoding cannot say (`LC_ALL=C`, PYTHONIOENCODING) is said in ASCII. What standard error does not
    take, as on a full disk, is lost; what the command writes elsewhere, and its exit code, are not.
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
            raw = getattr(stream.buffer, "raw", stream.buffer)  # with PYTHONUNBUFFERED there is no buffer
            if name == "stderr" and sys.stderr is stream and type(raw) is FileIO:
                sys.stderr = sys.__stderr__ = _lossy(stream)  # type: ignore[misc]


class _Lossy(FileIO):
    """Drops what cannot be written, unless nobody reads it any more."""

    def write(self, data: Any, /) -> int:
        """Write bytes; return how many are dealt with."""
        try:
            written = super().write(data)
        except BrokenPipeError:
            raise
        except OSError:
            written = None
        return len(data) if written is None else written  # None, too, where it would have to wait


def _lossy(stream: TextIOWrapper) -> TextIOWrapper:
    """Return a stream that writes where another one does, and drops what cannot be written there."""
    with suppress(OSError):
        stream.flush()
    raw = cast("BinaryIO", BufferedWriter(_Lossy(stream.fileno(), "w", closefd=False)))
    return TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True)


def _interrupted() -> int:
    """Print that the user interrupted the command; return the exit code."""
    exec(END_BY_CODE)
    print("interrupted", file=sys.stderr)
    return 130


def _stamp(path: Path | None) -> tuple[int, int] | None:
    """Return when a file was written and its size; None where there is none."""
    with suppress(OSError):
        found = None if path is None or str(path) == "-" else path.stat()
        return None if found is None else (found.st_mtime_ns, found.st_size)
    return None


def _unwritten(json: Path | None, before: tuple[int, int] | None) -> Path | None:
    """Return the file for an error, unless the command has written into it what it found until then."""
    return json if _stamp(json) == before else None


def _told(error: RaisedError, json: Path | None) -> int:
    """Tell an error in a protocol, after the behaviour that leads there; return the exit code."""
    from kraftcheck.reporting.as_json import states_as_json
    from kraftcheck.reporting.counterexample import behaviour_lines
    from kraftcheck.reporting.lines import print_lines

    found: dict[str, Any] = {}
    if error.trace:
        shown = sys.stderr if str(json) == "-" else sys.stdout
        print_lines([*behaviour_lines(error.protocol, error.trace, f"The way to the error in {error.name}"), []], shown)
        found = {"states": states_as_json(error.protocol, error.trace)}
    return _complain(str(error), json, ASSERTION if error.is_assertion else 2, **found)


def _json_in(words: Sequence[str]) -> Path | None:
    """Return the file that `--json` names in a command line that cannot be understood."""
    named = [after for word, after in pairwise(words) if word == "--json"]
    named += [word.partition("=")[2] for word in words if word.startswith("--json=")]
    return Path(named[0]) if named else None


def _complain(
    message: str, json: Path | None = None, code: int = 2, *, program: str = "kraftcheck", **more: Any
) -> int:
    """Tell an error, in the file that `--json` names too; return the exit code."""
    from kraftcheck.reporting.lines import harmless

    print(harmless(f"{program}: error: {message}"), file=sys.stderr)
    if json is not None and "--json" not in message:
        from kraftcheck.reporting.as_json import tool
        from kraftcheck.reporting.files import write_json

        with suppress(OSError):
            write_json(json, {**tool(), "result": "error", "error": message, "exit_code": code, **more})
    return code


class _Help(argparse.HelpFormatter):
    """Fills paragraphs to the width of the terminal, and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = text.strip("\n").split("\n\n")
        fill = super()._fill_text
        return "\n\n".join(one if one.startswith("for example:") else fill(one, width, indent) for one in blocks)


class _BadUsage(Exception):  # noqa: N818 - what the user did
    """A command line cannot be understood."""

    def __init__(self, program: str, message: str) -> None:
        super().__init__(message)
        self.program = program


class _Parser(argparse.ArgumentParser):
    """Raises what is wrong with a command line, after the usage is shown."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise _BadUsage(self.prog, message)


class _Version(argparse.Action):
    """Tells the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"kraftcheck {version('kraftcheck')}")
        parser.exit()


def parser(chosen: str) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = _Parser(
        prog="kraftcheck", description="An explicit-state model checker for KRaft, Kafka's Raft.", allow_abbrev=False
    )
    top.add_argument("--version", action=_Version, nargs=0, help="say which version this is")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for file in sorted(Path(__file__).with_name("commands").glob("[!_]*.py")):
        first, _, rest = file.read_text("utf-8").split('"""')[1].partition("\n")
        what = first[0].lower() + first[1:].removesuffix(".")
        command = commands.add_parser(
            file.stem, help=what, description=what, epilog=rest, allow_abbrev=False, formatter_class=_Help
        )
        if file.stem == chosen:
            module = import_module(f"kraftcheck.commands.{chosen}")
            module.declare(command)
            what = "show Python's traceback of an error in a protocol too"
            command.add_argument("--traceback", action="store_true", help=what)
            command.set_defaults(run=module.run)
    return top
