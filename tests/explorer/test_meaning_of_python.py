"""Protocols in honest Python on which engines differed once: each agrees with the reference engine, or refuses."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.engines import search
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Result
from kraftcheck.spec.errors import InputError, NoBytecodeError, RaisedError
from kraftcheck.spec.language.protocol import Protocol

pytestmark = pytest.mark.kernel

HEAD = """
import enum
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from kraftcheck import *


class Node(Record):
    id: int
    a: int = 0
    b: int = 0
    given: tuple[int | None, ...] = (None, None, None)


class Vote(Record):
    acc: int
    bal: int


class Board(Record):
    day: int = 0
    few: tuple[int, ...] = (3, 1, 2)
    votes: frozenset[Vote] = frozenset()
    pairs: frozenset[tuple[int, int]] = frozenset()


class Up(Record):
    id: int
    n: int = 0


class Down(Record):
    id: int
    n: int = 0


class Unlisted(Record):
    few: tuple[int, ...] = ()
    def __len__(self): return len(self.few)


class Unused(Record):
    held: Unlisted = Unlisted()
    only_here: int = 0


class Days(Protocol):
    network = None
    days: tuple[int, ...] = (1, 2, 3)
    spare: int = bound("Spare", default=1)
    limit = 80
    def __init__(self, **given):
        super().__init__(**given)
        self.limit = 85
    @classmethod
    def capped(cls, day):
        return min(day, cls.limit)
    def rank(self, day):
        return day
    def share(self, day, part=0.5):
        return int(day * part)
    def initial(self) -> Iterator[State]:
        yield self.start([Node(1), Node(2)], Board())
    @environment
    def pass_day(self, shared: Board) -> Steps:
        if shared.day < 90:
            yield Step().put(day=shared.day + 1)


class Votes(Protocol):
    network = None
    def initial(self) -> Iterator[State]:
        yield self.start([Node(1)], Board())
    @environment
    def add(self, shared: Board) -> Steps:
        for acc in (1, 2, 3):
            for bal in (1, 2, 3):
                yield Step().put(votes=shared.votes | {Vote(acc, bal)})


@cache
def of_ballot(votes, bal):
    return sum(1 for vote in votes if vote.bal == bal)


class Phase(enum.StrEnum):
    OPEN = "open"
    SHUT = "shut"


class Entry(Record):
    term: int
    text: str = ""


ENTRIES = tuple(Entry(n) if n != 85 else Entry(None) for n in range(99))
HOME, AWAY, FAR = ModelValue("n3"), ModelValue("n3", 3), ModelValue("n2", 2)
VIEWS = ([{1}, {2}], [{1}, {3}], [{2}, {3}], [{1}, {2, 3}])
QUORUMS = [frozenset({2}), frozenset({3})]


def tally(values):
    found = {}
    for one in values:
        try:
            found[one] += 1
        except KeyError:
            found[one] = 1
    return found
"""
DAYS = {
    "a generator reads what the loop changes": """
        index = 0
        for _ in (one for one in sorted(shared.few, reverse=True) if one > index):
            index += 1
        yield Step().put(few=(index,))""",
    "filter reads what the loop changes": """
        best = 0
        for one in filter(lambda one: one > best, shared.few):
            best = best + one
        yield Step().put(few=(best,))""",
    "a generator within enumerate reads what the loop changes": """
        last = 0
        for place, one in enumerate(one - last for one in shared.few):
            last = one + place
        yield Step().put(few=(last,))""",
    "a walrus on some paths": """
        if shared.day > 80 and (found := shared.day) > 0:
            yield Step().put(few=(found,))
        if shared.day == 85 or (shared.day == 70 and found is None):
            yield Step().put(few=())""",
    "equal dicts in another order": """
        if tally((shared.day % 3, 2)) == tally((2, shared.day % 3)):
            yield Step().put(few=(shared.day,))""",
    "the first iterable of a comprehension is outside its scope": """
        few = (*shared.few[:2], shared.day % 2)
        yield Step().put(few=tuple(few for few in few if few))""",
    "an iterator of constants is consumed twice": """
        order = iter(self.days)
        one = any(day in shared.few for day in order if day < 3)
        yield Step().put(few=(int(one), sum(day for day in order)))""",
    "the default of min is evaluated": """
        rest = shared.few if shared.day < 70 else ()
        yield Step().put(few=(min(shared.few, default=6 // len(rest)),))""",
    "the default of next is evaluated": """
        rest = shared.few if shared.day < 70 else ()
        yield Step().put(few=(next((one for one in shared.few), rest[0]),))""",
    "a disabled step must be valid": """
        yield Step().put(few={0: (1,), 1: None}[min(shared.day // 50, 1)]).spend("spare", "spare")""",
    "the last put of a field counts": """
        yield Step().put(day=shared.day // 2)
        yield Step().put(day=shared.day).put(day=1)""",
    "a list has no hash": """
        key = [1] if shared.day == 70 else 1
        yield Step().put(few=(int(key in frozenset(shared.few)),))""",
    "a tuple with a list has no hash": """
        key = [1] if shared.day == 70 else 1
        yield Step().put(few=(len({(shared.day, key)}),))""",
    "an ordered list within a list": """
        key = [1] if shared.day == 70 else 1
        yield Step().put(few=(len(ordered([key])),))""",
    "max of one starred tuple": """
        pairs = ((2, 1), (1, 7)) if shared.day < 70 else ((1, 5),)
        yield Step().put(few=(shared.day % 2, int(max(*pairs) == 5)))""",
    "a set and a frozenset within constants": """
        yield Step().put(few=(int(VIEWS[shared.day // 30] != QUORUMS), len(VIEWS)))""",
    "a set in a set of sets": """
        yield Step().put(few=(int({shared.day % 3, 1} in {frozenset({1, 2}), frozenset({1})}),))""",
    "super with arguments": """
        yield Step().put(few=(self.rank(shared.day % 7),))
    def rank(self, day):
        return super(Days, self).rank(day) if day > 99 else Days.rank(self, day)
    """,
    "a local function on some paths": """
        if shared.day != 70:
            rank = lambda one: -one
        yield Step().put(few=tuple(sorted(shared.few, key=rank)))""",
    "a class method reads an attribute of the class": """
        yield Step().put(few=(self.capped(shared.day),))""",
    "a default that is no value": """
        yield Step().put(few=(self.share(shared.day),))""",
    "a class in a variable": """
        kind = Up if shared.day % 2 else Down
        yield Step().put(few=(kind(shared.day).n, int(kind is Up)))""",
}
VOTES = {
    "a loop over a set whose hash is read in the loop": """
    @internal
    def count(self, me: Node, shared: Board) -> Steps:
        if sum(of_ballot(shared.votes, vote.bal) for vote in shared.votes) == 27:
            yield become(me.but(a=1))""",
    "a test that inserts into a defaultdict": """
    @internal
    def count(self, me: Node, shared: Board) -> Steps:
        seen = defaultdict(int)
        for vote in shared.votes:
            if seen[vote.bal] >= 2:
                continue
            seen[vote.bal] += 1
        if len(seen) == 2:
            yield become(me.but(b=1))""",
    "a set and its change are equal": """
    @environment
    def clear(self, shared: Board) -> Steps:
        if len(shared.votes) == 9 and shared.day < 3:
            yield Step().put(votes=frozenset(), day=shared.day + 1)
    @environment
    def two_ways(self, shared: Board) -> Steps:
        yield Step().put(votes=shared.votes | {Vote(1, 1)})
        yield Step().put(votes=frozenset({Vote(1, 1)}))""",
}
WHOLE = {
    "pieces share a list that a guard makes": """
class P(Days):
    def free(self, me: Node) -> list[int]:
        return [slot for slot in range(3) if slot not in me.given]
    @environment
    def pass_day(self, shared: Board) -> Steps:
        for job in range(3):
            for n in range(3):
                yield Step().put(pairs=shared.pairs | {(job, n)})
    @internal
    def give(self, me: Node, shared: Board) -> Steps:
        if me.id == 2 or not (free := self.free(me)):
            return
        for job in range(3):
            if free and me.given[job] is None and any(wanted == job for wanted, _ in shared.pairs):
                slot = free.pop(0)
                yield become(me.but(given=tuple(slot if at == job else had for at, had in enumerate(me.given))))""",
    "a peer and its change are equal": """
class P(Days):
    @projection
    def whole(self, me: Node) -> Node:
        return me
    @internal(reads=whole)
    def two_ways(self, me: Node, whole: Map[int, Node]) -> Steps:
        if me.id == 1:
            yield Step().write(whole[2].but(a=1))
            yield Step().write(Node(2, 1, 0))
    @internal
    def flip(self, me: Node) -> Steps:
        if me.id == 2:
            yield become(me.but(b=1 - me.b))""",
    "a step invariant of types that a step changes": """
class P(Protocol):
    network = None
    def initial(self) -> Iterator[State]:
        yield self.start([Up(1)])
    @projection
    def whole(self, me: Record) -> Record:
        return me
    @internal
    def count(self, me: Up) -> Steps:
        if me.n < 2:
            yield become(me.but(n=me.n + 1))
    @environment(reads=whole)
    def crash(self, whole: Map[int, Record]) -> Steps:
        one = whole[1]
        yield Step().write(Down(1, one.n) if isinstance(one, Up) else Up(1, 0))
    @step_invariant
    def grows(self, before: Up, after: Up) -> bool:
        return after.n >= before.n
    @step_invariant
    def grows_down(self, before: Down, after: Record) -> bool:
        return after.n >= before.n""",
    "a private method in a property": """
class P(Days):
    def __small(self, day):
        return day < 99
    @invariant
    def is_small(self, shared: Board) -> bool:
        if shared.day == 1 and not self.__small(shared.day):
            return False
        return True""",
    "a constraint guards another": """
class P(Days):
    @environment
    def pass_day(self, shared: Board) -> Steps:
        yield Step().put(day=shared.day + 1)
    @internal
    def count(self, me: Node) -> Steps:
        yield become(me.but(a=me.a + 1))
    @action_constraint
    def near(self, before: Node, after: Node) -> bool:
        return after.a <= 3
    @action_constraint
    def cheap(self, before: Node, after: Node) -> bool:
        return (0, 1, 2, 3)[after.a] < 9
    @constraint
    def soon(self, shared: Board) -> bool:
        return shared.day < 3""",
}
KINDS_BOARD = """
class Late(Record):
    day: int = 0
    hit: int = 0
    phases: tuple[Phase, ...] = ()
    pairs: frozenset[tuple[str, int]] = frozenset()
    bits: tuple[int, ...] = (0, 0)
    log: tuple[Entry, ...] = ()
    pick: ModelValue = AWAY
class P(Protocol):
    network = None
    def initial(self) -> Iterator[State]:
        yield self.start([], Late())
    @environment
    def pass_day(self, shared: Late) -> Steps:
        if shared.day < 90:
            late = shared.day > 80
            yield Step().put(
                day=shared.day + 1,
                phases=(Phase.OPEN,) if late else (Phase.SHUT,),
                pairs=frozenset({("open", 1)}) if late else frozenset({("shut", 1)}),
                bits=(1, 1) if late else (0, 1),
                pick=FAR if late else AWAY,
            )
    @environment
    def go(self, shared: Late) -> Steps:
        if shared.day > 0 and """
LATE = {
    "an enum of text within a tuple": 'shared.phases == ("open",)',
    "an enum of text within a set": "(Phase.OPEN, 1) in shared.pairs",
    "bools within a tuple": "shared.bits == (True, True)",
    "two model values of one name": "ordered((HOME, shared.pick))[0] == FAR",
}
PROTOCOLS = {
    **{
        name: "class P(Days):\n    @environment\n    def go(self, shared: Board) -> Steps:" + code
        for name, code in DAYS.items()
    },
    **{name: f"class P(Votes):{code}" for name, code in VOTES.items()},
    **WHOLE,
    **{name: KINDS_BOARD + code + ":\n            yield Step().put(hit=1)" for name, code in LATE.items()},
    "a constant of a wrong type": KINDS_BOARD + "True:\n            yield Step().put(log=(ENTRIES[shared.day],))",
}


def protocol_of(folder: Path, code: str) -> Protocol:
    name = f"meaning_{abs(hash(code))}"
    (folder / f"{name}.py").write_text(f"{HEAD}\n\n{code}\n")
    sys.path.insert(0, str(folder))
    try:
        protocol: Protocol = import_module(name).P()
    finally:
        sys.path.remove(str(folder))
    return protocol


def found_by(engine: str, protocol: Protocol) -> Any:
    """Return an engine's counts, or the method that raises an error; REFUSED where it does not support the protocol."""
    kinds = {kind: tuple(one for one in protocol.properties.values() if one.kind == kind) for kind in KINDS}
    checked, steps, within, allowed = kinds.values()
    request = SearchRequest(
        properties=checked + steps,
        constraints=within,
        action_constraints=allowed,
        deadlock=False,
        keep_going=True,
        max_states=50_000,
    )
    try:
        result: Result = search(engine, protocol, request)
    except RaisedError as error:
        return error.name
    except (NoBytecodeError, InputError) as error:
        return REFUSED if engine == "bytecode" and "differs from Python" not in str(error) else str(error)
    violated = {one.property for one in result.violations}
    assert result.complete
    return result.verdict, result.distinct_states, result.generated_states, result.actions, violated


REFUSED = "refused"
KINDS = ("invariant", "step_invariant", "constraint", "action_constraint")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_engine_has_the_meaning_of_python(tmp_path: Path, name: str) -> None:
    wanted = found_by("reference", protocol_of(tmp_path, PROTOCOLS[name]))
    assert found_by("tables", protocol_of(tmp_path, PROTOCOLS[name])) == wanted
    assert found_by("bytecode", protocol_of(tmp_path, PROTOCOLS[name])) in (wanted, REFUSED)
