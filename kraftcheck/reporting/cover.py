"""What a cover of a state graph took, as lines and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from kraftcheck.reporting.lines import FAINT, HEAD, PLAIN, Line
from kraftcheck.spec.display import cut
from kraftcheck.traces.kafka.cover import Cover, Reason
from kraftcheck.traces.kafka.walks import Step

WIDTH = 160
SHOWN = 5
"""Steps that are shown of those that nothing explains."""


def told(cover: Cover) -> Iterator[Line]:
    """Yield how many labelled steps were taken, and by rule those that were not."""
    graph, counted = cover.graph, counts(cover)
    size = graph.size
    to = "" if graph.is_whole else f" to depth {graph.depth}"
    whole = f"{len(graph.states):,} states{to}, {size:,} labelled steps"
    yield [(HEAD, "cover: "), (PLAIN, f"{cover.walks:,} walks took {cover.taken:,} of {whole}")]
    for reason in Reason:
        if counted[reason]:
            yield [(PLAIN, f"  {counted[reason]:>9,}  {reason}")]
            for text in sample(cover, reason) if reason in (Reason.MISSING, Reason.LEFT) else ():
                yield [(FAINT, cut(f"             {text}", WIDTH))]


def counts(cover: Cover) -> Counter[Reason]:
    """Return how many labelled steps were not taken, by reason."""
    return Counter(reason for _, _, reason in cover.untaken())


def sample(cover: Cover, wanted: Reason) -> list[str]:
    """Return a few of the steps that were not taken for a reason, as text."""
    found = (str(Step.of(edge.label)) for edge, _, reason in cover.untaken() if reason is wanted)
    return [text for _, text in zip(range(SHOWN), found, strict=False)]


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
