"""Writes a description as a TLA+ module with its `.cfg`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.support.random_tla.drawing import MESSAGES, Act, Claim, Description, Outcome, Send, chooses_one, named

# TLA+: what the network does to `n`, which is what it holds

_SETS = """
Empty == {}
Deliverable(n) == n
Known(n) == n
Send(n, s) == n \\cup s
CanSendOnce(n, s) == s \\cap n = {}
Lose(n, m) == n \\ {m}
Net == messages
NetIs(n) == messages' = n
"""
_BAGS = """
Empty == [m \\in {} |-> 0]
Known(n) == DOMAIN n
Deliverable(n) == {m \\in DOMAIN n : n[m] > 0}
Count(n, m) == IF m \\in DOMAIN n THEN n[m] ELSE 0
CanSendOnce(n, s) == s \\cap DOMAIN n = {}
Lose(n, m) == Discard(n, m)
Duplicate(n, m) == [n EXCEPT ![m] = @ + 1]
Net == messages
NetIs(n) == messages' = n
"""
_ADD = "Send(n, s) == [m \\in DOMAIN n \\cup s |-> Count(n, m) + IF m \\in s THEN 1 ELSE 0]\n"
_MERGE = "Send(n, s) == [m \\in DOMAIN n \\cup s |-> IF m \\in DOMAIN n THEN n[m] ELSE 1]\n"
_FORGET = (
    "Discard(n, m) == [k \\in (IF n[m] > 1 THEN DOMAIN n ELSE DOMAIN n \\ {m}) |-> IF k = m THEN n[k] - 1 ELSE n[k]]\n"
)
OPERATORS = {
    "set": "Discard(n, m) == n \\ {m}\n" + _SETS,
    "kept": "Discard(n, m) == n\n" + _SETS,
    "set with memory": """
Empty == <<{}, {}>>
Deliverable(n) == n[1]
Known(n) == n[1] \\cup n[2]
Send(n, s) == <<n[1] \\cup s, n[2]>>
CanSendOnce(n, s) == s \\cap (n[1] \\cup n[2]) = {}
Discard(n, m) == <<n[1] \\ {m}, n[2] \\cup {m}>>
Lose(n, m) == <<n[1] \\ {m}, n[2]>>
Net == <<messages, processed>>
NetIs(n) == messages' = n[1] /\\ processed' = n[2]
""",
    "bag": _FORGET + _BAGS + _ADD,
    "merging bag": _FORGET + _BAGS + _MERGE,
    "bag with memory": "Discard(n, m) == [n EXCEPT ![m] = @ - 1]\n" + _BAGS + _ADD,
    "channels": """
Link(m) == <<m.source, m.dest>>
Empty == [c \\in {} |-> <<>>]
Queue(n, c) == IF c \\in DOMAIN n THEN n[c] ELSE <<>>
Deliverable(n) == {n[c][1] : c \\in DOMAIN n}
Known(n) == UNION {{n[c][k] : k \\in 1..Len(n[c])} : c \\in DOMAIN n}
Send(n, s) == [c \\in DOMAIN n \\cup {Link(m) : m \\in s} |->
    IF \\E m \\in s : Link(m) = c THEN Append(Queue(n, c), CHOOSE m \\in s : Link(m) = c) ELSE n[c]]
CanSendOnce(n, s) == s \\cap Known(n) = {}
Discard(n, m) == [c \\in (IF Len(n[Link(m)]) > 1 THEN DOMAIN n ELSE DOMAIN n \\ {Link(m)}) |->
    IF c = Link(m) THEN Tail(n[c]) ELSE n[c]]
Lose(n, m) == Discard(n, m)
Duplicate(n, m) == Send(n, {m})
Net == messages
NetIs(n) == messages' = n
""",
}


def _indented(text: str, by: str = "    ") -> str:
    return "\n".join(by + line for line in text.split("\n"))


def _bulleted(junctor: str, parts: Iterable[str]) -> str:
    """Return parts joined by a bullet each."""
    return "\n".join(f"{junctor} " + part.replace("\n", "\n   ") for part in parts)


def _held(*tests: str) -> list[str]:
    """Return tests as values: TLC takes a step once for each way in which a disjunction is true."""
    return [f"({test}) = TRUE" for test in tests]


class Module:
    """The TLA+ module of a description, and its `.cfg`."""

    def __init__(self, pair: Description, name: str) -> None:
        self.pair, self.name = pair, name
        self.net = ["messages", "processed"] if pair.network == "set with memory" else ["messages"]
        self.counters = [f"_{name}" for name in pair.bounds]
        self.fields = [field.name for field in pair.fields]
        self.shared = [field.name for field in pair.shared]
        self.variables = [*self.fields, *self.net, *self.shared, *self.counters]

    def text(self) -> str:
        """Return the module."""
        pair = self.pair
        parts = [
            f"---- MODULE {self.name} ----",
            "EXTENDS Integers, Sequences, FiniteSets, TLC",
            "CONSTANTS Nodes, MaxTicks, MaxLaunches, None, red, green, blue",
            f"VARIABLES {', '.join(self.variables)}",
            f"vars == <<{', '.join(self.variables)}>>",
            "First == CHOOSE n \\in Nodes : \\A k \\in Nodes : TRUE",
            "Live == DOMAIN f0" if pair.fields else "Live == {}",
            OPERATORS[pair.network].strip(),
            self.init(),
        ]
        parts += [self.act(number, act) for number, act in enumerate(pair.acts)]
        parts += self.noise()
        names = [f"Act{number}" for number in range(len(pair.acts))]
        names += [name for name, _ in self.noises()]
        parts.append("Next ==\n" + _indented(_bulleted("\\/", names)))
        fair = [self.fair(fair.kind, fair.actions, fair.each) for fair in pair.fairness]
        parts.append("Spec ==\n" + _indented(_bulleted("/\\", ["Init", "[][Next]_vars", *fair])))
        parts += [f"{name} ==\n    {self.claim(claim)}" for name, claim in named(pair)]
        parts += [f"Formula{n} == {self.formula(f.operator, f.predicates)}" for n, f in enumerate(pair.formulas)]
        parts += ["Symm == Permutations(Nodes)"]
        parts += [f"View == <<{', '.join(v for v in self.variables if v not in self.hidden())}>>"]
        return "\n\n".join(parts) + "\n====\n"

    def hidden(self) -> list[str]:
        return [f"_{name}" if name in self.pair.bounds else name for name in self.pair.hidden]

    def whole(self, number: int) -> str:
        return f"\\E i \\in Live : Act{number}Of(i)"

    def init(self) -> str:
        pair, chosen = self.pair, {(of, name): values for of, name, values in self.pair.starts}
        ids = "{one}" if pair.grows else "Nodes"
        lines = []
        for field in pair.fields:
            values = chosen.get(("replicas", field.name))
            other = chosen.get(("one", field.name))
            if values:
                lines.append(f"{field.name} \\in [{ids} -> {{{', '.join(one.tla for one in values)}}}]")
            elif other:
                lines.append(
                    f"{field.name} = [i \\in {ids} |-> IF i = one THEN {other[0].tla} ELSE {field.default.tla}]"
                )
            else:
                lines.append(f"{field.name} = [i \\in {ids} |-> {field.default.tla}]")
        for field in pair.shared:
            values = chosen.get(("shared", field.name))
            one_of = f"\\in {{{', '.join(one.tla for one in values)}}}" if values else f"= {field.default.tla}"
            lines.append(f"{field.name} {one_of}")
        message = chosen.get(("message", "Ping"))
        held = "Empty"
        if message:
            sent = f'[type |-> "Ping", source |-> q, dest |-> q, level |-> {message[0].tla}]'
            held = f"Send(Empty, {{{sent} : q \\in {ids}}})"
        if len(self.net) == 1:
            lines.append(f"messages = {held}")
        else:
            lines += [f"{name} = {held}[{place}]" for place, name in enumerate(self.net, 1)]
        lines += [f"{counter} = 0" for counter in self.counters]
        body = _bulleted("/\\", lines)
        if chooses_one(pair):
            body = "\\E one \\in Nodes :\n" + _indented(body)
        return "Init ==\n" + _indented(body)

    def act(self, number: int, act: Act) -> str:
        outcomes = [self.outcome(act, outcome) for outcome in act.outcomes]
        body = _bulleted("/\\", [*_held(*[guard.tla for guard in act.guards]), _bulleted("\\/", outcomes)])
        if act.kind in MESSAGES:
            received = _held(self.pair.receives.tla) if self.pair.receives else []
            body = _bulleted("/\\", ["m.dest = i", f'm.type = "{act.kind}"', *received, body])
            body = "\\E m \\in Deliverable(Net) :\n" + _indented(body)
        if act.kind == "environment":
            return f"Act{number} ==\n" + _indented(body)
        return f"Act{number}Of(i) ==\n{_indented(body)}\n\nAct{number} == {self.whole(number)}"

    def outcome(self, act: Act, outcome: Outcome) -> str:
        parts = _held(*[guard.tla for guard in outcome.guards])
        parts += [f"_{name} < Max{name.capitalize()}" for name in outcome.needs]
        spent = {name: outcome.spends.count(name) for name in outcome.spends}
        for name, times in spent.items():
            parts += [f"_{name} + {times} <= Max{name.capitalize()}", f"_{name}' = _{name} + {times}"]
        changed = {f"_{name}" for name in spent}
        for where, changes in _by_field(outcome).items():
            parts.append(self.changed(act, where, changes))
            changed.add(where)
        if outcome.choice == "spare":
            for field in self.pair.fields:
                added = f"[y \\in Live \\cup {{p}} |-> IF y = p THEN {field.default.tla} ELSE {field.name}[y]]"
                parts.append(f"{field.name}' = {added}")
                changed.add(field.name)
        if outcome.sends or outcome.consumes:
            parts.append(self.network(outcome))
            changed |= set(self.net)
        same = [name for name in self.variables if name not in changed]
        if same:
            parts.append(f"UNCHANGED <<{', '.join(same)}>>")
        text = _bulleted("/\\", parts)
        among = {"any": "Nodes", "spare": "Nodes \\ Live"}
        if outcome.choice:
            others = "Live" if act.kind == "environment" else "Live \\ {i}"
            text = f"\\E p \\in {among.get(outcome.choice, others)} :\n" + _indented(text)
        return text

    def changed(self, act: Act, name: str, changes: list[tuple[str, str]]) -> str:
        if name in self.shared:
            return f"{name}' = ({changes[-1][1]})"
        places = {"me": "i", "peer": "p"}
        return f"{name}' = [{name} EXCEPT " + ", ".join(f"![{places[of]}] = ({to})" for of, to in changes) + "]"

    def network(self, outcome: Outcome) -> str:
        defined = ["n0 == Net"]
        if outcome.consumes:
            defined.append("n1 == Discard(n0, m)")
        guards = []
        for number, send in enumerate(outcome.sends):
            before = f"n{len(defined) - 1}" if number == 0 else f"a{number - 1}"
            defined.append(f"s{number}_ == {self.sent(send)}")
            defined.append(f"a{number} == Send({before}, s{number}_)")
            if refuses(self.pair, send):
                guards.append(f"CanSendOnce({before}, s{number}_)")
        last = f"a{len(outcome.sends) - 1}" if outcome.sends else f"n{len(defined) - 1}"
        let = "LET " + "\n    ".join(defined)
        return f"{let}\nIN  " + _bulleted("/\\", [*guards, f"NetIs({last})"]).replace("\n", "\n    ")

    def sent(self, send: Send) -> str:
        source = send.source.tla
        body = f", body |-> {send.body.tla}" if MESSAGES[send.message] else ""
        fields = f'type |-> "{send.message}", source |-> {source}, dest |-> q, level |-> {send.level.tla}{body}'
        return f"{{[{fields}] : q \\in {send.targets.tla}}}"

    def noises(self) -> list[tuple[str, str]]:
        found = [("LoseMessage", self.pair.loses)] if self.pair.loses else []
        return found + ([("DuplicateMessage", self.pair.duplicates)] if self.pair.duplicates else [])

    def noise(self) -> Iterator[str]:
        """Yield what the network does by itself."""
        for name, bound in self.noises():
            parts = [f"NetIs({name.removesuffix('Message')}(Net, m))"]
            same = [*self.fields, *self.shared, *self.counters]
            if bound != "always":
                parts += [f"_{bound} < Max{bound.capitalize()}", f"_{bound}' = _{bound} + 1"]
                same.remove(f"_{bound}")
            parts.append(f"UNCHANGED <<{', '.join(same)}>>")
            yield f"{name} == \\E m \\in Deliverable(Net) :\n" + _indented(_bulleted("/\\", parts))

    def fair(self, kind: str, actions: tuple[int, ...], each: bool) -> str:
        word = "WF_vars" if kind == "weak" else "SF_vars"
        taken = " \\/ ".join(f"Act{n}Of(i)" if each else f"Act{n}" for n in actions)
        return f"\\A i \\in Nodes : {word}(i \\in Live /\\ ({taken}))" if each else f"{word}({taken})"

    def claim(self, claim: Claim) -> str:
        """Return what a property or a constraint says."""
        test = claim.test.tla
        if claim.about == "step":
            differs = " \\/ ".join(f"{name}'[i] # {name}[i]" for name in self.fields)
            text = f"\\A i \\in Live : ({differs}) => ({test})"
            return f"[][{text}]_vars" if claim.kind == "step_invariant" else text
        return {
            "me": f"\\A i \\in Live : {test}",
            "peer": f"\\A i \\in Live, j \\in Live : i # j => ({test})",
            "message": f"\\A m \\in Known(Net) : {test}",
            "state": f"Cardinality({{i \\in Live : {test}}}) < 2",
            "inbox": f"\\A i \\in Live : Cardinality({{m \\in Deliverable(Net) : m.dest = i}}) <= {test}",
            "shared": test,
        }[claim.about]

    def formula(self, operator: str, predicates: tuple[tuple[str, object], ...]) -> str:
        words = {"every": "(\\A i \\in Live : {})", "some": "(\\E i \\in Live : {})", "shared": "({})"}
        p, q = (words[about].format(f"({test.tla})") for about, test in predicates)  # type: ignore[attr-defined]
        return {
            "eventually_always": f"<>[]{p}",
            "infinitely_often": f"[]<>{p}",
            "leads_to": f"{p} ~> {q}",
            "eventually": f"<>{p}",
            "if_often": f"[]<>{p} => []<>{q}",
            "always": f"[]({p} => <>{q})",
        }[operator]

    def config(self) -> str:
        """Return the `.cfg`, which kraftcheck reads too."""
        pair = self.pair
        hosts = ", ".join(f"n{number}" for number in range(1, pair.hosts + 1))
        lines = ["CONSTANTS", f"    Nodes = {{{hosts}}}", "    None = None red = red green = green blue = blue"]
        lines += [f"    Max{name.capitalize()} = {limit}" for name, limit in pair.bounds.items()]
        lines += ["SPECIFICATION Spec"]
        words = {"invariant": "INVARIANT", "step_invariant": "PROPERTY", "constraint": "CONSTRAINT"}
        lines += [f"{words.get(claim.kind, 'ACTION_CONSTRAINT')} {name}" for name, claim in named(pair)]
        lines += [f"PROPERTY Formula{number}" for number in range(len(pair.formulas))]
        lines += ["SYMMETRY Symm"] if pair.symmetric else []
        lines += ["VIEW View"] if pair.hidden else []
        lines += [f"CHECK_DEADLOCK {str(pair.deadlock).upper()}"]
        return "\n".join(lines) + "\n"


def refuses(pair: Description, send: Send) -> bool:
    """Whether a network may refuse to send."""
    return send.operation == "send_once" or (pair.once and send.message == "Ping")


def _by_field(outcome: Outcome) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for of, name, to in (*outcome.pivot, *outcome.changes):
        if of != "new":
            found.setdefault(name, []).append((of, to.tla))
    return found
