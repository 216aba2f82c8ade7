"""Running the command line in this process, on a small protocol of a user's."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kraftcheck.cli import main

PING = '''
"""A user's own protocol."""

from kraftcheck import *


class Peer(Record):
    id: int
    pings: int = 0
    log: tuple[int, ...] = ()
    seen: frozenset[int] = frozenset()


class Ping(Record):
    number: int
    source: int
    dest: int


class Shared(Record):
    total: int = 0


class PingPong(Protocol):
    """Two peers ping each other. Nothing comes of it."""

    pings: int = bound("MaxPings", default=2)
    network = Bag()

    def initial(self):
        yield self.start([Peer(1), Peer(2)], Shared())

    @internal
    def send_ping(self, me: Peer) -> Steps:
        number = me.pings + 1
        yield become(me.but(pings=number)).send(Ping(number, me.id, 3 - me.id)).spend("pings")

    @on(Ping)
    def receive_ping(self, me: Peer, ping: Ping, shared: Shared) -> Steps:
        after = me.but(log=(*me.log, ping.number), seen=me.seen | {ping.number})
        yield consume(after).put(total=shared.total + 1)

    @internal
    def never(self, me: Peer) -> Steps:
        if me.pings > 99:
            yield become(me)

    @invariant
    def short_log(self, me: Peer) -> bool:
        return len(me.log) < 2

    @invariant
    def few_pings(self, me: Peer) -> bool:
        return me.pings < 2

    @step_invariant
    def log_grows(self, before: Peer, after: Peer) -> bool:
        return len(after.log) >= len(before.log)

    @constraint
    def at_most_one(self, me: Peer) -> bool:
        return me.pings < 2


class Forgetful(PingPong, variant="forgetful"):
    """A peer forgets its log. That is a fault."""

    def receive_ping(self, me: Peer, ping: Ping, shared: Shared) -> Steps:
        yield consume(me.but(log=()))
'''


class Outcome(NamedTuple):
    """What a command line did."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line."""

    def call(*arguments: object) -> Outcome:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stopped:  # argparse
            code = int(str(stopped.code))
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return call


@pytest.fixture
def ping(tmp_path: Path) -> str:
    """Return the MODEL argument for a small protocol in a file."""
    path = tmp_path / "ping.py"
    path.write_text(PING)
    return f"{path}:PingPong"


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kraftcheck", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )


def heed_interrupts() -> None:
    """Let signals reach a process even where these tests run in the background of a shell, or under nohup."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
