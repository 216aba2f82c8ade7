"""kraftcheck: an explicit-state model checker for KRaft, Kafka's Raft.

The package exports the language of protocols, `check`, which searches a protocol's states, and `explain`, which formats
a counterexample. In this example two nodes pass a token, and at most one node may hold it:

>>> from collections.abc import Iterator
>>> from kraftcheck import MessageSet, Protocol, Record, State, Steps, become, check, consume, explain
>>> from kraftcheck import internal, invariant, on
>>> class Node(Record):
...     id: int
...     has_token: bool
>>> class Token(Record):
...     dest: int
>>> class Shared(Record):
...     pass
>>> class Ring(Protocol):
...     network = MessageSet()
...     def initial(self) -> Iterator[State]:
...         yield self.start([Node(1, True), Node(2, False)], Shared())
...     @internal
...     def pass_on(self, me: Node) -> Steps:
...         if me.has_token:
...             yield become(me).send(Token(dest=3 - me.id))
...     @on(Token)
...     def take(self, me: Node, token: Token) -> Steps:
...         yield consume(me.but(has_token=True))
...     @invariant
...     def one_holder(self, me: Node, peer: Node) -> bool:
...         return not (me.has_token and peer.has_token)
>>> result = check(Ring())
>>> print(explain(Ring(), result.violations[0]))  # doctest: +ELLIPSIS
Counterexample to OneHolder, 3 states
messages: - consumed, * delivered and kept, + sent, the others still under way
<BLANKLINE>
State 1  initial state
    replicas   1, 2
    has_token  TRUE (1); FALSE (2)
<BLANKLINE>
State 2  PassOn by 1
    messages  + Token  -> 2
<BLANKLINE>
State 3  Take by 2 on Token
    2.has_token  FALSE -> TRUE
    messages  - Token  -> 2
<BLANKLINE>
OneHolder
    violated for me = 1, peer = 2: `not (me.has_token and peer.has_token)` is false  (me.has_token = ...)
"""

from __future__ import annotations

from importlib import import_module

_NAMES_OF_MODULE = {
    "kraftcheck.api": "CheckOptions Loaded SearchOptions check explain load simulate to_networkx write_report",
    "kraftcheck.explorer.request": "Progress Search",
    "kraftcheck.explorer.result": "Interrupted Result TraceStep Verdict Violation to_pandas",
    "kraftcheck.traces.replay.replayer": "Replay Replayer",
    "kraftcheck.validation.stepping": "Refused ValidationState validate_step",
}
"""Modules of the public names that `kraftcheck.spec` does not export. Type checkers read `__init__.pyi` instead."""
_LINKED_PACKAGES = ("explorer", "kraft_model", "spec", "traces")
"""Packages that a checkout has at its top, with symbolic links to them beside this file."""


def _missing_link_message(error: ImportError) -> str | None:
    """Return the message for an import that failed because a symbolic link is missing, or None."""
    name = str(error.name).removeprefix("kraftcheck.")
    if name not in _LINKED_PACKAGES:
        return None
    return (
        f"kraftcheck/{name}: expected a symbolic link to ../{name}; run 'pip install .' and then the installed "
        "kraftcheck, or clone with 'git clone -c core.symlinks=true'"
    )


def __getattr__(name: str) -> object:
    """Return a public name and import its module at first use: `kraftcheck --help` must stay quick."""
    if name == "__all__":
        try:
            language = import_module("kraftcheck.spec")
        except ModuleNotFoundError as error:
            message = _missing_link_message(error)
            if message is None:
                raise
            raise ImportError(message, name=error.name) from None
        value: object = sorted([*language.__all__, *" ".join(_NAMES_OF_MODULE.values()).split()])
    elif name.startswith("_") or name not in __getattr__("__all__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        home = next((module for module, names in _NAMES_OF_MODULE.items() if name in names.split()), "kraftcheck.spec")
        value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
