"""`kraftcheck replay`: from traces to a verdict on each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from kraftcheck.catalogue import Model, find_config, find_model
from kraftcheck.commands.check import guarded
from kraftcheck.commands.lenient_binding import bind_leniently
from kraftcheck.commands.outputs import require_writable, write_json
from kraftcheck.reporting.changes import NEW, OLD, PLAIN
from kraftcheck.reporting.counterexample import ACTION, FAINT, HEAD, Line
from kraftcheck.reporting.progress import Count
from kraftcheck.reporting.summary import WARNING, print_lines
from kraftcheck.spec.cfg.config import override, parse_setting
from kraftcheck.traces.replay.differences import Difference
from kraftcheck.traces.replay.divergence import Divergence, Enabled
from kraftcheck.traces.replay.replayer import Replay, Replayer, Verdict

CONFORMS, DIVERGES, NOTHING_READ = 0, 1, 2
"""Exit codes."""

LONGEST = 110
"""Characters of a value, or of a list, that the report shows; the JSON has all."""

LONGEST_PLACE = 40
"""Characters of a place for which a table has a column; longer ones have a line of their own."""

_INDENT = "    "


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        What `kraftcheck.cli` read.

    Returns
    -------
    int
        The exit code.

    Raises
    ------
    InputError
        For bad input other than traces, of which the report says what is wrong.
    """
    model = find_model(arguments.model, arguments.variant)
    return guarded(model, lambda: _replay(model, arguments))


def _replay(model: Model, arguments: argparse.Namespace) -> int:
    require_writable({"--json": arguments.json})
    config = find_config(model, arguments.config)[1]
    config = override(config, [parse_setting(text, config) for text in arguments.set])
    bound, warnings = bind_leniently(model.protocol, config, whole_space=False)
    print_lines([(WARNING, f"Warning: {text}")] for text in warnings)
    limit = {} if arguments.max_size is None else {"limit_bytes": arguments.max_size}
    count = Count("states replayed", quiet=arguments.quiet)
    replayer = Replayer(bound.protocol, init=bound.init, symmetry=bound.symmetry, report=count, **limit)
    replays: list[Replay] = []
    try:
        for file in arguments.traces:
            for replay in replayer.replay(file):
                replays.append(replay)
                _show(replay, quiet=arguments.quiet)
    finally:
        count.close()
    if len(replays) > 1:
        print_lines([_summary(replays)])
    if arguments.json:
        write_json(arguments.json, [as_json(replay) for replay in replays])
    return exit_code(replays)


def exit_code(replays: Iterable[Replay]) -> int:
    """Return the exit code: 0 where all conform, 2 where nothing could be read, 1 otherwise."""
    verdicts = {replay.verdict for replay in replays}
    if verdicts == {Verdict.UNREADABLE}:
        return NOTHING_READ
    return CONFORMS if verdicts == {Verdict.CONFORMS} else DIVERGES


def as_json(replay: Replay) -> dict[str, Any]:
    """Return what `--json` says of one trace."""
    found = replay.divergence
    result: dict[str, Any] = {
        "file": replay.file,
        "index": replay.index,
        "format": replay.format,
        "steps": replay.steps,
        "result": replay.verdict.value,
        "actions": list(replay.actions),
        "diverged_at": replay.diverged_at,
        "reason": replay.reason,
        "violated": replay.violated,
        "notes": list(replay.notes),
    }
    if found is not None:
        result |= {
            "kind": found.kind.value,
            "line": found.line,
            "action": found.action,
            "nearest": found.nearest,
            "differences": [
                {"path": item.path, "trace": item.trace, "protocol": item.protocol} for item in found.differences
            ],
            "enabled": {name: list(ways) for name, ways in found.enabled},
            "why": found.why,
        }
    return result


def _show(replay: Replay, *, quiet: bool) -> None:
    if replay.verdict is Verdict.UNREADABLE:
        print(f"kraftcheck: error: {replay.problem}", file=sys.stderr)
    else:
        print_lines(told(replay, quiet=quiet))


def told(replay: Replay, *, quiet: bool = False, name: str | None = None) -> Iterator[Line]:
    """Yield the lines that say what became of a trace that could be read.

    Parameters
    ----------
    replay
        What became of it.
    quiet
        Whether to leave out all but the verdict.
    name
        What to call it; by default its file.
    """
    which = name or replay.file
    which = which if replay.index == 0 else f"{which}, trace {replay.index + 1}"
    found = replay.divergence
    if found is None:
        steps = f"{replay.steps} {'step' if replay.steps == 1 else 'steps'}"
        end = f", to a violation of {replay.violated}" if replay.violated else ""
        yield [(HEAD, which), (PLAIN, ": "), (NEW, "conforms"), (PLAIN, f", {steps}{end}")]
    else:
        place = f" at state {found.number}"
        place += f" (line {found.line})" if replay.format and replay.format.has_lines else ""
        yield [(HEAD, which), (PLAIN, ": "), (OLD, "diverges"), (PLAIN, place)]
        yield [(PLAIN, f"  {found.headline}")]
        if not quiet:
            yield from details(found)
    for note in replay.notes:
        yield [(FAINT, f"  Note: {note}")]


def details(found: Divergence) -> Iterator[Line]:
    """Yield what differs where a trace diverges, why the action that it names is not enabled, and which are.

    Parameters
    ----------
    found
        Where and why it diverges.
    """
    if found.differences:
        yield from table(found.differences, found.theirs)
    if found.why is not None:
        for line in found.why.splitlines():
            yield [(PLAIN, f"  {line}")]
    if found.enabled:
        yield [(PLAIN, f"  enabled in state {found.before}")]
        width = max(len(item.action) for item in found.enabled)
        yield from (_enabled(item, width) for item in found.enabled)


def table(differences: Iterable[Difference], theirs: str = "trace") -> Iterator[Line]:
    """Yield differences as columns: the place, the trace (or what `theirs` calls it), the protocol."""
    rows = [(item.path, _text(item, item.trace), _text(item, item.protocol)) for item in differences]
    heads = ("where", f"in the {theirs}", "by the protocol")
    first = max(len(row[0]) for row in [heads, *rows] if len(row[0]) <= LONGEST_PLACE)
    second = max(len(row[1]) for row in [heads, *rows])
    yield [(FAINT, f"{_INDENT}{heads[0]:{first}}  {heads[1]:{second}}  {heads[2]}")]
    for path, trace, protocol in rows:
        if len(path) > LONGEST_PLACE:
            yield [(PLAIN, f"{_INDENT}{path}")]
            path = ""
        yield [(PLAIN, f"{_INDENT}{path:{first}}  "), (OLD, f"{trace:{second}}"), (PLAIN, "  "), (NEW, protocol)]


def _text(difference: Difference, value: str | None) -> str:
    if value is None:
        return "-"
    return cut(f"has {value}" if difference.is_element else value)


def _enabled(item: Enabled, width: int) -> Line:
    return [(PLAIN, _INDENT), (ACTION, f"{item.action:{width}}"), (PLAIN, f"  {cut('; '.join(item.ways))}")]


def cut(text: str) -> str:
    """Return a text, cut where it is too long to be read."""
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _summary(replays: list[Replay]) -> Line:
    counts = {verdict: sum(replay.verdict is verdict for replay in replays) for verdict in Verdict}
    words = {Verdict.CONFORMS: "conform", Verdict.DIVERGES: "diverge", Verdict.UNREADABLE: "cannot be read"}
    parts = [f"{count:,} {words[verdict]}" for verdict, count in counts.items() if count]
    return [(HEAD, f"{len(replays):,} traces"), (PLAIN, f": {', '.join(parts)}")]
