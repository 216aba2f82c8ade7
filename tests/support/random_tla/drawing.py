"""Draws descriptions of small protocols.

Every protocol has finitely many states: where messages are counted, steps that nobody asked for send at the expense of
a bound, and a handler sends messages of a lower level than the one that it consumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.support.random_tla.expressions import KINDS, Drawer, Scope, Twice, twice

ID, CHOSEN = Twice("i", "me.id"), Twice("p", "p")
LEVEL, SOURCE = ("num", Twice("m.level", "message.level")), Twice("m.source", "message.source")
MESSAGES = {"Ping": "", "Pong": "body"}
SETS = ("set", "kept", "set with memory")
COUNTED = ("bag", "merging bag", "bag with memory", "channels")


@dataclass(frozen=True)
class Field:
    """A field: its name, kind and default; `ghost` if nothing reads it."""

    name: str
    kind: str
    default: Twice
    ghost: bool = False


@dataclass(frozen=True)
class Send:
    """Messages of a kind, one for each id in `targets`, with a level and a body."""

    operation: str
    message: str
    source: Twice
    targets: Twice
    level: Twice
    body: Twice


@dataclass(frozen=True)
class Outcome:
    """One alternative of an action: whom it chooses, its guard, what it changes, sends and spends.

    `pivot` are changes that tell this alternative from the others: TLC counts equal ones twice.
    """

    choice: str = ""
    guards: tuple[Twice, ...] = ()
    pivot: tuple[tuple[str, str, Twice], ...] = ()
    changes: tuple[tuple[str, str, Twice], ...] = ()
    sends: tuple[Send, ...] = ()
    consumes: bool = False
    spends: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Act:
    """An action: "internal", "environment", or the message that it is on."""

    kind: str
    guards: tuple[Twice, ...]
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Claim:
    """A property or a constraint: its kind, what it is about, the test."""

    kind: str
    about: str
    test: Twice


@dataclass(frozen=True)
class Fair:
    """A fairness condition on some actions, of each replica or of all."""

    kind: str
    actions: tuple[int, ...]
    each: bool


@dataclass(frozen=True)
class Formula:
    """A temporal property: an operator, and predicates of some, of every replica, or of the shared state."""

    operator: str
    predicates: tuple[tuple[str, Twice], ...]


@dataclass(frozen=True)
class Description:
    """A protocol, and what to check."""

    hosts: int
    fields: tuple[Field, ...]  # of replicas; none: there are no replicas
    shared: tuple[Field, ...]
    network: str
    loses: str  # "", "always", or a bound
    duplicates: str
    once: bool
    limits: tuple[tuple[str, int], ...]
    starts: tuple[tuple[str, str, tuple[Twice, ...]], ...]
    acts: tuple[Act, ...]
    claims: tuple[Claim, ...]
    fairness: tuple[Fair, ...]
    formulas: tuple[Formula, ...]
    symmetric: bool
    hidden: tuple[str, ...]
    deadlock: bool
    grows: bool
    receives: Twice | None  # which messages a replica receives
    walkers: bool  # whether replicas go from place to place

    @property
    def bounds(self) -> dict[str, int]:
        return dict(self.limits)


def named(pair: Description) -> list[tuple[str, Claim]]:
    """Return the properties and constraints with their names."""
    return [(f"{''.join(map(str.capitalize, c.kind.split('_')))}{n}", c) for n, c in enumerate(pair.claims)]


def chooses_one(pair: Description) -> bool:
    """Whether an initial state chooses a replica."""
    return pair.grows or any(of == "one" for of, _, _ in pair.starts)


def features(pair: Description) -> list[str]:
    """Return the features that a description has."""
    kinds = {claim.kind for claim in pair.claims}
    ghosts = {field.name for field in pair.shared if field.ghost}
    sends = [send for act in pair.acts for outcome in act.outcomes for send in outcome.sends]
    held = {
        f"network {pair.network}": bool(sends),
        "loss": bool(sends) and pair.loses != "",
        "duplication": bool(sends) and pair.duplicates != "",
        "sent once": any(s.operation == "send_once" or pair.once for s in sends),
        "several initial states": bool(pair.starts),
        "no replicas": not pair.fields,
        "replicas appear": pair.grows,
        "SYMMETRY": pair.symmetric,
        "VIEW of fields that nothing reads": bool(pair.hidden) and set(pair.hidden) <= ghosts,
        "VIEW of fields that are read": bool(pair.hidden) and not set(pair.hidden) <= ghosts,
        "CONSTRAINT": "constraint" in kinds,
        "ACTION_CONSTRAINT": "action_constraint" in kinds,
        "invariant": "invariant" in kinds,
        "step property": "step_invariant" in kinds,
        "temporal property": bool(pair.formulas),
        "fairness of actions": any(not fair.each for fair in pair.fairness),
        "fairness of replicas": any(fair.each for fair in pair.fairness),
        "deadlock": pair.deadlock,
        "replicas that do not receive": pair.receives is not None and bool(sends),
        "bounds": any(o.spends or o.needs for act in pair.acts for o in act.outcomes),
    }
    held |= {f"field {kind}": any(f.kind == kind for f in (*pair.fields, *pair.shared)) for kind in KINDS}
    return [name for name, holds in held.items() if holds]


def draw(seed: int) -> Description:
    """Return the description of a seed."""
    return next(draws(seed))


def draws(seed: int) -> Iterator[Description]:
    """Yield the description of a seed, then the same with other temporal properties and fairness, without end."""
    drawing = _Drawing(Random(seed))
    first = drawing.description()
    yield first
    while True:
        yield replace(first, fairness=tuple(drawing.fairness(first.acts)), formulas=(drawing.formula(),))


class _Drawing:
    def __init__(self, random: Random) -> None:
        self.random, self.drawer = random, Drawer(random)
        self.temporal = random.random() < 0.2
        self.walkers = self.temporal and random.random() < 0.6
        self.hosts = 2 if self.walkers else random.choice((1, 2, 2, 2, 3))
        self.has_replicas = self.walkers or random.random() < 0.88
        self.symmetric = self.hosts > 1 and random.random() < 0.3  # TLC fails on symmetry of one value
        self.network = random.choice((*SETS, *COUNTED)) if self.has_replicas else "bag with memory"
        kinds = list(KINDS)
        names = [f"f{n}" for n in range(random.choice((1, 2, 2, 3)))] if self.has_replicas else []
        self.fields = tuple(self.field(name, "num" if name == "f0" else random.choice(kinds)) for name in names)
        shared = [f"s{n}" for n in range(random.choice((0, 1, 1, 2)) if names else random.choice((1, 2, 3, 4)))]
        self.shared = tuple(self.field(name, random.choice(kinds)) for name in shared)
        if not self.temporal and random.random() < 0.3:
            kind = random.choice(kinds)
            self.shared += (Field("g0", kind, self.drawer.value(kind), ghost=True),)
        self.grows = self.has_replicas and self.hosts > 1 and random.random() < 0.15
        self.limits = {name: random.choice((1, 1, 2)) for name in ("ticks", "launches")}
        read = tuple(f for f in self.shared if not f.ghost)
        self.globals = Scope(tuple((f.kind, Twice(f.name, f"shared.{f.name}")) for f in read))
        if not self.symmetric:
            self.globals = self.globals.with_(ids=(Twice("First", "ordered(self.nodes)[0]"),))

    def field(self, name: str, kind: str) -> Field:
        return Field(name, kind, self.drawer.value(kind))

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def description(self) -> Description:
        random = self.random
        acts = tuple(self.walks() if self.walkers else self.acts())
        loses = random.choice(("", "", "always", "ticks", "launches"))
        duplicates = random.choice(("", "", "ticks", "launches")) if self.network in COUNTED else ""
        return Description(
            hosts=self.hosts,
            fields=self.fields,
            shared=self.shared,
            network=self.network,
            loses=loses,
            duplicates=duplicates,
            once=self.network in ("bag", "bag with memory", "merging bag") and self.maybe(0.3),
            limits=tuple(self.limits.items()),
            starts=tuple(self.starts()),
            acts=acts,
            claims=tuple(self.claims()),
            fairness=tuple(self.fairness(acts)) if self.temporal else (),
            formulas=(self.formula(),) if self.temporal else (),
            symmetric=self.symmetric and not self.temporal,
            hidden=self.hidden() if not self.temporal else (),
            deadlock=not self.temporal and self.maybe(0.3),
            grows=self.grows,
            receives=self.drawer.test(Scope((*self.mine(), LEVEL), (SOURCE,))) if self.maybe(0.15) else None,
            walkers=self.walkers,
        )

    # Where it starts

    def starts(self) -> list[tuple[str, str, tuple[Twice, ...]]]:
        """Return choices of an initial state: of a shared field, of a field of all replicas or of one, of messages."""
        found: list[tuple[str, str, tuple[Twice, ...]]] = []
        for field in self.shared:
            if self.maybe(0.2):
                found.append(("shared", field.name, tuple(map(twice, KINDS[field.kind].values[:2]))))
        for field in self.fields:
            if self.maybe(0.15):
                found.append(("replicas", field.name, tuple(map(twice, KINDS[field.kind].values[:2]))))
        if self.fields and self.maybe(0.15) and ("replicas", "f0") not in {one[:2] for one in found}:
            default = self.fields[0].default.tla
            found.append(("one", "f0", (twice(random_other(self.random, default)),)))
        if self.fields and self.maybe(0.15):
            found.append(("message", "Ping", (twice(self.random.choice("01")),)))
        return found

    # What it does

    def acts(self) -> list[Act]:
        kinds = ["internal", "internal", "environment"] if self.fields else ["environment"]
        found = [self.act(self.random.choice(kinds)) for _ in range(self.random.choice((1, 2, 2, 3)))]
        if self.fields:
            found[0] = self.act("internal")
            found += [self.act(kind) for kind in ("Ping", "Pong") if self.maybe(0.8)]
        if self.grows:
            found.append(Act("environment", (), (Outcome("spare", pivot=(("new", "", CHOSEN),)),)))
        return found

    def walks(self) -> list[Act]:
        """Return actions that go from place to place and get in each other's way, so that fairness matters."""
        edges = [(one, other) for one in KINDS["num"].values for other in KINDS["num"].values if one != other]
        outcomes: list[list[Outcome]] = [[], [], []]
        for source, target in self.random.sample(edges, self.random.choice((4, 5, 6))):
            guards = [Twice(f"f0[i] = {source}", f"me.f0 == {source}")]
            if self.maybe(0.6):
                guards.append(self.of_others())
            goes = Outcome(guards=tuple(guards), pivot=(("me", "f0", twice(target)),))
            self.random.choice(outcomes).append(goes)
        return [Act("internal", (), tuple(some)) for some in outcomes if some]

    def own(self, kind: str) -> Scope:
        """Return what an action of a kind may read."""
        scope = self.globals
        if kind != "environment":
            scope = scope.with_(self.mine(), (ID,))
        if kind in ("Ping", "Pong"):
            scope = scope.with_((LEVEL,), (SOURCE,))
        if kind == "Pong":
            scope = scope.with_((("who", Twice("m.body", "message.body")),))
        if self.fields and self.maybe(0.3):
            scope = scope.with_((("flag", self.of_others()),))
        return scope

    def of_others(self) -> Twice:
        """Return a test of all replicas, by way of a projection."""
        field = self.fields[0] if self.walkers else self.random.choice(self.fields)
        test = self.drawer.test(Scope(((field.kind, Twice(f"{field.name}[q]", "q")),)))
        tla, py = self.random.choice(
            (
                ("\\E q \\in Live : {}", "any({} for q in {}.values())"),
                ("\\A q \\in Live : {}", "all({} for q in {}.values())"),
                ("Cardinality({{q \\in Live : {}}}) < 2", "sum({} for q in {}.values()) < 2"),
            )
        )
        return Twice(tla.format(test.tla), py.format(test.py, f"of_{field.name}"))

    def mine(self) -> tuple[tuple[str, Twice], ...]:
        return tuple((f.kind, Twice(f"{f.name}[i]", f"me.{f.name}")) for f in self.fields)

    def act(self, kind: str) -> Act:
        scope = self.own(kind)
        guards = tuple(self.drawer.test(scope) for _ in range(self.random.choice((0, 1, 1, 2))))
        number = self.random.choice((1, 1, 1, 2)) if self.pivots(kind) else 1
        return Act(kind, guards, tuple(self.outcome(kind, scope, n, number) for n in range(number)))

    def pivots(self, kind: str) -> list[tuple[str, Field]]:
        """Return fields of two values or more that an action may write, to tell its outcomes apart."""
        mine = [] if kind == "environment" else [("me", field) for field in self.fields]
        found = mine + [("shared", field) for field in self.shared]
        return [(of, field) for of, field in found if len(KINDS[field.kind].values) > 1]

    def outcome(self, kind: str, scope: Scope, number: int, of: int) -> Outcome:
        random = self.random
        pivot: list[tuple[str, str, Twice]] = []
        choices = ["", ""] if not self.fields else ["", "", "", "live"]
        whos = [field for field in self.shared if field.kind == "who"]
        if whos:
            choices.append("any")
        choice = random.choice(choices)
        if choice:
            scope = scope.with_(ids=(CHOSEN,))
        if choice == "any":
            pivot.append(("shared", random.choice(whos).name, CHOSEN))
        if choice == "live":  # another replica is written
            scope = scope.with_(tuple((f.kind, Twice(f"{f.name}[p]", f"whole[p].{f.name}")) for f in self.fields))
            pivot.append(("peer", *self.changed("peer", scope)))
        taken = {(of, name) for of, name, _ in pivot}
        if of > 1:
            free = [(where, f) for where, f in self.pivots(kind) if (where, f.name) not in taken]
            if not free:
                choice = ""
                pivot.clear()
                free = self.pivots(kind)
            where, chosen = free[0]
            pivot.append((where, chosen.name, twice(KINDS[chosen.kind].values[number])))
        guards = tuple(self.drawer.test(scope) for _ in range(random.choice((0, 0, 1))))
        changes = self.changes(kind, scope, {(of, name) for of, name, _ in pivot})
        outcome = Outcome(choice, guards, tuple(pivot), changes)
        return self.with_messages(kind, scope, outcome)

    def changed(self, of: str, scope: Scope) -> tuple[str, Twice]:
        field = self.random.choice(self.fields)
        owner = {"peer": Twice(f"{field.name}[p]", f"whole[p].{field.name}")}[of]
        return field.name, self.drawer.change(field.kind, owner, scope)

    def changes(self, kind: str, scope: Scope, taken: set[tuple[str, str]]) -> tuple[tuple[str, str, Twice], ...]:
        found = []
        if kind != "environment":
            for field in self.fields:
                if ("me", field.name) not in taken and self.maybe(0.6):
                    term = Twice(f"{field.name}[i]", f"me.{field.name}")
                    found.append(("me", field.name, self.drawer.change(field.kind, term, scope)))
        for field in self.shared:
            if ("shared", field.name) not in taken and self.maybe(0.5 if kind == "environment" else 0.3):
                if field.ghost:  # made of other fields, so that nothing reads it
                    found.append(("shared", field.name, self.noted(field.kind, scope)))
                    continue
                term = Twice(field.name, f"shared.{field.name}")
                found.append(("shared", field.name, self.drawer.change(field.kind, term, scope)))
        return tuple(found)

    def noted(self, kind: str, scope: Scope) -> Twice:
        known = [one for of, one in scope.terms if of == kind and "Live" not in one.tla]
        known += scope.ids if kind == "who" else ()
        return self.random.choice([self.drawer.value(kind), *known])

    def with_messages(self, kind: str, scope: Scope, outcome: Outcome) -> Outcome:
        """Return an outcome with what it takes, sends and spends."""
        random = self.random
        handles = kind in ("Ping", "Pong")
        consumes = handles and self.maybe(0.85)
        sends: list[Send] = []
        spends = [random.choice(("ticks", "launches"))] if self.maybe(0.2) else []
        needs = (random.choice(("ticks", "launches")),) if self.maybe(0.1) else ()
        if self.fields and self.maybe(0.6):
            free = self.network in SETS
            operation = "send_once" if self.maybe(0.2) else "send"
            if handles and not free:
                if consumes:
                    sends.append(self.send(operation, scope, Twice("m.level - 1", "message.level - 1")))
            else:
                sends.append(self.send(operation, scope, twice(random.choice("012"))))
                if not free and not (self.network == "bag with memory" and operation == "send_once"):
                    spends = spends or [random.choice(("ticks", "launches"))]
        guards = outcome.guards
        if any("level" in send.level.tla for send in sends):
            guards = (*guards, Twice("m.level > 0", "message.level > 0"))
        if sends and consumes and self.maybe(0.3):
            sends[0] = replace(sends[0], operation="reply", targets=Twice("{m.source}", "{message.source}"))
        if spends and self.maybe(0.1):
            spends *= 2
        return replace(outcome, guards=guards, sends=tuple(sends), consumes=consumes, spends=tuple(spends), needs=needs)

    def send(self, operation: str, scope: Scope, level: Twice) -> Send:
        targets = [Twice("Nodes", "self.nodes")]
        targets += [Twice(f"{{{one.tla}}}", f"{{{one.py}}}") for one in scope.ids] * 2
        if ID in scope.ids:
            targets.append(Twice("Nodes \\ {i}", "self.nodes - {me.id}"))
        targets += [Twice(f"{one.tla}", one.py) for kind, one in scope.terms if kind == "team"]
        targets += [
            Twice(f"{{{one.tla}}} \\ {{None}}", f"{{{one.py}}} - {{None}}")
            for kind, one in scope.terms
            if kind == "who"
        ]
        whos = [one for kind, one in scope.terms if kind == "who"] + list(scope.ids)
        body = self.random.choice([Twice("None", "None"), *whos])
        source = ID if ID in scope.ids else Twice("q", "q")
        message = self.random.choice(("Ping", "Pong"))
        return Send(operation, message, source, self.random.choice(targets), level, body)

    # What is claimed

    def claims(self) -> list[Claim]:
        found = [self.claim("invariant") for _ in range(self.random.choice((0, 1, 1, 2)))]
        if self.fields:
            found += [self.step_claim("step_invariant")] * self.maybe(0.3)
        if not self.temporal:
            found += [self.claim("constraint")] * self.maybe(0.2)
            if self.fields:
                found += [self.step_claim("action_constraint")] * self.maybe(0.15)
        return found

    def claim(self, kind: str) -> Claim:
        """Return an invariant or a constraint."""
        about = ["me", "me", "peer", "message", "state", "inbox"] if self.fields else []
        if any(not field.ghost for field in self.shared):
            about.append("shared")
        if not about:
            return Claim(kind, "shared", Twice("TRUE", "True"))
        chosen = self.random.choice(about)
        scope = Scope(self.mine(), (ID,))
        if chosen == "peer":
            peer = tuple((f.kind, Twice(f"{f.name}[j]", f"peer.{f.name}")) for f in self.fields)
            scope = scope.with_(peer, (Twice("j", "peer.id"),))
        if chosen == "message":
            scope = Scope((LEVEL,), (SOURCE, Twice("m.dest", "message.dest")))
        if chosen == "inbox":
            return Claim(kind, chosen, twice(self.random.choice("0112")))
        if chosen == "shared":
            scope = self.globals
        elif self.maybe(0.3) and chosen != "state":
            scope = scope.with_(self.globals.terms)
        return Claim(kind, chosen, self.drawer.claim(scope))

    def step_claim(self, kind: str) -> Claim:
        before = tuple((f.kind, Twice(f"{f.name}[i]", f"before.{f.name}")) for f in self.fields)
        after = tuple((f.kind, Twice(f"{f.name}'[i]", f"after.{f.name}")) for f in self.fields)
        shared = self.globals.terms if self.maybe(0.3) else ()
        return Claim(
            kind, "step", self.drawer.claim(Scope((*before, *after, *after, *shared), (Twice("i", "after.id"),)))
        )

    def hidden(self) -> tuple[str, ...]:
        """Return what the VIEW leaves out."""
        ghosts = tuple(field.name for field in self.shared if field.ghost)
        if ghosts and self.maybe(0.6):
            return ghosts
        if self.maybe(0.15):
            known = [field.name for field in self.shared] + list(self.limits)
            return (self.random.choice(known),)
        return ()

    def fairness(self, acts: tuple[Act, ...]) -> list[Fair]:
        found = []
        for _ in range(self.random.choice((1, 2, 2, 3))):
            chosen = self.random.sample(range(len(acts)), min(len(acts), self.random.choice((1, 1, 2))))
            each = self.maybe(0.5) and all(acts[n].kind != "environment" for n in chosen)
            found.append(Fair(self.random.choice(("weak", "strong")), tuple(chosen), each))
        return found

    def formula(self) -> Formula:
        operators = ("eventually_always", "infinitely_often", "leads_to", "eventually", "if_often", "always")
        return Formula(self.random.choice(operators), (self.predicate(), self.predicate()))

    def predicate(self) -> tuple[str, Twice]:
        """Return a predicate and whether it is about some, every replica, or the shared state."""
        about = ["every", "some"] if self.fields else []
        if self.walkers:
            number = self.random.choice(KINDS["num"].values)
            return self.random.choice(about), Twice(f"f0[i] = {number}", f"me.f0 == {number}")
        if self.globals.terms:
            about.append("shared")
        if not about:
            return "shared", Twice("TRUE", "True")
        chosen = self.random.choice(about)
        return chosen, self.drawer.claim(self.globals if chosen == "shared" else Scope(self.mine(), (ID,)))


def random_other(random: Random, text: str) -> str:
    """Return a number other than this one."""
    return random.choice([one for one in KINDS["num"].values if one != text])
