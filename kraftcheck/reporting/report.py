"""A result as one file to share: a page for a browser (`.html`), or Markdown with a Mermaid diagram (`.md`)."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kraftcheck.explorer.result import Result, Violation
from kraftcheck.jobs import Job
from kraftcheck.reporting.as_json import result_as_json, tool, value_as_json, violation_as_json
from kraftcheck.reporting.flows import flows
from kraftcheck.spec.display import text_of
from kraftcheck.spec.language.protocol import Protocol

PAGE = Path(__file__).with_name("page")
SCRIPTS = ("data.js", "diagram.js", "details.js", "page.js")
"""The page's script, in the order in which its parts stand."""

_UNSAFE = {code: f"\\u{code:04x}" for code in (*map(ord, "<>&\u2028\u2029"), *range(0xD800, 0xE000))}
"""What could end the element that holds the data or a line of it, and what UTF-8 cannot write."""
_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


def write_report(path: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Write a report in the form that the file's ending says.

    Parameters
    ----------
    path
        The file: `.html` or `.md`.
    runs
        What was run, each by `run_as_data`.
    """
    from kraftcheck.reporting.mermaid import markdown

    text = page(runs) if path.suffix == ".html" else markdown(runs)
    path.write_text(text, encoding="utf-8", errors="replace")


def run_as_data(job: Job, result: Result, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a report holds of a search.

    Parameters
    ----------
    job
        What was asked for.
    result
        What it found.
    more
        What `--json` says besides, or otherwise, than of every search.
    """
    run = {**result_as_json(job, result), **more}
    traces = zip(run["traces"], result.violations, strict=True)
    run["traces"] = [_with_flows(job.protocol, told, violation) for told, violation in traces]
    return run | {"checked": [prop.name for prop in (*job.options.properties, *job.options.reachable)]}


def trace_as_data(protocol: Protocol, violation: Violation) -> dict[str, Any]:
    """Return what a report holds of a behaviour: its states, and what became of each message."""
    return _with_flows(protocol, violation_as_json(protocol, violation), violation)


def _with_flows(protocol: Protocol, told: dict[str, Any], violation: Violation) -> dict[str, Any]:
    own = protocol.network.own_actions()
    for state, step in zip(told["states"], violation.trace, strict=True):
        state["by"] = "the network" if step.action in own else state["actor"] or "the environment"
    place = told["why"]["place"]  # without the folders of whoever made the report
    if place is not None:
        told["why"] = told["why"] | {"place": {**place, "file": "/".join(Path(place["file"]).parts[-2:])}}
    found = [
        {
            "message": value_as_json(flow.message),
            "type": type(flow.message).__name__,
            **{name: getattr(flow, name) for name in ("source", "dest", "sent", "fate", "until", "is_copy")},
        }
        for flow in flows(protocol.network, violation.trace)
    ]
    return {**told, "flows": found, "bounds": _bounds(protocol)}


def _bounds(protocol: Protocol) -> dict[str, list[str]]:
    """Return each bound's name in the configuration, and its limit, by its attribute."""
    bounds = [constant for constant in protocol.constants.values() if constant.is_bound]
    return {bound.attribute: [bound.name, text_of(getattr(protocol, bound.attribute))] for bound in bounds}


def page(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the page: one file that asks for nothing else, and runs no script but its own.

    Parameters
    ----------
    runs
        What was run, each by `run_as_data`. Nothing in it can become markup: it is JSON in an element of its own, with
        `<`, `>`, `&` and the line separators of JavaScript escaped, and the script makes text of it.
    """
    style = (PAGE / "page.css").read_text("utf-8")
    parts = "\n".join((PAGE / name).read_text("utf-8") for name in SCRIPTS)
    script = f'\n(() => {{\n"use strict";\n{parts}}})();\n'
    texts = {
        "policy": _POLICY.format(script=_hash(script), style=_hash(style)),
        "style": style,
        "script": script,
        "data": json.dumps(_packed(runs), ensure_ascii=False, separators=(",", ":")).translate(_UNSAFE),
    }
    template = (PAGE / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: texts[found[1]], template)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


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


def _packed(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    values = _Values()
    packed = [dict(run) | {"traces": [_packed_trace(trace, values) for trace in run["traces"]]} for run in runs]
    return {**tool(), "runs": packed, "values": values.all()}


def _packed_trace(trace: Mapping[str, Any], values: _Values) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    before: dict[str, int] = {}
    for state in trace["states"]:
        now = {name: values.number(value) for name, value in state["replicas"].items()}
        step = {name: state[name] for name in ("number", "action", "actor", "by", "spent")}
        step["on"] = None if state["on"] is None else values.number(state["on"])
        step["replicas"] = {name: number for name, number in now.items() if before.get(name) != number}
        step["gone"] = [name for name in before if name not in now]
        step["shared"] = values.number(state["shared"])
        step["changes"] = [[change["what"], change["how"]] for change in state["changes"]]
        steps.append(step)
        before = now
    packed = [dict(flow) | {"message": values.number(flow["message"])} for flow in trace["flows"]]
    return {name: value for name, value in trace.items() if name != "states"} | {"steps": steps, "flows": packed}
