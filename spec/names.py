"""Names that a user gives and nobody knows: one wording for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(kind: str, name: str, known: Iterable[str], owner: str = "") -> str:
    """Return a message for a name that is not known.

    Parameters
    ----------
    kind
        What it should be the name of: "invariant".
    name
        What was found.
    known
        The names that would do.
    owner
        Whose names these are.

    Examples
    --------
    >>> unknown("invariant", "NoIlegalState", ["NoLogDivergence", "NoIllegalState"], "Reconfig")
    'unknown invariant NoIlegalState (perhaps NoIllegalState?); Reconfig has NoIllegalState, NoLogDivergence'
    """
    names = list(dict.fromkeys(known))
    near = near_misses(name, names)
    hint = f" (perhaps {' or '.join(near)}?)" if near else ""
    listed = ", ".join([*near, *[other for other in names if other not in near]])
    has = f"{owner} has" if owner else "there is"
    return f"unknown {kind} {name}{hint}; {has} {listed or 'none'}"


def near_misses(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that someone who wrote `name` may have meant, the nearest first.

    >>> near_misses("maxrestart", ["MaxElections", "MaxRestarts"])
    ['MaxRestarts']
    """
    folded: dict[str, str] = {}
    for other in known:
        folded.setdefault(other.casefold(), other)
    return [folded[match] for match in get_close_matches(name.casefold(), folded, n=2, cutoff=0.75)]
