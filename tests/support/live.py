"""Protocols with temporal properties that are the same in TLA+, for comparison with TLC.

`NAMED` are examples; their modules are in `tests/data/tlc/temporal`. A `Description` is a random protocol: walkers on a
small graph who get in each other's way, whose module is made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from random import Random
from typing import Any

from kraftcheck.explorer.result import SearchRequest
from kraftcheck.spec import (
    Fairness,
    Formula,
    Map,
    ModelValue,
    Protocol,
    Record,
    State,
    Steps,
    always,
    anywhere,
    at,
    become,
    constant,
    constraint,
    enabled,
    eventually,
    eventually_always,
    every,
    everywhere,
    hide,
    implies,
    infinitely_often,
    internal,
    leads_to,
    ordered,
    predicate,
    projection,
    some,
    strong,
    taken,
    temporal,
    weak,
)
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import parse_config
from kraftcheck.spec.examples.dining_philosophers import DiningPhilosophers, Philosopher, Place
from kraftcheck.spec.examples.ewd998 import Ewd998, Node
from kraftcheck.spec.examples.lock_service import Client, LockService, Name, Phase, Server
from kraftcheck.spec.examples.two_phase_commit import Phase as Outcome
from kraftcheck.spec.examples.two_phase_commit import ResourceManager, TransactionManager, TwoPhaseCommit
from kraftcheck.spec.language.declarations import Property

MODULES = Path(__file__).parents[1] / "data" / "tlc" / "temporal"


def each(kind: Any, *names: str) -> tuple[Fairness, ...]:
    return tuple(map(kind, names))


BUSY = (weak("Next"),)
LOCK = ("Ask", "Grant", "Enter", "Leave", "Free")


class MCLock(LockService):
    strict_bounds = True
    specifications = {
        "Spec": (),
        "Busy": BUSY,
        "WeakSpec": each(weak, *LOCK),
        "StrongSpec": each(strong, *LOCK),
        "Handling": (weak("Grant", "Enter", "Free"),),
    }

    @predicate
    def holds(self, me: Client) -> bool:
        return me.phase is Phase.HOLDING

    @predicate
    def waits(self, me: Client) -> bool:
        return me.phase is Phase.WAITING

    @predicate
    def locked(self, me: Server) -> bool:
        return me.holder is not Name.NOBODY

    @temporal
    def somebody_holds(self) -> Formula:
        return infinitely_often(anywhere(self.holds))

    @temporal
    def whoever_waits_holds(self) -> Formula:
        return every([leads_to(at(one, self.waits), at(one, self.holds)) for one in ordered(self.clients)])

    @temporal
    def locked_at_last(self) -> Formula:
        return eventually_always(anywhere(self.locked))

    @temporal
    def left_is_free(self) -> Formula:
        return implies(infinitely_often(taken("Leave")), infinitely_often(enabled("Ask")))


class MCDining(DiningPhilosophers):
    accepted_constants = ("atLoop", "atEat", "atThink")
    specifications = {
        "Plain": (),
        "Spec": (weak("Loop", "Think", "Eat", each="replica"),),
        "Busy": BUSY,
        "Apart": each(strong, "Loop", "Think", "Eat"),
        "Lazy": (weak("Loop", each="replica"), strong("Eat", each="replica")),
    }

    @predicate
    def eats(self, me: Philosopher) -> bool:
        return me.at is Place.EAT

    @predicate
    def thinks(self, me: Philosopher) -> bool:
        return me.at is Place.THINK

    @predicate
    def loops(self, me: Philosopher) -> bool:
        return me.at is Place.LOOP

    @temporal
    def somebody_eats(self) -> Formula:
        return infinitely_often(anywhere(self.eats))

    @temporal
    def thinkers_return(self) -> Formula:
        return every([leads_to(at(i, self.thinks), at(i, self.loops)) for i in range(1, self.philosophers + 1)])

    @temporal
    def first_settles(self) -> Formula:
        return eventually_always(~at(1, self.eats)) | infinitely_often(at(2, self.eats))


class MCTwoPhase(TwoPhaseCommit):
    accepted_constants = ("tm", "working", "isPrepared", "committed", "aborted")
    specifications = {
        "Plain": (),
        "Busy": BUSY,
        "Deciding": (weak("Commit", "Abort"), weak("FollowDecision")),
        "Hearing": (weak("HearPrepared"), strong("Commit"), weak("FollowDecision")),
    }

    @predicate
    def done(self, me: ResourceManager) -> bool:
        return me.phase in (Outcome.COMMITTED, Outcome.ABORTED)

    @predicate
    def commits(self, me: ResourceManager) -> bool:
        return me.phase is Outcome.COMMITTED

    @predicate
    def is_prepared(self, me: ResourceManager) -> bool:
        return me.phase is Outcome.PREPARED

    @predicate
    def has_committed(self, me: TransactionManager) -> bool:
        return me.phase is Outcome.COMMITTED

    @temporal
    def all_end(self) -> Formula:
        return eventually(everywhere(self.done))

    @temporal
    def outcome_is_followed(self) -> Formula:
        return leads_to(self.has_committed, everywhere(self.commits))

    @temporal
    def prepared_commit(self) -> Formula:
        return leads_to(everywhere(self.is_prepared), self.has_committed)


class MCEwd998(Ewd998):
    specifications = {
        "Plain": (),
        "Spec": (weak("InitiateProbe", "PassToken"),),
        "Busy": BUSY,
        "Strong": each(strong, "InitiateProbe", "PassToken", "Deactivate"),
    }

    @predicate
    def rests(self, me: Node) -> bool:
        return not me.active

    @temporal
    def ends_at_last(self) -> Formula:
        return eventually(self.terminated)

    @temporal
    def probes_go_on(self) -> Formula:
        return infinitely_often(taken("InitiateProbe")) | eventually_always(self.detected)

    @temporal
    def rests_at_last(self) -> Formula:
        return eventually_always(everywhere(self.rests))


class Player(Record):
    id: ModelValue
    played: bool = False


class Luck(Record):
    lucky: ModelValue


class MCLuck(Protocol):
    players: frozenset[ModelValue] = constant("Players")
    specifications = {"Busy": BUSY}
    symmetries = {"symmPlayers": ("players",)}
    views = {"NoLuck": hide("lucky")}

    def initial(self) -> Iterator[State]:
        for one in ordered(self.players):
            yield self.start([Player(player) for player in ordered(self.players)], Luck(one))

    @internal(name="Pass")
    def pass_on(self, me: Player, shared: Luck) -> Steps:
        if shared.lucky == me.id:
            for other in ordered(self.players - {me.id}):
                yield become(me).put(lucky=other)

    @predicate(given=["who"])
    def is_lucky(self, shared: Luck, who: ModelValue) -> bool:
        return shared.lucky == who

    @constraint
    def first_lucky(self, shared: Luck) -> bool:
        return shared.lucky == ordered(self.players)[0]

    @temporal
    def luck_settles(self) -> Formula:
        return some([eventually_always(self.is_lucky.of(who=one)) for one in ordered(self.players)])

    @temporal
    def luck_passes(self) -> Formula:
        return every([infinitely_often(~self.is_lucky.of(who=one)) for one in ordered(self.players)])


NAMED: dict[str, tuple[type[Protocol], str]] = {
    "MCLock": (
        MCLock,
        "CONSTANTS Clients = {c1, c2} idle = idle waiting = waiting holding = holding server = server nobody = nobody",
    ),
    "MCDining": (MCDining, "CONSTANTS atLoop = Loop atEat = Eat atThink = Think"),
    "MCTwoPhase": (
        MCTwoPhase,
        "CONSTANTS tm = tm working = working isPrepared = prepared committed = committed aborted = aborted",
    ),
    "MCEwd998": (MCEwd998, "CONSTRAINT StateConstraint"),
    "MCLuck": (MCLuck, ""),
}
"""The protocols, and what a `.cfg` says of them for TLC and for us."""


def options_of(module: str, settings: str, specification: str, properties: list[str]) -> tuple[Protocol, SearchRequest]:
    """Return a named protocol and what to check, as the `.cfg` says it."""
    cls, more = NAMED[module]
    bound = bind(cls, parse_config(config_of(settings, more, specification, properties), f"{module}.cfg"))
    return bound.protocol, SearchRequest.of(bound, keep_going=True, deadlock=False)


def config_of(settings: str, more: str, specification: str, properties: list[str]) -> str:
    constants = f"CONSTANTS {settings}\n" if settings else ""
    return f"{constants}{more}\nSPECIFICATION {specification}\nPROPERTIES {' '.join(properties)}\n"


# Random protocols


class Walker(Record):
    id: int
    at: int = 0


class Nothing(Record):
    pass


@dataclass(frozen=True)
class Description:
    """A random protocol and a claim.

    Attributes
    ----------
    edges
        Source, name, target, and where the other walker must be.
    p, q
        The places where P and Q are true.
    fairness
        Kind, names of actions, and whether it is asked of each walker.
    claim
        The formula, in lists.
    """

    edges: tuple[Any, ...]
    p: tuple[int, ...]
    q: tuple[int, ...]
    fairness: tuple[Any, ...]
    claim: Any


WORDS: dict[str, tuple[Any, str]] = {
    "always": (always, "[]({})"),
    "eventually": (eventually, "<>({})"),
    "often": (infinitely_often, "[]<>({})"),
    "at last": (eventually_always, "<>[]({})"),
    "leads": (leads_to, "(({}) ~> ({}))"),
    "implies": (implies, "(({}) => ({}))"),
    "or": (lambda a, b: a | b, "(({}) \\/ ({}))"),
    "and": (lambda a, b: a & b, "(({}) /\\ ({}))"),
    "not": (lambda a: ~a, "~({})"),
}


def draw(seed: int) -> Description:
    random = Random(seed)
    places = random.choice((2, 3, 3))
    some = [[n for n in range(places) if random.random() < 0.6] or [0] for _ in range(4)]
    every_edge = [(source, name, target) for source in range(places) for name in "ABC" for target in range(places)]
    edges = [(*edge, random.choice(some)) for edge in random.sample(every_edge, random.randint(4, 9))]
    kinds = [random.choice(("weak", "strong")) for _ in range(random.choice((1, 2, 2, 3)))]
    fairness = [(kind, random.sample("ABC", random.choice((1, 1, 2))), random.random() < 0.5) for kind in kinds]
    p, q = ([n for n in range(places) if random.random() < 0.5] for _ in "pq")
    drawn = json.dumps([edges, p, q, fairness, draw_claim(random)])
    return described(json.loads(drawn))


def described(parts: list[Any]) -> Description:
    edges, p, q, fairness, claim = parts
    return Description(tuple(edges), tuple(p), tuple(q), tuple(fairness), claim)


def draw_claim(random: Random) -> Any:
    atoms = ["everywhere P", "anywhere Q", "at 1 P", "at 2 Q", "enabled A", "enabled B"]
    one, other, third = random.sample(atoms, 3)
    return random.choice(
        [
            ["often", one],
            ["at last", one],
            ["leads", one, other],
            ["or", ["often", one], ["at last", other]],
            ["implies", ["often", one], ["often", other]],
            ["implies", ["often", "taken A"], ["often", other]],
            ["always", ["implies", one, ["eventually", ["and", other, ["eventually", third]]]]],
            ["leads", one, ["always", other]],
        ]
    )


class Walks(Protocol):
    """Two walkers; what they may do is given to an instance."""

    description: Description

    def initial(self) -> Iterator[State]:
        yield self.start([Walker(1), Walker(2)], Nothing())

    @projection
    def place(self, me: Walker) -> int:
        return me.at

    def go(self, me: Walker, place: Map[int, int], action: str) -> Steps:
        for source, name, target, others in self.description.edges:
            if (source, name) == (me.at, action) and place[3 - me.id] in others:
                yield become(me.but(at=target))

    @internal(reads=place)
    def a(self, me: Walker, place: Map[int, int]) -> Steps:
        yield from self.go(me, place, "A")

    @internal(reads=place)
    def b(self, me: Walker, place: Map[int, int]) -> Steps:
        yield from self.go(me, place, "B")

    @internal(reads=place)
    def c(self, me: Walker, place: Map[int, int]) -> Steps:
        yield from self.go(me, place, "C")

    @predicate
    def p(self, me: Walker) -> bool:
        return me.at in self.description.p

    @predicate
    def q(self, me: Walker) -> bool:
        return me.at in self.description.q

    def formula(self, claim: Any) -> Formula:
        if not isinstance(claim, str):
            return WORDS[claim[0]][0](*map(self.formula, claim[1:]))  # type: ignore[no-any-return]
        kind, *rest = claim.split()
        if kind in ("enabled", "taken"):
            return (enabled if kind == "enabled" else taken)(rest[0])
        held = self.p if rest[-1] == "P" else self.q
        return at(int(rest[0]), held) if kind == "at" else everywhere(held) if kind == "everywhere" else anywhere(held)

    @temporal
    def claim(self) -> Formula:
        return self.formula(self.description.claim)


def walks(description: Description) -> tuple[Protocol, SearchRequest]:
    """Return the protocol of a description and what to check."""
    protocol = Walks()
    protocol.description = description
    fairness = tuple(
        Fairness(kind, tuple(names), "replica" if apart else "") for kind, names, apart in description.fairness
    )
    prop: Property = protocol.properties["Claim"]
    return protocol, SearchRequest(deadlock=False, keep_going=True, temporal=(prop,), fairness=fairness)


def module_of(description: Description, name: str = "Walks") -> str:
    """Return the module of a description; its specification is Spec, its property Claim."""
    actions = []
    for action in "ABC":
        mine = [edge for edge in description.edges if edge[1] == action]
        ways = [
            f"       \\/ at[i] = {edge[0]} /\\ at[3 - i] \\in {_set(edge[3])} /\\ at' = [at EXCEPT ![i] = {edge[2]}]"
            for edge in mine
        ]
        actions += [
            f"{action}(i) ==",
            "    /\\",
            *(ways or ["       \\/ FALSE /\\ UNCHANGED at"]),
            "    /\\ UNCHANGED messages",
        ]
    fair = []
    for kind, names, apart in description.fairness:
        word = "WF_vars" if kind == "weak" else "SF_vars"
        body = " \\/ ".join(f"{one}(i)" for one in names)
        fair.append(f"\\A i \\in Ids : {word}({body})" if apart else f"{word}(\\E i \\in Ids : {body})")
    return "\n".join(
        [
            f"---- MODULE {name} ----",
            "EXTENDS Integers, TLC",
            "VARIABLES at, messages",
            "vars == <<at, messages>>",
            "Ids == {1, 2}",
            "Init == at = [i \\in Ids |-> 0] /\\ messages = [m \\in {} |-> 0]",
            *actions,
            "Next == \\E i \\in Ids : A(i) \\/ B(i) \\/ C(i)",
            f"P(i) == at[i] \\in {_set(description.p)}",
            f"Q(i) == at[i] \\in {_set(description.q)}",
            "Spec == Init /\\ [][Next]_vars" + "".join(f" /\\ ({one})" for one in fair),
            f"Claim == {_text(description.claim)}",
            "====",
            "",
        ]
    )


def _set(places: Any) -> str:
    return "{" + ", ".join(map(str, places)) + "}"


def _text(claim: Any) -> str:
    if not isinstance(claim, str):
        return reduce(lambda text, part: text.replace("{}", _text(part), 1), claim[1:], WORDS[claim[0]][1])
    kind, *rest = claim.split()
    if kind in ("enabled", "taken"):
        step = f"<<\\E i \\in Ids : {rest[0]}(i)>>_vars"
        return f"ENABLED {step}" if kind == "enabled" else step
    if kind == "at":
        return f"{rest[1]}({rest[0]})"
    return f"\\{'A' if kind == 'everywhere' else 'E'} i \\in Ids : {rest[0]}(i)"


@cache
def recorded() -> list[dict[str, Any]]:
    """Return what TLC said of each pair."""
    import gzip

    found: list[dict[str, Any]] = json.loads(gzip.decompress((MODULES / "expected.json.gz").read_bytes()))
    return found
