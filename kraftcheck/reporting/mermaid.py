"""A result as Markdown with Mermaid's sequence diagrams, which GitHub and GitLab draw in a pull request."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kraftcheck.explorer.result import DEADLOCK
from kraftcheck.reporting.as_json import tool
from kraftcheck.reporting.flows import DELIVERED, DROPPED, KEPT, LOST, UNDER_WAY
from kraftcheck.reporting.lines import many
from kraftcheck.spec.display import cut

Flow = Mapping[str, Any]

LONGEST = 40_000
"""Characters of one diagram: Mermaid draws up to 50,000. A longer behaviour becomes several."""

_PLAIN = re.compile(r"[^A-Za-z0-9 _.,=()+*/-]")
_ENVIRONMENT = "environment"
_ARROWS = {DELIVERED: "->>", KEPT: "->>", LOST: "--x", DROPPED: "--x"}
_LEGEND = (
    "A dotted arrow is a message sent, a whole one a message delivered, a cross one that is lost. "
    "Messages that are still under way are named at the end."
)


def markdown(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the report in Markdown."""
    parts = [part for run in runs for part in _run(run)]
    return "\n\n".join([*parts, f"<sub>{tool()['tool']} {tool()['version']}</sub>"]) + "\n"


def _run(run: Mapping[str, Any]) -> Iterator[str]:
    variant = f", variant {_code(run['variant'])}" if run.get("variant") else ""
    model = f"{_code(run['model'])}{variant}, configuration {_code(run['configuration'])}"
    yield f"## {run['result'].capitalize()}: {model}"
    if "constants" in run:
        constants = ", ".join(f"{name} = {_words(value)}" for name, value in run["constants"].items())
        yield f"Constants: {_code(constants or 'none')}"
    if run.get("distinct_states") is not None:
        yield f"{run['distinct_states']:,} distinct states"
    if run.get("reason"):
        yield _code(run["reason"])
    for trace in run["traces"]:
        yield from _trace(trace)
    if run.get("details"):
        yield _fenced(map(_line, run["details"].splitlines()))
    yield from (f"- {_code(note)}" for note in (*run.get("warnings", ()), *run.get("notes", ())))


def _trace(trace: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {_code(title_of(trace))}"
    why = trace["why"]
    if why and why["says"]:
        yield _code(why["says"])
    if why and why["false_of"]:
        yield "False of " + _code(", ".join(f"{name} = {_words(value)}" for name, value in why["false_of"].items()))
    if why:
        yield from (_code(part) for part in why.get("because", ()))
    if trace["end"]:
        yield f"It ends here: {_code(trace['end'])}"
    yield _LEGEND
    for diagram in diagrams(trace):
        yield f"```mermaid\n{diagram}\n```"
    yield f"<details><summary>What each step changes</summary>\n\n{_fenced(_changes(trace['states']))}\n\n</details>"


def title_of(trace: Mapping[str, Any]) -> str:
    """Return what a behaviour is called."""
    if "title" in trace:
        return str(trace["title"])
    name = trace["property"]
    return f"{name if name == DEADLOCK else f'Counterexample to {name}'}, {many(len(trace['states']), 'state')}"


def _changes(states: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for state in states:
        yield _line(f"{state['number']}  {_step(state)}")
        yield from (_line(f"    {change['what']}  {change['how']}") for change in state["changes"])


def _fenced(lines: Iterable[str]) -> str:
    """Return lines in a fence that none of them ends."""
    text = "\n".join(lines)
    fence = "`" * (max((len(found) for found in re.findall("`+", text)), default=0) + 3)
    return f"{fence}text\n{text}\n{fence}"


def _line(text: str) -> str:
    """Return text without the characters that begin another line."""
    return "".join(character if character.isprintable() else " " for character in text)


def diagrams(trace: Mapping[str, Any]) -> Iterator[str]:
    """Yield a behaviour as the text of sequence diagrams, several where it is too long for one.

    References
    ----------
    Mermaid's documentation, "Sequence diagrams": messages, notes, "Entity codes to escape characters".
    """
    names = list(dict.fromkeys(name for state in trace["states"] for name in state["replicas"]))
    ends = [flow[end] for flow in trace["flows"] for end in ("source", "dest") if flow[end] is not None]
    outside = any(state["action"] and state["by"] == f"the {_ENVIRONMENT}" for state in trace["states"])
    ids = {name: f"r{number}" for number, name in enumerate(names, start=1)}
    if outside or any(end not in ids for end in ends):
        ids[_ENVIRONMENT] = "env"
    head = ["sequenceDiagram", *(f"    participant {id_} as {_text(name)}" for name, id_ in ids.items())]
    ended, begun = (_by_step(trace["flows"], name) for name in ("until", "sent"))
    lines, size = list(head), 0
    for state in trace["states"]:
        new = [f"    {line}" for line in _state(state, ended[state["number"]], begun[state["number"]], ids)]
        if size + sum(map(len, new)) > LONGEST and len(lines) > len(head):
            yield "\n".join(lines)
            lines, size = list(head), 0
        lines += new
        size += sum(map(len, new))
    lines += [f"    {line}" for line in _under_way(trace["flows"], ids)]
    yield "\n".join(lines)


def _by_step(flows: Iterable[Flow], name: str) -> defaultdict[int, list[Flow]]:
    found: defaultdict[int, list[Flow]] = defaultdict(list)
    for flow in flows:
        found[flow[name]].append(flow)
    return found


def _state(
    state: Mapping[str, Any], ended: Iterable[Flow], begun: Iterable[Flow], ids: Mapping[str, str]
) -> Iterator[str]:
    number = state["number"]
    for flow in ended:
        yield _arrow(flow, _ARROWS[flow["fate"]], ids, f" {flow['fate']}" if flow["fate"] != DELIVERED else "")
    if state["action"] is None:
        yield f"Note over {','.join([*ids.values()][:: max(1, len(ids) - 1)])}: {number} initial state"
        return
    place = ids.get(state["actor"] or _ENVIRONMENT, next(iter(ids.values()), "env"))
    yield f"Note over {place}: {number} {_text(_step(state))}"
    for flow in begun:
        yield _arrow(flow, "--)", ids, " copied" if flow["is_copy"] else "")


def _arrow(flow: Flow, arrow: str, ids: Mapping[str, str], more: str) -> str:
    source, dest = (ids.get(flow[end] or _ENVIRONMENT, ids.get(_ENVIRONMENT)) for end in ("source", "dest"))
    source, dest = source or dest, dest or source
    return f"{source}{arrow}{dest}: {_text(flow['type'])}{more}"


def _under_way(flows: Iterable[Flow], ids: Mapping[str, str]) -> Iterator[str]:
    waiting: dict[str, Counter[str]] = {}
    for flow in flows:
        if flow["fate"] == UNDER_WAY:
            dest = ids.get(flow["dest"] or _ENVIRONMENT, next(iter(ids.values()), "env"))
            waiting.setdefault(dest, Counter())[flow["type"]] += 1
    for dest, types in waiting.items():
        shown = ", ".join(f"{count} {_text(name)}" for name, count in types.items())
        yield f"Note over {dest}: still under way - {shown}"


def _step(state: Mapping[str, Any]) -> str:
    return "initial state" if state["action"] is None else f"{state['action']} by {state['by']}"


def _words(value: Any) -> str:
    if isinstance(value, list):
        return "{" + ", ".join(map(_words, value)) + "}"
    return {True: "TRUE", False: "FALSE"}[value] if isinstance(value, bool) else str(value)


def _code(text: str) -> str:
    """Return text as Markdown's code, in which nothing is markup, a link or a mention."""
    shown = _line(text).replace("`", "'")
    return f"`{shown}`"


def _text(text: str) -> str:
    """Return text in which nothing is syntax: all but letters, digits and some signs as numbered entities."""
    return _PLAIN.sub(lambda found: f"#{ord(found[0])};", _line(cut(text, 120)))
