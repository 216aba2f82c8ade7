"""Iterative deepening: depth-first searches with growing depth limits, so the first counterexample is shortest."""

from __future__ import annotations

from functools import partial

from kraftcheck.explorer.result import Result, SearchRequest
from kraftcheck.explorer.tables.searches.dfs import DepthFirstSearch
from kraftcheck.spec.language.protocol import Protocol


def search(protocol: Protocol, options: SearchRequest) -> Result:
    """Search with a depth limit of 1, 2, 3 ... states; the result's counts are those of the last round."""
    rounds = DepthFirstSearch(protocol, options)
    return rounds.checker.result_of(partial(_search_with_rising_limits, rounds, options.max_depth))


def _search_with_rising_limits(rounds: DepthFirstSearch, most: int | None) -> None:
    limit, starts = 1, rounds.starting_rows()
    while rounds.search_within(starts, limit):
        if limit == most:
            rounds.checker.monitor.stop_at("max_depth")
        limit += 1
