"""From a configuration to a protocol: what is taken, and what is said about what is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraftcheck.spec import (
    ConstantError,
    InputError,
    ModelValue,
    Protocol,
    Record,
    State,
    Steps,
    Symbol,
    action_constraint,
    become,
    bound,
    constant,
    constraint,
    hide,
    internal,
    invariant,
    reachable,
    step_invariant,
    weak,
)
from kraftcheck.spec.cfg.binding import bind, bind_constants, with_assignments
from kraftcheck.spec.cfg.config import parse_config, parse_setting
from kraftcheck.spec.language.semantics import Take, scenario, take


class Mode(Symbol):
    EAGER = "Eager"
    LAZY = "Lazy"


class Role(Symbol):
    LEADER = "Leader"
    NIL = "Nil"


class Clock(Record):
    id: ModelValue
    time: int = 0


class Nothing(Record):
    pass


class Clocks(Protocol):
    hosts: frozenset[ModelValue] = constant("Hosts")
    size: int = constant("Size", at_least=1)
    label: str = constant("Label", default="none")
    strict: bool = constant("Strict", default=False)
    mode: Mode | Role = constant("Mode", default=Mode.EAGER)
    ticks: int = bound("MaxTicks")

    symbols = (Mode, Role)
    symmetries = {"symmHosts": ("hosts",)}
    views = {"view": hide("ticks")}
    specifications = {"Spec": False, "FairTick": (weak("Tick"),), "Unsaid": True}
    accepted_constants = ("Unused",)

    def check_constants(self) -> None:
        if self.size > len(self.hosts):
            raise ConstantError("Size", f"expected at most {len(self.hosts)}, the number of Hosts, found {self.size}")
        if self.label == "bad":
            raise ConstantError("Label", "must not be bad")

    def initial(self) -> Iterator[State]:
        yield self.start([Clock(host) for host in self.hosts], Nothing())

    @internal
    def tick(self, me: Clock) -> Steps:
        yield become(me.but(time=me.time + 1)).spend("ticks")

    @invariant
    def never_late(self, me: Clock) -> bool:
        return me.time < 100

    @constraint
    def early(self, me: Clock) -> bool:
        return me.time < 10

    @step_invariant
    def forward(self, before: Clock, after: Clock) -> bool:
        return before.time < after.time

    @reachable
    def can_tick(self, me: Clock) -> bool:
        return me.time > 0

    @action_constraint
    def slow(self, before: Clock, after: Clock) -> bool:
        return after.time - before.time == 1

    @scenario
    def one_tick(self) -> Iterator[Take]:
        yield take("Tick")


CONSTANTS = "CONSTANTS Hosts = {n1, n2} Size = 2 MaxTicks = 3\n"


def names(properties: tuple[Any, ...]) -> list[str]:
    return [prop.name for prop in properties]


def error_of(text: str, *settings: str) -> str:
    config = parse_config(text, "clocks.cfg")
    with pytest.raises(InputError) as caught:
        bind(Clocks, with_assignments(config, [parse_setting(setting, config) for setting in settings]))
    return str(caught.value)


# What is taken


def test_everything_a_configuration_can_name() -> None:
    bound_to = bind(
        Clocks,
        parse_config(
            CONSTANTS + "INIT OneTick NEXT Next INVARIANT NeverLate PROPERTIES CanTick Forward CONSTRAINT Early "
            "ACTION_CONSTRAINT Slow SYMMETRY symmHosts VIEW view CHECK_DEADLOCK FALSE",
            "clocks.cfg",
        ),
    )
    assert bound_to.protocol.constant_values() == {
        "Hosts": frozenset({ModelValue("n1"), ModelValue("n2")}),
        "Size": 2,
        "Label": "none",
        "Strict": False,
        "Mode": Mode.EAGER,
        "MaxTicks": 3,
    }
    assert names(bound_to.properties) == ["NeverLate", "Forward"]
    assert names(bound_to.constraints) == ["Early"]
    assert names(bound_to.action_constraints) == ["Slow"]
    assert names(bound_to.reachable) == ["CanTick"]
    assert bound_to[4:8] == (False, "symmHosts", "view", "OneTick")


def test_what_a_configuration_need_not_say() -> None:
    bound_to = bind(Clocks, parse_config(CONSTANTS, "clocks.cfg"))
    assert bound_to[1:] == ((), (), (), True, None, None, "Init", (), (), ())


def test_specification_without_fairness_is_init_and_next() -> None:
    assert bind(Clocks, parse_config(CONSTANTS + "SPECIFICATION Spec", "clocks.cfg")).init == "Init"


@pytest.mark.parametrize(
    ("extra", "values"),
    [
        ('Label = "x" Strict = TRUE', {"Label": "x", "Strict": True}),
        ("Mode = Lazy", {"Mode": Mode.LAZY}),  # a name that is a symbol of the constant's type is that symbol
        ("Mode = Nil", {"Mode": Role.NIL}),
        ("Leader = Leader Lazy = Lazy", {}),
        ("n1 = n1 n2 = n2 n3 = n3", {}),
        ("Unused = 7", {}),
        ("Unused <- Other", {}),
    ],
)
def test_constants(extra: str, values: dict[str, Any]) -> None:
    found = bind_constants(Clocks, parse_config(CONSTANTS + extra, "clocks.cfg")).constant_values()
    assert {name: found[name] for name in values} == values


def test_a_state_predicate_may_serve_as_invariant_and_as_constraint() -> None:
    found = bind(Clocks, parse_config(CONSTANTS + "INVARIANT Early CONSTRAINT NeverLate", "clocks.cfg"))
    assert (names(found.properties), names(found.constraints)) == (["Early"], ["NeverLate"])


def test_a_setting_wins() -> None:
    config = parse_config(CONSTANTS, "clocks.cfg")
    found = bind(Clocks, with_assignments(config, [parse_setting("MaxTicks=9", config)]))
    assert found.protocol.bounds == {"ticks": 9}


# What is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MaxTick = 1", "clocks.cfg:2:1: unknown constant MaxTick (perhaps MaxTicks?); Clocks has MaxTicks, "),
        ("Foo = bar", "clocks.cfg:2:1: unknown constant Foo; Clocks has Hosts, Size, Label, Strict, Mode, MaxTicks"),
        ("Leader = n1", "2:1: Leader is a name of Clocks itself: expected Leader = Leader, found Leader = n1"),
        ("Leader = {n1, n2}", "found Leader = {n1, n2}"),
        ("n1 = n2", "clocks.cfg:2:1: n1 is a model value here: expected n1 = n1, found n1 = n2"),
        ("Strict = 1", "clocks.cfg:2:1: constant Strict: expected TRUE or FALSE, found a number, 1"),
        ("Label = x", "clocks.cfg:2:1: constant Label: expected a string, found a model value, x"),
        ('Label = "bad"', "clocks.cfg:2:1: constant Label: must not be bad"),
        ("Mode = Slow", "clocks.cfg:2:1: constant Mode: expected a Mode or a Role, found a model value, Slow"),
        ("Label <- Other", "clocks.cfg:2:10: Label <- Other: Clocks has no operators to replace; expected NAME = "),
        ("Label <- Other", "or Label among `accepted_constants`"),
    ],
)
def test_constant_that_does_not_fit(text: str, message: str) -> None:
    assert message in error_of(CONSTANTS + text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["MaxTicks=-1"], "--set MaxTicks: constant MaxTicks: expected a number of at least 0, found -1"),
        (["MaxTicks={n1}"], "--set MaxTicks: constant MaxTicks: expected a number, found the set {n1}"),
        (["Size=3"], "--set Size: constant Size: expected at most 2, the number of Hosts, found 3"),
        (["Hosts=2"], "--set Hosts: constant Hosts: expected a set of model values, found a number, 2"),
        (["Hosts={1}"], "--set Hosts: constant Hosts: an element of Hosts: expected a model value, found a number, 1"),
        (["Hosts={n1}"], "clocks.cfg:1:28: constant Size: expected at most 1, the number of Hosts, found 2"),
        (["Sizes=3"], "--set Sizes: unknown constant Sizes (perhaps Size?)"),
    ],
)
def test_setting_that_does_not_fit(settings: list[str], message: str) -> None:
    assert error_of(CONSTANTS, *settings).startswith(message)


def test_missing_constants_are_all_named() -> None:
    assert error_of("CONSTANT Size = 1") == (
        "clocks.cfg: constants not given a value; expected Hosts = a set of model values, MaxTicks = a number "
        "(0 rules its steps out) (in the .cfg, by --set, or as default=)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INVARIANT NeverLat", "2:11: unknown invariant NeverLat (perhaps NeverLate?); Clocks has NeverLate"),
        ("INVARIANT Forward", "2:11: Forward is about steps, so it is no invariant; name it under PROPERTY"),
        ("CONSTRAINT Earl", "2:12: unknown constraint Earl (perhaps Early?); Clocks has Early"),
        ("CONSTRAINT Slow", "2:12: Slow is about steps, so it is no constraint"),
        ("ACTION_CONSTRAINT Early", "2:19: Early is about states, so it is no action constraint"),
        ("ACTION_CONSTRAINT Fast", "2:19: unknown action constraint Fast; Clocks has Slow"),
        ("SYMMETRY symm", "2:10: unknown symmetry symm; Clocks has symmHosts"),
        ("VIEW wiew", "2:6: unknown view wiew (perhaps view?); Clocks has view"),
        ("INIT OneTock", "2:6: unknown start OneTock (perhaps OneTick?); Clocks has OneTick, Init"),
        ("NEXT Nxt", "2:6: unknown next-state relation Nxt (perhaps Next?); Clocks has Next"),
        ("SPECIFICATION Spc", "2:15: unknown specification Spc (perhaps Spec?); Clocks has Spec, FairTick, Unsaid"),
        ("SPECIFICATION Unsaid", "2:15: SPECIFICATION Unsaid requires fairness, but Clocks declares none"),
        ("PROPERTY NeverLate", "2:10: NeverLate is about states, so it is no temporal property"),
        (
            "PROPERTIES Forward Termination",
            "2:20: unknown property Termination; Clocks has Forward, CanTick",
        ),
        (
            "INVARIANT CanTick",
            "2:11: CanTick is a reachability goal, so it is no invariant; name it under PROPERTY",
        ),
        ("CONSTRAINT CanTick", "2:12: CanTick is a reachability goal, so it is no constraint"),
        ("ACTION_CONSTRAINT CanTick", "2:19: CanTick is a reachability goal, so it is no action constraint"),
        ("ALIAS Shown", "2:7: ALIAS Shown is not supported"),
        ("POSTCONDITION Done", "2:15: POSTCONDITION Done is not supported"),
    ],
)
def test_name_that_is_not_known(text: str, message: str) -> None:
    assert f"clocks.cfg:{message}" in error_of(CONSTANTS + text)
