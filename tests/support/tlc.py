"""TLC's models, numbers and behaviours, for tests."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kraftcheck.kraft_model.reconfig import Reconfig
from kraftcheck.kraft_model.reconfig.records import (
    Error,
    FetchDiverging,
    RequestVoteResponse,
    Role,
    Server,
    ServerState,
    Shared,
)
from kraftcheck.spec import invariant
from kraftcheck.spec.cfg.binding import bind, with_assignments
from kraftcheck.spec.cfg.config import BoundConfig, parse_setting, read_config
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.tla.text import parse_value
from kraftcheck.spec.values import Value

TLC = Path(__file__).parents[1] / "data" / "tlc"
COUNTS = TLC / "counts"
LARGE = ("three-voters", "three-voters-remove")
MODELS = sorted(path.stem for path in COUNTS.glob("*.cfg"))
COUNTEREXAMPLES = sorted(path.stem for path in (TLC / "counterexamples").glob("*.cfg"))

_CONJUNCT = re.compile(r"^/\\ (\w+) = (.*(?:\n(?!/\\ ).*)*)", re.MULTILINE)
_LABEL = re.compile(r"^(?:State \d+: |\\\* )<(\w+).*>$", re.MULTILINE)


def bound(path: str, protocol: type[Protocol] = Reconfig, *settings: str) -> BoundConfig:
    """Return a protocol bound to one of TLC's configurations, named as `counts/two-voters`, with settings put in."""
    config = read_config(TLC / f"{path}.cfg")
    return bind(protocol, with_assignments(config, [parse_setting(setting, config) for setting in settings]))


@cache
def expected() -> dict[str, Any]:
    """Return what TLC counted in each model of counts/."""
    found: dict[str, Any] = json.loads((COUNTS / "expected.json").read_text())
    return found


def text_of(path: str) -> str:
    """Return a file of TLC's, unpacked."""
    with gzip.open(TLC / f"{path}.gz", "rt", encoding="utf-8") as file:
        return file.read()


def json_states(name: str) -> list[dict[str, Any]]:
    """Return the states of a counterexample as TLC's `-dumpTrace json` has them."""
    document = json.loads(text_of(f"counterexamples/{name}.json"))
    return [state for _, state in document["counterexample"]["state"]]


def states_of(text: str) -> list[tuple[str, dict[str, Value]]]:
    """Return the behaviour that TLC wrote: for each state the action that leads there and the variables."""
    pieces = _LABEL.split(text)[1:]
    states = []
    for label, body in zip(pieces[::2], pieces[1::2], strict=True):
        body = body.split("\n\n")[0]
        states.append((label, {name: _parsed(value) for name, value in _CONJUNCT.findall(body)}))
    return states


@lru_cache(maxsize=10_000)
def _parsed(text: str) -> Value:
    return parse_value(text)


class MCReconfig(Reconfig):
    """Invariants that are false on purpose."""

    @invariant
    def no_value_acked(self, shared: Shared) -> bool:
        return True not in shared.acked.values()

    @invariant
    def no_new_leader(self, me: Server) -> bool:
        return not (me.state is ServerState.LEADER and me.current_epoch > 1)

    @invariant
    def no_observer_leader(self, me: Server) -> bool:
        return not (me.state is ServerState.LEADER and me.role is Role.OBSERVER)

    @invariant
    def no_diverging(self, message: FetchDiverging) -> bool:
        return False

    @invariant
    def no_joined_voter(self, me: Server) -> bool:
        return not (me.id.disk_id > 0 and me.role is Role.VOTER)

    @invariant
    def no_fenced_vote(self, message: RequestVoteResponse) -> bool:
        return message.error is not Error.FENCED_LEADER_EPOCH

    @invariant
    def no_resigned(self, me: Server) -> bool:
        return me.state is not ServerState.RESIGNED

    @invariant
    def no_two_leaders(self, me: Server, peer: Server) -> bool:
        return not (me.state is ServerState.LEADER and peer.state is ServerState.LEADER)
