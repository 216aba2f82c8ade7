"""`quorum`: every seeded fault, and every unsafe reading, is caught by the property that its configuration names."""

from __future__ import annotations

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.cli import main
from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.spec.discovery import first_docstring_sentence
from tests.support.kraft_model.faults import QUORUM_FAULTS, QUORUM_READINGS, Fault
from tests.support.kraft_model.mutants import NOTICED
from tests.support.kraft_model.searches import check_fault, fault_configurations

pytestmark = pytest.mark.kernel

MODEL = "quorum"


@pytest.mark.slow
@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.variant) for fault in QUORUM_READINGS + QUORUM_FAULTS])
def test_a_fault_is_caught_by_the_property_that_its_configuration_names(fault: Fault) -> None:
    check_fault(MODEL, fault)


def test_every_fault_is_described_tested_and_configured() -> None:
    model = find_model(MODEL)
    assert fault_configurations(model) == {f"fault.{fault.variant}" for fault in QUORUM_FAULTS}
    named = {name for name, variant in model.variants.items() if variant.configuration is None}
    assert named == {fault.variant for fault in QUORUM_FAULTS}
    for name, variant in model.variants.items():
        assert first_docstring_sentence(variant).endswith("."), name
        assert len(first_docstring_sentence(variant)) <= 140, name


def test_every_property_is_broken_by_a_fault_or_a_reading() -> None:
    """Or by a mutant (`test_mutants`)."""
    checked = {prop.name for prop in Quorum.properties.values() if prop.kind.endswith("invariant")}
    assert {fault.property for fault in QUORUM_READINGS + QUORUM_FAULTS} == checked - set(NOTICED[MODEL])


@pytest.mark.slow
def test_only_fetches_in_pieces_show_a_high_watermark_beyond_the_log() -> None:
    """Where every answer carries the whole log, no high watermark is beyond it; the configurations set FetchLimit."""
    own = "fault.high-watermark-beyond-log"
    whole = ["check", MODEL, "--variant", "high-watermark-beyond-log", "--config", own, "--set", "FetchLimit=0"]
    assert main([*whole, "--quiet"]) == 0
    assert main([*whole[:-2], "--quiet"]) == 12


@pytest.mark.parametrize("fault", [pytest.param(fault, id=fault.variant) for fault in QUORUM_READINGS + QUORUM_FAULTS])
def test_a_configuration_says_what_it_shows(fault: Fault) -> None:
    own = find_model(MODEL, fault.variant).own_configuration
    assert own is not None
    about = find_model(MODEL).configurations[own].about
    assert f"Variant {fault.variant} violates {fault.property} in a trace of {fault.length} states" in about
    if fault.base is not None:
        assert f"without it all {fault.base:,} states satisfy it." in about
