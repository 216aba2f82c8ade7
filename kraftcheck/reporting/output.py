"""Output of a search: its report as text, JUnit XML and GitHub annotations, and the output files of commands.

An unwritable file is refused before the work begins.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from kraftcheck.catalogue import SearchJob
from kraftcheck.explorer.request import OPTIONS, SearchRequest
from kraftcheck.explorer.result import (
    DEADLOCK,
    ERROR_LIMIT,
    INTERRUPTED_LIMIT,
    STRICT_LIMIT,
    Result,
    Verdict,
    Violation,
)
from kraftcheck.files import atomic_replacement, real_path
from kraftcheck.reporting.counterexample import counterexample_lines, counterexample_text, violation_reason
from kraftcheck.reporting.lines import (
    FAINT,
    HEAD,
    PLAIN,
    WARNING,
    Line,
    actions_table,
    count_with_noun,
    lines_as_plain_text,
    note_lines,
)
from kraftcheck.spec.diagnosis.action_explanation import relative_path
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.declarations import GRAPH_PROPERTY_KINDS
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import escape_invisible, text_of

LIMIT_OPTIONS = {name: option.word for name, option in OPTIONS.items() if option.word}
"""Options of the command line by field name, the form of `Result.limit`."""


WARNINGS_SUITE = "warnings"
"""The name of the JUnit test for warnings: skipped, or failed with `--strict`."""


def search_header_lines(job: SearchJob, how: str = "") -> Iterator[Line]:
    """Yield the header: model, configuration, engine and search order (or `how`), constants, properties."""
    protocol, options = job.protocol, job.options
    variant = f" ({protocol.variant})" if protocol.variant else ""
    yield [
        (HEAD, f"{job.model.name}{variant}"),
        (PLAIN, f", configuration {job.config_name}, engine {job.engine}, {how or options.search}"),
    ]
    constants = ", ".join(f"{name} = {text_of(value)}" for name, value in protocol.constant_values().items())
    yield [(FAINT, f"constants: {constants or 'none'}")]
    checked = ", ".join([*_checked_property_names(options), *(["deadlock"] if options.deadlock else [])])
    yield [(FAINT if checked else WARNING, f"checked: {checked or 'nothing'}")]
    reduced = ", ".join(_texts_of_search_reductions(options))
    if reduced:
        yield [(FAINT, reduced)]
    yield []


def _texts_of_search_reductions(options: SearchRequest) -> Iterator[str]:
    """Yield the start, constraints, symmetry and view that reduce the searched states."""
    if options.init != "Init":
        yield f"start {options.init}"
    yield from (f"constraint {prop.name}" for prop in (*options.constraints, *options.action_constraints))
    yield from (f"{what} {name}" for what, name in (("symmetry", options.symmetry), ("view", options.view)) if name)


def _checked_property_names(options: SearchRequest) -> list[str]:
    return [prop.name for prop in (*options.properties, *options.over_behaviours)]


def search_report_lines(
    protocol: Protocol,
    result: Result,
    *,
    configuration: str,
    quiet: bool = False,
    table: bool = False,
    calls: bool = False,
    columns: int | None = None,
    next_steps: Iterable[str] = (),
) -> Iterator[Line]:
    """Yield the report on a search: verdict, counterexamples, table of actions, warnings, notes, summary line."""
    if not quiet:
        yield from verdict_headline_lines(result)
    for violation in result.violations:
        yield from counterexample_lines(protocol, violation, columns)
        yield []
    if (table or calls) and not quiet:
        yield from _action_counts_table(result, calls=calls)
    if table or not result.violations:  # a search that stopped early has not reached every action yet
        yield from never_enabled_lines(result)
    yield from ([(WARNING, f"Warning: {text}")] for text in result.warnings)
    yield from note_lines(result.notes)
    yield from ([(PLAIN, step)] for step in next_steps)
    yield summary_line(result, configuration)


def _action_counts_table(result: Result, *, calls: bool) -> Iterator[Line]:
    """Yield the table of steps by action, with a column for handler calls if `calls`."""
    counts = {"fired" if result.runs is None else "taken": result.actions}
    if calls:
        counts["handler calls"] = {name: result.handler_calls.get(name, 0) for name in result.actions}
    yield from actions_table(counts)
    yield []


def verdict_headline_lines(result: Result) -> Iterator[Line]:
    """Yield the verdict in words, unless the summary line follows directly."""
    if result.violations or result.warnings or result.notes or result.never_enabled:
        text = outcome_text(result)
        yield [(result.verdict, text[0].upper() + text[1:])]
        yield []


def outcome_text(result: Result) -> str:
    """Return the outcome of a search in words: "violated: OneHolder"."""
    what = {
        Verdict.OK: "nothing is violated",
        Verdict.INCOMPLETE: "nothing is violated so far",
        Verdict.DEADLOCK: "a state has no successor",
        Verdict.ASSERTION: "an assert failed in " + ", ".join(one.property for one in result.violations[:1]),
        Verdict.VIOLATION: f"violated: {', '.join(violation.property for violation in result.violations)}",
    }[result.verdict]
    if result.runs is not None:
        what += f" on {count_with_noun(result.runs, 'walk')}"
    if result.limit == STRICT_LIMIT:
        what = "nothing is violated, but --strict rejects warnings and vacuously true properties"
    elif result.limit is not None:
        limit = LIMIT_OPTIONS.get(result.limit, result.limit)
        ends = {INTERRUPTED_LIMIT: "interrupted", ERROR_LIMIT: "ended by an error"}
        what += f", {ends.get(limit, f'stopped at {limit}')}"
    return what


def summary_line(result: Result, configuration: str) -> Line:
    """Return the summary line: verdict, outcome, counts, time and configuration."""
    parts = [
        outcome_text(result),
        *([f"{result.distinct_states:,} distinct states"] if result.counts_distinct else []),
        *([] if result.uncounted else [f"{result.generated_states:,} generated"]),
        *([] if result.depth is None else [f"depth {result.depth}"]),
        f"{result.seconds:,.1f} s",
        f"{result.states_per_second:,.0f} states/s",
        f"configuration {configuration}",
    ]
    return [(result.verdict, result.verdict.upper()), (PLAIN, f": {'; '.join(parts)}")]


def never_enabled_lines(result: Result) -> Iterator[Line]:
    """Yield a warning or a note that lists the actions that never fired."""
    names = result.never_enabled
    if names and result.runs is not None:
        yield [(FAINT, f"Note: never taken on these walks: {', '.join(names)}")]
    elif names:
        when = "in this model" if result.complete else "before the search stopped"
        style = WARNING if result.complete else FAINT
        yield [(style, f"{'Warning' if result.complete else 'Note'}: never enabled {when}: {', '.join(names)}")]


def follow_up_hints(words: Sequence[str], result: Result) -> Iterator[str]:
    """Yield the way past a deadlock, and the command that writes a counterexample as a page."""
    if result.verdict == Verdict.DEADLOCK and words:
        yield "If the protocol may end there: --no-deadlock, or CHECK_DEADLOCK FALSE in the .cfg"
    given = {word.partition("=")[0] for word in words}
    if result.violations and words and "--report" not in given:
        kept = ["--resume-if-present"] * ("--checkpoint" in given and "--resume-if-present" not in given)
        yield f"To see it as a page: kraftcheck {shlex.join([*words, *kept, '--report', 'found.html'])}"


def resume_hint_lines(words: Iterable[str], options: SearchRequest, result: Result) -> Iterator[Line]:
    """Yield the command that resumes a stopped search from its checkpoint, if it has one."""
    folder = options.resume or options.checkpoint
    if folder is None or result.limit in (None, STRICT_LIMIT):
        return
    from kraftcheck.persistence.folder import MANIFEST_FILE

    if (Path(folder) / MANIFEST_FILE).is_file():
        limits = () if result.limit in (INTERRUPTED_LIMIT, "time_limit") else (LIMIT_OPTIONS.get(result.limit, ""),)
        kept = (word for word in words if word != "--resume-if-present")
        again = [*_without_options(kept, ("--checkpoint", "--resume", *limits)), "--resume", str(folder)]
        yield [(PLAIN, f"To go on: kraftcheck {shlex.join(again)}")]


def _without_options(words: Iterable[str], options: Iterable[str]) -> Iterator[str]:
    """Remove options and their values from the words of a command line."""
    rest = iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word.partition("=")[0] not in options:
            yield word


def write_search_junit(
    job: SearchJob, result: Result, path: Path, *, allow_incomplete: bool, strict: bool = False
) -> None:
    """Write a search as a JUnit test suite, with one test per property and one for warnings.

    Jenkins and GitLab read this form: a `testsuite` with `testcase`, `failure` and `skipped`.
    """
    from xml.etree import ElementTree

    violated = {violation.property: violation for violation in result.violations}
    tests = dict.fromkeys([*_checked_property_names(job.options), *[DEADLOCK] * job.options.deadlock])
    tests |= dict.fromkeys(violated)  # also an action with a failed assert
    name = ".".join(filter(None, ["kraftcheck", job.model.name, job.model.protocol.variant, job.config_name]))
    suite = ElementTree.Element("testsuite", {"name": name})

    def case(test: str, kind: str = "", text: str | None = None, **attributes: str) -> None:
        found = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": test, "time": "0"})
        if kind:
            ElementTree.SubElement(found, kind, attributes).text = text

    for test in tests:
        if violation := violated.get(test):
            message = f"{_annotation_title(violation)} in {len(violation.trace)} states"
            case(test, "failure", counterexample_text(job.protocol, violation), message=message, type=test)
        elif result.complete or allow_incomplete:
            case(test)
        else:
            case(test, "skipped", message=f"not violated so far; stopped: {result.limit}")
    warnings = result.doubts if strict else result.warnings
    if warnings:
        case(WARNINGS_SUITE, "failure" if strict else "skipped", message="; ".join(warnings))
    write_junit_suite(suite, result.seconds, [summary_line(result, job.config_name)], path)


def write_junit_suite(suite: Any, seconds: float, output: Iterable[Line], path: Path) -> None:
    """Write a JUnit test suite, given its tests, with the numbers of tests and failures, its time and its output."""
    from xml.etree import ElementTree

    counts = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    suite.attrib |= {key: str(len(list(suite.iter(kind)))) for key, kind in counts.items()}
    suite.set("time", f"{seconds:.3f}")
    ElementTree.SubElement(suite, "system-out").text = lines_as_plain_text(output)
    for element in suite.iter():  # XML forbids most control characters
        element.text = element.text and escape_invisible(element.text, keep="\n\t")
        element.attrib.update({key: escape_invisible(value, keep="\n\t") for key, value in element.items()})
    tree = ElementTree.ElementTree(suite)
    ElementTree.indent(tree)
    tree.write(path, "utf-8", xml_declaration=True)


def github_annotations(job: SearchJob, result: Result, *, strict: bool = False) -> Iterator[Line]:
    """Yield GitHub workflow commands: an error for each violated property, and a warning for each warning."""
    for violation in result.violations:
        yield [
            (
                PLAIN,
                _github_workflow_command(
                    "error",
                    _annotation_place(job, violation),
                    _annotation_title(violation),
                    _annotation_text(job, violation),
                ),
            )
        ]
    kind, said = ("error", result.doubts) if strict else ("warning", result.warnings)
    yield from ([(PLAIN, _github_workflow_command(kind, {}, "kraftcheck", text))] for text in said)
    if result.verdict is Verdict.INCOMPLETE:
        end = lines_as_plain_text([summary_line(result, job.config_name)])
        yield [(PLAIN, _github_workflow_command("warning", {}, "kraftcheck", end))]


def _annotation_title(violation: Violation) -> str:
    return f"an assert failed in {violation.property}" if violation.failed else f"{violation.property} is violated"


def _annotation_text(job: SearchJob, violation: Violation) -> str:
    found = violation_reason(job.protocol, violation)
    of = ", ".join(f"{name} = {text_of(value)}" for name, value in found.false_of.items())
    states = f"a counterexample of {len(violation.trace)} states in {job.model.name}, configuration {job.config_name}"
    return f"{found.says}\n{states}" + (f"; violated for {of}" if of else "")


def _annotation_place(job: SearchJob, violation: Violation) -> dict[str, str]:
    place = violation_reason(job.protocol, violation).place
    if place is None:
        return {}
    return {"file": relative_path(place[0]), "line": str(place[1])}


def _github_workflow_command(kind: str, place: dict[str, str], title: str, text: str) -> str:
    settings = ",".join(f"{key}={_escape_for_github(value, ':,')}" for key, value in {**place, "title": title}.items())
    return f"::{kind} {settings}::{_escape_for_github(text)}"


def _escape_for_github(text: str, also: str = "") -> str:
    for character in "%\r\n" + also:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


STANDARD_OUTPUT_PATH = Path("-")
"""The file name of standard output. All other output then goes to standard error."""

REPORT_EXTENSIONS = (".html", ".md")
"""The file name extensions of reports."""


def require_writable_output_files(arguments: argparse.Namespace, *options: str) -> None:
    """Check that the output files of options can be written, without changing them."""
    taken: dict[Path, str] = {}
    inputs = {real_path(name) for name in _possible_input_files(arguments)}
    for option in options:
        path: Path | None = getattr(arguments, option)
        if path is None or (option == "json" and path == STANDARD_OUTPUT_PATH):
            continue
        option = f"--{option}"
        if path.is_dir():
            raise InputError(f"{option} {path}: expected a file to write, found a folder")
        if real_path(path) in inputs and path.is_file():
            raise InputError(f"{option} {path}: this file is an input; give another file")
        other = taken.setdefault(real_path(path), option)
        if other != option:
            raise InputError(f"{option} {path}: {other} writes the same file; give another file")
        _require_writable_file(option, path)


def _require_writable_file(option: str, path: Path) -> None:
    if path == STANDARD_OUTPUT_PATH:
        raise InputError(f"{option} -: standard output is for --json only; give another file")
    existed = path.exists()
    with convert_write_errors(option, path):
        path.open("ab").close()
    if not existed:
        path.unlink()


@contextmanager
def convert_write_errors(option: str, path: Path) -> Iterator[None]:
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
        require_writable_output_files(arguments, *options)
        require_report_extension(getattr(arguments, "report", None))
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
        """Write the file of `--json`, and note it for an error that comes later."""

        def write(path: Path) -> None:
            write_json(path, content())
            self._arguments.json_is_written = True

        self.file("json", write)

    def lines(self, option: str, content: Callable[[], Iterable[str]]) -> None:
        """Write the lines of an option's file as a whole."""

        def write(path: Path) -> None:
            with atomic_replacement(path) as new:
                new.write_text("\n".join(content()) + "\n")

        self.file(option, write)

    @contextmanager
    def of(self, option: str, path: Path) -> Iterator[None]:
        """Record a write error of an option's file for the end of the context."""
        try:
            with convert_write_errors(option, path):
                yield
        except InputError as error:
            self._failed = self._failed or error


def _possible_input_files(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the arguments of a command line that may be input files."""
    for name in ("model", "config", "traces", "dump", "spec", "walk", "variants", "explained", "paths"):
        given = getattr(arguments, name, None) or ()
        for one in given if isinstance(given, list | tuple) else (given,):
            yield str(one).rpartition(":")[0] if name in ("model", "variants") and ":" in str(one) else str(one)


def require_report_extension(path: Path | None) -> None:
    """Raise InputError for a report with an unknown extension."""
    if path is not None and path.suffix not in REPORT_EXTENSIONS:
        raise InputError(f"--report {path}: expected a file that ends in {' or '.join(REPORT_EXTENSIONS)}")


def write_json(path: Path, content: Any) -> None:
    """Write a value as indented JSON to a file, or to the process's standard output for the path `-`."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if path != STANDARD_OUTPUT_PATH:
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
    from kraftcheck.spec.tla.state_conversion import TlaStateConverter
    from kraftcheck.traces.trace import (
        InfiniteEnding,
        Trace,
        TraceFormat,
        TraceState,
        format_name_for_path,
        write_trace,
    )

    view = TlaStateConverter(protocol)

    def trace_of(index: int, violation: Violation) -> Trace:
        steps = enumerate(violation.trace, start=1)
        states = tuple(TraceState(number, view.variables(step.state), step.action) for number, step in steps)
        loop, ending = violation.loop, None
        if loop is not None:
            ending = InfiniteEnding() if loop.again is None else InfiniteEnding(loop.back_to, loop.again.action)
        violated = None if violation.failed else violation.property or None
        problem = _tlc_error_text(protocol, violation)
        return Trace(str(path), index, TraceFormat.TLC_LOG, states, ending, violated, problem)

    traces = [trace_of(index, violation) for index, violation in enumerate(violations)]
    if format_name_for_path(path) != "text":
        write_trace(traces[0], path)
        return
    with path.open("w", encoding="utf-8") as file:
        for trace in traces:
            file.writelines(TraceFormat.TLC_LOG.write(trace))


def _tlc_error_text(protocol: Protocol, violation: Violation) -> str | None:
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
    if prop is not None and prop.kind in GRAPH_PROPERTY_KINDS:
        return f"Temporal properties {name} were violated."
    return f"Invariant {name} is violated."
