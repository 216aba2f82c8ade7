"""How to go on with a search that was stopped: the command line that does."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from kraftcheck.explorer.result import INTERRUPTED, Result
from kraftcheck.reporting.changes import PLAIN
from kraftcheck.reporting.counterexample import Line
from kraftcheck.reporting.summary import LIMITS

_FOLDERS = ("--checkpoint", "--resume")


def folder_of(arguments: argparse.Namespace) -> Path | None:
    """Return the folder in which a search keeps its checkpoint, or None.

    Parameters
    ----------
    arguments
        What `kraftcheck.cli` read.
    """
    folder: Path | None = arguments.checkpoint if arguments.resume is None else arguments.resume
    return folder


def how_to_go_on(arguments: argparse.Namespace, result: Result) -> Iterator[Line]:
    """Yield the line that says how to go on, where a search was stopped and has a checkpoint.

    Parameters
    ----------
    arguments
        What `kraftcheck.cli` read.
    result
        What the search found.
    """
    folder = folder_of(arguments)
    if folder is None or result.limit is None:
        return
    from kraftcheck.explorer.tables.checkpoints.folder import MANIFEST

    if (folder / MANIFEST).is_file():
        limits = () if result.limit in (INTERRUPTED, "time_limit") else (LIMITS.get(result.limit, ""),)
        words = [*without(arguments.words, (*_FOLDERS, *limits)), "--resume", str(folder)]
        yield [(PLAIN, f"To go on: kraftcheck {shlex.join(words)}")]


def without(words: Iterable[str], options: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command line without some options and their values.

    Parameters
    ----------
    words
        The command line.
    options
        Options that take a value.
    """
    skipping = False
    for word in words:
        if skipping:
            skipping = False
        elif word in options:
            skipping = True
        elif word.partition("=")[0] not in options:
            yield word
