"""The verdict on a cluster as text, JSON, JUnit's XML and a page; changes to a cluster for each way to observe it.

The page has the life of a cluster: a sequence diagram in which fetches are folded, with epochs as bands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from kraftcheck.reporting.as_json import tool_header
from kraftcheck.reporting.lines import (
    FAINT,
    HEAD,
    NEW,
    OLD,
    PLAIN,
    WARNING,
    Line,
    count_with_noun,
    lines_as_plain_text,
    note_lines,
    table_lines,
)
from kraftcheck.reporting.output import write_junit_suite
from kraftcheck.reporting.report import csp_hash
from kraftcheck.spec.values import escape_invisible, text_of, truncate_text
from kraftcheck.validation.disks import ReplicaDisk
from kraftcheck.validation.events import Event, EventKind, MessageBody
from kraftcheck.validation.findings import (
    CheckFinding,
    CheckReport,
    check_report_lines,
    disks_as_json,
    render_disk_report,
    utc_time_text,
)
from kraftcheck.validation.replay_state import EventRefusal
from kraftcheck.validation.sources import count_events_by_kind
from kraftcheck.validation.verdict import LogGap, RequestStorm, Validation, ValidationVerdict

MOST_QUOTED_CHARACTERS = 300
"""Maximum length of a quoted line or value in the text; the JSON has the whole."""

MOST_LISTED_FINDINGS = 20
"""Maximum number of findings, gaps and storms in the text."""

_STYLE_OF_RESULT = {
    ValidationVerdict.CONFORMS: NEW,
    ValidationVerdict.UNBROKEN: NEW,
    ValidationVerdict.DIVERGES: OLD,
    ValidationVerdict.VIOLATES: OLD,
    ValidationVerdict.INCONCLUSIVE: WARNING,
}


def validation_lines(found: Validation, *, quiet: bool = False) -> Iterator[Line]:
    """Yield the verdict and the first divergence; unless `quiet` also counts, disks and notes."""
    yield [(_STYLE_OF_RESULT[found.result], found.result.value), (PLAIN, f": {_summary_text(found)}")]
    if found.divergence is not None:
        yield from cluster_divergence_lines(found, found.divergence)
    for name, event in found.broken.items():
        place = f"after {event.place}, node {event.node}, {log_time_text(event.time)}"
        yield [(OLD, "  broken"), (PLAIN, f": {name}, {place}")]
    for report in found.reports:
        for finding in report.findings[:MOST_LISTED_FINDINGS]:
            yield from _finding_lines(finding)
    for text in found.open_questions[:MOST_LISTED_FINDINGS] if found.result is ValidationVerdict.INCONCLUSIVE else ():
        yield [(WARNING, "  open"), (PLAIN, f": {text}")]
    if not quiet:
        yield from _counts_and_notes_lines(found)


def _summary_text(found: Validation) -> str:
    parts = []
    if found.replay is not None:
        parts.append(
            f"{found.explained:,} of {count_with_noun(found.total, 'event')}"
            f" of {count_with_noun(len(found.sources.logs), 'node')} explained"
        )
    if found.monitored is not None:
        parts.append(
            f"{_check_counts_text(found, found.monitored)} of {count_with_noun(len(found.sources.every), 'node')}"
        )
    if found.disk_report is not None:
        parts.append(f"{_check_counts_text(found, found.disk_report)} of {count_with_noun(len(found.disks), 'disk')}")
    versions = found.version or ", ".join(found.sources.versions)
    return "; ".join(parts) + (f"; Kafka {versions}" if versions else "")


def _check_counts_text(found: Validation, report: CheckReport) -> str:
    checks = count_with_noun(report.total, "check")
    if found.result is ValidationVerdict.UNBROKEN:
        return checks
    return f"{len(report.findings):,} broken in {checks}" if report.findings else f"nothing broken in {checks}"


def log_time_text(milliseconds: int) -> str:
    """Return a time of a log, in the log's own time zone."""
    return utc_time_text(milliseconds).removesuffix("Z")


def event_kind_text(event: Event) -> str:
    """Return what an event is: its kind, with the API of a message."""
    return f"{event.kind} {event.body.api}" if isinstance(event.body, MessageBody) else str(event.kind)


def text_of_logged_or_model_value(value: Any) -> str:
    """Return a value of a log or of the model as text."""
    try:
        text = value if isinstance(value, str) else text_of(value)
    except (TypeError, KeyError, AttributeError):
        text = str(value)
    return escape_invisible(text)


def cluster_divergence_lines(found: Validation, refusal: EventRefusal) -> Iterator[Line]:
    """Yield a divergence: the event with its line, the fields that differ, the nearest action."""
    event = refusal.event
    yield [(HEAD, f"  {event.place}"), (PLAIN, f", node {event.node}, {log_time_text(event.time)}")]
    yield [(PLAIN, f"  {event_kind_text(event)}: {refusal.what}")]
    if found.line:
        yield [(FAINT, f"    {truncate_text(found.line, MOST_QUOTED_CHARACTERS)}")]
    if refusal.differences:
        rows = [(FAINT, ("    field", "Kafka", "model"))]
        rows += [
            (
                PLAIN,
                (
                    f"    {one.field}",
                    truncate_text(text_of_logged_or_model_value(one.kafka), MOST_QUOTED_CHARACTERS),
                    truncate_text(text_of_logged_or_model_value(one.model), MOST_QUOTED_CHARACTERS),
                ),
            )
            for one in refusal.differences
        ]
        yield from table_lines(rows, ())
    if refusal.action:
        yield [(PLAIN, f"  nearest action of the model: {refusal.action}")]
    lacking = found.lacking(event)
    if lacking is not None:
        yield [(WARNING, "  open"), (PLAIN, f": lines of node {lacking} are missing before this one")]


def _finding_lines(finding: CheckFinding) -> Iterator[Line]:
    yield [(OLD, "  broken"), (PLAIN, f": {finding.check}: {finding.message}")]
    if finding.file:
        yield [(PLAIN, f"    {finding_place(finding)}")]


def finding_place(finding: CheckFinding) -> str:
    """Return the file of a finding, and the place in it."""
    return f"{finding.file}, {finding.where}" if finding.where else finding.file


def _counts_and_notes_lines(found: Validation) -> Iterator[Line]:
    replay = found.replay
    if replay is not None:
        rate = found.explained / found.seconds if found.seconds else 0
        yield [(FAINT, f"  replayed in {found.seconds:.1f} s, {rate:,.0f} events a second")]
        yield from _counts_by_name_lines("explained", replay.explained)
        yield from _counts_by_name_lines("steps without a line", replay.found)
        yield from _counts_by_name_lines("known differences used", found.known_used or {})
        if found.without:
            yield [(PLAIN, f"  known differences left out: {', '.join(found.without)}")]
    if found.monitored is not None:
        yield from _counts_by_name_lines("checks of logs", found.monitored.checks)
    if found.disk_report is not None:
        yield from _counts_by_name_lines("checks of disks", found.disk_report.checks)
        texts = render_disk_report(found.disks, found.disk_report).rstrip("\n").split("\n")
        for text in texts[: -len(list(check_report_lines(found.disk_report)))]:
            yield [(PLAIN, f"  {text}" if text else "")]
    yield from note_lines(validation_notes(found))


def _counts_by_name_lines(title: str, counts: Mapping[Any, int]) -> Iterator[Line]:
    if counts:
        words = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda one: -one[1]))
        yield [(PLAIN, f"  {title}: {words}")]


def validation_notes(found: Validation) -> Iterator[str]:
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
        yield from _notes_on_observers(found)
    yield from map(_request_storm_text, found.storms[:MOST_LISTED_FINDINGS])
    for report in found.reports:
        yield from (
            f"{note.check}: {note.message}; {finding_place(note)}" for note in report.notes[:MOST_LISTED_FINDINGS]
        )


def _request_storm_text(storm: RequestStorm) -> str:
    event = storm.event
    return (
        f"storm: node {event.node} received {storm.requests:,} equal requests {event.body.api} of node {event.peer}"
        f" in {storm.seconds:.1f} s, {storm.rate:,.0f} a second, from {event.place}"
    )


def _notes_on_observers(found: Validation) -> Iterator[str]:
    late = found.sources.late
    for node, is_voter in found.missing.items():
        if not is_voter and node not in late:
            yield f"node {node}, an observer: no log of it shows messages; its requests are taken as they came"
    for node, events in late.items():
        if node not in found.voters:
            yield f"node {node}, an observer: {len(events):,} events up to {events[-1].place} are not replayed"


SETUP_TEXT = """\
Ways to observe a cluster, from the cheapest. Each needs the logs of all voters; brokers are observers and optional.

1. Disks: nothing to change
   shows   whether the logs diverged, where and since which epoch, and who was a voter then
   copy    from metadata.log.dir (else the first of log.dirs) of each controller: the folder __cluster_metadata-0
           and the file meta.properties; a running node may be copied
               tar czf disk1.tar.gz -C /var/lib/kafka/data meta.properties __cluster_metadata-0
   cost    none
   then    kraftcheck validate quorum disk1.tar.gz disk2.tar.gz disk3.tar.gz --monitors

2. INFO: nothing to change
   shows   whether a check is broken, such as two leaders in an epoch; no steps
   copy    server.log and its rotated files of each controller
   cost    8 to 20 lines a minute
   then    kraftcheck validate quorum node1/ node2/ node3/ --monitors

3. TRACE: one logger, also at run time
   shows   every step, message and answer: the logs can be replayed
   change  on each controller, until it restarts:
               bin/kafka-configs.sh --bootstrap-controller HOST:PORT --alter --entity-type broker-loggers \\
                 --entity-name ID --add-config org.apache.kafka.raft=TRACE
           or for good in log4j2.yaml, with a file of its own, so that rotation keeps it:
               - name: org.apache.kafka.raft
                 level: TRACE
           back: the same command with org.apache.kafka.raft=INFO
   cost    leader with three fetchers: 2,600 lines and 2 MB a minute; follower: 1,100 lines and 0.5 MB; gzip 26 to 1;
           each further broker 0.65 MB a minute at the leader; a resigning leader may be asked thousands of times a
           second (5 MB/s), so limit the size of the files
           CPU of a leader a request: 0.44 ms at INFO, 0.46 at DEBUG, 0.49 at TRACE; 16 clients that write get 458,
           454 and 415 requests a second (Kafka 4.3.0, three controllers on two processors)
   note    DEBUG (400 to 600 lines a minute) shows high watermarks and end offsets, but no messages
   then    kraftcheck validate quorum node1/ node2/ node3/

4. An agent of the JVM, for staging and CI
   shows   the lines of TRACE at any log level, and the whole state between two steps
   change  build the jar, with a JDK and Maven: python -m kraftcheck.validation.observer
           and start each controller with KAFKA_OPTS=-javaagent:JAR=FILE.ndjson (at most 1 GiB; FILE.ndjson,BYTES)
   cost    as TRACE (leader 1.5 MB a minute, follower 0.6 MB), and 0.54 ms of CPU a request; 407 requests a second
   then    kraftcheck validate quorum node1.ndjson node2.ndjson node3.ndjson

Write at least the first lines of a process: a log that begins when a node starts needs no guess of its state.
"""
"""The text of `--print-setup`."""


def validation_as_json(found: Validation) -> dict[str, Any]:
    """Return the JSON object of a validation."""
    return {
        **tool_header(),
        "command": "validate",
        "result": found.result.value.replace(" ", "-"),
        "exit_code": found.exit_code,
        "kafka": [found.version] if found.version else list(found.sources.versions),
        "nodes": [_node_as_json(found, node) for node in found.sources.every],
        "missing": [{"node": node, "voter": is_voter} for node, is_voter in found.missing.items()],
        "events": found.total,
        **_replay_counts_as_json(found),
        "without": list(found.without),
        "divergence": _divergence_as_json(found),
        "broken": [{"property": name, **_event_as_json(event)} for name, event in found.broken.items()],
        "gaps": [_log_gap_as_json(gap) for gap in found.gaps],
        "storms": [_request_storm_as_json(storm) for storm in found.storms],
        "monitors": _check_report_as_json([], found.monitored),
        "disks": _check_report_as_json(found.disks, found.disk_report),
        "open": found.open_questions if found.result is ValidationVerdict.INCONCLUSIVE else [],
        "notes": list(validation_notes(found)),
        **_speed_as_json(found),
    }


def _speed_as_json(found: Validation) -> dict[str, Any]:
    rate = round(found.explained / found.seconds, 1) if found.seconds else None
    return {"seconds": round(found.seconds, 6), "events_per_second": rate}


def _check_report_as_json(disks: list[ReplicaDisk], report: CheckReport | None) -> dict[str, Any] | None:
    return None if report is None else disks_as_json(disks, report)


def _log_gap_as_json(gap: LogGap) -> dict[str, Any]:
    receipts = [event.place for event in gap.receipts]
    after, before = (event.place if event is not None else None for event in (gap.after, gap.before))
    return {"node": gap.node, "after": after, "before": before, "receipts": receipts}


def _request_storm_as_json(storm: RequestStorm) -> dict[str, Any]:
    event = storm.event
    return {**_event_as_json(event), "peer": event.peer, "requests": storm.requests, "rate": round(storm.rate, 1)}


def _replay_counts_as_json(found: Validation) -> dict[str, Any]:
    replay = found.replay
    if replay is None:
        return {"explained": {}, "found_steps": {}, "known_used": None}
    return {
        "explained": {str(kind): count for kind, count in replay.explained.items()},
        "found_steps": dict(replay.found),
        "known_used": None if found.known_used is None else dict(found.known_used),
    }


def _node_as_json(found: Validation, node: int) -> dict[str, Any]:
    events = found.sources.every[node]
    return {
        "node": node,
        "shows_messages": node in found.sources.logs,
        "events": {kind.value: count for kind, count in count_events_by_kind(events).items()},
        "first": log_time_text(events[0].time),
        "last": log_time_text(events[-1].time),
        "files": [file.name for file in found.sources.files if file.node == node],
    }


def _event_as_json(event: Event) -> dict[str, Any]:
    api = event.body.api if isinstance(event.body, MessageBody) else None
    return {
        "file": event.file,
        "line": event.line,
        "node": event.node,
        "time": log_time_text(event.time),
        "kind": event.kind.value,
        "api": api,
    }


def _divergence_as_json(found: Validation) -> dict[str, Any] | None:
    refusal = found.divergence
    if refusal is None:
        return None
    return {
        **_event_as_json(refusal.event),
        "what": refusal.what,
        "text": found.line,
        "differences": [
            {
                "field": one.field,
                "kafka": text_of_logged_or_model_value(one.kafka),
                "model": text_of_logged_or_model_value(one.model),
            }
            for one in refusal.differences
        ],
        "nearest_action": refusal.action or None,
    }


def write_validation_junit(found: Validation, path: Path) -> None:
    """Write a validation as a JUnit test suite: the replay, and one test per check of the monitors."""
    name = "kraftcheck.validate.quorum"
    suite = ElementTree.Element("testsuite", {"name": name})

    def case(test: str, kind: str = "", message: str = "") -> None:
        one = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": test, "time": "0"})
        if kind:
            ElementTree.SubElement(one, kind, {"message": message})

    is_open = found.result is ValidationVerdict.INCONCLUSIVE
    if found.divergence is not None:
        text = lines_as_plain_text(cluster_divergence_lines(found, found.divergence)).strip()
        case("replay", "skipped" if is_open else "failure", text)
    else:
        case("replay", "skipped" if found.open_questions else "", "; ".join(found.open_questions))
    for broken, event in found.broken.items():
        case(f"property {broken}", "failure", f"broken after {event.place}")
    for title, report in (("logs", found.monitored), ("disks", found.disk_report)):
        for check, count in report.checks.items() if report is not None else ():
            case(f"{title}: {check}", *_junit_outcome(report, check, count))
    write_junit_suite(suite, found.seconds, validation_lines(found, quiet=True), path)


def _junit_outcome(report: CheckReport | None, check: str, count: int) -> tuple[str, str]:
    """Return the kind of a check's result in JUnit, and its message."""
    broken = [one for one in report.findings if one.check == check] if report is not None else []
    if broken:
        return "failure", "; ".join(f"{one.message} ({finding_place(one)})" for one in broken)
    return ("", "") if count else ("skipped", "nothing to compare")


MOST_DIAGRAM_ROWS = 4000
"""Maximum number of rows; of more, the last ones are shown."""

ROW_HEIGHT, COLUMN_WIDTH, LEFT_MARGIN, TOP_MARGIN = 20, 190, 150, 40
"""Pixels of a row and of a column; the room beside and above them."""

PAGE_FOLDER = Path(__file__).with_name("page")

_FOLDED_APIS = ("Fetch", "ApiVersions")


class TimelineRow(NamedTuple):
    """A row of the diagram: a message between two nodes, or a text at one node."""

    node: int
    text: str
    epoch: int
    place: str
    time: int
    source: int | None = None  # of a message
    style: str = ""


class ClusterTimeline:
    """Collects the rows of the diagram from events in causal order."""

    def __init__(self) -> None:
        self.rows: list[TimelineRow] = []
        self.left_out = 0
        self._epoch = 0
        self._folded: Counter[tuple[int, int]] = Counter()
        self._last: dict[tuple[int, int], Event] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Add the events of a unit."""
        for event in events:
            if event.kind is EventKind.REQUEST and event.body.api in _FOLDED_APIS:
                if event.peer is not None:
                    self._folded[event.peer, event.node] += 1
                    self._last[event.peer, event.node] = event
            elif (text := _diagram_row_text(event)) is not None:
                self.end()
                if event.kind is EventKind.TRANSITION:
                    self._epoch = max(self._epoch, event.body[0]["epoch"])
                source = event.peer if event.kind is EventKind.REQUEST else None
                style = "state" if event.kind is EventKind.TRANSITION else ""
                self._row(event, text, source, style)

    def end(self) -> None:
        """Add the fetches since the last other row, one arrow for each pair of nodes."""
        for (source, node), count in self._folded.items():
            event = self._last[source, node]
            self._row(event, f"Fetch x {count:,}" if count > 1 else "Fetch", source, "faint")
        self._folded.clear()

    def diverges(self, event: Event, what: str) -> None:
        """Add the divergence."""
        self.end()
        self._row(event, f"{event_kind_text(event)}: {what}", None, "bad")

    def _row(self, event: Event, text: str, source: int | None, style: str) -> None:
        self.rows.append(TimelineRow(event.node, text, self._epoch, event.place, event.time, source, style))
        if len(self.rows) > 2 * MOST_DIAGRAM_ROWS:
            self.left_out += MOST_DIAGRAM_ROWS
            del self.rows[:MOST_DIAGRAM_ROWS]


def _diagram_row_text(event: Event) -> str | None:
    """Return the text of an event's row; None for an event without one."""
    body = event.body
    if event.kind is EventKind.REQUEST:
        epoch = next((body.number(name) for name in ("replicaEpoch", "leaderEpoch") if body.number(name) >= 0), None)
        return str(body.api) if epoch is None else f"{body.api}, epoch {epoch}"
    if event.kind is EventKind.TRANSITION:
        return f"{body[0]['mode']}, epoch {body[0]['epoch']}"
    if event.kind is EventKind.VOTERS:
        return f"voters {', '.join(str(voter[0]) for voter in body[0])} at {body[1]}"
    if event.kind is EventKind.BOOT:
        return "starts"
    if event.kind in (EventKind.TRUNCATED, EventKind.REPLACED):
        return f"{event.kind} to {body}"
    return None


def timeline_by_log_time(found: Validation) -> ClusterTimeline:
    """Return the life that logs without messages show, in order of time."""
    life = ClusterTimeline()
    every = [event for events in found.sources.every.values() for event in events]
    life.add(sorted(every, key=lambda event: event.time))
    life.end()
    return life


def write_cluster_page(found: Validation, life: ClusterTimeline, path: Path) -> None:
    """Write the page."""
    path.write_text("".join(_cluster_page_parts(found, life)), encoding="utf-8", errors="backslashreplace")


def _truncate_and_escape_html(text: str, most: int = 400) -> str:
    return escape(escape_invisible(truncate_text(text, most)))


def _cluster_page_parts(found: Validation, life: ClusterTimeline) -> Iterator[str]:
    style, script = ((PAGE_FOLDER / f"cluster.{kind}").read_text("utf-8") for kind in ("css", "js"))
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src '{csp_hash(script)}'"
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f"<title>kraftcheck validate: {found.result}</title><style>{style}</style></head><body>"
    yield f"<h1>{_truncate_and_escape_html(found.result)}</h1>"
    yield f"<pre>{escape(escape_invisible(lines_as_plain_text(validation_lines(found)), keep=chr(10)))}</pre>"
    rows = life.rows[-MOST_DIAGRAM_ROWS:]
    if rows:
        left_out = life.left_out + len(life.rows) - len(rows)
        yield from _timeline_html_parts(rows, left_out, is_causal=found.replay is not None)
    yield f"<script>{script}</script></body></html>\n"


def _timeline_html_parts(rows: Sequence[TimelineRow], left_out: int, *, is_causal: bool) -> Iterator[str]:
    nodes = sorted({row.node for row in rows} | {row.source for row in rows if row.source is not None})
    columns = {node: LEFT_MARGIN + COLUMN_WIDTH * place + COLUMN_WIDTH // 2 for place, node in enumerate(nodes)}
    width, height = LEFT_MARGIN + COLUMN_WIDTH * len(nodes) + 260, TOP_MARGIN + ROW_HEIGHT * (len(rows) + 1)
    order = "in causal order" if is_causal else "in order of time"
    note = f"; {left_out:,} earlier rows are left out" if left_out else ""
    yield f"<h2>The life of the cluster</h2><p>{len(rows):,} rows {order}{note}. Fetches are folded.</p>"
    yield '<p class="range">Rows <input id="from" type="range"> to <input id="to" type="range"> <span id="of"></span>'
    bands = list(_row_ranges_of_epochs(rows))
    for start, end in bands:
        yield f' <button data-from="{start}" data-to="{end}">epoch {rows[start].epoch}</button>'
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    yield f'</p><svg id="life" {size} data-rows="{len(rows)}" data-row="{ROW_HEIGHT}" data-top="{TOP_MARGIN}">'
    yield '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    yield '<path d="M0 0L8 4L0 8z"/></marker></defs>'
    for number, (start, end) in enumerate(bands):
        y, tall = TOP_MARGIN + ROW_HEIGHT * start, ROW_HEIGHT * (end - start)
        yield f'<rect class="band{number % 2}" x="0" y="{y}" width="{width}" height="{tall}"/>'
        yield f'<text class="epoch" x="6" y="{y + 14}">epoch {rows[start].epoch}</text>'
    for node, x in columns.items():
        yield f'<text class="head" x="{x}" y="{TOP_MARGIN - 14}">node {node}</text>'
        yield f'<line class="life" x1="{x}" y1="{TOP_MARGIN - 6}" x2="{x}" y2="{height}"/>'
    yield from (_row_svg(row, TOP_MARGIN + ROW_HEIGHT * place + 14, columns) for place, row in enumerate(rows))
    yield "</svg>"


def _row_ranges_of_epochs(rows: Sequence[TimelineRow]) -> Iterator[tuple[int, int]]:
    """Yield the first row of each epoch, and the row behind its last one."""
    place = 0
    for _, band in groupby(rows, key=lambda row: row.epoch):
        count = sum(1 for _ in band)
        yield place, place + count
        place += count


def _row_svg(row: TimelineRow, y: int, columns: dict[int, int]) -> str:
    x = columns[row.node]
    title = f"<title>{_truncate_and_escape_html(f'{row.place}, {log_time_text(row.time)}')}</title>"
    if row.source is None or row.source == row.node:
        return f'<g class="{row.style}">{title}<circle cx="{x}" cy="{y - 4}" r="4"/>' + (
            f'<text x="{x + 8}" y="{y}">{_truncate_and_escape_html(row.text, 120)}</text></g>'
        )
    source = columns[row.source]
    middle = (source + x) // 2
    return (
        f'<g class="{row.style}">{title}<line class="message" x1="{source}" y1="{y - 2}" x2="{x}" y2="{y - 2}"/>'
        f'<text class="label" x="{middle}" y="{y - 5}">{_truncate_and_escape_html(row.text, 60)}</text></g>'
    )
