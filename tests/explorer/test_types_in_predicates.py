"""A predicate that asks for the type of a replica or a state gets records, also as a part of a formula."""

from __future__ import annotations

from pathlib import Path

from kraftcheck import load

PROTOCOL = """
from kraftcheck import *
class Boss(Record):
    id: int
    done: int = 0
class World(Record):
    time: int = 0
class P(Protocol):
    def initial(self):
        yield self.start([Boss(1)], World())
    @internal(fair="weak")
    def work(self, me: Boss):
        if me.done < 1:
            yield become(me.but(done=me.done + 1)).put(time=1)
    @predicate
    def boss(self, me: Boss):
        return type(me) is Boss and me.done == 1
    @predicate(given=["k"])
    def typed(self, state: State, k: int):
        return type(state.replicas[1]) is Boss and state.replicas[1].done == k
    @predicate(given=["k"])
    def at_time(self, shared: World, k: int):
        return type(shared) is World and shared.time == k
    @temporal
    def somewhere(self):
        return eventually(anywhere(self.boss))
    @temporal
    def nowhere(self):
        return always(~anywhere(self.boss))
    @temporal
    def of_states(self):
        return eventually(self.typed.of(k=1))
    @temporal
    def of_shared(self):
        return eventually(always(self.at_time.of(k=1)))
"""


def test_verdicts_are_those_of_the_records(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(PROTOCOL)
    path.with_suffix(".cfg").write_text("PROPERTIES Somewhere Nowhere OfStates OfShared")
    for engine in ("reference", "tables"):
        found = load(f"{path}:P", path.with_suffix(".cfg")).check(deadlock=False, keep_going=True, engine=engine)
        assert [one.property for one in found.violations] == ["Nowhere"], engine
