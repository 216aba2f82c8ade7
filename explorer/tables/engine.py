"""The table engine: an explicit-state search that looks up successors in integer tables.

For the path of one state through its modules see `docs/architecture.md`.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

from kraftcheck.explorer.calls.inspection import WholeStateNeededError, with_split_constraints
from kraftcheck.explorer.request import require_supported, without_unsound_symmetry
from kraftcheck.explorer.result import Result, SearchRequest
from kraftcheck.explorer.tables import searches
from kraftcheck.spec.language.protocol import Protocol


def explore(protocol: Protocol, options: SearchRequest) -> Result:
    """Search the reachable states of a protocol with the table engine."""
    require_supported("tables", protocol, options)
    options, notes = without_unsound_symmetry(options)
    order = import_module(f"{searches.__name__}.{options.search.replace('-', '_')}")
    whole: set[str] = set()
    while True:
        try:
            result: Result = order.search(protocol, with_split_constraints(options, whole))
        except WholeStateNeededError as error:
            whole.add(error.name)
            options = _from_checkpoint(options)
        else:
            result.notes += notes
            return result


def _from_checkpoint(options: SearchRequest) -> SearchRequest:
    """Return the request of a search that resumes from its checkpoint, if it has written one."""
    if options.checkpoint is None:
        return options
    from kraftcheck.persistence.folder import MANIFEST_FILE  # few searches have a checkpoint

    is_saved = Path(options.checkpoint, MANIFEST_FILE).is_file()
    return replace(options, resume=options.checkpoint) if is_saved else options
