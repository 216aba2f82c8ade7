"""The table engine: an explicit-state search whose hot path looks everything up in integer tables.

`docs/design.md` follows one state through its modules: "The route of a state".
"""

from __future__ import annotations

from kraftcheck.explorer.capabilities import require_able, without_symmetry
from kraftcheck.explorer.result import Options, Result
from kraftcheck.explorer.tables import searches
from kraftcheck.spec.language.protocol import Protocol


def explore(protocol: Protocol, options: Options) -> Result:
    """Search the reachable states of a protocol with the table engine."""
    require_able("tables", protocol, options)
    options, notes = without_symmetry(options)
    result = searches.find(options.search)(protocol, options)
    result.notes += notes
    return result
