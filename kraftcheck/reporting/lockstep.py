"""What walks beside Kafka showed, as lines, as JSON and as a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kraftcheck.explorer.result import TraceStep
from kraftcheck.lockstep.comparison import FieldDifference
from kraftcheck.lockstep.lockstep import LockstepVerdict
from kraftcheck.lockstep.survey import Kind, Survey, summary
from kraftcheck.reporting.as_json import states_as_json, value_as_json
from kraftcheck.reporting.lines import ACTION, FAINT, HEAD, NEW, OLD, PLAIN, Line, many, plain
from kraftcheck.reporting.report import behaviour_as_data
from kraftcheck.spec.display import cut, text_of

WIDTH = 160


def told(
    survey: Survey, kinds: Sequence[Kind], verdict: LockstepVerdict, version: str, *, quiet: bool
) -> Iterator[Line]:
    """Yield what was found, a paragraph for each kind, and a last line with the verdict, which counts."""
    for kind in kinds:
        yield from _paragraph(kind, quiet=quiet)
    if not quiet:
        width = max(map(len, survey.taken), default=0)
        for action, times in survey.taken.most_common():
            yield [(PLAIN, f"{action:{width}}  {times:>9,}")]
        yield []
    counted = f"{survey.walks:,} walks, {survey.steps:,} steps beside Kafka {version}"
    yield [(HEAD, f"{verdict.upper()}: "), (PLAIN, counted)]


def _paragraph(kind: Kind, *, quiet: bool = False) -> Iterator[Line]:
    finding = kind.first
    where = f"step {finding.step}" if finding.taken is None else f"step {finding.step}, {kind.steps[-1]}"
    yield [(HEAD, f"{finding.verdict}: {summary(finding)[0]}"), (FAINT, f"  ({kind.times} walks)")]
    yield [(ACTION, cut(f"  {where}", WIDTH))]
    for difference in () if quiet else finding.differences:
        yield from _sides(difference)
    if kind.file is not None:
        yield [(PLAIN, f"  {len(kind.steps)} steps in {kind.file}")]
    yield []


def _sides(difference: FieldDifference) -> Iterator[Line]:
    where = difference.field if difference.where is None else f"{difference.where}.{difference.field}"
    for style, side, value in ((OLD, "model", difference.model), (NEW, "Kafka", difference.kafka)):
        shown = "-" if value is None else value if isinstance(value, str) else text_of(value)
        yield [(PLAIN, f"    {where:24} {side}  "), (style, cut(str(shown), WIDTH))]


def as_json(survey: Survey, kinds: Sequence[Kind], verdict: LockstepVerdict, version: str) -> dict[str, Any]:
    """Return what `--json` says of one survey."""
    return {
        "verdict": verdict,
        "model": survey.about.model,
        "variant": survey.about.variant or None,
        "kafka": version,
        "walks": survey.walks,
        "steps": survey.steps,
        "actions": dict(survey.taken),
        "findings": [
            {
                "verdict": kind.first.verdict,
                "summary": summary(kind.first),
                "walks": kind.times,
                "step": kind.first.step,
                "violated": list(kind.first.violated),
                "differences": [
                    {"where": None if d.where is None else str(d.where), "field": d.field}
                    for d in kind.first.differences
                ],
                "steps": list(map(str, kind.steps)),
                "file": None if kind.file is None else str(kind.file),
            }
            for kind in kinds
        ],
    }


def as_run(survey: Survey, verdict: LockstepVerdict, version: str, name: str) -> dict[str, Any]:
    """Return what a report holds of one survey: a shortest walk for each kind of finding, else the longest walk."""
    kinds = survey.kinds()
    titles = [f"{kind.first.verdict}: {summary(kind.first)[0]}" for kind in kinds]
    walks = [(title, kind.behaviour) for title, kind in zip(titles, kinds, strict=True)]
    walks = walks or [(f"{verdict}: the longest walk", survey.longest)]
    return {
        "model": survey.about.model,
        "variant": survey.about.variant or None,
        "configuration": f"{name} beside Kafka {version}",
        "label": f"{name}, Kafka {version}",
        "constants": {one: value_as_json(value) for one, value in survey.protocol.constant_values().items()},
        "result": verdict.value,
        "runs": survey.walks,
        "steps": survey.steps,
        "actions": dict(survey.taken),
        "details": plain(line for kind in kinds for line in _paragraph(kind)) if kinds else None,
        "traces": [_walk_as_data(survey, title, walk, shows=bool(kinds)) for title, walk in walks if walk],
    }


def _walk_as_data(survey: Survey, title: str, walk: Sequence[TraceStep], *, shows: bool) -> dict[str, Any]:
    states = states_as_json(survey.protocol, walk)
    end = title if shows else ""
    told = {"property": None, "why": None, "title": f"{title}, {many(len(walk), 'state')}", "end": end}
    return told | behaviour_as_data(survey.protocol, states, walk)


def exit_code(verdicts: Counter[LockstepVerdict]) -> int:
    """Return the exit code for what was found."""
    if verdicts[LockstepVerdict.VIOLATES]:
        return 12
    return int(any(verdicts[one] for one in LockstepVerdict if one is not LockstepVerdict.AGREES))
