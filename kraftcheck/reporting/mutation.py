"""The result of `mutate` as text and JSON: counts of verdicts by kind of fault, and the surviving mutants."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kraftcheck.files import read_small_text_file
from kraftcheck.mutation.mutants import Mutant
from kraftcheck.mutation.operators import OPERATOR_NAMES
from kraftcheck.mutation.trial import ERROR, KILLED, LOST, SURVIVED, UNREACHED, VERDICT_MEANINGS, MutantVerdict
from kraftcheck.reporting.lines import FAINT, HEAD, NEW, OLD, PLAIN, WARNING, Line, count_with_noun, table_lines
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.values import truncate_text

MOST_LINE_CHARACTERS = 150
"""Maximum length of a mutant's name and of an error in a list."""

JudgedMutant = tuple[Mutant, MutantVerdict]


class SurvivorExplanations:
    """A user's file of explanations for survivors: the name of a mutant, and indented below it the reason.

    `*` in a name matches any text. A line that begins with `#` is a comment.
    """

    def __init__(self, path: Path | None) -> None:
        self._reasons = _read_survivor_reasons_by_name(path) if path is not None else {}
        self._used: set[str] = set()
        self._patterns = {name: re.compile(".*".join(map(re.escape, name.split("*")))) for name in self._reasons}

    def of(self, mutant: Mutant) -> str | None:
        """Return the explanation of a mutant; None if the file has none."""
        for name, pattern in self._patterns.items():
            if pattern.fullmatch(mutant.name):
                self._used.add(name)
                return self._reasons[name]
        return None

    @property
    def unused(self) -> list[str]:
        """Names in the explanations file that belong to no looked-up mutant."""
        return [name for name in self._reasons if name not in self._used]


def _read_survivor_reasons_by_name(path: Path) -> dict[str, str]:
    """Read a file of explanations; return the reasons by name."""
    try:
        lines = read_small_text_file(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error  # a decoding error has no `strerror`
        raise InputError(f"--explained {path}: cannot be read: {why}") from None
    reasons: dict[str, str] = {}
    name = ""
    said = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    for number, line in said:
        if line[0].isspace():
            if not name:
                raise InputError(f"{path}:{number}: expected a mutant's name without indent, found {line!r}")
            reasons[name] = f"{reasons[name]} {line.strip()}".strip()
            continue
        if not reasons.get(name, "-"):
            raise InputError(f"{path}:{number}: expected an indented reason, found {line!r}")
        name = line.strip()
        reasons.setdefault(name, "")
    if not reasons.get(name, "-"):
        raise InputError(f"{path}:{len(lines)}: expected an indented reason after {name!r}")
    return reasons


class KillRate(NamedTuple):
    """The share of killed mutants among those that reach a new state or step."""

    gaining: int  # mutants with a state or step that the model lacks
    killed: int  # the gaining mutants that a property kills

    def sentence(self) -> str:
        """Return the rate as a sentence."""
        share = f" ({100 * self.killed // self.gaining} %)" if self.gaining else ""
        return (
            f"{self.killed:,} of {self.gaining:,} mutants with a state or labelled step that the model does not have"
            f" are killed by a property{share}"
        )


def kill_rate(judged: Iterable[JudgedMutant]) -> KillRate:
    """Return the kill rate of the mutants that reach a new state or step."""
    verdicts = [verdict for _, verdict in judged if verdict.gains]
    return KillRate(len(verdicts), sum(verdict.verdict == KILLED for verdict in verdicts))


def mutation_report_lines(
    judged: list[JudgedMutant], explanations: SurvivorExplanations, *, quiet: bool = False, is_whole: bool = True
) -> Iterator[Line]:
    """Yield the report as lines of text; `is_whole` tells that every chosen mutant is judged."""
    if not judged:
        return
    yield from _operators_table(judged)
    yield []
    if not quiet:
        yield from _killers_table(judged)
    yield from _survivor_lines(judged, explanations)
    if not quiet:
        yield from _mutants_with_verdict_lines(judged, LOST, "Only removes behaviour")
        yield from _mutants_with_verdict_lines(judged, ERROR, "Killed by an error")
        yield from _unreached_mutants_lines(judged)
    for name in explanations.unused if is_whole else ():
        yield [(WARNING, f"Warning: --explained: {name} matches no survivor; remove it")]
    counts = Counter(verdict.verdict for _, verdict in judged)
    counted = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICT_MEANINGS if counts[verdict])
    yield [(PLAIN, f"{count_with_noun(len(judged), 'mutant')}: {counted or 'none'}")]
    yield [(HEAD, kill_rate(judged).sentence())]


def _killers_table(judged: list[JudgedMutant]) -> Iterator[Line]:
    killers = Counter(verdict.by for _, verdict in judged if verdict.verdict == KILLED)
    rows = [(PLAIN, (name, f"{times:,}")) for name, times in killers.most_common()]
    yield from table_lines([(HEAD, ("killed by", "mutants")), *rows] if rows else (), [1])
    yield []


def _operators_table(judged: list[JudgedMutant]) -> Iterator[Line]:
    counts = Counter((mutant.kind, verdict.verdict) for mutant, verdict in judged)
    kinds = [kind for kind in OPERATOR_NAMES if any(counts[kind, verdict] for verdict in VERDICT_MEANINGS)]
    rows = [(HEAD, ("slip", "mutants", *VERDICT_MEANINGS))]
    for kind in kinds:
        numbers = [counts[kind, verdict] for verdict in VERDICT_MEANINGS]
        rows.append((PLAIN, (kind, *(f"{number:,}" for number in (sum(numbers), *numbers)))))
    totals = [sum(counts[kind, verdict] for kind in kinds) for verdict in VERDICT_MEANINGS]
    rows.append((HEAD, ("all", *(f"{number:,}" for number in (sum(totals), *totals)))))
    yield from table_lines(rows, range(1, len(VERDICT_MEANINGS) + 2))


def _survivor_lines(judged: list[JudgedMutant], explanations: SurvivorExplanations) -> Iterator[Line]:
    chosen = [one for one in judged if one[1].verdict == SURVIVED]
    if chosen:
        yield [(HEAD, f"Survived: {VERDICT_MEANINGS[SURVIVED]}")]
    for mutant, verdict in chosen:
        yield []
        yield [
            (PLAIN, f"{mutant.path.name}:{mutant.line}  {mutant.kind}  "),
            (FAINT, truncate_text(mutant.name, MOST_LINE_CHARACTERS)),
        ]
        old, new = mutant.diff()
        yield from ([(OLD, f"  - {line}")] for line in old)
        yield from ([(NEW, f"  + {line}")] for line in new)
        yield [(FAINT, f"  new: {verdict.step or 'another start'}{_state_count_changes_text(verdict)}")]
        reason = explanations.of(mutant)
        yield [(FAINT, f"  explained: {reason}") if reason else (WARNING, "  not explained")]
    if chosen:
        yield []


def _state_count_changes_text(verdict: MutantVerdict) -> str:
    counts = [f"{name} {before:,} -> {after:,} states" for name, before, after, *_ in verdict.counts if before != after]
    return f"; {', '.join(counts)}" if counts else f" in {verdict.config}"


def _mutants_with_verdict_lines(judged: list[JudgedMutant], kind: str, title: str) -> Iterator[Line]:
    chosen = [one for one in judged if one[1].verdict == kind]
    if not chosen:
        return
    yield [(HEAD, title)]
    for mutant, verdict in chosen:
        what = verdict.by or "; ".join(verdict.lost)
        yield [(PLAIN, f"  {mutant.path.name}:{mutant.line}  {truncate_text(mutant.name, MOST_LINE_CHARACTERS)}")]
        yield [(FAINT, f"      {verdict.config}: {truncate_text(what, MOST_LINE_CHARACTERS)}")]
    yield []


def _unreached_mutants_lines(judged: list[JudgedMutant]) -> Iterator[Line]:
    lines: dict[str, dict[int, None]] = {}
    for mutant, verdict in judged:
        if verdict.verdict == UNREACHED:
            lines.setdefault(mutant.path.name, {})[mutant.line] = None
    if lines:
        yield [(HEAD, "Never reached")]
    for name, numbers in lines.items():
        yield [(PLAIN, f"  {name}: line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}")]
    if lines:
        yield []


def mutation_report_as_json(
    judged: list[JudgedMutant], explanations: SurvivorExplanations, about: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the JSON object of `--json`."""
    found = kill_rate(judged)
    return {
        **about,
        "gaining": found.gaining,
        "gaining_killed": found.killed,
        "verdicts": dict(Counter(verdict.verdict for _, verdict in judged)),
        "mutants": [_mutant_as_json(mutant, verdict, explanations) for mutant, verdict in judged],
    }


def _mutant_as_json(mutant: Mutant, verdict: MutantVerdict, explanations: SurvivorExplanations) -> dict[str, Any]:
    old, new = mutant.diff()
    survived = verdict.verdict == SURVIVED
    return {
        "mutant": mutant.name,
        "slip": mutant.kind,
        "file": str(mutant.path),
        "line": mutant.line,
        "before": old,
        "after": new,
        **verdict._asdict(),
        "explained": explanations.of(mutant) if survived else None,
    }
