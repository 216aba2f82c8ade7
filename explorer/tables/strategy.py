"""What a search order tells of itself: see `searches/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kraftcheck.explorer.result import Options, Result
from kraftcheck.spec.language.protocol import Protocol


class Strategy(NamedTuple):
    """An order in which states are visited.

    Attributes
    ----------
    title
        What it is called in a sentence.
    search
        Runs a search in this order.
    options
        Those of the options that only some search orders have which this one has.
    """

    title: str
    search: Callable[[Protocol, Options], Result]
    options: tuple[str, ...] = ()
