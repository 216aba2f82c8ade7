"""Properties that no seeded fault breaks can fail all the same: each notices a mutant."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.jobs import job_of
from kraftcheck.mutation.functions import changeable_functions, changeable_modules
from kraftcheck.mutation.judging import KILLED, Judge, Verdict
from kraftcheck.mutation.mutants import mutants_of
from kraftcheck.mutation.recording import record
from tests.support.kraft_model.mutants import NOTICED, Noticed

pytestmark = pytest.mark.kernel

LIMIT = 8_000
"""Distinct states within which each mutant is noticed."""


def verdict(model_name: str, prop: str, noticed: Noticed) -> Verdict:
    """Return what becomes of a mutant where one property alone is checked."""
    model = find_model(model_name)
    modules = changeable_modules(model, model.protocol)
    functions = changeable_functions(model.protocol, modules)
    (mutant,) = [one for one in mutants_of(functions, modules) if one.name == noticed.mutant]
    job = job_of(model, noticed.config, argparse.Namespace(set=[], engine=None, max_states=LIMIT, workers=1))
    (checked,) = [one for one in job.options.properties if one.name == prop]
    job = job._replace(options=replace(job.options, properties=(checked,)))
    return Judge([record(job, {str(one.source.path) for one in functions})], modules).judge(mutant)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "prop", "noticed"),
    [
        pytest.param(model, prop, noticed, id=f"{model}: {prop}")
        for model, properties in NOTICED.items()
        for prop, noticed in properties.items()
    ],
)
def test_a_property_notices_a_mutant(model: str, prop: str, noticed: Noticed) -> None:
    found = verdict(model, prop, noticed)
    assert (found.verdict, found.by) == (KILLED, prop)
