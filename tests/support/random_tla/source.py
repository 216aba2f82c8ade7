"""Writes a description as a protocol in Python."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.support.random_tla.drawing import MESSAGES, Act, Claim, Description, Outcome, Send, chooses_one, named
from tests.support.random_tla.expressions import KINDS

NETWORKS = {
    "set": ("MessageSet", ()),
    "kept": ("MessageSet", ("keeps=True",)),
    "set with memory": ("MessageSetWithMemory", ()),
    "bag": ("Bag", ()),
    "merging bag": ("Bag", ("merges=True",)),
    "bag with memory": ("BagWithMemory", ()),
    "channels": ("Channels", ()),
}


class Source:
    """The Python source of a description."""

    def __init__(self, pair: Description, name: str) -> None:
        self.pair, self.name = pair, name

    def text(self) -> str:
        """Return the file."""
        pair = self.pair
        mine = "".join(f"    {f.name}: {KINDS[f.kind].annotation}\n" for f in pair.fields)
        shared = "".join(f"    {f.name}: {KINDS[f.kind].annotation}\n" for f in pair.shared) or "    pass\n"
        acts = "\n".join(self.act(number, act) for number, act in enumerate(pair.acts))
        claims = "\n".join(self.claim(name, claim) for name, claim in named(pair))
        formulas = "\n".join(self.formula(n, f.operator, f.predicates) for n, f in enumerate(pair.formulas))
        body = "\n".join(part for part in (self.initial(), self.receives(), acts, claims, formulas) if part)
        reads = sorted(set(re.findall(r"\b(?:of_\w+|whole|waiting)\b", body)))
        projections = "".join(self.projection(name) + "\n" for name in reads)
        return (
            HEAD
            + (
                f"""

class Node(Record):
    id: ModelValue
{mine}"""
                if pair.fields
                else ""
            )
            + f"""

class Shared(Record):
{shared}

class {self.name}(Protocol):
    nodes: frozenset[ModelValue] = constant("Nodes")
    ticks: int = bound("MaxTicks")
    launches: int = bound("MaxLaunches")
    network = {self.network()}
    symbols = (Colour,)
    symmetries = {{"Symm": ("nodes",)}}
    views = {{"View": hide({", ".join(map(repr, pair.hidden))})}}
    specifications = {{"Spec": ({"".join(f"{self.fair(f)}, " for f in pair.fairness)})}}
    strict_bounds = True

{projections}{body}"""
        )

    def network(self) -> str:
        pair = self.pair
        name, arguments = NETWORKS[pair.network]
        more = ["once=(Ping,)", "replies_once=(Ping,)"] if pair.once else []
        for what in ("loses", "duplicates"):
            bound = getattr(pair, what)
            if bound:
                more.append(f"{what}={'True' if bound == 'always' else repr(bound)}")
        return f"{name}({', '.join([*arguments, *more])})"

    def fair(self, fair: object) -> str:
        names = ", ".join(f'"Act{n}"' for n in fair.actions)  # type: ignore[attr-defined]
        each = ', each="replica"' if fair.each else ""  # type: ignore[attr-defined]
        return f"{fair.kind}({names}{each})"  # type: ignore[attr-defined]

    def projection(self, name: str) -> str:
        if name == "waiting":
            return _method("projection", "waiting", "messages: tuple[Record, ...]", "int", ["return len(messages)"])
        if name == "whole":
            return _method("projection", "whole", "me: Node", "Node", ["return me"])
        field = next(f for f in self.pair.fields if name == f"of_{f.name}")
        return _method("projection", name, "me: Node", KINDS[field.kind].annotation, [f"return me.{field.name}"])

    def initial(self) -> str:
        pair, chosen = self.pair, {(of, name): values for of, name, values in self.pair.starts}
        lines, indent = [], ""

        def loop(text: str) -> None:
            nonlocal indent
            lines.append(f"{indent}{text}:")
            indent += "    "

        if chooses_one(pair):
            loop("for one in ordered(self.nodes)")
        lines.append(f"{indent}ids = {'[one]' if pair.grows else 'ordered(self.nodes)'}")
        mine = ["n"]
        for field in pair.fields:
            values, other = chosen.get(("replicas", field.name)), chosen.get(("one", field.name))
            if values:
                loop(f"for all_{field.name} in product(({_listed(values)}), repeat=len(ids))")
                mine.append(f"dict(zip(ids, all_{field.name}))[n]")
            elif other:
                mine.append(f"{other[0].py} if n == one else {field.default.py}")
            else:
                mine.append(field.default.py)
        for field in pair.shared:
            if values := chosen.get(("shared", field.name)):
                loop(f"for {field.name} in ({_listed(values)})")
        shared = [f.name if ("shared", f.name) in chosen else f.default.py for f in pair.shared]
        replicas = f"[Node({', '.join(mine)}) for n in ids]" if pair.fields else "[]"
        message = chosen.get(("message", "Ping"))
        sent = f", [Ping(n, n, {message[0].py}) for n in ids]" if message else ""
        lines.append(f"{indent}yield self.start({replicas}, Shared({', '.join(shared)}){sent})")
        return _method("", "initial", "", "Iterator[State]", lines)

    def receives(self) -> str:
        test = self.pair.receives
        return _method("", "receives", "me: Record, message: Record", "bool", [f"return {test.py}"]) if test else ""

    def act(self, number: int, act: Act) -> str:
        lines = []
        if act.guards:
            lines += [f"if not ({' and '.join(f'({guard.py})' for guard in act.guards)}):", "    return"]
        for outcome in act.outcomes:
            lines += self.outcome(act, outcome)
        body = "\n".join(lines)
        reads = sorted(set(re.findall(r"\b(?:of_\w+|whole)\b", body)))
        given = {"environment": [], "internal": ["me: Node"]}.get(act.kind, ["me: Node", f"message: {act.kind}"])
        given = [*given, *_asked(self.pair, body, reads)]
        declared = f"reads=({', '.join(reads)},)" if reads else ""
        if act.kind in MESSAGES:
            decorator = f"on({', '.join([act.kind, *([declared] if declared else [])])})"
        else:
            decorator = f"{act.kind}({declared})" if declared else act.kind
        return _method(decorator, f"act_{number}", ", ".join(given), "Steps", lines)

    def outcome(self, act: Act, outcome: Outcome) -> list[str]:
        lines, indent = [], ""
        if outcome.choice:
            others = "whole" if act.kind == "environment" else "frozenset(whole) - {me.id}"
            among = {"any": "self.nodes", "spare": "self.nodes - frozenset(whole)"}.get(outcome.choice, others)
            lines.append(f"for p in ordered({among}):")
            indent = "    "
        if outcome.guards:
            lines.append(f"{indent}if {' and '.join(f'({guard.py})' for guard in outcome.guards)}:")
            indent += "    "
        changes = [*outcome.pivot, *outcome.changes]
        mine, peers, puts = (
            [f"{n}={to.py}" for of, n, to in changes if of == where] for where in ("me", "peer", "shared")
        )
        me = f"me.but({', '.join(mine)})" if mine else "me"
        replies = any(send.operation == "reply" for send in outcome.sends)
        if act.kind == "environment":
            step = "Step()"
        else:
            step = f"consume({me})" if outcome.consumes and not replies else f"become({me})"
        step += f".put({', '.join(puts)})" if puts else ""
        step += f".write(whole[p].but({', '.join(peers)}))" if peers else ""
        if outcome.choice == "spare":
            step += f".write(Node({', '.join(['p', *[f.default.py for f in self.pair.fields]])}))"
        for send in outcome.sends:
            step += self.sent(send)
        step += f".spend({', '.join(map(repr, outcome.spends))})" if outcome.spends else ""
        step += f".need({', '.join(map(repr, outcome.needs))})" if outcome.needs else ""
        return [*lines, f"{indent}yield {step}"]

    def sent(self, send: Send) -> str:
        body = [send.body.py] if MESSAGES[send.message] else []
        if send.operation == "reply":
            values = [send.source.py, "message.source", send.level.py, *body]
            return f".reply({send.message}({', '.join(values)}))"
        values = [send.source.py, "q", send.level.py, *body]
        return f".{send.operation}(*[{send.message}({', '.join(values)}) for q in ordered({send.targets.py})])"

    def claim(self, name: str, claim: Claim) -> str:
        test, snake = claim.test.py, re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        given = {
            "step": ["before: Node", "after: Node"], "me": ["me: Node"], "peer": ["me: Node", "peer: Node"],
            "message": ["message: Record"], "state": ["state: State"], "inbox": ["waiting: Map[ModelValue, int]"],
        }.get(claim.about, [])  # fmt: skip
        if claim.about == "state":
            test = f"sum(bool({test}) for me in state.replicas.values()) < 2"
        if claim.about == "inbox":
            test = f"all(number <= {test} for number in waiting.values())"
        given += ["shared: Shared"] * (bool(re.search(r"\bshared\.", test)) or not given)
        decorator = f"{claim.kind}(reads=waiting)" if claim.about == "inbox" else claim.kind
        return _method(decorator, snake, ", ".join(given), "bool", [f"return {test}"], name)

    def formula(self, number: int, operator: str, predicates: tuple[tuple[str, object], ...]) -> str:
        found, words = [], []
        for place, (about, test) in enumerate(predicates):
            name = f"predicate_{number}_{place}"
            given = "shared: Shared" if about == "shared" else "me: Node"
            found.append(_method("predicate", name, given, "bool", [f"return {test.py}"]))  # type: ignore[attr-defined]
            words.append(
                {"every": "everywhere(self.{})", "some": "anywhere(self.{})", "shared": "self.{}"}[about].format(name)
            )
        p, q = words
        text = {
            "eventually_always": f"eventually_always({p})",
            "infinitely_often": f"infinitely_often({p})",
            "leads_to": f"leads_to({p}, {q})",
            "eventually": f"eventually({p})",
            "if_often": f"implies(infinitely_often({p}), infinitely_often({q}))",
            "always": f"always(implies({p}, eventually({q})))",
        }[operator]
        return "\n".join(
            [*found, _method("temporal", f"formula_{number}", "", "Formula", [f"return {text}"], f"Formula{number}")]
        )


HEAD = """from collections.abc import Iterator
from itertools import product
from typing import Literal

from kraftcheck import *


class Colour(Symbol):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


class Mark(Record):
    num: int
    flag: bool


class Ping(Record):
    source: ModelValue
    dest: ModelValue
    level: int


class Pong(Record):
    source: ModelValue
    dest: ModelValue
    level: int
    body: ModelValue | None
"""


def _asked(pair: Description, body: str, reads: list[str]) -> list[str]:
    kinds = {f"of_{field.name}": KINDS[field.kind].annotation for field in pair.fields} | {"whole": "Node"}
    shared = ["shared: Shared"] if re.search(r"\bshared\.", body) else []
    return shared + [f"{name}: Map[ModelValue, {kinds[name]}]" for name in reads]


def _method(decorator: str, name: str, given: str, returns: str, lines: list[str], called: str = "") -> str:
    if called:
        more = f'name="{called}"'
        decorator = f"{decorator[:-1]}, {more})" if decorator.endswith(")") else f"{decorator}({more})"
    head = f"    def {name}({', '.join(filter(None, ['self', given]))}) -> {returns}:\n"
    decorated = f"    @{decorator}\n" if decorator else ""
    return decorated + head + "".join(f"        {line}\n" for line in lines)


def _listed(values: Iterable[object]) -> str:
    return "".join(f"{value.py}, " for value in values)  # type: ignore[attr-defined]
