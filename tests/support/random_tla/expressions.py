"""Expressions written twice: as TLA+ and as Python."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple


class Twice(NamedTuple):
    """The text of an expression in both languages."""

    tla: str
    py: str


def twice(text: str) -> Twice:
    """Read `TLA+|Python`; a text without a bar is the same in both languages."""
    tla, bar, py = text.partition("|| ")
    return Twice(tla, py if bar else tla)


@dataclass(frozen=True)
class Kind:
    """A type of fields: its annotation, its constants (the first is the default), next values and tests.

    In next values and tests `$t` is the field, `$k` another value of the kind, `$n` a number, `$p` an id of a
    replica, `$b` a test of something else.
    """

    annotation: str
    values: tuple[str, ...]
    changes: tuple[str, ...]
    tests: tuple[str, ...]


KINDS = {
    "num": Kind(
        "int",
        ("0", "1", "2"),
        (
            "($t + 1) % 3",
            "IF $t < 2 THEN $t + 1 ELSE $t|| min($t + 1, 2)",
            "$n",
            "IF $b THEN $n ELSE $t|| $n if $b else $t",
        ),
        ("$t = $n|| $t == $n", "$t < 2", "$t # $n|| $t != $n", "$t \\in {0, $n}|| $t in (0, $n)"),
    ),
    "flag": Kind(
        "bool",
        ("FALSE|| False", "TRUE|| True"),
        ("~$t|| not $t", "TRUE|| True", "FALSE|| False", "$b"),
        ("$t", "~$t|| not $t", "$t = $k|| $t == $k"),
    ),
    "who": Kind(
        "ModelValue | None",
        ("None",),
        ("$p", "$p", "None", "$k"),
        ("$t = None|| $t is None", "$t # None|| $t is not None", "$t = $p|| $t == $p", "$t # $p|| $t != $p"),
    ),
    "team": Kind(
        "frozenset[ModelValue]",
        ("{}|| frozenset()", "Nodes|| self.nodes"),
        (
            "$t \\cup {$p}|| $t | {$p}",
            "$t \\cup {$p}|| $t | {$p}",
            "$t \\ {$p}|| $t - {$p}",
            "Nodes \\ $t|| self.nodes - $t",
        ),
        (
            "$p \\in $t|| $p in $t",
            "$p \\notin $t|| $p not in $t",
            "Cardinality($t) < 2|| len($t) < 2",
            "Nodes \\subseteq $t|| self.nodes <= $t",
            "\\E x \\in $t : x # $p|| any(x != $p for x in ordered($t))",
        ),
    ),
    "queue": Kind(
        "tuple[int, ...]",
        ("<<>>|| ()", "<<1>>|| (1,)"),
        (
            "IF Len($t) < 2 THEN Append($t, $n) ELSE $t|| (*$t, $n) if len($t) < 2 else $t",
            "IF $t = <<>> THEN $t ELSE Tail($t)|| $t[1:]",
        ),
        (
            "$t = <<>>|| $t == ()",
            "Len($t) < 2|| len($t) < 2",
            "$t # <<>> /\\ $t[1] = $n|| $t != () and $t[0] == $n",
        ),
    ),
    "mark": Kind(
        "Mark",
        ("[num |-> 0, flag |-> FALSE]|| Mark(0, False)", "[num |-> 1, flag |-> TRUE]|| Mark(1, True)"),
        (
            "[$t EXCEPT !.num = (@ + 1) % 3]|| $t.but(num=($t.num + 1) % 3)",
            "[$t EXCEPT !.flag = $b]|| $t.but(flag=$b)",
            "[num |-> $n, flag |-> $b]|| Mark($n, $b)",
        ),
        ("$t.num = $n|| $t.num == $n", "$t.flag", "$t # $k|| $t != $k"),
    ),
    "table": Kind(
        "Map[ModelValue, int]",
        ("[x \\in {} |-> 0]|| Map()", "[x \\in Nodes |-> 0]|| Map({x: 0 for x in self.nodes})"),
        (
            "[x \\in DOMAIN $t \\cup {$p} |-> IF x = $p THEN $n ELSE $t[x]]|| $t.put($p, $n)",
            "[x \\in DOMAIN $t \\ {$p} |-> $t[x]]|| $t.without($p)",
        ),
        (
            "$p \\in DOMAIN $t|| $p in $t",
            "$p \\in DOMAIN $t /\\ $t[$p] = $n|| $p in $t and $t[$p] == $n",
            "\\A x \\in DOMAIN $t : $t[x] < 2|| all(x < 2 for x in $t.values())",
            "DOMAIN $t = {}|| not $t.keys()",
        ),
    ),
    "colour": Kind(
        "Colour",
        ("red|| Colour.RED", "green|| Colour.GREEN", "blue|| Colour.BLUE"),
        ("red|| Colour.RED", "green|| Colour.GREEN", "blue|| Colour.BLUE", "$k"),
        (
            "$t = red|| $t is Colour.RED",
            "$t \\in {red, green}|| $t in (Colour.RED, Colour.GREEN)",
            "$t # $k|| $t != $k",
        ),
    ),
    "word": Kind(
        'Literal["a", "b"]',
        ('"a"', '"b"'),
        ('"a"', '"b"', "$k"),
        ('$t = "a"|| $t == "a"', "$t = $k|| $t == $k"),
    ),
    "nums": Kind(
        "frozenset[int]",
        ("{}|| frozenset()", "{0, 2}|| frozenset({0, 2})"),
        (
            "$t \\cup {$n}|| $t | {$n}",
            "$t \\ {$n}|| $t - {$n}",
            "{x \\in $t : x > 0}|| frozenset(x for x in $t if x > 0)",
        ),
        ("$n \\in $t|| $n in $t", "Cardinality($t) < 2|| len($t) < 2", "$t \\subseteq $k|| $t <= $k"),
    ),
}


@dataclass(frozen=True)
class Scope:
    """What an expression may read: terms with their kinds, and ids of replicas."""

    terms: tuple[tuple[str, Twice], ...] = ()
    ids: tuple[Twice, ...] = ()

    def with_(self, terms: tuple[tuple[str, Twice], ...] = (), ids: tuple[Twice, ...] = ()) -> Scope:
        """Return a scope with more in it."""
        return Scope(self.terms + terms, self.ids + ids)


@dataclass
class Drawer:
    """Draws expressions."""

    random: Random
    _depth: int = field(default=0)

    def value(self, kind: str) -> Twice:
        """Return a constant of a kind."""
        return twice(self.random.choice(KINDS[kind].values))

    def change(self, kind: str, term: Twice, scope: Scope) -> Twice:
        """Return a next value for a field."""
        return self._filled(KINDS[kind].changes, kind, term, scope)

    def test(self, scope: Scope) -> Twice:
        """Return a test of something in scope."""
        if not scope.terms:
            return Twice("TRUE", "True")
        kind, term = self.random.choice(scope.terms)
        return self._filled(KINDS[kind].tests, kind, term, scope)

    def claim(self, scope: Scope) -> Twice:
        """Return a test, or two joined by a connective."""
        one = self.test(scope)
        if self.random.random() < 0.5:
            return one
        other = self.test(scope)
        tla, py = self.random.choice((("({}) \\/ ({})", "({}) or ({})"), ("({}) => ({})", "not ({}) or ({})")))
        return Twice(tla.format(one.tla, other.tla), py.format(one.py, other.py))

    def _filled(self, templates: tuple[str, ...], kind: str, term: Twice, scope: Scope) -> Twice:
        fitting = [one for one in templates if scope.ids or "$p" not in one]
        if self._depth:  # a test in a test or a next value is simple
            fitting = [one for one in fitting if "$b" not in one] or fitting
        if not fitting:
            return term
        template = self.random.choice(fitting)
        chosen: dict[str, Twice] = {}
        self._depth += 1
        for letter in sorted(set(re.findall(r"\$(\w)", template))):
            chosen[letter] = self._chosen(letter, kind, term, scope)
        self._depth -= 1
        tla, py = twice(template)
        return Twice(_fill(tla, {k: v.tla for k, v in chosen.items()}), _fill(py, {k: v.py for k, v in chosen.items()}))

    def _chosen(self, letter: str, kind: str, term: Twice, scope: Scope) -> Twice:
        if letter == "t":
            return term
        if letter == "p":
            return self.random.choice(scope.ids)
        if letter == "b":
            return self.test(scope)
        wanted = "num" if letter == "n" else kind
        known = [one for of, one in scope.terms if of == wanted and one != term]
        return self.random.choice(known) if known and self.random.random() < 0.5 else self.value(wanted)


def _fill(template: str, texts: dict[str, str]) -> str:
    return re.sub(r"\$(\w)", lambda found: _closed(texts[found[1]]), template)


def _closed(text: str) -> str:
    return text if re.fullmatch(r"[\w.\[\]']+|\{\}|\(\)|<<>>|\"\w\"", text) else f"({text})"
