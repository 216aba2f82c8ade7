"""What services that build and test want to know of a search: JUnit's XML, and annotations of GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from kraftcheck.explorer.result import DEADLOCK, Result, Verdict, Violation
from kraftcheck.jobs import Job
from kraftcheck.reporting.counterexample import told
from kraftcheck.reporting.lines import PLAIN, Line, plain
from kraftcheck.reporting.summary import summary
from kraftcheck.reporting.why import why
from kraftcheck.spec.display import in_xml, text_of

WARNINGS = "warnings"
"""The test of JUnit's XML that has the warnings: skipped, or with `--strict` failed."""


def write_junit(job: Job, result: Result, path: Path, *, allow_incomplete: bool, strict: bool = False) -> None:
    """Write a search as a test suite, each property as a test, and one more where there are warnings.

    References
    ----------
    The form that Jenkins and GitLab read: a `testsuite` with `testcase`, `failure` and `skipped`.
    """
    name = ".".join(filter(None, ["kraftcheck", job.model.name, job.model.protocol.variant, job.config_name]))
    broken = {violation.property: violation for violation in result.violations}
    tests = [prop.name for prop in (*job.options.properties, *job.options.over_behaviours)]
    tests += [DEADLOCK] if job.options.deadlock else []
    tests += [name for name in broken if name not in tests]  # an action in which an assert failed
    skipped = [] if result.complete or allow_incomplete else [one for one in tests if one not in broken]
    warnings = result.doubts if strict else result.warnings
    counts = {
        "tests": len(tests) + bool(warnings),
        "failures": len(broken) + (strict and bool(warnings)),
        "errors": 0,
        "skipped": len(skipped) + (not strict and bool(warnings)),
    }
    suite = ElementTree.Element("testsuite", {"name": name, **{key: str(count) for key, count in counts.items()}})
    suite.set("time", f"{result.seconds:.3f}")
    for test in tests:
        case = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": test, "time": "0"})
        if test in broken:
            what = f"{_what(broken[test])} in {len(broken[test].trace)} states"
            failure = ElementTree.SubElement(case, "failure", {"message": what, "type": test})
            failure.text = in_xml(plain(told(job.protocol, broken[test])))
        elif test in skipped:
            ElementTree.SubElement(case, "skipped", {"message": f"not violated so far; stopped: {result.limit}"})
    if warnings:
        case = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": WARNINGS, "time": "0"})
        message = {"message": in_xml("; ".join(warnings))}
        ElementTree.SubElement(case, "failure" if strict else "skipped", message)
    ElementTree.SubElement(suite, "system-out").text = in_xml(plain([summary(result, job.config_name)]))
    tree = ElementTree.ElementTree(suite)
    ElementTree.indent(tree)
    tree.write(path, "utf-8", xml_declaration=True)


def github_annotations(job: Job, result: Result, *, strict: bool = False) -> Iterator[Line]:
    """Yield GitHub's workflow commands: an error at each violated property, a warning for each warning.

    References
    ----------
    GitHub Docs, "Workflow commands for GitHub Actions".
    """
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
    return f"{found.says}\n{states}" + (f"; false of {of}" if of else "")


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
