"""Searches whose results other searches must equal."""

from __future__ import annotations

from kraftcheck.explorer.result import Result

TEN_MILLION = ("three-voters-remove", ("MaxValuesPerEpoch=2", "Value={v1,v2}"), 11_566_762, 29_736_980, 67)
"""A configuration of counts/, settings, and what a search finds: distinct and generated states, and the depth."""

ALIKE = ("result", "complete", "distinct_states", "generated_states", "depth", "actions", "trace_length")
"""Of what `check --json` writes, what must not depend on how the search was run."""


def found(result: Result) -> dict[str, object]:
    """Return all that memory must not change."""
    return {
        "verdict": result.verdict,
        "distinct": result.distinct_states,
        "generated": result.generated_states,
        "depth": result.depth,
        "actions": result.actions,
        "violations": {v.property: len(v.trace) for v in result.violations},
    }
