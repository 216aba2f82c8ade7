"""How to go on with a search that was stopped: the command line that does."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from kraftcheck.explorer.result import INTERRUPTED, Options, Result
from kraftcheck.reporting.lines import PLAIN, Line
from kraftcheck.reporting.summary import LIMITS


def how_to_go_on(words: Iterable[str], options: Options, result: Result) -> Iterator[Line]:
    """Yield the line that says how to go on, where a search was stopped and has a checkpoint.

    Parameters
    ----------
    words
        The command line.
    options
        What the search was asked for.
    result
        What it found.
    """
    folder = options.resume or options.checkpoint
    if folder is None or result.limit is None:
        return
    from kraftcheck.explorer.tables.checkpoints.folder import MANIFEST

    if (Path(folder) / MANIFEST).is_file():
        limits = () if result.limit in (INTERRUPTED, "time_limit") else (LIMITS.get(result.limit, ""),)
        again = [*_without(words, ("--checkpoint", "--resume", *limits)), "--resume", str(folder)]
        yield [(PLAIN, f"To go on: kraftcheck {shlex.join(again)}")]


def _without(words: Iterable[str], options: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command line without some options and their values."""
    rest = iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word.partition("=")[0] not in options:
            yield word
