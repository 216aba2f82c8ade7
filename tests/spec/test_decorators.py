"""A decorated method that would not be checked is refused, or warned of."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.spec import (
    Protocol,
    ProtocolError,
    Record,
    Step,
    constraint,
    internal,
    invariant,
    on,
    predicate,
    step_invariant,
)
from tests.support.command_line import Run


class Node(Record):
    id: int = 0


class Nothing(Record):
    pass


class Base(Protocol):
    def initial(self) -> Any:
        yield self.start([Node()], Nothing())

    @internal
    def stay(self, me: Node) -> Any:
        yield Step(me)

    @invariant
    def fine(self, me: Node) -> bool:
        return True


def other(self: Any, me: Node) -> bool:
    return False


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"other": staticmethod(invariant(other))}, "Bad.other: expected a method, found a staticmethod of one"),
        ({"other": classmethod(invariant(other))}, "Bad.other: expected a method, found a classmethod of one"),
        ({"other": property(invariant(other))}, "Bad.other: expected a method, found a property of one"),
        ({"other": functools.partialmethod(invariant(other))}, "found a partialmethod of one"),
        ({"other": functools.cache(invariant(other))}, "Bad.other: @invariant: expected a method, found <functools"),
        ({"fine": 5}, "Bad.fine: @invariant: expected a method, found 5"),
        ({"stay": property(other)}, "Bad.stay: @internal: expected a method, found <property"),
    ],
)
def test_an_object_in_place_of_a_method_is_refused(attributes: dict[str, Any], says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        type("Bad", (Base,), attributes)


def test_two_decorators_are_refused() -> None:
    for first, second in ((invariant, constraint), (invariant, predicate), (on(Node), internal), (invariant, internal)):

        def method(self: Any, me: Node, message: Node) -> bool:
            return False

        with pytest.raises(ProtocolError, match="expected one decorator, found @"):
            second(first(method))  # type: ignore[arg-type, operator]


def test_two_types_of_message_need_one_decorator() -> None:
    with pytest.raises(ProtocolError, match=r"expected one @on, as @on\(First, Second\)"):
        on(Node)(on(Nothing)(lambda self, me, message: iter(())))


def test_none_removes_a_method_for_later_classes_too() -> None:
    class Off(Base):
        fine = None  # type: ignore[assignment]

    class Helper(Off):
        def fine(self, number: int) -> bool:  # type: ignore[override]
            return number > 0

    assert Helper.properties == {}
    assert type("Bound", (Off,), {"fine": constraint(lambda self, me: True)}).properties["Fine"].kind == "constraint"


def test_an_override_of_another_kind_is_refused() -> None:
    for kind in (constraint, internal, predicate):
        with pytest.raises(ProtocolError, match=f"@{kind.__name__} overrides @invariant; choose another name"):
            type("Bad", (Base,), {"fine": kind(lambda self, me: True)})  # type: ignore[operator]


def test_an_override_may_be_another_property_or_none() -> None:
    class Less(Base):
        stay = fine = None  # type: ignore[assignment]

    @step_invariant
    def fine(self: Any, before: Node, after: Node) -> bool:
        return True

    assert (Less.actions, Less.properties) == ({}, {})
    assert type("Other", (Base,), {"fine": fine}).properties["Fine"].kind == "step_invariant"


def test_a_property_outside_of_a_class_is_warned_of(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "outside.py"
    path.write_text(
        "from kraftcheck import *\n"
        "class Node(Record):\n    id: int\n"
        "class Sh(Record):\n    y: int = 0\n"
        "class P(Protocol):\n"
        "    def initial(self):\n        yield self.start([Node(1)], Sh())\n"
        "    @internal\n    def stay(self, me: Node, shared: Sh):\n        yield become(me).put(y=shared.y)\n"
        "@invariant\ndef low(self, me: Node):\n    return False\n"
    )
    done = run("check", f"{path}:P", "--strict")
    assert done.code == 20, done
    assert "outside.py:13: low is in no class, so @invariant has no effect" in done.out
    path.write_text(f"{path.read_text()}class Q(P):\n    low = low\n")
    assert "is in no class" not in run("check", f"{path}:Q").out
