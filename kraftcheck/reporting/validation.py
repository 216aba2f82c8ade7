"""The verdict on a cluster as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kraftcheck.reporting.lines import FAINT, HEAD, NEW, OLD, PLAIN, WARNING, Line, columns, many, notes
from kraftcheck.spec.values import cut, text_of, visible
from kraftcheck.validation.events import Body, Event
from kraftcheck.validation.findings import when
from kraftcheck.validation.monitors import Finding, Report
from kraftcheck.validation.rendering import render, summary
from kraftcheck.validation.state import Refusal
from kraftcheck.validation.verdict import Result, Storm, Validation

LONGEST = 300
"""Maximum length of a quoted line or value in the text; the JSON has the whole."""

MOST = 20
"""Maximum number of findings, gaps and storms in the text."""

_STYLES = {
    Result.CONFORMS: NEW,
    Result.UNBROKEN: NEW,
    Result.DIVERGES: OLD,
    Result.VIOLATES: OLD,
    Result.INCONCLUSIVE: WARNING,
}


def validation_lines(found: Validation, *, quiet: bool = False) -> Iterator[Line]:
    """Yield the verdict and the first divergence; unless `quiet` also counts, disks and notes."""
    yield [(_STYLES[found.result], found.result.value), (PLAIN, f": {_scope(found)}")]
    if found.divergence is not None:
        yield from divergence_lines(found, found.divergence)
    for name, event in found.broken.items():
        place = f"after {event.place}, node {event.node}, {clock(event.time)}"
        yield [(OLD, "  broken"), (PLAIN, f": {name}, {place}")]
    for report in found.reports:
        for finding in report.findings[:MOST]:
            yield from _finding_lines(finding)
    for text in found.open_questions[:MOST] if found.result is Result.INCONCLUSIVE else ():
        yield [(WARNING, "  open"), (PLAIN, f": {text}")]
    if not quiet:
        yield from _details(found)


def _scope(found: Validation) -> str:
    parts = []
    if found.replay is not None:
        parts.append(
            f"{found.explained:,} of {many(found.total, 'event')} of {many(len(found.sources.logs), 'node')} explained"
        )
    if found.monitored is not None:
        parts.append(f"{_checks(found, found.monitored)} of {many(len(found.sources.every), 'node')}")
    if found.disk_report is not None:
        parts.append(f"{_checks(found, found.disk_report)} of {many(len(found.disks), 'disk')}")
    versions = found.version or ", ".join(found.sources.versions)
    return "; ".join(parts) + (f"; Kafka {versions}" if versions else "")


def _checks(found: Validation, report: Report) -> str:
    checks = many(report.total, "check")
    if found.result is Result.UNBROKEN:
        return checks
    return f"{len(report.findings):,} broken in {checks}" if report.findings else f"nothing broken in {checks}"


def clock(milliseconds: int) -> str:
    """Return a time of a log, in the log's own time zone."""
    return when(milliseconds).removesuffix("Z")


def subject(event: Event) -> str:
    """Return what an event is: its kind, with the API of a message."""
    return f"{event.kind} {event.body.api}" if isinstance(event.body, Body) else str(event.kind)


def shown(value: Any) -> str:
    """Return a value of a log or of the model as text."""
    try:
        text = value if isinstance(value, str) else text_of(value)
    except (TypeError, KeyError, AttributeError):
        text = str(value)
    return visible(text)


def divergence_lines(found: Validation, refusal: Refusal) -> Iterator[Line]:
    """Yield a divergence: the event with its line, the fields that differ, the nearest action."""
    event = refusal.event
    yield [(HEAD, f"  {event.place}"), (PLAIN, f", node {event.node}, {clock(event.time)}")]
    yield [(PLAIN, f"  {subject(event)}: {refusal.what}")]
    if found.line:
        yield [(FAINT, f"    {cut(found.line, LONGEST)}")]
    if refusal.differences:
        rows = [(FAINT, ("    field", "Kafka", "model"))]
        rows += [
            (PLAIN, (f"    {one.field}", cut(shown(one.kafka), LONGEST), cut(shown(one.model), LONGEST)))
            for one in refusal.differences
        ]
        yield from columns(rows, ())
    if refusal.action:
        yield [(PLAIN, f"  nearest action of the model: {refusal.action}")]
    if found.lacks_lines(event):
        yield [(WARNING, "  open"), (PLAIN, f": lines of node {event.node} are missing before this one")]


def _finding_lines(finding: Finding, word: str = "broken", style: str = OLD) -> Iterator[Line]:
    yield [(style, f"  {word}"), (PLAIN, f": {finding.check}: {finding.message}")]
    if finding.file:
        yield [(PLAIN, f"    {place_of(finding)}")]


def place_of(finding: Finding) -> str:
    """Return the file of a finding, and the place in it."""
    return f"{finding.file}, {finding.where}" if finding.where else finding.file


def _details(found: Validation) -> Iterator[Line]:
    replay = found.replay
    if replay is not None:
        rate = found.explained / found.seconds if found.seconds else 0
        yield [(FAINT, f"  replayed in {found.seconds:.1f} s, {rate:,.0f} events a second")]
        yield from _counts("explained", replay.explained)
        yield from _counts("steps without a line", replay.found)
        yield from _counts("known differences used", found.known_used or {})
        if found.without:
            yield [(PLAIN, f"  known differences left out: {', '.join(found.without)}")]
    if found.monitored is not None:
        yield from _counts("checks of logs", found.monitored.checks)
    if found.disk_report is not None:
        yield from _counts("checks of disks", found.disk_report.checks)
        texts = render(found.disks, found.disk_report).rstrip("\n").split("\n")
        for text in texts[: -len(list(summary(found.disk_report)))]:
            yield [(PLAIN, f"  {text}" if text else "")]
    yield from notes(notes_of(found))


def _counts(title: str, counts: Mapping[Any, int]) -> Iterator[Line]:
    if counts:
        words = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda one: -one[1]))
        yield [(PLAIN, f"  {title}: {words}")]


def notes_of(found: Validation) -> Iterator[str]:
    """Yield notes: files that were left out, unobserved nodes, storms, findings that are no faults."""
    sources = found.sources
    yield from sources.notes
    if sources.logs and sources.quiet and found.monitored is None:
        nodes = ", ".join(map(str, sources.quiet))
        yield f"logs of nodes {nodes} that show no messages are left out; --monitors checks them too"
    if len(sources.versions) > 1 and not found.version:
        yield f"several versions of Kafka: {', '.join(f'{one} ({at})' for one, at in sources.versions.items())}"
    if found.replay is not None:
        yield from found.replay.notes
        yield from _unobserved(found)
    yield from map(_storm, found.storms[:MOST])
    for report in found.reports:
        yield from (f"{note.check}: {note.message}; {place_of(note)}" for note in report.notes[:MOST])


def _storm(storm: Storm) -> str:
    event = storm.event
    return (
        f"storm: node {event.node} received {storm.requests:,} equal requests {event.body.api} of node {event.peer}"
        f" in {storm.seconds:.1f} s, {storm.rate:,.0f} a second, from {event.place}"
    )


def _unobserved(found: Validation) -> Iterator[str]:
    late = found.sources.late
    for node, is_voter in found.missing.items():
        if not is_voter and node not in late:
            yield f"node {node}, an observer: no log of it shows messages; its requests are taken as they came"
    for node, events in late.items():
        if node not in found.voters:
            yield f"node {node}, an observer: {len(events):,} events up to {events[-1].place} are not replayed"
