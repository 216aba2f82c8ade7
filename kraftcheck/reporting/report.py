"""Reports in one file: a page for the browser (.html), or Markdown with Mermaid diagrams (.md)."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kraftcheck.catalogue import SearchJob
from kraftcheck.explorer.result import DEADLOCK, Result, TraceStep, Violation
from kraftcheck.reporting.as_json import (
    job_as_json,
    result_as_json,
    tool_header,
    trace_as_json,
    value_as_json,
    violation_as_json,
)
from kraftcheck.reporting.counterexample import (
    DELIVERED,
    DROPPED,
    KEPT,
    LOST,
    UNDER_WAY,
    message_flows,
    reason_as_statement,
    violated_for_text,
)
from kraftcheck.reporting.lines import count_with_noun, lines_as_plain_text
from kraftcheck.reporting.output import convert_write_errors, require_report_extension
from kraftcheck.reporting.replay import claim_verdict_text, divergence_lines, numbered_trace_file_name
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import text_of, truncate_text
from kraftcheck.traces.replay.claims import ClaimVerdict
from kraftcheck.traces.replay.replayer import Replay, ReplayedState

PAGE_FOLDER = Path(__file__).with_name("page")
REPORT_PAGE_SCRIPTS = ("data.js", "diagram.js", "details.js", "pane.js", "page.js")
"""The parts of the page's script, in order."""

_SCRIPT_ESCAPES = {code: f"\\u{code:04x}" for code in (*map(ord, "<>&\u2028\u2029"), *range(0xD800, 0xE000))}
"""Escapes of characters that could end the data element or a line, and of lone surrogates."""
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; {asks}base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


FlowData = Mapping[str, Any]

MOST_DIAGRAM_CHARACTERS = 40_000
"""Maximum length of one diagram's source. Mermaid accepts 50,000 characters; longer traces get several diagrams."""

_MERMAID_UNSAFE = re.compile(r"[^A-Za-z0-9 _.,=()+*/-]")
_ENVIRONMENT_NAME = "environment"
_ARROW_OF_FATE = {DELIVERED: "->>", KEPT: "->>", LOST: "--x", DROPPED: "--x"}
_DIAGRAM_LEGEND = (
    "A dotted arrow is a sent message, a solid arrow a delivered message, a cross a lost message. "
    "The diagram ends with the messages still under way."
)


def write_report(path: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Write a report in the format of the file's extension; raise InputError for an unknown or unwritable one."""
    require_report_extension(path)
    # file names only, without the folders of this machine
    runs = [{**run, **{name: run[name].rpartition("/")[2] for name in ("model", "configuration")}} for run in runs]
    text = report_page(runs) if path.suffix == ".html" else markdown_report(runs)
    with convert_write_errors("--report", path):
        path.write_text(text, encoding="utf-8", errors="replace")


def search_as_report_data(job: SearchJob, result: Result, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report data of a search."""
    run = {**result_as_json(job, result), **more}
    traces = zip(run["traces"], result.violations, strict=True)
    run["traces"] = [
        {
            **trace,
            **_counterexample_data(job.protocol, trace["states"], violation),
            "end": _counterexample_end_text(violation),
        }
        for trace, violation in traces
    ]
    return run | {"checked": [prop.name for prop in (*job.options.properties, *job.options.over_behaviours)]}


def _counterexample_data(protocol: Protocol, states: list[dict[str, Any]], violation: Violation) -> dict[str, Any]:
    """Return the diagram data of a counterexample; for a lasso with its closing step."""
    trace, loop = violation.trace, violation.loop
    if loop is not None and loop.again is not None:
        trace = (*trace, loop.again)
        states = trace_as_json(protocol, trace)
    return behaviour_as_report_data(protocol, states, trace)


def _counterexample_end_text(violation: Violation) -> str:
    loop = violation.loop
    if loop is not None:
        goes_on = "nothing more happens" if loop.again is None else f"back in state {loop.back_to}, for ever"
        return f"violates {violation.property}: {goes_on}"
    return f"an assert failed in {violation.property}" if violation.failed else f"violates {violation.property}"


def replay_as_report_data(job: SearchJob, replay: Replay, walked: Sequence[ReplayedState]) -> dict[str, Any]:
    """Return the report data of a replayed trace."""
    trace = list(map(replayed_state_as_step, walked))
    found, claim = replay.divergence, replay.claim
    title = f"{numbered_trace_file_name(replay)} {replay.verdict}"
    shown: dict[str, Any] = {"property": replay.violated, "why": None, "title": title}
    is_shown = claim is not None and claim.verdict is ClaimVerdict.SHOWN and claim.at_end
    if is_shown and found is None and trace and replay.violated in job.protocol.properties:
        shown |= violation_as_json(job.protocol, Violation(str(replay.violated), tuple(trace)))
    shown |= {"end": _replay_end_text(replay, walked)}
    shown |= behaviour_as_report_data(job.protocol, trace_as_json(job.protocol, trace), trace)
    return {
        **job_as_json(job),
        "result": replay.verdict.value,
        "reason": replay.reason if found is None else found.headline,
        "steps": replay.steps,
        "actions": dict(Counter(replay.actions)),
        "notes": list(replay.notes),
        "details": None if found is None else lines_as_plain_text(divergence_lines(found)),
        "traces": [shown] if trace else [],
    }


def _replay_end_text(replay: Replay, walked: Sequence[ReplayedState]) -> str:
    if replay.divergence is not None:
        return "the trace diverges here"
    if replay.claim is not None:
        return claim_verdict_text(replay).lstrip(",; ")
    return f"back in state {walked[-1].number}" if walked and walked[-1].number < len(walked) else ""


def replayed_state_as_step(one: ReplayedState) -> TraceStep:
    """Convert a replayed state to a step of a trace."""
    taken = one.transition
    return TraceStep(one.state) if taken is None else TraceStep(one.state, taken.action, taken.actor, taken.message)


def behaviour_as_report_data(
    protocol: Protocol, states: list[dict[str, Any]], trace: Sequence[TraceStep]
) -> dict[str, Any]:
    """Return the report data of a trace: actors of steps, fates of messages, bounds."""
    own = protocol.network.own_actions()
    for state in states:
        state["by"] = "the network" if state["action"] in own else state["actor"] or "the environment"
    found = [
        {
            "message": value_as_json(flow.message),
            "type": type(flow.message).__name__,
            **{name: getattr(flow, name) for name in ("source", "dest", "sent", "fate", "until", "is_copy")},
        }
        for flow in message_flows(protocol.network, trace)
    ]
    return {"states": states, "flows": found, "bounds": _bounds_by_attribute(protocol)}


def _bounds_by_attribute(protocol: Protocol) -> dict[str, list[str]]:
    """Return each bound's name in the configuration and its limit, by the bound's attribute."""
    bounds = [constant for constant in protocol.constants.values() if constant.is_bound]
    return {bound.attribute: [bound.name, text_of(getattr(protocol, bound.attribute))] for bound in bounds}


def report_page(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of runs (see `search_as_report_data`): one file that loads and runs nothing else.

    The data cannot become markup. It is JSON in its own element, with `<`, `>`, `&` and JavaScript's line separators
    escaped, and the script only creates text nodes from it.
    """
    return html_document(deduplicate_page_data(runs), REPORT_PAGE_SCRIPTS)


def html_document(data: Mapping[str, Any], scripts: Iterable[str], asks: str = "") -> str:
    """Return an HTML page with the given scripts and data; `asks` extends its Content-Security-Policy."""
    style = (PAGE_FOLDER / "page.css").read_text("utf-8")
    parts = "\n".join((PAGE_FOLDER / name).read_text("utf-8") for name in scripts)
    script = f'\n(() => {{\n"use strict";\n{parts}}})();\n'
    texts = {
        "policy": _CONTENT_SECURITY_POLICY.format(script=csp_hash(script), style=csp_hash(style), asks=asks),
        "style": style,
        "script": script,
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(_SCRIPT_ESCAPES),
    }
    template = (PAGE_FOLDER / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: texts[found[1]], template)


def csp_hash(text: str) -> str:
    """Return the digest by which a Content-Security-Policy allows a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


UNPACKED_STATE_KEYS = ("number", "action", "actor", "by", "spent", "node", "breaks")
"""The keys of a state whose values are not deduplicated; the last two are of `explore`."""


class _ValueInterner:
    """The deduplicated value table of the report page."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, value: Any) -> int:
        return self._numbers.setdefault(json.dumps(value, ensure_ascii=False), len(self._numbers))

    def all(self) -> list[Any]:
        return [json.loads(text) for text in self._numbers]


def deduplicate_page_data(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the data of a page, with deduplicated values and with states as differences to the state before."""
    values = _ValueInterner()
    found = [
        dict(run) | {"traces": [_trace_with_numbered_values(trace, values) for trace in run["traces"]]} for run in runs
    ]
    return {**tool_header(), "runs": found, "values": values.all()}


def _trace_with_numbered_values(trace: Mapping[str, Any], values: _ValueInterner) -> dict[str, Any]:
    """Return a trace with values as numbers of a table, and with replicas where they changed."""
    steps: list[dict[str, Any]] = []
    before: dict[str, int] = {}
    for state in trace["states"]:
        now = {name: values.number(value) for name, value in state["replicas"].items()}
        step = {name: state[name] for name in UNPACKED_STATE_KEYS if name in state}
        step["on"] = None if state["on"] is None else values.number(state["on"])
        step["replicas"] = {name: number for name, number in now.items() if before.get(name) != number}
        step["gone"] = [name for name in before if name not in now]
        step["shared"] = values.number(state["shared"])
        step["changes"] = [[change["what"], change["how"]] for change in state["changes"]]
        steps.append(step)
        before = now
    packed = [dict(flow) | {"message": values.number(flow["message"])} for flow in trace["flows"]]
    rest = {name: value for name, value in trace.items() if name != "states"}
    return {**rest, "why": shorten_source_path_in_reason(trace["why"]), "steps": steps, "flows": packed}


def shorten_source_path_in_reason(why: dict[str, Any] | None) -> dict[str, Any] | None:
    """Shorten the path in the reason of a violation to its last two parts."""
    if why is None or why["place"] is None:
        return why
    return {**why, "place": {**why["place"], "file": "/".join(Path(why["place"]["file"]).parts[-2:])}}


def markdown_report(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the report as Markdown."""
    parts = [part for run in runs for part in _markdown_run(run)]
    return "\n\n".join([*parts, f"<sub>{tool_header()['tool']} {tool_header()['version']}</sub>"]) + "\n"


def _markdown_run(run: Mapping[str, Any]) -> Iterator[str]:
    variant = f", variant {_markdown_code(run['variant'])}" if run.get("variant") else ""
    model = f"{_markdown_code(run['model'])}{variant}, configuration {_markdown_code(run['configuration'])}"
    yield f"## {run['result'].capitalize()}: {model}"
    if "constants" in run:
        constants = ", ".join(f"{name} = {_value_text(value)}" for name, value in run["constants"].items())
        yield f"Constants: {_markdown_code(constants or 'none')}"
    if run.get("distinct_states") is not None:
        yield f"{run['distinct_states']:,} distinct states"
    if run.get("reason"):
        yield _markdown_code(run["reason"])
    for trace in run["traces"]:
        yield from _markdown_trace(trace)
    if run.get("details"):
        yield _fenced_text(map(_printable_line, run["details"].splitlines()))
    yield from (f"- {_markdown_code(note)}" for note in (*run.get("warnings", ()), *run.get("notes", ())))


def _markdown_trace(trace: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {_markdown_code(title_of_trace(trace))}"
    why = trace["why"]
    if why and why["says"]:
        yield _markdown_code(why["says"])
    if why and (why["false_of"] or why.get("because")):
        yield _markdown_reason(why)
    if trace["end"]:
        yield f"End: {_markdown_code(trace['end'])}"
    yield _DIAGRAM_LEGEND
    for diagram in mermaid_diagrams(trace):
        yield f"```mermaid\n{diagram}\n```"
    changes = _fenced_text(_trace_step_lines(trace["states"]))
    yield f"<details><summary>Changes of each step</summary>\n\n{changes}\n\n</details>"


def _markdown_reason(why: Mapping[str, Any]) -> str:
    """Return the violating arguments and the false parts of a property as Markdown."""
    arguments = ", ".join(f"{name} = {_value_text(value)}" for name, value in why["false_of"].items())
    parts = "; ".join(map(reason_as_statement, why.get("because", ())))
    begin = violated_for_text("Violated", _markdown_code(arguments) if arguments else "")
    return f"{begin}: {_markdown_code(parts)}" if parts else begin


def title_of_trace(trace: Mapping[str, Any]) -> str:
    """Return the title of a trace."""
    if "title" in trace:
        return str(trace["title"])
    name = trace["property"]
    return (
        f"{name if name == DEADLOCK else f'Counterexample to {name}'}, {count_with_noun(len(trace['states']), 'state')}"
    )


def _trace_step_lines(states: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for state in states:
        yield _printable_line(f"{state['number']}  {_step_text(state)}")
        yield from (_printable_line(f"    {change['what']}  {change['how']}") for change in state["changes"])


def _fenced_text(lines: Iterable[str]) -> str:
    """Return lines in a Markdown fence longer than any fence in them."""
    text = "\n".join(lines)
    fence = "`" * (max((len(found) for found in re.findall("`+", text)), default=0) + 3)
    return f"{fence}text\n{text}\n{fence}"


def _printable_line(text: str) -> str:
    """Replace unprintable characters, among them line breaks, by spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def mermaid_diagrams(trace: Mapping[str, Any]) -> Iterator[str]:
    """Yield a trace as Mermaid sequence diagrams, several for a long trace."""
    ids = _participant_ids(trace)
    head = ["sequenceDiagram", *(f"    participant {id_} as {_escape_for_mermaid(name)}" for name, id_ in ids.items())]
    ended, begun = (_flows_by_step(trace["flows"], name) for name in ("until", "sent"))
    lines, size = list(head), 0
    for state in trace["states"]:
        new = [
            f"    {line}" for line in _mermaid_step_lines(state, ended[state["number"]], begun[state["number"]], ids)
        ]
        if size + sum(map(len, new)) > MOST_DIAGRAM_CHARACTERS and len(lines) > len(head):
            yield "\n".join(lines)
            lines, size = list(head), 0
        lines += new
        size += sum(map(len, new))
    yield "\n".join([*lines, *(f"    {line}" for line in _mermaid_messages_under_way(trace["flows"], ids))])


def _participant_ids(trace: Mapping[str, Any]) -> dict[str, str]:
    """Return the ids of the diagram's participants by name, with the environment if it takes part."""
    names = dict.fromkeys(name for state in trace["states"] for name in state["replicas"])
    ids = {name: f"r{number}" for number, name in enumerate(names, start=1)}
    acts = any(state["action"] and state["by"] == f"the {_ENVIRONMENT_NAME}" for state in trace["states"])
    ends = {flow[end] for flow in trace["flows"] for end in ("source", "dest")} - {None}
    return ids | {_ENVIRONMENT_NAME: "env"} if acts or ends - ids.keys() else ids


def _flows_by_step(flows: Iterable[FlowData], name: str) -> defaultdict[int, list[FlowData]]:
    found: defaultdict[int, list[FlowData]] = defaultdict(list)
    for flow in flows:
        found[flow[name]].append(flow)
    return found


def _mermaid_step_lines(
    state: Mapping[str, Any], ended: Iterable[FlowData], begun: Iterable[FlowData], ids: Mapping[str, str]
) -> Iterator[str]:
    number = state["number"]
    for flow in ended:
        yield _mermaid_arrow(
            flow, _ARROW_OF_FATE[flow["fate"]], ids, f" {flow['fate']}" if flow["fate"] != DELIVERED else ""
        )
    if state["action"] is None:
        yield f"Note over {','.join([*ids.values()][:: max(1, len(ids) - 1)])}: {number} initial state"
        return
    place = ids.get(state["actor"] or _ENVIRONMENT_NAME, next(iter(ids.values()), "env"))
    yield f"Note over {place}: {number} {_escape_for_mermaid(_step_text(state))}"
    for flow in begun:
        yield _mermaid_arrow(flow, "--)", ids, " copied" if flow["is_copy"] else "")


def _mermaid_arrow(flow: FlowData, arrow: str, ids: Mapping[str, str], more: str) -> str:
    source, dest = (ids.get(flow[end] or _ENVIRONMENT_NAME, ids.get(_ENVIRONMENT_NAME)) for end in ("source", "dest"))
    source, dest = source or dest, dest or source
    return f"{source}{arrow}{dest}: {_escape_for_mermaid(flow['type'])}{more}"


def _mermaid_messages_under_way(flows: Iterable[FlowData], ids: Mapping[str, str]) -> Iterator[str]:
    waiting: dict[str, Counter[str]] = {}
    for flow in flows:
        if flow["fate"] == UNDER_WAY:
            dest = ids.get(flow["dest"] or _ENVIRONMENT_NAME, next(iter(ids.values()), "env"))
            waiting.setdefault(dest, Counter())[flow["type"]] += 1
    for dest, types in waiting.items():
        shown = ", ".join(f"{count} {_escape_for_mermaid(name)}" for name, count in types.items())
        yield f"Note over {dest}: still under way - {shown}"


def _step_text(state: Mapping[str, Any]) -> str:
    return "initial state" if state["action"] is None else f"{state['action']} by {state['by']}"


def _value_text(value: Any) -> str:
    if isinstance(value, list):
        return "{" + ", ".join(map(_value_text, value)) + "}"
    return {True: "TRUE", False: "FALSE"}[value] if isinstance(value, bool) else str(value)


def _markdown_code(text: str) -> str:
    """Return text as Markdown code, without markup, links or mentions."""
    shown = _printable_line(text).replace("`", "'")
    return f"`{shown}`"


def _escape_for_mermaid(text: str) -> str:
    """Escape text for Mermaid: all characters but letters, digits and some signs become numeric entities."""
    return _MERMAID_UNSAFE.sub(lambda found: f"#{ord(found[0])};", _printable_line(truncate_text(text, 120)))
