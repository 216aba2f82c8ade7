"""Random protocols, described by tables: what engines are compared on.

`describe` draws a `Description` from a source of randomness, `Description.build` makes the protocol of it and
`Description.options` what to ask of a search. A description prints as the Python expression that makes it again.

Every protocol has finitely many states: steps of a replica's own that send do so at the expense of a bound or once
only, a handler sends messages of a lower level than the one it consumes, and one that leaves its message sends none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import Result, Search, SearchRequest
from kraftcheck.spec import (
    Bag,
    BagWithMemory,
    Channels,
    Map,
    MessageSet,
    ModelValue,
    Network,
    Protocol,
    Record,
    State,
    Step,
    Symbol,
    action_constraint,
    become,
    bound,
    constant,
    constraint,
    environment,
    hide,
    internal,
    invariant,
    on,
    ordered,
    projection,
    refines,
    step_invariant,
)
from kraftcheck.spec.language.semantics import DisabledStepReason, Semantics

HOSTS = tuple(ModelValue(f"n{number}", number) for number in (1, 2, 3))
SPARES = tuple(ModelValue(f"s{number}", 3 + number) for number in (1, 2))
LATEST = 2  # round of the shared state
LADDER = ((1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (4, 3), (6, 4))
"""Limits of the two bounds, from few states to many."""


class Place(Symbol):
    HUB = "hub"
    OUTSIDE = "outside"


class Nobody(Symbol):
    NOBODY = "nobody"


Id = ModelValue | Place


class Node(Record):
    id: ModelValue
    phase: int = 0
    heard: frozenset[Id] = frozenset()
    vote: Id | Nobody = Nobody.NOBODY


class Hub(Record):
    id: Place = Place.HUB
    phase: int = 0
    heard: frozenset[Id] = frozenset()


class Ping(Record):
    source: Id
    dest: Id
    level: int


class Pong(Record):
    source: Id
    dest: Id
    level: int
    about: tuple[int, ...] = ()


class Shared(Record):
    round: int = 0
    owner: ModelValue | Nobody = Nobody.NOBODY
    members: frozenset[ModelValue] = frozenset()
    noted: int = 0  # read by nothing


MARKS = 1 << 14
"""The limit of `marks`, where a step spends it: no search reaches it. Sets list all its values."""

KINDS: dict[str, type[Record]] = {"ping": Ping, "pong": Pong}
ACTORS: dict[str, type[Record]] = {"node": Node, "hub": Hub}


@dataclass(frozen=True)
class Send:
    """Messages that a step sends: how, to whom ("peers", "source", "each", "hub", "least" or "owner"), of what kind."""

    operation: str
    target: str
    kind: str
    level: int


@dataclass(frozen=True)
class Effect:
    """One outcome of a rule.

    `phases` gives the next phase for each phase; `puts` names the shared fields written; `push` moves another replica
    back to phase 0, which needs a projection of whole replicas. `marks`, a bound of which there is always enough left,
    may be among `spends`; only a view that hides it keeps the number of states finite.
    """

    phases: tuple[int, ...]
    consumes: bool = True
    hears: bool = False
    votes: bool = False
    sends: tuple[Send, ...] = ()
    puts: tuple[str, ...] = ()
    push: bool = False
    spends: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One action: its kind, who takes it and when, what it reads besides, and its outcomes.

    An environment's `start` makes a spare server appear, its `tick` advances the round.
    """

    kind: str
    effects: tuple[Effect, ...]
    actor: str = "node"
    messages: tuple[str, ...] = ()
    phases: tuple[int, ...] = (0, 1, 2)
    at_level: int | None = None
    if_shared: str | None = None
    if_others: int | None = None
    does: str = ""

    @property
    def asks_shared(self) -> bool:
        """Whether it has the shared state as a parameter."""
        targets = {send.target for effect in self.effects for send in effect.sends}
        puts = {name for effect in self.effects for name in effect.puts}
        return self.if_shared is not None or "owner" in targets or "round" in puts or self.does != ""

    @property
    def asks_others(self) -> bool:
        """Whether it reads the projection of all replicas."""
        return self.if_others is not None or any(effect.push for effect in self.effects)


@dataclass(frozen=True)
class Description:
    """A protocol as a table, and what to ask of its states."""

    hosts: int
    spares: int
    hub: bool
    network: str
    once: tuple[str, ...]
    replies_once: tuple[str, ...]
    loses: bool | str
    duplicates: bool | str
    limits: tuple[int, int]
    others: str
    rules: tuple[Rule, ...]
    deaf: int | None
    symmetric: bool
    properties: tuple[tuple[str, int], ...]
    constraints: tuple[tuple[str, int], ...]
    action_constraints: tuple[tuple[str, int], ...]
    deadlock: bool
    several_starts: bool = False
    refinements: tuple[tuple[str, int], ...] = ()

    def discipline(self) -> Network:
        """Return the network."""
        noise: Any = {"loses": self.loses, "duplicates": self.duplicates}
        once = [KINDS[kind] for kind in self.once]
        replies_once = [KINDS[kind] for kind in self.replies_once]
        if self.network == "memory":
            return BagWithMemory(once=once, replies_once=replies_once, **noise)
        if self.network == "bag":
            return Bag(once=once, replies_once=replies_once, **noise)
        if self.network == "channels":
            return Channels(**noise)
        return MessageSet(keeps=self.network == "kept", loses=self.loses)

    def build(self) -> RandomProtocol:
        """Return the protocol."""
        others = projection(PROJECTIONS[self.others])
        methods: dict[str, Any] = {"others": others, "network": self.discipline(), "description": self}
        for number, rule in enumerate(self.rules):
            methods[f"rule_{number}"] = _action(rule, others)
        limited = (*self.constraints, *self.action_constraints)
        for number, (name, limit) in enumerate((*self.properties, *limited, *self.refinements)):
            methods[f"{name}_{number}"] = PREDICATES[name](limit, others)
        cls = type("DrawnProtocol", (RandomProtocol,), methods)
        protocol: RandomProtocol = cls(
            hosts=frozenset(HOSTS[: self.hosts]),
            spares=frozenset(SPARES[: self.spares]),
            ticks=self.limits[0],
            launches=self.limits[1],
            marks=MARKS if any("marks" in effect.spends for rule in self.rules for effect in rule.effects) else 0,
        )
        return protocol

    def options(self, protocol: Protocol, search: Search = Search.BFS) -> SearchRequest:
        """Return what to check, in a search of all states."""
        known = protocol.properties.values()
        return SearchRequest(
            search=search,
            properties=tuple(p for p in known if p.kind in ("invariant", "step_invariant", "refines")),
            constraints=tuple(p for p in known if p.kind == "constraint"),
            action_constraints=tuple(p for p in known if p.kind == "action_constraint"),
            deadlock=self.deadlock,
            symmetry="everyone" if self.symmetric else None,
            keep_going=True,
        )


class RandomProtocol(Protocol):
    """What all random protocols share."""

    hosts: frozenset[ModelValue] = constant("Hosts")
    spares: frozenset[ModelValue] = constant("Spares")
    ticks: int = bound("MaxTicks")
    launches: int = bound("MaxLaunches")
    marks: int = bound("MaxMarks")

    symbols = (Place, Nobody)
    symmetries = {"everyone": ("hosts", "spares")}
    views = {
        "less": hide("round", "ticks", "launches"),
        "patient": hide("ticks", "launches"),
        "unnoted": hide("noted"),
        "unmarked": hide("marks"),
        "plain": hide("noted", "marks"),
    }
    description: Description

    def initial(self) -> Iterator[State]:
        """Everyone is in phase 0; with several initial states, each node is in phase 1 in two of them."""
        hub = [Hub()] if self.description.hub else []
        starts = [(host, noted) for host in ordered(self.hosts) for noted in (0, 1)]
        for first, noted in starts if self.description.several_starts else [(None, 0)]:
            nodes = [Node(host, phase=int(host == first)) for host in ordered(self.hosts)]
            yield self.start([*nodes, *hub], Shared(members=self.hosts, noted=noted))

    def receives(self, me: Record, message: Record) -> bool:
        """Replicas of one phase may receive nothing."""
        assert isinstance(me, Node | Hub)
        return me.phase != self.description.deaf


def _phase(self: Protocol, me: Any) -> int:
    return int(me.phase)


def _whole(self: Protocol, me: Any) -> Record:
    assert isinstance(me, Record)
    return me


def _waiting(self: Protocol, messages: Any) -> int:
    return min(len(messages), 2)


PROJECTIONS: dict[str, Callable[..., Any]] = {}
for _name, _function in (("phase", _phase), ("whole", _whole), ("waiting", _waiting)):
    _function.__name__ = "others"
    PROJECTIONS[_name] = _function


# The steps of a rule


def _action(rule: Rule, others: Callable[..., Any]) -> Any:
    """Return the decorated method for a rule; its parameters are what the rule asks for."""

    def on_plain(self, me, message): return steps(rule, self, me, message, None, None)  # type: ignore[no-untyped-def]
    def on_shared(self, me, message, shared): return steps(rule, self, me, message, shared, None)  # type: ignore[no-untyped-def]
    def on_others(self, me, message, others): return steps(rule, self, me, message, None, others)  # type: ignore[no-untyped-def]
    def on_both(self, me, message, shared, others): return steps(rule, self, me, message, shared, others)  # type: ignore[no-untyped-def]
    def own_plain(self, me): return steps(rule, self, me, None, None, None)  # type: ignore[no-untyped-def]
    def own_shared(self, me, shared): return steps(rule, self, me, None, shared, None)  # type: ignore[no-untyped-def]
    def own_others(self, me, others): return steps(rule, self, me, None, None, others)  # type: ignore[no-untyped-def]
    def own_both(self, me, shared, others): return steps(rule, self, me, None, shared, others)  # type: ignore[no-untyped-def]
    def env_shared(self, shared): return steps(rule, self, None, None, shared, None)  # type: ignore[no-untyped-def]
    def env_both(self, shared, others): return steps(rule, self, None, None, shared, others)  # type: ignore[no-untyped-def]

    reads = (others,) if rule.asks_others else ()
    asks = (rule.asks_shared, rule.asks_others)
    function: Any
    if rule.kind == "environment":
        return environment(env_both if rule.asks_others else env_shared, reads=reads)
    if rule.kind == "on":
        table = {(False, False): on_plain, (True, False): on_shared, (False, True): on_others, (True, True): on_both}
        function = table[asks]
        function.__annotations__ = {"me": ACTORS[rule.actor]}
        return on(*[KINDS[kind] for kind in rule.messages], reads=reads)(function)
    table = {(False, False): own_plain, (True, False): own_shared, (False, True): own_others, (True, True): own_both}
    function = table[asks]
    function.__annotations__ = {"me": ACTORS[rule.actor]}
    return internal(function, reads=reads)


def steps(rule: Rule, protocol: Any, me: Any, message: Any, shared: Any, others: Any) -> Iterator[Step]:
    """Yield the steps of a rule."""
    if me is not None and me.phase not in rule.phases:
        return
    if message is not None and rule.at_level not in (None, message.level):
        return
    if rule.if_shared is not None and not _shared_says(rule.if_shared, me, shared):
        return
    if rule.if_others is not None and not any(_number(value) >= rule.if_others for value in others.values()):
        return
    if rule.does == "start":
        for spare in ordered(protocol.spares - shared.members):
            for effect in rule.effects:
                appear = Step().write(Node(spare)).put(members=shared.members | {spare})
                yield from _sent(appear, effect, protocol, Place.OUTSIDE, None, shared)
        return
    if rule.does == "tick":
        if shared.round < LATEST:
            yield Step().put(round=shared.round + 1).spend(*rule.effects[0].spends)
        return
    for effect in rule.effects:
        yield from _effect(effect, protocol, me, message, shared, others)


def _shared_says(test: str, me: Any, shared: Any) -> bool:
    """Read one field of the shared state, or a second one only where the first asks for it."""
    if test == "free":
        return shared.owner is Nobody.NOBODY
    if test == "mine":
        return bool(shared.owner == me.id)
    if test == "early":
        return bool(shared.round == 0)
    return bool(shared.round > 0 or shared.owner is Nobody.NOBODY)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else int(value.phase)


def _effect(effect: Effect, protocol: Any, me: Any, message: Any, shared: Any, others: Any) -> Iterator[Step]:
    after = me.but(phase=effect.phases[me.phase])
    if effect.hears:
        after = after.but(heard=me.heard | {me.id if message is None else message.source})
    if effect.votes and isinstance(me, Node):
        after = after.but(vote=me.id if message is None else message.source)
    step = become(after)
    if message is not None and effect.consumes:
        step = step.but(consumes=True)
    if "owner" in effect.puts and isinstance(me, Node):
        step = step.put(owner=me.id)
    if "round" in effect.puts:
        step = step.put(round=min(shared.round + 1, LATEST))
    if "noted" in effect.puts:
        step = step.put(noted=me.phase)
    if not effect.push:
        yield from _sent(step, effect, protocol, me.id, message, shared)
        return
    for key in ordered(others):
        if key != me.id and isinstance(others[key], Node) and others[key].phase > 0:
            yield from _sent(step.write(others[key].but(phase=0)), effect, protocol, me.id, message, shared)


def _sent(step: Step, effect: Effect, protocol: Any, source: Any, message: Any, shared: Any) -> Iterator[Step]:
    """Yield a step with its messages: one for each choice of whom to send to."""
    choices = [step.spend(*effect.spends).need(*effect.needs)]
    for send in effect.sends:
        level = send.level if message is None else message.level - 1
        if level < 0:
            continue
        more = []
        for chosen in choices:
            for destinations in _targets(send.target, protocol, source, message, shared):
                found = [_message(send.kind, source, dest, level) for dest in destinations]
                more.append(chosen.but(sends=chosen.sends + tuple((send.operation, m) for m in found)))
        choices = more
    yield from choices


def _message(kind: str, source: Any, dest: Any, level: int) -> Record:
    return Ping(source, dest, level) if kind == "ping" else Pong(source, dest, level, (level,) * level)


def _targets(target: str, protocol: Any, source: Any, message: Any, shared: Any) -> list[list[Any]]:
    """Return the alternatives of whom to send to, each a list."""
    hosts = ordered(protocol.hosts)
    if target == "peers":
        return [[host for host in hosts if host != source]]
    if target == "each":
        return [[host] for host in hosts if host != source]
    if target == "source" and message is not None:
        return [[message.source]]
    if target == "owner":
        return [[] if shared.owner is Nobody.NOBODY else [shared.owner]]
    if target == "hub" and protocol.description.hub:
        return [[Place.HUB]]
    return [[hosts[0]]] if not protocol.description.symmetric else [[]]


# What is asked of states and steps


def _some_phase(limit: int, others: Any) -> Any:
    def predicate(self: Any, me: Node) -> bool:
        return me.phase < limit

    return invariant(predicate)


def _pair(limit: int, others: Any) -> Any:
    def predicate(self: Any, me: Node, peer: Node) -> bool:
        return me.phase + peer.phase <= limit or me.vote != peer.vote

    return invariant(predicate)


def _of_all(limit: int, others: Any) -> Any:
    def predicate(self: Any, shared: Shared, others: Map[Any, Any]) -> bool:
        return sum(map(_number, others.values())) <= limit + shared.round

    return invariant(predicate, reads=others)


def _of_messages(limit: int, others: Any) -> Any:
    def predicate(self: Any, message: Pong, shared: Shared) -> bool:
        return message.level <= limit or shared.owner is Nobody.NOBODY

    return invariant(predicate)


def _of_state(limit: int, others: Any) -> Any:
    def predicate(self: Any, state: State) -> bool:
        return len(state.inboxes) + len(state.replicas) <= limit

    return invariant(predicate)


def _of_steps(limit: int, others: Any) -> Any:
    def predicate(self: Any, before: Node, after: Node) -> bool:
        return after.phase >= before.phase - limit

    return step_invariant(predicate)


def _of_answers(limit: int, others: Any) -> Any:
    def predicate(self: Any, before: Node, message: Ping, step: Step, shared: Shared) -> bool:
        return step.consumes or len(step.sent) <= limit + shared.round or message.level > before.phase

    return step_invariant(predicate)


def _of_acts(limit: int, others: Any) -> Any:
    def predicate(self: Any, before: Node, after: Node, step: Step) -> bool:
        return len(step.sent) + after.phase <= limit + before.phase

    return step_invariant(predicate)


def _only_while(limit: int, others: Any) -> Any:
    def predicate(self: Any, me: Node, shared: Shared) -> bool:
        return me.phase + shared.round <= limit

    return constraint(predicate)


def _only_few(limit: int, others: Any) -> Any:
    def predicate(self: Any, others: Map[Any, Any]) -> bool:
        return sum(map(_number, others.values())) <= limit

    return constraint(predicate, reads=others)


def _only_small(limit: int, others: Any) -> Any:
    def predicate(self: Any, state: State) -> bool:
        return len(state.inboxes) + sum(node.phase for node in state.replicas.values()) <= limit

    return constraint(predicate)


def _only_steps(limit: int, others: Any) -> Any:
    def predicate(self: Any, before: Node, after: Node, shared: Shared) -> bool:
        return abs(after.phase - before.phase) <= limit or shared.round == 0

    return action_constraint(predicate)


class Level(Record):
    level: int


class Levels(Protocol):
    """A number that changes by 1, or begins again with 0."""

    def initial(self) -> Iterator[State]:
        """The number is at most 1."""
        yield from (self.start([], Level(number)) for number in (0, 1))

    @environment
    def change(self, shared: Level) -> Iterator[Step]:
        """Change the number."""
        yield from (Step().put(level=number) for number in (0, shared.level - 1, shared.level + 1))


def _mapping(level: Callable[[State], int]) -> Callable[[int, Any], Any]:
    """Return the builder of a mapping to a number, divided by the limit of the mapping."""

    def made(limit: int, others: Any) -> Any:
        def mapping(self: Any, state: State, other: Levels) -> State:
            return other.start([], Level(level(state) // limit))

        return refines(Levels)(mapping)

    return made


MAPPINGS: dict[str, Callable[[int, Any], Any]] = {
    "to_phases": _mapping(lambda state: sum(one.phase for one in state.replicas.values())),
    "to_inboxes": _mapping(lambda state: sum(len(inbox) for inbox in state.inboxes.values())),
    "to_round": _mapping(lambda state: state.shared.round + len(state.shared.members)),
    "to_spent": _mapping(lambda state: state.spent["ticks"] + len(state.inboxes)),
    "to_parts": _mapping(lambda state: len(state.inboxes) if state.shared.round else len(state.replicas)),
    "to_nothing": _mapping(lambda state: 0),
}


PREDICATES: dict[str, Callable[[int, Any], Any]] = {
    **MAPPINGS,
    "some_phase": _some_phase,
    "pair": _pair,
    "of_all": _of_all,
    "of_messages": _of_messages,
    "of_state": _of_state,
    "of_steps": _of_steps,
    "of_answers": _of_answers,
    "of_acts": _of_acts,
    "only_while": _only_while,
    "only_few": _only_few,
    "only_small": _only_small,
    "only_steps": _only_steps,
}


STATES = ("some_phase", "pair", "of_all", "of_messages", "of_state")


# Drawing


def describe(random: Random) -> Description:
    """Draw a protocol."""
    network = random.choice(("memory", "memory", "bag", "set", "kept", "channels", "channels"))
    symmetric = random.random() < 0.25
    hub = random.random() < 0.35
    others = random.choice(("phase", "whole", "whole", "waiting"))
    draw = _Draw(random, network, symmetric, hub, others)
    rules = [draw.own("node", first=True), draw.handler(("ping",)), *[draw.rule() for _ in range(random.randint(1, 3))]]
    if random.random() < 0.35:
        rules.append(draw.start())
    if random.random() < 0.3:
        rules.append(Rule("environment", (Effect((), spends=draw.some(("ticks",))),), does="tick"))
    limited = random.random() < 0.3
    counted = network in ("memory", "bag", "channels")
    return Description(
        hosts=2 if random.random() < 0.6 else 3,
        spares=1 if symmetric else random.randint(1, 2),
        hub=hub,
        network=network,
        once=draw.some(("ping",), 0.3) if network in ("memory", "bag") else (),
        replies_once=draw.some(("ping", "pong"), 0.7) if network in ("memory", "bag") else (),
        loses=random.choice((False, False, False, True, "launches")),
        duplicates=random.choice((False, "launches")) if counted else False,
        limits=random.choice(LADDER),
        others=others,
        rules=tuple(rules),
        deaf=random.choice((None, None, 2)),
        symmetric=symmetric,
        properties=draw.predicates((*STATES, "of_steps", "of_answers", "of_acts"), 2, 6),
        constraints=draw.predicates(("only_while", "only_few"), 2, 4) if limited else (),
        action_constraints=(("only_steps", random.randint(0, 1)),) if random.random() < 0.25 else (),
        deadlock=random.random() < 0.5,
    )


class _Draw:
    """Draws rules that fit a network."""

    def __init__(self, random: Random, network: str, symmetric: bool, hub: bool, others: str) -> None:
        self.random = random
        self.network = network
        self.others = others
        self.actors = ("node", "node", "node", "hub") if hub else ("node",)
        self.targets = ["peers", "peers", "each", *(["hub"] if hub else []), *([] if symmetric else ["least"])]

    def some(self, items: tuple[str, ...], chance: float = 0.5) -> tuple[str, ...]:
        return tuple(item for item in items if self.random.random() < chance)

    def predicates(self, names: tuple[str, ...], least: int, most: int) -> tuple[tuple[str, int], ...]:
        return tuple((name, self.random.randint(least, most)) for name in self.some(names))

    def rule(self) -> Rule:
        if self.random.random() < 0.4:
            return self.own(self.random.choice(self.actors))
        return self.handler(self.random.choice((("ping",), ("pong",), ("pong",), ("ping", "pong"))))

    def phases(self) -> tuple[int, ...]:
        return self.random.choice(((0, 1, 2), (0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,)))

    def tests(self, actor: str) -> dict[str, Any]:
        shared = self.random.random() < 0.3
        others = self.random.random() < 0.15
        tests = ("free", "early", "either", *(["mine"] if actor == "node" else []))
        return {
            "if_shared": self.random.choice(tests) if shared else None,
            "if_others": self.random.randint(0, 2) if others else None,
        }

    def own(self, actor: str, *, first: bool = False) -> Rule:
        effects = tuple(self.own_effect(sends=first) for _ in range(self.random.choice((1, 1, 2))))
        if first:
            return Rule("internal", effects, actor)
        return Rule("internal", effects, actor, (), self.phases(), **self.tests(actor))

    def own_effect(self, *, sends: bool = False) -> Effect:
        """Draw an effect that spends, sends once only, or moves to a later phase."""
        random = self.random
        effect = Effect(
            tuple(random.randint(0, 2) for _ in range(3)),
            hears=random.random() < 0.2,
            votes=random.random() < 0.2,
            puts=tuple(name for name in ("owner", "round") if random.random() < 0.15),
            push=self.others == "whole" and random.random() < 0.35,
            needs=("launches",) if random.random() < 0.1 else (),
        )
        if sends or random.random() < 0.5:
            operation = random.choice(("send", "send", "send_once"))
            free = self.network in ("set", "kept") or (self.network == "memory" and operation == "send_once")
            kind = "ping" if sends else random.choice(("ping", "ping", "pong"))
            sent = (Send(operation, random.choice(self.targets), kind, random.choice((0, 1, 1, 1, 2))),)
            return replace(effect, sends=sent, spends=() if free and random.random() < 0.25 else self.spending())
        return replace(effect, spends=self.spending() if random.random() < 0.3 else ())

    def spending(self) -> tuple[str, ...]:
        return (self.random.choice(("ticks", "ticks", "launches")),)

    def handler(self, messages: tuple[str, ...]) -> Rule:
        random, actor = self.random, self.random.choice(self.actors)
        effects = tuple(self.handler_effect() for _ in range(random.choice((1, 1, 2))))
        level = random.choice((None, None, None, None, 0, 1))
        return Rule("on", effects, actor, messages, self.phases(), level, **self.tests(actor))

    def handler_effect(self) -> Effect:
        random = self.random
        if random.random() < 0.2:  # leaves the message, and moves on
            return Effect((1, 2, 2), consumes=False, votes=random.random() < 0.3)
        sends: list[Send] = []
        if random.random() < 0.75:
            sends.append(Send("reply", "source", random.choice(("ping", "pong", "pong")), 0))
        if random.random() < 0.25:
            operation, target = random.choice(("send", "send_once")), random.choice((*self.targets, "owner"))
            sends.append(Send(operation, target, random.choice(("ping", "pong")), 0))
        return Effect(
            tuple(random.randint(0, 2) for _ in range(3)),
            hears=random.random() < 0.3,
            votes=random.random() < 0.2,
            sends=tuple(sends),
            puts=tuple(name for name in ("owner", "round") if random.random() < 0.15),
            push=self.others == "whole" and random.random() < 0.2,
            spends=self.spending() if random.random() < 0.1 else (),
        )

    def start(self) -> Rule:
        target = self.random.choice(self.targets)
        sends = (Send("send", target, "ping", self.random.randint(0, 1)),) if self.random.random() < 0.5 else ()
        effect = Effect((), sends=sends, spends=self.spending() if self.random.random() < 0.3 else ())
        if_others = self.random.choice((None, 0, 1))
        return Rule("environment", (effect,), if_others=if_others, does="start")


# Sampling, with what each protocol turned out to exercise


class WatchingSemantics(Semantics):
    """Notes which features of the language a search meets."""

    def __init__(self, protocol: Protocol) -> None:
        super().__init__(protocol)
        self.met: set[str] = set()

    def apply(self, state: State, actor: Any, message: Record | None, step: Step) -> State | DisabledStepReason:
        target = super().apply(state, actor, message, step)
        if isinstance(target, DisabledStepReason):
            replies = any(operation == "reply" for operation, _ in step.sends)
            refused = "a reply is refused" if replies else "a send is refused"
            self.met.add("a bound is used up" if target.kind == "bound" else refused)
        else:
            if len(target.replicas) > len(state.replicas):
                self.met.add("a server appears")
            elif step.writes:
                self.met.add("another replica is written")
            if step.needs:
                self.met.add("a bound is needed")
            if step.me != () and message is not None and not step.consumes:
                self.met.add("a message is left")
        return target


class Sample(NamedTuple):
    """A description, its protocol, the reference engine's search and its result, and the features it exercises."""

    description: Description
    protocol: RandomProtocol
    reference: ReferenceSearch
    result: Result
    features: frozenset[str]


FEATURES = (
    "several kinds of replica",
    "shared fields read by some",
    "declared reads",
    "symmetry",
    "constraints",
    "action constraints",
    "several outcomes",
    "losses",
    "duplicates",
    "replicas that receive nothing",
    "a violation",
    "a bound is used up",
    "a send is refused",
    "a reply is refused",
    "a server appears",
    "another replica is written",
    "a bound is needed",
    "a message is left",
    "network memory",
    "network bag",
    "network set",
    "network kept",
    "network channels",
)


def features_of(description: Description, result: Result, met: set[str]) -> frozenset[str]:
    """Return the features that a search exercised."""
    fired = [rule for number, rule in enumerate(description.rules) if result.actions[f"Rule{number}"]]
    held = {
        "several kinds of replica": description.hub,
        "shared fields read by some": any(r.asks_shared for r in fired) and not all(r.asks_shared for r in fired),
        "declared reads": any(rule.asks_others for rule in fired),
        "symmetry": description.symmetric,
        "constraints": bool(description.constraints),
        "action constraints": bool(description.action_constraints),
        "several outcomes": any(len(rule.effects) > 1 for rule in fired),
        "losses": bool(result.actions.get("LoseMessage")),
        "duplicates": bool(result.actions.get("DuplicateMessage")),
        "replicas that receive nothing": description.deaf is not None,
        "a violation": bool(result.violations),
        f"network {description.network}": True,
    }
    return frozenset(met | {name for name, holds in held.items() if holds})


def search(description: Description, most: int) -> Sample | None:
    """Search a protocol with the reference engine; None where it has more states than `most`."""
    protocol = description.build()
    engine = ReferenceSearch(protocol, replace(description.options(protocol), max_states=most + 1))
    semantics = WatchingSemantics(protocol)
    engine.semantics = semantics
    result = engine.run()
    if result.limit is not None:
        return None
    return Sample(description, protocol, engine, result, features_of(description, result, semantics.met))


def sample(count: int, *, seed: int = 0, large: int = 1_000, most: int = 6_000) -> Iterator[Sample]:
    """Yield random protocols, the same for the same arguments, at least half of them large.

    A description is given the limits, of those in `LADDER`, with which it has `large` states or comes nearest.

    Parameters
    ----------
    count
        How many.
    seed
        Where to begin.
    large
        Distinct states from which a protocol is large.
    most
        Distinct states that none has more of.
    """
    spare = 0  # large ones more than small ones
    while count:
        description = describe(Random(seed))
        seed += 1
        best: Sample | None = None
        for limits in LADDER:
            found = search(replace(description, limits=limits), most)
            if found is None or (best is not None and found.result.distinct_states == best.result.distinct_states):
                break
            best = found
            if best.result.distinct_states >= large:
                break
        if best is None or best.result.distinct_states < 2:
            continue
        is_large = best.result.distinct_states >= large
        if is_large or spare > 0:
            spare += 1 if is_large else -1
            count -= 1
            yield best
