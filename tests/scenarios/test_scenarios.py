"""Every scenario happens as its text says; and the runner says what is wrong with one that does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.traces.scenarios import ScenarioError, parse_scenario_blocks
from tests.support.scenarios import run_scenario

REWRITE = bool(os.environ.get("KRAFTCHECK_REWRITE_SCENARIOS"))
SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_it_happens_as_the_text_says(path: Path) -> None:
    for block, told in run_scenario(path, rewrite=REWRITE):
        assert told == block.told, f"{path.name}, line {block.line}: {block.commands}"


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_it_begins_with_what_it_tells(path: Path) -> None:
    blocks, _ = parse_scenario_blocks(path.read_text())
    assert blocks[0].before[0].startswith("# ")
    assert blocks[0].commands[0].startswith("start ")
    for block in blocks:
        assert block.told, f"{path.name}, line {block.line}: nothing is told"


@pytest.mark.parametrize("model", ["quorum", "recovery", "registration"])
def test_every_action_is_told_somewhere(model: str) -> None:
    protocol = find_model(model).protocol
    told = {
        line.split()[0]
        for path in SCENARIOS
        for block in parse_scenario_blocks(path.read_text())[0]
        for line in block.told
    }
    assert set(protocol.actions) - told == set()


LOCK = """\
# Two clients and a lock.
start lock-service MaxLosses=1
----
c1: a new Client
c2: a new Client
server: a new Server

Ask by c1
briefly Ask by c2
----
Ask by c1
    c1.phase  idle -> waiting
    + Acquire  c1 -> server
Ask by c2

cannot Enter by c1
property MutualExclusion
show server.holder messages
----
no Grant is under way to it
MutualExclusion holds
server.holder: nobody
      Acquire  c1 -> server
      Acquire  c2 -> server

Grant by server from c2 -> holder=c2
deliver
show c1 c2
----
Grant by server on Acquire from c2
    server.holder  nobody -> c2
    - Acquire  c2 -> server
    + Grant    -> c2
Enter by c2 on Grant
c1: phase=waiting
c2: phase=holding

# The end.
"""


SETTLED = """\
# The network does what it can, in turns.
start lock-service MaxLosses=1
briefly Ask by c1
Ask by c2
settle among c1 server
----
c1: a new Client
c2: a new Client
server: a new Server
Ask by c1
Ask by c2
    c2.phase  idle -> waiting
    + Acquire  c2 -> server
messages among c1, server are delivered
    c1.phase       waiting -> holding
    server.holder  nobody -> c1

# The request of c2 is left, which nobody takes as long as c1 has the lock.

settle
hide phase
Leave by c1
settle until Grant
Enter by c2
settle among c2
show messages server
----
messages are delivered
    nothing changes
Leave by c1
    + Release  c1 -> server
messages are delivered
    server.holder  c1 -> c2
Enter by c2 on Grant
    - Grant  -> c2
messages among c2 are delivered
    nothing changes
none
server: holder=c2
"""


def scenario(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "lock.txt"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", [LOCK, SETTLED])
def test_a_scenario_is_filled_in_and_then_holds(tmp_path: Path, text: str) -> None:
    blocks, _ = parse_scenario_blocks(text)
    bare = text
    for block in blocks:
        bare = bare.replace("\n".join(["----", *block.told]), "----", 1)
    path = scenario(tmp_path, bare)
    run_scenario(path, rewrite=True)
    found = [told for _, told in run_scenario(path)]
    assert path.read_text() == text
    assert found == [block.told for block in blocks]


THREE = """start quorum bounds=9 Hosts={n1, n2, n3} InitialVoters={n1, n2, n3}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Ask by c1\n----\n", "line 1: Ask by c1: expected `start` as the first command"),
        ("start lock-service\n", "line 1: expected ---- after the commands"),
        ("start lock-service\n\n----\n", "line 2: expected commands, then ----"),
        ("start lock-servce\n----\n", "unknown model lock-servce (perhaps lock-service?)"),
        ("start lock-service MaxLoses=1\n----\n", "unknown constant MaxLoses (perhaps MaxLosses?)"),
        ("start lock-service\nleave c1\n----\n", "line 2: leave c1: unknown command leave"),
        ("start lock-service\nLeve by c1\n----\n", "unknown action Leve (perhaps Leave?)"),
        ("start lock-service\nAsk c1\n----\n", "unknown word 'c1'; expected by ID"),
        ("start lock-service\nLeave by c1\n----\n", "no such step; me.phase is not Phase.HOLDING (me.phase = idle)"),
        ("start lock-service\nAsk\n----\n", "ambiguous command, 2 matching steps:\n  Ask by c1; c1.phase "),
        (
            THREE + "ElectionTimeout by n1\nHandleVoteRequest by n2 on VoteRequest pre_vote=FALSE\n----\n",
            "; enabled are HandleVoteRequest by n2 on VoteRequest from n1: VoteRequest(epoch=0, pre_vote=TRUE,",
        ),
        ("start lock-service\ncannot Ask by c1\n----\n", "this step is possible: Ask by c1"),
        ("start lock-service\nshow c9.phase\n----\n", "c9.phase: there is no replica c9"),
        ("start lock-service\nshow server.holder.name\n----\n", "nobody has no field name"),
        ("start lock-service\nsettle among c9\n----\n", "unknown replica c9"),
        ("start lock-service\nsettle c1\n----\n", "settle: expected among ID ..., until MESSAGE, or nothing"),
        ("start lock-service\nsettle until Grant\n----\n", "settle: no Grant was in flight at any time"),
        ("start lock-service\nhide holdr\n----\n", "unknown field holdr (perhaps holder?)"),
        ("start lock-service\nproperty Nope\n----\n", "unknown property Nope"),
    ],
)
def test_a_scenario_that_cannot_be_run_says_where_and_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        run_scenario(scenario(tmp_path, text))
    assert str(caught.value).startswith("lock.txt, line ")
    assert message in str(caught.value)


def test_bounds_may_be_set_all_at_once(tmp_path: Path) -> None:
    text = "start lock-service {}\nbriefly Ask by c1\nLoseMessage by server\n----\n"
    with pytest.raises(ScenarioError, match="no such step"):
        run_scenario(scenario(tmp_path, text.format("bounds=1 MaxLosses=0")))
    assert run_scenario(scenario(tmp_path, text.format("bounds=1")))
