"""Makes a walk shorter and simpler: steps, replicas and kinds of events are left out while the same thing is found.

Delta debugging.

Source: A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.lockstep.lockstep import Finding, Lockstep, LockstepVerdict
from kraftcheck.lockstep.walks import GivenWalk, Step
from kraftcheck.spec import ConstantError, ordered

Sign = tuple[Any, ...]


def sign_of(finding: Finding) -> Sign:
    """Return what two findings share that show the same thing: not where they are, but what differs."""
    action = None if finding.taken is None else finding.taken.action
    if finding.verdict is LockstepVerdict.VIOLATES:
        return finding.verdict, frozenset(finding.violated)
    fields = frozenset((found.field, found.where is None) for found in finding.differences)
    return finding.verdict, action, fields, finding.problem.partition(":")[0]


def shrink(
    lockstep: Lockstep, steps: list[Step], wanted: Sign, report: Callable[[int], None] | None = None
) -> list[Step]:
    """Return a walk that shows the same, from which no piece can be left out."""
    best = _shown(lockstep, steps, wanted)
    if best is None:
        return steps
    size = max(1, len(best) // 2)
    while True:
        shorter = None
        for first in range(0, len(best), size):
            tried = _shown(lockstep, best[:first] + best[first + size :], wanted)
            if tried is not None and len(tried) < len(best):
                shorter = tried
                break
        if shorter is not None:
            best = shorter
            size = min(size, max(1, len(best) // 2))
            if report is not None:
                report(len(best))
        elif size == 1:
            return best
        else:
            size = max(1, size // 2)


def simplified(lockstep: Lockstep, steps: list[Step], wanted: Sign) -> tuple[Quorum, list[Step]]:
    """Return the model with fewer replicas and kinds of events, and a walk through it that shows the same."""
    best = lockstep.protocol
    constants = best.constants.values()
    for host in reversed(ordered(best.hosts)):
        sets = {name: value - {host} for name, value in _values(best).items() if isinstance(value, frozenset)}
        others = [step for step in steps if step.actor != str(host)]
        best, steps = _if_shown(lockstep, best, sets, others, wanted) or (best, steps)
    for constant in constants:
        if constant.is_bound and constant.default == 0 and getattr(best, constant.attribute) > 0:
            best, steps = _if_shown(lockstep, best, {constant.attribute: 0}, steps, wanted) or (best, steps)
    return best, steps


def _values(protocol: Quorum) -> dict[str, Any]:
    return {constant.attribute: getattr(protocol, constant.attribute) for constant in protocol.constants.values()}


def _if_shown(
    lockstep: Lockstep, protocol: Quorum, changes: dict[str, Any], steps: list[Step], wanted: Sign
) -> tuple[Quorum, list[Step]] | None:
    """Return the model with other constants, and the walk through it, or None where it does not show what is wanted."""
    try:
        other = type(protocol)(**{**_values(protocol), **changes})
    except ConstantError:  # nobody is left to vote
        return None
    shown = _shown(Lockstep(lockstep.driver, other, go_on=lockstep.go_on, ignored=lockstep.ignored), steps, wanted)
    return None if shown is None or len(shown) > len(steps) else (other, shown)


def _shown(lockstep: Lockstep, steps: list[Step], wanted: Sign) -> list[Step] | None:
    """Return the steps that were taken up to what is wanted, or None where it is not shown."""
    walked, findings = lockstep.walk(GivenWalk(steps, skips=True), len(steps))
    shown = [finding.step for finding in findings if sign_of(finding) == wanted]
    return list(map(Step.of, walked[: shown[0]])) if shown else None
