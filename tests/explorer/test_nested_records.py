"""Records in records: a field is read through the records that hold it, and the engines agree."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraftcheck import load
from tests.support.sizes import sizes

pytestmark = pytest.mark.kernel

MODEL = '''
from functools import lru_cache
from kraftcheck import *

class Mark(Record):
    by: int
    at: int = 0

class Idle(Record):
    at: int = 0

class Work(Record):
    mark: Mark
    at: int = 0

class Node(Record):
    id: int
    work: Work | Idle | None = None
    mark: Mark = Mark(9)

class Shared(Record):
    work: Work | Idle = Idle()
    marks: frozenset[Mark] = frozenset()

@lru_cache(maxsize=None)
def doubled(mark):
    return 2 * mark.at if mark.by < 2 else mark.by

class Nodes(Protocol):
    network = MessageSet()

    def initial(self):
        yield self.start([Node(0), Node(1, Idle())], Shared())

    @projection
    def whole(self, me: Node) -> Node:
        return me

    @internal
    def begin(self, me: Node):
        if not isinstance(me.work, Work):
            yield become(me.but(work=Work(Mark(me.id))))
        elif me.work.at < 2:
            yield become(me.but(work=me.work.but(at=me.work.at + 1)))

    @internal(reads=whole)
    def look(self, me: Node, shared: Shared, whole: Map[int, Node]):
        for peer in whole.values():
            if peer.id != me.id and {first}:
                yield {one}
        if {second}:
            yield {other}

    @invariant
    def rare(self, me: Node, peer: Node, shared: Shared):
        return not ({third})
'''
TESTS = (
    "isinstance({p}.work, Work) and {p}.work.at == 1",
    "{p}.work is not None and {p}.work.at > 0",
    "isinstance({p}.work, Work) and {p}.work.mark.by == {p}.id",
    "isinstance({p}.work, Work) and {p}.work.mark == me.mark",
    "{p}.mark.at + doubled({p}.mark) > {p}.mark.by",
    "doubled({p}.mark) < {p}.mark.at + 9",
    "{p}.mark in shared.marks",
    "isinstance(shared.work, Work) and shared.work.mark.at < 1",
    "isinstance(shared.work, Idle) and shared.work.at < 1",
    "shared.work == {p}.work",
    "{p}.mark.by > 1",
    "{p}.work in (None, Idle())",
)
STEPS = (
    "Step().put(work={p}.work if isinstance({p}.work, Work | Idle) else Idle(1))",
    "Step().put(marks=shared.marks | {{{p}.mark}})",
    "become(me.but(mark={p}.mark.but(at=min(2, {p}.mark.at + 1))))",
    "become(me.but(mark=shared.work.mark if isinstance(shared.work, Work) else Mark(me.id)))",
    "become(me.but(work=Idle(min(1, len(shared.marks)))))",
    "Step().put(work=Work({p}.mark, 1))",
)


def drawn(random: Random) -> str:
    peer, me = {"p": "peer"}, {"p": "me"}
    return (
        MODEL.replace("{first}", random.choice(TESTS).format(**peer))
        .replace("{second}", random.choice(TESTS).format(**me))
        .replace("{third}", " and ".join(test.format(**peer) for test in random.sample(TESTS, 2)))
        .replace("{one}", random.choice(STEPS).format(**peer))
        .replace("{other}", random.choice(STEPS).format(**me))
    )


def found(file: Path, engine: str) -> Any:
    return load(f"{file}:Nodes").check(engine=engine, keep_going=True, deadlock=False)


def told(result: Any) -> tuple[Any, ...]:
    violated = [(one.property, len(one.trace)) for one in result.violations]
    return result.distinct_states, result.generated_states, result.depth, result.actions, violated


@pytest.mark.parametrize("examples", sizes(8, 60))
def test_random_ones_agree_with_the_reference(examples: int, tmp_path: Path) -> None:
    random, fewer = Random(3), 0
    for number in range(examples):
        file = tmp_path / f"nodes_{number}.py"
        file.write_text(drawn(random))
        tables, reference = found(file, "tables"), found(file, "reference")
        assert told(tables) == told(reference), file.read_text()
        fewer += tables.handler_calls["Look"] < reference.handler_calls["Look"] // 2
    assert fewer > examples // 4
