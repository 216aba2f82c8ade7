"""The variants of `prevote`: every seeded fault is caught by the invariant that its configuration names."""

from __future__ import annotations

import pytest

from kraftcheck.catalogue import find_model
from tests.support.kraft_model.faults import Fault
from tests.support.kraft_model.searches import check_fault, fault_configurations

FAULTS = [
    Fault("votes-without-log-comparison", "LeaderCompleteness", 17, None),
    Fault("second-vote-in-epoch", "NoIllegalState", 16, 493_282),
    Fault("clients-not-told", "ValidRolesAndStates", 4, 332),
]


def test_every_variant_has_its_configuration() -> None:
    model = find_model("prevote")
    assert set(model.variants) == {fault.variant for fault in FAULTS}
    assert fault_configurations(model) == {f"fault.{fault.variant}" for fault in FAULTS}


@pytest.mark.kernel
@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=fault.variant, marks=[pytest.mark.slow] * (fault.length > 9)) for fault in FAULTS],
)
def test_a_fault_is_caught(fault: Fault) -> None:
    check_fault("prevote", fault)
