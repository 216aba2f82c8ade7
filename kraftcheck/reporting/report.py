"""A result as one file to share: a page for a browser (`.html`), or Markdown with a Mermaid diagram (`.md`)."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kraftcheck.explorer.result import Result, TraceStep, Violation
from kraftcheck.jobs import Job
from kraftcheck.reporting.as_json import result_as_json, states_as_json, tool, value_as_json, violation_as_json
from kraftcheck.reporting.flows import flows
from kraftcheck.reporting.lines import plain
from kraftcheck.reporting.replay import claim_told, details
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.replay.claims import ClaimVerdict
from kraftcheck.traces.replay.replayer import Replay, ReplayedState

PAGE = Path(__file__).with_name("page")
SCRIPTS = ("data.js", "diagram.js", "details.js", "pane.js", "page.js")
"""The page's script, in the order in which its parts stand."""

_UNSAFE = {code: f"\\u{code:04x}" for code in (*map(ord, "<>&\u2028\u2029"), *range(0xD800, 0xE000))}
"""What could end the element that holds the data or a line of it, and what UTF-8 cannot write."""
_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; {asks}base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


def write_report(path: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Write a report in the form that the file's ending says."""
    from kraftcheck.reporting.mermaid import markdown

    # without the folders of the machine that it is made on
    runs = [{**run, **{name: run[name].rpartition("/")[2] for name in ("model", "configuration")}} for run in runs]
    text = page(runs) if path.suffix == ".html" else markdown(runs)
    path.write_text(text, encoding="utf-8", errors="replace")


def run_as_data(job: Job, result: Result, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report holds of a search."""
    run = {**result_as_json(job, result), **more}
    traces = zip(run["traces"], result.violations, strict=True)
    run["traces"] = [
        {**told, **_drawn(job.protocol, told["states"], violation), "end": _end(violation)}
        for told, violation in traces
    ]
    return run | {"checked": [prop.name for prop in (*job.options.properties, *job.options.over_behaviours)]}


def _drawn(protocol: Protocol, states: list[dict[str, Any]], violation: Violation) -> dict[str, Any]:
    """Return a counterexample as a page draws it: with the step that leads back, where one does."""
    trace, loop = violation.trace, violation.loop
    if loop is not None and loop.again is not None:
        trace = (*trace, loop.again)
        states = states_as_json(protocol, trace)
    return behaviour_as_data(protocol, states, trace)


def _end(violation: Violation) -> str:
    loop = violation.loop
    if loop is not None:
        goes_on = "nothing more happens" if loop.again is None else f"back in state {loop.back_to}, for ever"
        return f"violates {violation.property}: {goes_on}"
    return f"an assert failed in {violation.property}" if violation.failed else f"violates {violation.property}"


def replay_as_data(job: Job, replay: Replay, walked: Sequence[ReplayedState]) -> dict[str, Any]:
    """Return what a report holds of a trace that was replayed."""
    trace = [as_step(one) for one in walked]
    name = Path(replay.file).name if replay.index == 0 else f"{Path(replay.file).name}, trace {replay.index + 1}"
    found, known = replay.divergence, replay.violated in job.protocol.properties
    told: dict[str, Any] = {"property": replay.violated, "why": None, "title": f"{name} {replay.verdict}", "end": ""}
    claim = replay.claim
    if known and found is None and trace and claim and claim.verdict is ClaimVerdict.SHOWN and claim.at_end:
        told |= violation_as_json(job.protocol, Violation(str(replay.violated), tuple(trace)))
    if found is not None:
        told["end"] = "here the trace goes on otherwise"
    elif claim is not None:
        told["end"] = claim_told(replay).lstrip(",; ")
    elif walked and walked[-1].number < len(walked):
        told["end"] = f"back in state {walked[-1].number}"
    told |= behaviour_as_data(job.protocol, states_as_json(job.protocol, trace), trace)
    return {
        "model": job.model.name,
        "variant": job.model.protocol.variant,
        "configuration": job.config_name,
        "constants": {one: value_as_json(value) for one, value in job.protocol.constant_values().items()},
        "result": replay.verdict.value,
        "reason": replay.reason if found is None else found.headline,
        "steps": replay.steps,
        "actions": dict(Counter(replay.actions)),
        "notes": list(replay.notes),
        "details": None if found is None else plain(details(found)),
        "traces": [told] if trace else [],
    }


def as_step(one: ReplayedState) -> TraceStep:
    """Return a replayed state as a step of a behaviour."""
    taken = one.transition
    return TraceStep(one.state) if taken is None else TraceStep(one.state, taken.action, taken.actor, taken.message)


def behaviour_as_data(protocol: Protocol, states: list[dict[str, Any]], trace: Sequence[TraceStep]) -> dict[str, Any]:
    """Return a behaviour as a report has it: who takes each step, what became of each message, and the bounds."""
    own = protocol.network.own_actions()
    for state in states:
        state["by"] = "the network" if state["action"] in own else state["actor"] or "the environment"
    found = [
        {
            "message": value_as_json(flow.message),
            "type": type(flow.message).__name__,
            **{name: getattr(flow, name) for name in ("source", "dest", "sent", "fate", "until", "is_copy")},
        }
        for flow in flows(protocol.network, trace)
    ]
    return {"states": states, "flows": found, "bounds": _bounds(protocol)}


def _bounds(protocol: Protocol) -> dict[str, list[str]]:
    """Return each bound's name in the configuration, and its limit, by its attribute."""
    bounds = [constant for constant in protocol.constants.values() if constant.is_bound]
    return {bound.attribute: [bound.name, text_of(getattr(protocol, bound.attribute))] for bound in bounds}


def page(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the page: one file that asks for nothing else, and runs no script but its own.

    `runs`: what was run, each by `run_as_data`. Nothing in it can become markup: it is JSON in an element of its own,
    with `<`, `>`, `&` and the line separators of JavaScript escaped, and the script makes text of it.
    """
    return document(packed(runs), SCRIPTS)


def document(data: Mapping[str, Any], scripts: Iterable[str], asks: str = "") -> str:
    """Return a page with a script of ours and its data."""
    style = (PAGE / "page.css").read_text("utf-8")
    parts = "\n".join((PAGE / name).read_text("utf-8") for name in scripts)
    script = f'\n(() => {{\n"use strict";\n{parts}}})();\n'
    texts = {
        "policy": _POLICY.format(script=_hash(script), style=_hash(style), asks=asks),
        "style": style,
        "script": script,
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(_UNSAFE),
    }
    template = (PAGE / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: texts[found[1]], template)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


PLAIN = ("number", "action", "actor", "by", "spent", "node", "breaks")
"""What of a state is no value: the last two where it is one that `explore` visited."""


# The data of the page: each value once, and of each state what is another than a step before


class _Values:
    """Values by number, each once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, value: Any) -> int:
        text = json.dumps(value, ensure_ascii=False)
        return self.numbers.setdefault(text, len(self.numbers))

    def all(self) -> list[Any]:
        return [json.loads(text) for text in self.numbers]


def packed(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the data of a page: of what was run, by `run_as_data`, each value once."""
    values = _Values()
    found = [dict(run) | {"traces": [_packed_trace(trace, values) for trace in run["traces"]]} for run in runs]
    return {**tool(), "runs": found, "values": values.all()}


def _packed_trace(trace: Mapping[str, Any], values: _Values) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    before: dict[str, int] = {}
    for state in trace["states"]:
        now = {name: values.number(value) for name, value in state["replicas"].items()}
        step = {name: state[name] for name in PLAIN if name in state}
        step["on"] = None if state["on"] is None else values.number(state["on"])
        step["replicas"] = {name: number for name, number in now.items() if before.get(name) != number}
        step["gone"] = [name for name in before if name not in now]
        step["shared"] = values.number(state["shared"])
        step["changes"] = [[change["what"], change["how"]] for change in state["changes"]]
        steps.append(step)
        before = now
    packed = [dict(flow) | {"message": values.number(flow["message"])} for flow in trace["flows"]]
    rest = {name: value for name, value in trace.items() if name != "states"}
    return {**rest, "why": anywhere(trace["why"]), "steps": steps, "flows": packed}


def anywhere(why: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return why a property is false without the folders of the machine that says so."""
    if why is None or why["place"] is None:
        return why
    return {**why, "place": {**why["place"], "file": "/".join(Path(why["place"]["file"]).parts[-2:])}}
