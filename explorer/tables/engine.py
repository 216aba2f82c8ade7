"""The table engine: an explicit-state search whose hot path looks everything up in integer tables.

The route of a state, always downwards:

- `engine.py` picks the strategy, a module of `searches/`.
- `searches/bfs.py` takes rows of states from `states/levels.py`, a batch at a time, and has them expanded.
- `expander.py` divides the batch among its workers; each runs `kernel/expand.py`, which looks up the successors.
- What the kernel does not find it notes. `kernel/resolving/` makes it from what is known; where that is not enough,
  `learning/learner.py` calls the protocol's Python, once for each distinct input.
- Successors, packed, go to `states/spilling.py`: to the visited set in memory (`states/visited.py`) or, where memory
  is short, by way of candidates to the archive on disk (`states/archive.py`). It returns those that are new.
- `checker.py` turns what the kernel noted of them into violations, `python_checks.py` evaluates non-local properties
  on the new ones. Both report to `explorer/bookkeeping.py`, which makes the result.
- The strategy appends the new states to the next level; now and then it has a snapshot saved by `checkpoints/`.
"""

from __future__ import annotations

from kraftcheck.explorer.result import Options, Result
from kraftcheck.explorer.tables import searches
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol

OPTIONS = ("checkpoint", "resume", "memory")
"""Those that not every order of search has."""


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
        For options that the order of search does not have, or a checkpoint that it cannot go on from.
    ProtocolError
        Where the protocol breaks the language's contract.
    """
    strategy = searches.find(options.search)
    for option in OPTIONS:
        if getattr(options, option) is not None and option not in strategy.options:
            able = [name for name in searches.names() if option in searches.find(name).options]
            titles = " or ".join(f"a {searches.find(name).title}" for name in able)
            raise InputError(f"--{option}: only {titles} can do this; expected --search {' or '.join(able)}")
    return strategy.search(protocol, options)
