"""The table engine: an explicit-state search that looks up successors in integer tables.

For the path of one state through its modules see `docs/architecture.md`.
"""

from __future__ import annotations

from importlib import import_module

from kraftcheck.explorer.calls.inspection import WholeStateNeededError, request_with_tracked_reads
from kraftcheck.explorer.request import drop_unsound_symmetry_with_notes, require_supported
from kraftcheck.explorer.result import Result, SearchRequest
from kraftcheck.explorer.tables import searches
from kraftcheck.spec.language.protocol import Protocol


def explore(protocol: Protocol, options: SearchRequest) -> Result:
    """Search the reachable states of a protocol with the table engine."""
    require_supported("tables", protocol, options)
    options, notes = drop_unsound_symmetry_with_notes(options)
    order = import_module(f"{searches.__name__}.{options.search.replace('-', '_')}")
    whole: set[str] = set()
    while True:
        try:
            result: Result = order.search(protocol, request_with_tracked_reads(options, whole))
        except WholeStateNeededError as error:
            whole.add(error.name)
            if options.checkpoint is not None:
                from kraftcheck.explorer.checkpoint import request_resuming_if_saved  # few searches have a checkpoint

                options = request_resuming_if_saved(options)
        else:
            result.notes += notes
            return result


def mark_checkpoint_finished(protocol: Protocol, options: SearchRequest) -> None:
    """Mark the checkpoint of a search as finished if another engine ended it, so a new search may use its folder."""
    from kraftcheck.explorer.tables import checkpoint

    checkpoint.mark_finished(protocol, options)
