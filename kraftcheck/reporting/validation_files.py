"""The verdict on a cluster as JSON and as JUnit's XML."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from kraftcheck.reporting.as_json import tool
from kraftcheck.reporting.lines import plain
from kraftcheck.reporting.validation import clock, divergence_lines, notes_of, place_of, shown, validation_lines
from kraftcheck.spec.values import in_xml
from kraftcheck.validation.disks import Disk
from kraftcheck.validation.events import Body, Event
from kraftcheck.validation.findings import Report
from kraftcheck.validation.rendering import describe
from kraftcheck.validation.sources import count_kinds
from kraftcheck.validation.verdict import Gap, Result, Storm, Validation


def validation_as_json(found: Validation) -> dict[str, Any]:
    """Return the JSON object of a validation."""
    return {
        **tool(),
        "command": "validate",
        "result": found.result.value.replace(" ", "-"),
        "exit_code": found.exit_code,
        "kafka": [found.version] if found.version else list(found.sources.versions),
        "nodes": [_node_as_json(found, node) for node in found.sources.every],
        "missing": [{"node": node, "voter": is_voter} for node, is_voter in found.missing.items()],
        "events": found.total,
        **_replay_as_json(found),
        "without": list(found.without),
        "divergence": _divergence_as_json(found),
        "broken": [{"property": name, **_event_as_json(event)} for name, event in found.broken.items()],
        "gaps": [_gap_as_json(gap) for gap in found.gaps],
        "storms": [_storm_as_json(storm) for storm in found.storms],
        "monitors": _report_as_json([], found.monitored),
        "disks": _report_as_json(found.disks, found.disk_report),
        "open": found.open_questions if found.result is Result.INCONCLUSIVE else [],
        "notes": list(notes_of(found)),
        **_speed_as_json(found),
    }


def _speed_as_json(found: Validation) -> dict[str, Any]:
    rate = round(found.explained / found.seconds, 1) if found.seconds else None
    return {"seconds": round(found.seconds, 6), "events_per_second": rate}


def _report_as_json(disks: list[Disk], report: Report | None) -> dict[str, Any] | None:
    return None if report is None else describe(disks, report)


def _gap_as_json(gap: Gap) -> dict[str, Any]:
    receipts = [event.place for event in gap.receipts]
    after, before = (event.place if event is not None else None for event in (gap.after, gap.before))
    return {"node": gap.node, "after": after, "before": before, "receipts": receipts}


def _storm_as_json(storm: Storm) -> dict[str, Any]:
    event = storm.event
    return {**_event_as_json(event), "peer": event.peer, "requests": storm.requests, "rate": round(storm.rate, 1)}


def _replay_as_json(found: Validation) -> dict[str, Any]:
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
        "events": {kind.value: count for kind, count in count_kinds(events).items()},
        "first": clock(events[0].time),
        "last": clock(events[-1].time),
        "files": [file.name for file in found.sources.files if file.node == node],
    }


def _event_as_json(event: Event) -> dict[str, Any]:
    api = event.body.api if isinstance(event.body, Body) else None
    return {
        "file": event.file,
        "line": event.line,
        "node": event.node,
        "time": clock(event.time),
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
            {"field": one.field, "kafka": shown(one.kafka), "model": shown(one.model)} for one in refusal.differences
        ],
        "nearest_action": refusal.action or None,
    }


def write_validation_junit(found: Validation, path: Path) -> None:
    """Write a validation as a JUnit test suite: the replay, and one test per check of the monitors."""
    name = "kraftcheck.validate.quorum"
    suite = ElementTree.Element("testsuite", {"name": name})

    def case(test: str, kind: str = "", message: str = "") -> None:
        one = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": in_xml(test), "time": "0"})
        if kind:
            ElementTree.SubElement(one, kind, {"message": in_xml(message)})

    is_open = found.result is Result.INCONCLUSIVE
    if found.divergence is not None:
        text = plain(divergence_lines(found, found.divergence)).strip()
        case("replay", "skipped" if is_open else "failure", text)
    else:
        case("replay", "skipped" if found.open_questions else "", "; ".join(found.open_questions))
    for broken, event in found.broken.items():
        case(f"property {broken}", "failure", f"broken after {event.place}")
    for title, report in (("logs", found.monitored), ("disks", found.disk_report)):
        for check, count in report.checks.items() if report is not None else ():
            case(f"{title}: {check}", *_outcome(report, check, count))
    counts = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    suite.attrib |= {key: str(len(list(suite.iter(kind)))) for key, kind in counts.items()}
    suite.set("time", f"{found.seconds:.3f}")
    ElementTree.SubElement(suite, "system-out").text = in_xml(plain(validation_lines(found, quiet=True)))
    tree = ElementTree.ElementTree(suite)
    ElementTree.indent(tree)
    tree.write(path, "utf-8", xml_declaration=True)


def _outcome(report: Report | None, check: str, count: int) -> tuple[str, str]:
    """Return the kind of a check's result in JUnit, and its message."""
    broken = [one for one in report.findings if one.check == check] if report is not None else []
    if broken:
        return "failure", "; ".join(f"{one.message} ({place_of(one)})" for one in broken)
    return ("", "") if count else ("skipped", "nothing to compare")
