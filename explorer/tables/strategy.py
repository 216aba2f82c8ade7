"""What an order of search tells of itself."""

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
        Options that not every order has, and this one does.
    """

    title: str
    search: Callable[[Protocol, Options], Result]
    options: tuple[str, ...] = ()
