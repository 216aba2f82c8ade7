"""The table engine: an explicit-state search whose hot path looks everything up in integer tables.

`docs/design.md` follows one state through its modules: "The route of a state".
"""

from __future__ import annotations

from kraftcheck.explorer import capabilities
from kraftcheck.explorer.result import Options, Result
from kraftcheck.explorer.tables import searches
from kraftcheck.spec.language.protocol import Protocol


def explore(protocol: Protocol, options: Options) -> Result:
    """Search the reachable states of a protocol with the table engine.

    Parameters
    ----------
    protocol
        The protocol, with its constants.
    options
        What to check and where to stop. By default a breadth-first search has a thread for every processor;
        depth-first searches have one.

    Returns
    -------
    Result
        As the reference engine finds it.

    Raises
    ------
    Interrupted
        Where the user interrupts it; the exception has what was found until then.
    InputError
        For options that the search order does not have, or a checkpoint that it cannot go on from.
    ProtocolError
        Where the protocol breaks the language's contract.
    """
    capabilities.require_able("tables", protocol, options)
    return searches.find(options.search)(protocol, options)
