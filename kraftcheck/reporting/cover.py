"""What a cover of a state graph took, as lines and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from kraftcheck.lockstep.cover import Cover, Reason
from kraftcheck.lockstep.walks import Step
from kraftcheck.reporting.lines import FAINT, HEAD, PLAIN, Line
from kraftcheck.spec.display import cut

WIDTH = 160
SHOWN = 5
"""Steps that are shown of those that nothing explains."""


def told(cover: Cover) -> Iterator[Line]:
    """Yield how many labelled steps were taken, and by rule those that were not."""
    graph = cover.graph
    untaken = list(cover.untaken())
    to = "" if graph.is_whole else f" to depth {graph.depth}"
    whole = f"{len(graph.states):,} states{to}, {graph.size:,} labelled steps"
    yield [(HEAD, "cover: "), (PLAIN, f"{cover.walks:,} walks took {cover.taken:,} of {whole}")]
    for reason in Reason:
        found = [(edge, is_own) for edge, why, is_own in untaken if why is reason]
        if found:
            own = sum(is_own for _, is_own in found)
            yield [(PLAIN, f"  {len(found):>9,}  {reason}"), (FAINT, f"  ({own:,} themselves, the others behind)")]
        for edge, _ in found[:SHOWN] if reason in (Reason.MISSING, Reason.LEFT) else ():
            yield [(FAINT, cut(f"             {Step.of(edge.label)}", WIDTH))]


def counts(cover: Cover) -> Counter[Reason]:
    """Return how many labelled steps were not taken, by reason."""
    return Counter(reason for _, reason, _ in cover.untaken())


def as_json(cover: Cover) -> dict[str, Any]:
    """Return what `--json` says of a cover."""
    graph, counted = cover.graph, counts(cover)
    return {
        "start": graph.init,
        "states": len(graph.states),
        "depth": graph.depth,
        "whole": graph.is_whole,
        "labelled steps": graph.size,
        "walks": cover.walks,
        "taken": cover.taken,
        "untaken": {reason.value: counted[reason] for reason in Reason},
    }
