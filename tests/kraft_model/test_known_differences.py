"""Kafka's known differences change what the model does, never what its properties say of that."""

from __future__ import annotations

import re
from inspect import getsource
from types import FunctionType

import pytest

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.variants.kafka import known_difference_classes_by_name, with_known_kafka_differences
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.language.declarations import Property
from tests.support.kraft_model.faults import QUORUM_FAULTS, QUORUM_READINGS, Fault
from tests.support.kraft_model.searches import search

KNOWN = known_difference_classes_by_name() | known_difference_classes_by_name(disk=True)
CONFIGS = ("lockstep", "lockstep-changes", "lockstep-upgrade")
UNLISTED = {"NobodyFails", "NewVotersHaveCaughtUp", "SuccessorsHoldWhatIsCommitted"}
"""Why walks beside Kafka do not look at these is in docs/kafka.md."""


NEAR = 9
"""States of counterexamples that are sought; beside all differences a search is much larger."""

AMBIGUOUS = "voters-are-written-again"
"""With it, a step of some named starts has two outcomes."""


def looked_at() -> list[Property]:
    """Return the properties that walks beside Kafka can look at: all but contracts, which say what the KIPs do."""
    return [p for p in Quorum.properties.values() if p.kind.endswith("invariant") and not p.of_actor]


def asked_by_properties() -> set[str]:
    """Return the methods that are properties and projections, and what these call of the protocol, directly or not."""
    functions = [prop.function for prop in looked_at()]
    functions += [read.function for prop in looked_at() for read in prop.reads]
    found, left = set[str](), [function.__name__ for function in functions]
    while left:
        name = left.pop()
        method = getattr(Quorum, name, None)
        if name not in found and isinstance(method, FunctionType):
            found.add(name)
            left += re.findall(r"\bself\.(\w+)", getsource(method))
    return found


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_difference_changes_no_property(name: str) -> None:
    own = [kind for kind in KNOWN[name].__mro__ if kind not in Quorum.__mro__]
    changed = {method for kind in own for method in vars(kind) if not method.startswith("__")}
    assert changed, "it changes nothing"
    assert changed & asked_by_properties() == set()


def test_what_properties_ask_is_found() -> None:
    assert {"told_is_kept", "is_kept", "voter_sets", "held", "is_voter"} <= asked_by_properties()
    assert "update_error" not in asked_by_properties()


@pytest.mark.parametrize("config", CONFIGS)
def test_walks_beside_kafka_look_at_every_property(config: str) -> None:
    model = find_model("quorum")
    bound = bind(model.protocol, find_config_name_and_content(model, config)[1])
    missing = {prop.name for prop in looked_at()} - {prop.name for prop in bound.properties}
    watches = () if bound.protocol.watch_answers else ("ToldIsKept", "AnswersAreTrue", "DescriptionsAreTrue")  # type: ignore[attr-defined]
    assert missing == UNLISTED | set(watches)


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", [pytest.param(one, id=one.variant) for one in QUORUM_READINGS + QUORUM_FAULTS if one.length <= NEAR]
)
def test_known_differences_together_hide_no_fault(fault: Fault) -> None:
    found = find_model("quorum", fault.variant)
    assert issubclass(found.protocol, Quorum)
    kind = with_known_kafka_differences(found.protocol, without=[AMBIGUOUS])
    given = bind(kind, find_config_name_and_content(found, found.own_configuration)[1])
    assert [one.property for one in search(given, max_depth=fault.length + 2).violations] == [fault.property]
