"""The report of a search as text, and for CI as JUnit XML and GitHub annotations."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kraftcheck.catalogue import Job
from kraftcheck.explorer.request import OPTIONS, SearchRequest
from kraftcheck.explorer.result import DEADLOCK, INTERRUPTED, STRICT, Result, Verdict, Violation
from kraftcheck.reporting.counterexample import counterexample_lines, counterexample_text, why
from kraftcheck.reporting.lines import FAINT, HEAD, PLAIN, WARNING, Line, actions_table, many, notes, plain
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import in_xml, text_of

LIMITS = {name: option.word for name, option in OPTIONS.items() if option.word}
"""Options of the command line by field name, the form of `Result.limit`."""


WARNINGS = "warnings"
"""The name of the JUnit test for warnings: skipped, or failed with `--strict`."""


def header(job: Job, how: str = "") -> Iterator[Line]:
    """Yield the header: model, configuration, engine and search order (or `how`), constants, properties."""
    protocol, options = job.protocol, job.options
    variant = f" ({protocol.variant})" if protocol.variant else ""
    yield [
        (HEAD, f"{job.model.name}{variant}"),
        (PLAIN, f", configuration {job.config_name}, engine {job.engine}, {how or options.search}"),
    ]
    constants = ", ".join(f"{name} = {text_of(value)}" for name, value in protocol.constant_values().items())
    yield [(FAINT, f"constants: {constants or 'none'}")]
    checked = ", ".join([*_names(options), *(["deadlock"] if options.deadlock else [])])
    yield [(FAINT if checked else WARNING, f"checked: {checked or 'nothing'}")]
    reduced = ", ".join(_reductions(options))
    if reduced:
        yield [(FAINT, reduced)]
    yield []


def _reductions(options: SearchRequest) -> Iterator[str]:
    """Yield the start, constraints, symmetry and view that reduce the searched states."""
    if options.init != "Init":
        yield f"start {options.init}"
    yield from (f"constraint {prop.name}" for prop in (*options.constraints, *options.action_constraints))
    yield from (f"{what} {name}" for what, name in (("symmetry", options.symmetry), ("view", options.view)) if name)


def _names(options: SearchRequest) -> list[str]:
    return [prop.name for prop in (*options.properties, *options.over_behaviours)]


def report(
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
        yield from headline(result)
    for violation in result.violations:
        yield from counterexample_lines(protocol, violation, columns)
        yield []
    if (table or calls) and not quiet:
        yield from _action_counts(result, calls=calls)
    if table or not result.violations:  # a search that stopped early has not reached every action yet
        yield from never_enabled(result)
    yield from ([(WARNING, f"Warning: {text}")] for text in result.warnings)
    yield from notes(result.notes)
    yield from ([(PLAIN, step)] for step in next_steps)
    yield summary(result, configuration)


def _action_counts(result: Result, *, calls: bool) -> Iterator[Line]:
    """Yield the table of steps by action, with a column for handler calls if `calls`."""
    counts = {"fired" if result.runs is None else "taken": result.actions}
    if calls:
        counts["handler calls"] = {name: result.handler_calls.get(name, 0) for name in result.actions}
    yield from actions_table(counts)
    yield []


def headline(result: Result) -> Iterator[Line]:
    """Yield the verdict in words, unless the summary line follows directly."""
    if result.violations or result.warnings or result.notes or result.never_enabled:
        text = outcome(result)
        yield [(result.verdict, text[0].upper() + text[1:])]
        yield []


def outcome(result: Result) -> str:
    """Return the outcome of a search in words: "violated: OneHolder"."""
    what = {
        Verdict.OK: "nothing is violated",
        Verdict.INCOMPLETE: "nothing is violated so far",
        Verdict.DEADLOCK: "a state has no successor",
        Verdict.ASSERTION: "an assert failed in " + ", ".join(one.property for one in result.violations[:1]),
        Verdict.VIOLATION: f"violated: {', '.join(violation.property for violation in result.violations)}",
    }[result.verdict]
    if result.runs is not None:
        what += f" on {many(result.runs, 'walk')}"
    if result.limit == STRICT:
        what = "nothing is violated, but --strict rejects warnings and vacuously true properties"
    elif result.limit is not None:
        limit = LIMITS.get(result.limit, result.limit)
        what += ", interrupted" if limit == INTERRUPTED else f", stopped at {limit}"
    return what


def summary(result: Result, configuration: str) -> Line:
    """Return the summary line: verdict, outcome, counts, time and configuration."""
    parts = [
        outcome(result),
        *([f"{result.distinct_states:,} distinct states"] if result.counts_distinct else []),
        *([] if result.uncounted else [f"{result.generated_states:,} generated"]),
        *([] if result.depth is None else [f"depth {result.depth}"]),
        f"{result.seconds:,.1f} s",
        f"{result.states_per_second:,.0f} states/s",
        f"configuration {configuration}",
    ]
    return [(result.verdict, result.verdict.upper()), (PLAIN, f": {'; '.join(parts)}")]


def never_enabled(result: Result) -> Iterator[Line]:
    """Yield a warning or a note that lists the actions that never fired."""
    names = result.never_enabled
    if names and result.runs is not None:
        yield [(FAINT, f"Note: never taken on these walks: {', '.join(names)}")]
    elif names:
        when = "in this model" if result.complete else "before the search stopped"
        style = WARNING if result.complete else FAINT
        yield [(style, f"{'Warning' if result.complete else 'Note'}: never enabled {when}: {', '.join(names)}")]


def next_steps(words: Sequence[str], result: Result) -> Iterator[str]:
    """Yield the way past a deadlock, and the command that writes a counterexample as a page."""
    if result.verdict == Verdict.DEADLOCK and words:
        yield "If the protocol may end there: --no-deadlock, or CHECK_DEADLOCK FALSE in the .cfg"
    if result.violations and words and not any(word.partition("=")[0] == "--report" for word in words):
        yield f"To see it as a page: kraftcheck {shlex.join([*words, '--report', 'found.html'])}"


def how_to_go_on(words: Iterable[str], options: SearchRequest, result: Result) -> Iterator[Line]:
    """Yield the command that resumes a stopped search from its checkpoint, if it has one."""
    folder = options.resume or options.checkpoint
    if folder is None or result.limit in (None, STRICT):
        return
    from kraftcheck.persistence.folder import MANIFEST

    if (Path(folder) / MANIFEST).is_file():
        limits = () if result.limit in (INTERRUPTED, "time_limit") else (LIMITS.get(result.limit, ""),)
        again = [*_without(words, ("--checkpoint", "--resume", *limits)), "--resume", str(folder)]
        yield [(PLAIN, f"To go on: kraftcheck {shlex.join(again)}")]


def _without(words: Iterable[str], options: Iterable[str]) -> Iterator[str]:
    """Remove options and their values from the words of a command line."""
    rest = iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word.partition("=")[0] not in options:
            yield word


def write_junit(job: Job, result: Result, path: Path, *, allow_incomplete: bool, strict: bool = False) -> None:
    """Write a search as a JUnit test suite, with one test per property and one for warnings.

    Jenkins and GitLab read this form: a `testsuite` with `testcase`, `failure` and `skipped`.
    """
    from xml.etree import ElementTree

    violated = {violation.property: violation for violation in result.violations}
    tests = dict.fromkeys([*_names(job.options), *[DEADLOCK] * job.options.deadlock])
    tests |= dict.fromkeys(violated)  # also an action with a failed assert
    name = ".".join(filter(None, ["kraftcheck", job.model.name, job.model.protocol.variant, job.config_name]))
    suite = ElementTree.Element("testsuite", {"name": name})

    def case(test: str, kind: str = "", text: str | None = None, **attributes: str) -> None:
        found = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": test, "time": "0"})
        if kind:
            ElementTree.SubElement(found, kind, attributes).text = text

    for test in tests:
        if violation := violated.get(test):
            message = f"{_what(violation)} in {len(violation.trace)} states"
            text = in_xml(counterexample_text(job.protocol, violation))
            case(test, "failure", text, message=message, type=test)
        elif result.complete or allow_incomplete:
            case(test)
        else:
            case(test, "skipped", message=f"not violated so far; stopped: {result.limit}")
    warnings = result.doubts if strict else result.warnings
    if warnings:
        case(WARNINGS, "failure" if strict else "skipped", message=in_xml("; ".join(warnings)))
    counts = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    suite.attrib |= {key: str(len(list(suite.iter(kind)))) for key, kind in counts.items()}
    suite.set("time", f"{result.seconds:.3f}")
    ElementTree.SubElement(suite, "system-out").text = in_xml(plain([summary(result, job.config_name)]))
    tree = ElementTree.ElementTree(suite)
    ElementTree.indent(tree)
    tree.write(path, "utf-8", xml_declaration=True)


def github_annotations(job: Job, result: Result, *, strict: bool = False) -> Iterator[Line]:
    """Yield GitHub workflow commands: an error for each violated property, and a warning for each warning."""
    for violation in result.violations:
        yield [(PLAIN, _annotation("error", _place(job, violation), _what(violation), _said(job, violation)))]
    kind, said = ("error", result.doubts) if strict else ("warning", result.warnings)
    yield from ([(PLAIN, _annotation(kind, {}, "kraftcheck", text))] for text in said)
    if result.verdict is Verdict.INCOMPLETE:
        end = plain([summary(result, job.config_name)])
        yield [(PLAIN, _annotation("warning", {}, "kraftcheck", end))]


def _what(violation: Violation) -> str:
    return f"an assert failed in {violation.property}" if violation.failed else f"{violation.property} is violated"


def _said(job: Job, violation: Violation) -> str:
    found = why(job.protocol, violation)
    of = ", ".join(f"{name} = {text_of(value)}" for name, value in found.false_of.items())
    states = f"a counterexample of {len(violation.trace)} states in {job.model.name}, configuration {job.config_name}"
    return f"{found.says}\n{states}" + (f"; violated for {of}" if of else "")


def _place(job: Job, violation: Violation) -> dict[str, str]:
    place = why(job.protocol, violation).place
    if place is None:
        return {}
    file = Path(place[0])
    if file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    return {"file": str(file), "line": str(place[1])}


def _annotation(kind: str, place: dict[str, str], title: str, text: str) -> str:
    settings = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in {**place, "title": title}.items())
    return f"::{kind} {settings}::{_escaped(text)}"


def _escaped(text: str, also: str = "") -> str:
    for character in "%\r\n" + also:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
