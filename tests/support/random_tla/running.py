"""Compares many pairs; keeps those that differ, made smaller."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tests.support.random_tla.comparing import MOST, Comparison, Pair, Tlc, TlcError, UnfitError
from tests.support.random_tla.drawing import Description, draw, draws, features

TRIES = 150
"""Comparisons that making a pair smaller may take."""
REDRAWN = 25
"""Temporal properties and fairness that are drawn for one protocol."""
LEAST = 10
"""Distinct states that most pairs have at least."""

README = """\
The TLA+ module and the protocol say the same, but:

{differences}

    kraftcheck check {name}.py:{name} --config {name}.cfg {options}
    kraftcheck crosscheck {name}.py:{name} --config {name}.cfg --spec {name}.tla
    python -m tests.support.random_tla --seed {seed} --pairs 1

`flat` and `packed` are early changes of the layout of states: `LAYOUTS` in tests/support/random_tla/comparing.py.
"""


@dataclass
class Summary:
    """How many pairs were compared, skipped, and by feature and search; the differences by seed."""

    pairs: int = 0
    skipped: int = 0
    features: Counter[str] = field(default_factory=Counter)
    searches: Counter[str] = field(default_factory=Counter)
    differences: dict[int, list[str]] = field(default_factory=dict)
    slowest: tuple[float, int] = (0.0, 0)


def compare(
    seeds: Iterator[int], pairs: int, tlc: Tlc, folder: Path, keep: Path | None = None, most: int = MOST
) -> Summary:
    """Compare pairs, the same for the same seeds; write those that differ to folders in `keep`."""
    summary = Summary()
    while summary.pairs < pairs:
        seed, began = next(seeds), time.monotonic()
        description, needs = chosen(seed, tlc, folder)
        searches: Counter[str] = Counter()
        try:
            sizes = (LEAST if seed % 5 and not description.walkers else 0, most)
            differences = differences_of(description, f"Pair{seed}", tlc, folder, searches, sizes)
        except UnfitError:
            summary.skipped += 1
            continue
        summary.pairs += 1
        summary.features.update(features(description))
        summary.features["verdict that needs its fairness"] += needs
        summary.searches += searches
        if differences:
            summary.differences[seed] = differences
            if keep is not None:
                is_ours = not differences[0].startswith(TlcError.__name__)
                smaller = shrunk(description, differences, tlc, folder) if is_ours else description
                kept(smaller, seed, tlc, folder, keep)
        summary.slowest = max(summary.slowest, (time.monotonic() - began, seed))
    return summary


def chosen(seed: int, tlc: Tlc, folder: Path) -> tuple[Description, bool]:
    """Return the description of a seed, and whether its verdict needs the fairness; one that does, if found soon."""
    first = draw(seed)
    for one in itertools.islice(draws(seed), REDRAWN if first.walkers else 0):
        if Comparison(Pair.of(one, f"Pair{seed}"), tlc, folder).needs_fairness():
            return one, True
    return first, False


def differences_of(
    description: Description,
    name: str,
    tlc: Tlc,
    folder: Path,
    searches: Counter[str] | None = None,
    sizes: tuple[int, int] = (0, MOST),
) -> list[str]:
    """Return the differences of a pair; an exception is one too."""
    try:
        comparison = Comparison(Pair.of(description, name), tlc, folder, sizes)
        differences = comparison.run()
    except UnfitError:
        raise
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    if searches is not None:
        searches += comparison.searched
    return differences


# A pair that differs


def kept(description: Description, seed: int, tlc: Tlc, folder: Path, keep: Path) -> None:
    """Write a pair to a folder, with what differs and the commands that show it."""
    target = keep / str(seed)
    target.mkdir(parents=True, exist_ok=True)
    pair = Pair.of(description, f"Pair{seed}")
    pair.write(target)
    differences = differences_of(description, pair.name, tlc, folder) or ["not again"]
    engine, search, workers = (*differences[0].split(":")[0].split(), "", "", "")[:3]
    options = f"--engine {engine} --search {search}" + (f" --workers {workers}" if engine == "tables" else "")
    text = README.format(differences="\n".join(differences), name=pair.name, options=options, seed=seed)
    (target / "README").write_text(text)


def shrunk(description: Description, differences: list[str], tlc: Tlc, folder: Path) -> Description:
    """Return a smaller description that differs in the same way."""
    wanted, tries = kinds(differences), 0
    smaller = True
    while smaller:
        smaller = False
        for one in parts_dropped(description):
            tries += 1
            if tries > TRIES:
                return description
            if wanted & kinds(of_smaller(one, tlc, folder)):
                description, smaller = one, True
                break
    return description


def of_smaller(description: Description, tlc: Tlc, folder: Path) -> list[str]:
    """Return the differences; none where a part is missing that another one needs."""
    try:
        return differences_of(description, "Smaller", tlc, folder)
    except UnfitError:
        return []


def kinds(differences: list[str]) -> set[tuple[str, ...]]:
    """Return which engines differ in what."""
    return {tuple(difference.split(": ")[:2]) for difference in differences}


def parts_dropped(value: Any) -> Iterator[Any]:
    """Yield a description, or a part of one, without one of its parts."""
    for one in fields(value):
        part = getattr(value, one.name)
        if not isinstance(part, tuple) or one.name == "pivot" or hasattr(part, "_fields"):
            continue
        for number in range(len(part)):
            if not (one.name == "acts" and value.fairness) and one.name != "limits":
                yield replace(value, **{one.name: (*part[:number], *part[number + 1 :])})
        for number, inner in enumerate(part):
            if hasattr(inner, "__dataclass_fields__"):
                for smaller in parts_dropped(inner):
                    yield replace(value, **{one.name: (*part[:number], smaller, *part[number + 1 :])})
