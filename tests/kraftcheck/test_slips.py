"""Slips as newcomers make them: one message with the line and what was expected, exit code 2, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Run

RING = """from collections.abc import Iterator

from kraftcheck import *


class Node(Record):
    id: int
    has_token: bool
    epoch: int = 0


class Token(Record):
    dest: int


class Shared(Record):
    passed: int = 0


class Ring(Protocol):
    rounds: int = bound("MaxRounds", default=2)
    nodes: frozenset[ModelValue] = constant("Nodes", default=frozenset())
    network = MessageSet()

    def initial(self) -> Iterator[State]:
        yield self.start([Node(1, True), Node(2, False)], Shared())

    @internal
    def pass_on(self, me: Node, shared: Shared) -> Steps:
        if not me.has_token:
            return
        yield become(me.but(has_token=False)).send(Token(dest=3 - me.id)).put(passed=shared.passed + 1).spend("rounds")

    @on(Token)
    def take(self, me: Node, token: Token) -> Steps:
        yield consume(me.but(has_token=True))

    @invariant
    def one_holder(self, me: Node, peer: Node) -> bool:
        return not (me.has_token and peer.has_token)
"""
START = "yield self.start([Node(1, True), Node(2, False)], Shared())"
SENT = "send(Token(dest=3 - me.id))"
TAKEN = "        yield consume(me.but(has_token=True))"
HOLDS = "return not (me.has_token and peer.has_token)"
TOKEN = "class Token(Record):\n    dest: int\n"
EQUAL = "    def __eq__(self, other):\n        return True\n"
COLOUR = (
    "import enum\n\nclass Colour(%s):\n    RED = 'red'\n" + EQUAL + "\n" + TOKEN + "    colour: Colour = Colour.RED\n"
)
SETS = '    symmetries = {"symm": %s}\n    network ='
SLIPS = [
    ("initial, returned", START, START.replace("yield", "return"), "initial(", "forgot `yield`?"),
    ("initial, a list", START, "return [Node(1, True)]", "initial(", "yielded Node(id=1, has_token=True, epoch=0)"),
    ("initial, no state", START, "yield Node(1, True)", "initial(", "expected a state, self.start([...], ...)"),
    ("a class for shared", "Shared())", "Shared)", "initial(", "(forgot `()`?)"),
    ("a class for a replica", "Node(1, True)", "Node", "initial(", "(forgot `()`?)"),
    (
        "no list of replicas",
        "[Node(1, True), Node(2, False)]",
        "Node(1, True)",
        "initial(",
        "a list of replicas, [...]",
    ),
    ("messages for shared", "Shared())", "[Token(1)])", "initial(", "found a list; messages are messages=[...]"),
    ("a bound without a name", 'bound("MaxRounds", default=2)', "bound(2)", "rounds:", "found 2; a value is default="),
    ("a class for a network", "MessageSet()", "MessageSet", "network =", "(forgot `()`?)"),
    ("no network", "MessageSet()", "7", "network =", "expected a network, such as MessageSet(), found 7"),
    ("symmetry, misspelt", "    network =", SETS % '("nods",)', "symmetries =", "nods (perhaps nodes?)"),
    ("symmetry, a bound", "    network =", SETS % '("rounds",)', "symmetries =", "unknown set of model values rounds"),
    (
        "symmetry, no tuple",
        "    network =",
        SETS % '"nodes"',
        "symmetries =",
        "expected a tuple of constants, ('nodes',)",
    ),
    ("a view", "    network =", SETS.replace("symmetries", "views") % 'hide("pased")', "views =", "(perhaps passed?)"),
    ("no me", "(self, me: Node, shared: Shared)", "(self)", "@internal", "action PassOn takes (self, me, ...)"),
    ("no message", "me: Node, token: Token)", "me: Node)", "@on(", "action Take takes (self, me, message, ...)"),
    ("no self", "(self, me: Node, token: Token)", "(me: Node, token: Token)", "@on(", "takes (self, me, message, ...)"),
    ("too much", "token: Token)", "token: Token, other: int)", "@on(", "asks for 'other'; it can ask for me, token"),
    (
        "an invariant of whom",
        "me: Node, peer: Node)",
        "a: Node, b: Node)",
        "@invariant",
        "asks for 'a'; it can ask for me",
    ),
    ("no return", HOLDS, HOLDS[7:], "@invariant", "returned None; expected True or False; forgot `return`?"),
    ("yield in an invariant", HOLDS, HOLDS.replace("return", "yield"), "@invariant", "(`return`, not `yield`)"),
    (
        "a field misspelt",
        "me.but(has_token=True)",
        "me.but(has_tokn=True)",
        "yield consume",
        "its fields are id, has_token",
    ),
    (
        "a message's field misspelt",
        SENT,
        "send(Token(dst=1))",
        "yield become",
        "Token has no field 'dst'; its fields are dest",
    ),
    ("a message without a field", SENT, "send(Token())", "yield become", "Token is made without its field 'dest'"),
    ("a class sent", SENT, "send(Token)", "yield become", "expected a record, found <class "),
    ("the value of a bound", 'spend("rounds")', "spend(self.rounds)", "yield become", "bounds are rounds"),
    ("a name", "consume(me", "consum(me", "yield consum", "NameError: name 'consum' is not defined"),
    (
        "a replica is written",
        TAKEN,
        "        me.epoch = 1\n        yield consume(me)",
        "me.epoch",
        "cannot assign to field",
    ),
    ("exit", TAKEN, "        raise SystemExit(0)\n        yield", "raise SystemExit", "raised SystemExit: 0"),
    ("no super", "    network =", "    def __init__(self): ...\n\n    network =", "", "does not call super().__init__"),
    ("a message that is no record", "class Token(Record)", "class Token", "@on(", "@on takes types of message"),
    ("equality of its own", TOKEN, TOKEN + EQUAL, "def __eq__", "Token.__eq__: records are compared by all"),
    (
        "a hash of its own",
        TOKEN,
        TOKEN + "    def __hash__(self):\n        return 1\n",
        "def __hash__",
        "Token.__hash__: records are compared by all their fields",
    ),
    (
        "an order of its own",
        TOKEN,
        TOKEN + "    def __lt__(self, other):\n        return True\n",
        "def __lt__",
        "Token.__lt__: records",
    ),
    (
        "attributes of its own",
        TOKEN,
        TOKEN + "    def __getattribute__(self, name):\n        return 1\n",
        "def __getattribute__",
        "Token.__getattribute__: records",
    ),
    ("slots", TOKEN, TOKEN + "    __slots__ = ()\n", "class Token", "Token.__slots__: records"),
    (
        "an inherited equality",
        TOKEN,
        "class Alike:\n" + EQUAL + "\n" + TOKEN.replace("Record", "Alike, Record"),
        "def __eq__",
        "Token.__eq__: records are compared by all their fields",
    ),
    (
        "equality by a decorator",
        TOKEN,
        "def alike(cls):\n    cls.__eq__ = lambda self, other: True\n    return cls\n\n@alike\n" + TOKEN,
        "",
        "Token.__eq__: records are compared by all their fields",
    ),
    (
        "a field that is not compared",
        TOKEN,
        "import dataclasses\n\n" + TOKEN + "    at: int = dataclasses.field(default=0, compare=False)\n",
        "class Token",
        "Token.at: field(compare=False): records are compared by all their fields",
    ),
    (
        "a default that can change",
        TOKEN,
        "import dataclasses\n\n" + TOKEN + "    at: tuple[int, ...] = dataclasses.field(default_factory=list)\n",
        "class Token",
        "Token.at: a list can change; write a tuple",
    ),
    (
        "equality of an enum",
        TOKEN,
        COLOUR % "enum.Enum",
        "def __eq__",
        "Colour.__eq__: members of an enum",
    ),
    ("equality of a symbol", TOKEN, COLOUR % "Symbol", "def __eq__", "Colour.__eq__: members of an enum"),
    ("an import", "from kraftcheck", "from kraftchek", "from kraftchek", "No module named 'kraftchek'"),
]


@pytest.mark.parametrize(("old", "new", "at", "message"), [slip[1:] for slip in SLIPS], ids=[slip[0] for slip in SLIPS])
def test_a_slip(run: Run, tmp_path: Path, old: str, new: str, at: str, message: str) -> None:
    text = RING.replace(old, new, 1)
    assert text != RING
    file = tmp_path / "ring.py"
    file.write_text(text)
    outcome = run("check", f"{file}:Ring", "--quiet", "--engine", "reference")
    assert outcome.code == 2, outcome
    assert message in outcome.err
    assert "Traceback" not in outcome.err
    line = text[: text.index(at)].count("\n") + 1
    assert not at or outcome.err.startswith(f"kraftcheck: error: {file}:{line}: "), (line, outcome.err)


def test_the_traceback_for_those_who_want_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "ring.py"
    file.write_text(RING.replace("consume(me", "consum(me"))
    outcome = run("check", f"{file}:Ring", "--quiet", "--engine", "reference", "--traceback")
    assert outcome.code == 2
    assert "Traceback (most recent call last)" in outcome.err
    assert "NameError: name 'consum' is not defined" in outcome.err


def test_what_is_no_protocol(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "ring.py"
    file.write_text(RING)
    for name, message in (
        (":Node", "Node is not a protocol; expected a subclass of Protocol (there is Ring)"),
        (":Rings", "unknown protocol Rings (perhaps Ring?)"),
        (":", "expected the protocol's class too"),
    ):
        assert message in run("check", f"{file}{name}").err


def test_a_method_defined_twice_is_warned_of(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "ring.py"
    file.write_text(RING.replace("def take(", "def pass_on("))
    outcome = run("check", f"{file}:Ring", "--quiet", "--engine", "reference")
    assert "Ring.pass_on is defined at line " in outcome.out
