"""Each property of a model is put to the test by one of its default configurations at least."""

from __future__ import annotations

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.spec.diagnosis.lint import install_coverage_probes, vacuous_properties
from tests.support.kraft_model.searches import bound, search

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

NOT_ASKED = {
    "recovery": set(),
    "registration": {"RecordsAreUnderstood"},  # of nodes that the model's own rules do not let come: fault.*, finding.*
    "reconfig": set(),
}


@pytest.mark.parametrize("name", NOT_ASKED)
def test_a_default_configuration_asks_every_property(name: str) -> None:
    left: set[str] | None = None
    for config in find_model(name).configurations:
        if config.startswith("default"):
            given = bound(name, config)
            watched = install_coverage_probes(given.protocol, given.properties)
            search(given)
            found = {one.property for one in vacuous_properties(given.protocol, watched)}
            left = found if left is None else left & found
    assert left == NOT_ASKED[name]
