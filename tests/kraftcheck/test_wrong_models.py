"""Wrong models of a user's: what can only be a mistake is refused, what looks like one is warned of, with its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kraftcheck.catalogue import find_config_name_and_content, find_model, shipped_model_modules
from kraftcheck.cli import main
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.diagnosis.lint import declaration_warnings

RING = """
from collections.abc import Iterator

from kraftcheck import *


class Node(Record):
    id: int
    has_token: bool
    seen: int = 0


class Token(Record):
    dest: int
    hops: int = 0


class Lost(Record):
    dest: int


class Shared(Record):
    pass


class Ring(Protocol):
    rounds: int = bound("MaxRounds", default=2)
    spare: int = bound("MaxSpares", default=1)
    network = MessageSet()

    def initial(self) -> Iterator[State]:
        yield self.start([Node(1, True), Node(2, False)], Shared())

    @internal
    def pass_on(self, me: Node) -> Steps:
        if me.has_token and me.seen < 2:
            yield become(me.but(has_token=False)).send(Token(dest=3 - me.id)).spend("rounds").need("spare")

    @on(Token)
    def take(self, me: Node, token: Token) -> Steps:
        yield consume(me.but(has_token=True, seen=token.hops))

    @invariant
    def one_holder(self, me: Node, peer: Node) -> bool:
        return not (me.has_token and peer.has_token)
"""


X_SECOND = 'ModelValue("x", 2)'
TAKES = "        yield consume(me.but(has_token=True, seen=token.hops))"


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def checked(tmp_path: Path, *slips: tuple[str, str]) -> tuple[int, Path, str]:
    """Check the ring with some of its text replaced; return the exit code, the file and its text."""
    text = RING
    for old, new in slips:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = tmp_path / "ring.py"
    file.write_text(text)
    options = ["--engine", "reference", "--quiet", "--no-deadlock", "--json", str(tmp_path / "found.json")]
    return main(["check", f"{file}:Ring", *options]), file, text


def test_a_right_model_has_no_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(tmp_path)[0] == 0
    assert json.loads((tmp_path / "found.json").read_text())["warnings"] == []
    assert "Warning" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("slips", "at", "message"),
    [
        (
            [("Node(2, False)", "Node(1, False)")],
            "    def initial",
            "initial of Ring: two replicas have one id: Node(id=1, has_token=True, seen=0) and "
            "Node(id=1, has_token=False, seen=0)",
        ),
        (
            [("Shared())", "Shared(), [Token(3)])")],
            "    def initial",
            "initial of Ring: a message is sent to 3, which is no replica",
        ),
        (
            [("MessageSet()", "BagWithMemory(once=(Token,))"), ("Shared())", "Shared(), [Token(2), Token(2)])")],
            "    def initial",
            "initial of Ring: the network refuses to send Token(dest=2, hops=0)",
        ),
        (
            [("    dest: int\n    hops", "    dest: object\n    hops"), ("dest=3 - me.id", 'dest="2"')],
            "            yield become",
            "action PassOn of Ring sends Token(dest='2', hops=0) to '2'; expected the id of a replica, a number",
        ),
        (
            [("yield become(me.but(has_token=False))", "yield become(me).write(me.but(has_token=False))")],
            "            yield become",
            "action PassOn of Ring writes the replica 1 twice in one step",
        ),
        ([("@on(Token)", "@on")], "    @on", "Ring.take: @on needs the type of the message: @on(RequestVote)"),
        ([("@on(Token)", "@on(Token, 7)")], "    @on", "Ring.take: @on takes types of message, found 7"),
        ([("@on(Token)", "@on()")], "    @on", "@on needs the type of the message: @on(RequestVote)"),
        (
            [('.spend("rounds")', '.spend("round")')],
            "            yield become",
            "action PassOn of Ring spends 'round', which is not a bound; bounds are rounds, spare",
        ),
        (
            [("network =", 'views = {"near": ("spare",)}\n    network =')],
            "    views",
            "Ring.views['near']: expected hide(...), found ('spare',)",
        ),
        (
            [("MessageSet()", 'MessageSet(loses="round")')],
            "    network",
            "Ring.network: loses=: unknown bound round (perhaps rounds?); Ring has rounds, spare",
        ),
        (
            [("MessageSet()", 'Bag(duplicates="nope")')],
            "    network",
            "Ring.network: duplicates=: unknown bound nope; Ring has rounds, spare",
        ),
        (
            [("MessageSet()", "BagWithMemory(loses=spare)")],
            "    network",
            "Ring.network: loses=: expected the name of a bound, 'spare', found the bound itself",
        ),
        (
            [("MessageSet()", "Channels(duplicates=1)")],
            "    network",
            "Ring.network: duplicates=: expected True, False or the name of a bound, found a number, 1",
        ),
    ],
)
def test_what_can_only_be_a_mistake_is_refused(
    slips: list[tuple[str, str]], at: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, file, text = checked(tmp_path, *slips)
    printed = capsys.readouterr().err
    assert code == 2
    assert message in printed
    assert f"{file}:{line_of(text, at)}" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("yielded", "message"),
    [
        (
            'take("PassOn", 1, result=0)',
            "result=: expected a function of the actor's next state, such as lambda me: me.ready, found a number, 0",
        ),
        ('"PassOn"', "expected take(\"Action\", ...), found a string, 'PassOn'"),
        ('take("Passon", 1)', "unknown action Passon (perhaps PassOn?); Ring has PassOn, Take, LoseMessage"),
    ],
)
def test_what_a_scenario_yields_is_a_step(
    yielded: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, config = tmp_path / "ring.py", tmp_path / "ring.cfg"
    story = f"    @scenario\n    def story(self) -> Iterator[Take]:\n        yield {yielded}\n"
    file.write_text(RING.replace("MessageSet()", "MessageSet(loses=True)") + "\n" + story)
    config.write_text("INIT Story")
    assert main(["check", f"{file}:Ring", "--config", str(config), "--engine", "reference", "--quiet"]) == 2
    line = line_of(file.read_text(), f"yield {yielded}")
    assert capsys.readouterr().err == f"kraftcheck: error: {file}:{line}: step 1 of Story: {message}\n"


def test_a_network_spends_the_bounds_that_it_names(tmp_path: Path) -> None:
    spends = ("MessageSet()", 'Bag(loses="rounds", duplicates="spare")')
    assert checked(tmp_path, spends)[0] != 2


@pytest.mark.parametrize(
    ("slips", "at", "message"),
    [
        (
            [("dest=3 - me.id", "dest=4 - me.id")],
            "    @internal",
            "PassOn sends Token to 3, which is not a replica in any state",
        ),
        (
            [
                (
                    "class Token(Record):\n    dest: int",
                    'class Nil(Symbol):\n    NIL = "Nil"\n\n\nclass Token(Record):\n    dest: int | Nil',
                ),
                ("dest=3 - me.id", "dest=Nil.NIL"),
            ],
            "    @internal",
            "PassOn sends Token to Nil, which is not a replica in any state",
        ),
        (
            [("send(Token(dest=3 - me.id))", "send(Lost(2))")],
            "    @internal",
            "PassOn sends Lost, which no @on action handles",
        ),
        (
            [
                ("class Token(", "class Other(Record):\n    id: int\n\n\nclass Token("),
                ("def take(self, me: Node", "def take(self, me: Other"),
            ],
            "    @internal",
            "PassOn sends Token to 2; no @on(Token) action has a `me` of that type",
        ),
        (
            [('.need("spare")', "")],
            "    spare: int",
            "no step spends or needs the bound MaxSpares (Ring.spare)",
        ),
        (
            [("network =", 'late: bool = constant("Late", default=False)\n    network =')],
            "    late: bool",
            "nothing reads the constant Late (Ring.late)",
        ),
        (
            [
                ("network =", f'homes: object = constant("Homes", default=frozenset({{{X_SECOND}}}))\n    network ='),
                (TAKES, f'        if ModelValue("x") in self.homes and {X_SECOND} in self.homes:\n    {TAKES}'),
            ],
            '        if ModelValue("x")',
            "`ModelValue('x')` is not sorted as the x of a constant; use that one",
        ),
        ([("seen=token.hops", "seen=1")], "    hops: int", "nothing reads the field Token.hops"),
        ([(" and me.seen < 2", "")], "    seen: int", "nothing reads the field Node.seen"),
        (
            [("class Shared(Record):\n    pass", "class Shared(Record):\n    total: int = 0")],
            "    total: int",
            "nothing reads the field Shared.total",
        ),
        (
            [(TAKES, TAKES.replace("yield consume", "consume") + "\n" + TAKES)],
            "        consume(",
            "`consume(...)` makes a step that is discarded; forgot `yield`?",
        ),
        (
            [(TAKES, "        consume(me).reply(Token(1))\n" + TAKES)],
            "        consume(me).reply",
            "`consume(...)` makes a step that is discarded; forgot `yield`?",
        ),
        (
            [(TAKES, "        me.but(has_token=True)\n" + TAKES)],
            "        me.but",
            "`me.but(...)` returns a copy that is discarded; the original is unchanged",
        ),
        (
            [("    network =", "    networks = Bag()\n    network =")],
            "    networks",
            "nothing reads Ring.networks (perhaps network?)",
        ),
        (
            [("    network =", "    inital_bound: int = 3\n    network =")],
            "    inital_bound",
            "nothing reads Ring.inital_bound; constant(...) or bound(...) makes a constant",
        ),
        (
            [("    @invariant", "    def intial(self):\n        return []\n\n    @invariant")],
            "    def intial",
            "nothing calls Ring.intial (perhaps initial?)",
        ),
        (
            [("me.seen < 2", 'me.seen != "2"')],
            "        if me.has_token and",
            "`me.seen != '2'` compares a number with a string, which are never equal",
        ),
        (
            [("if me.has_token and me", 'if me.has_token and me.has_token not in ("yes", "no") and me')],
            "        if me.has_token and me.has_token",
            "`me.has_token not in ('yes', 'no')` compares TRUE or FALSE with a string, which are never equal",
        ),
        (
            [("class Node(", "TOTAL = []\n\n\nclass Node("), (TAKES, "        TOTAL.append(me)\n" + TAKES)],
            "        TOTAL.append",
            "TOTAL is mutated outside the state; equal states may behave differently",
        ),
        (
            [
                (
                    "def initial(",
                    "def keep(self, me, kept=[]):\n        kept.append(me)\n        return me\n\n    def initial(",
                ),
                (TAKES, TAKES.replace("me.but", "self.keep(me).but")),
            ],
            "        kept.append",
            "kept is mutated outside the state; equal states may behave differently",
        ),
        (
            [("me.seen < 2", 'me.seen < 2 + (hash("seen") == 0)')],
            "        if me.has_token and",
            "`hash('seen')` may differ from run to run",
        ),
    ],
)
def test_what_looks_like_a_mistake_is_warned_of(
    slips: list[tuple[str, str]], at: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, file, text = checked(tmp_path, *slips)
    warning = f"{file}:{line_of(text, at)}: {message}"
    assert code == 0
    assert json.loads((tmp_path / "found.json").read_text())["warnings"] == [warning]
    assert f"Warning: {warning}\n" in capsys.readouterr().out


def test_a_method_of_a_variant_that_overrides_nothing_is_warned_of(tmp_path: Path, capsys) -> None:
    variant = """

class Once(Ring, variant="once"):
    def pass_onn(self, me: Node) -> Steps:
        if self.is_first(me):
            yield become(me)

    def is_first(self, me: Node) -> bool:
        return me.id == self.first

    first = 1
"""
    file = tmp_path / "ring.py"
    file.write_text(RING + variant)
    assert main(["check", f"{file}:Once", "--engine", "reference", "--quiet", "--no-deadlock"]) == 0
    warned = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Warning")]
    line = line_of(RING + variant, "    def pass_onn")
    assert warned == [f"Warning: {file}:{line}: nothing calls Once.pass_onn (perhaps pass_on?)"]


def test_a_part_of_a_property_that_was_never_evaluated_is_printed(tmp_path: Path, capsys) -> None:
    holds = "return not (me.has_token and peer.has_token)"
    assert checked(tmp_path, (holds, "return me.seen < 9 or peer.seen == 3"))[0] == 0
    assert "Note: never evaluated: `peer.seen == 3` of OneHolder (ring.py:" in capsys.readouterr().out
    assert checked(tmp_path)[0] == 0
    assert "never evaluated" not in capsys.readouterr().out


def test_a_replica_that_may_still_come_is_not_warned_of(tmp_path: Path) -> None:
    """A search that was not complete has not seen every replica; one that an action creates is there."""
    file = tmp_path / "ring.py"
    file.write_text(RING.replace("dest=3 - me.id", "dest=4 - me.id"))
    found = tmp_path / "found.json"
    asked = ["check", f"{file}:Ring", "--engine", "reference", "--quiet", "--no-deadlock", "--json", str(found)]
    assert main([*asked, "--max-depth", "2"]) == 20
    assert json.loads(found.read_text())["warnings"] == []
    file.write_text(RING.replace("if me", "if me.id == 1 and me").replace("3 - me.id))", "3)).write(Node(3, False))"))
    assert main(asked) == 0
    assert json.loads(found.read_text())["warnings"] == []


@pytest.mark.kernel
def test_the_table_engine_warns_of_the_same(tmp_path: Path) -> None:
    file, found = tmp_path / "ring.py", tmp_path / "found.json"
    text = RING.replace("dest=3 - me.id", "dest=4 - me.id").replace("seen=token.hops", "seen=1")
    text = text.replace("class Shared(Record):\n    pass", "class Shared(Record):\n    open: bool = True")
    text = text.replace("def pass_on(self, me: Node)", "def pass_on(self, me: Node, shared: Shared)")
    text = text.replace("if me.has_token", "if shared.open and me.has_token")
    file.write_text(text)
    warnings = []
    for engine in ("reference", "tables"):
        main(["check", f"{file}:Ring", "--engine", engine, "--quiet", "--no-deadlock", "--json", str(found)])
        warnings.append(json.loads(found.read_text())["warnings"])
    assert warnings[0] == warnings[1]
    assert len(warnings[0]) == 2
    assert all(warning.startswith(f"{file}:") for warning in warnings[1])


@pytest.mark.parametrize("name", shipped_model_modules())
def test_shipped_models_read_all_that_they_write(name: str) -> None:
    model = find_model(name)
    protocol = bind(model.protocol, find_config_name_and_content(model, "smoke")[1]).protocol
    protocol.checked_initial()
    fields = {re.sub(".* field ", "", warning) for warning in declaration_warnings(protocol)}
    assert not fields
