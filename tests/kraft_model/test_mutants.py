"""Properties that no seeded fault breaks can fail all the same: each notices a mutant."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.cli import main
from kraftcheck.jobs import job_of_arguments
from kraftcheck.mutation.baseline import record_baseline
from kraftcheck.mutation.mutants import changeable_functions, changeable_modules, mutants_of
from kraftcheck.mutation.trial import KILLED, MutantRunner, MutantVerdict
from kraftcheck.reporting.mutation import SurvivorExplanations
from tests.support.kraft_model.mutants import NOTICED, Noticed
from tests.support.kraft_model.prevote_mutants import PREVOTE

pytestmark = pytest.mark.kernel

LIMIT = 8_000
"""Distinct states within which each mutant is noticed."""

EXPLANATIONS = Path(__file__).parents[2] / "docs" / "mutation"
SAMPLES = [
    ("registration", "smoke", 60, 90),
    ("recovery", "smoke", 20, 90),
    ("reconfig", "smoke-details", 20, 90),
    ("quorum", "smoke-answers", 20, 80),
]
"""Models, configurations, how many mutants a sample has, and the percents of them that are killed at least."""

WHOLE = [("quorum", 90), ("recovery", 90), ("registration", 90), ("reconfig", 90), ("prevote", 90)]
"""Models, and the percents of their mutants that are killed at least."""

DETAILS = {
    "reconfig": ("smoke-details", "default-details", "joining-details", "competing-details"),
    "prevote": ("smoke-details", "default-details", "growing-details", "disturbed-details"),
}
"""The configurations of models that have properties beyond those of the specification."""


def verdict(model_name: str, prop: str, noticed: Noticed) -> MutantVerdict:
    """Return what becomes of a mutant where one property alone is checked."""
    model = find_model(model_name)
    modules = changeable_modules(model, model.protocol)
    functions = changeable_functions(model.protocol, modules)
    (mutant,) = [one for one in mutants_of(functions, modules) if one.name == noticed.mutant]
    job = job_of_arguments(model, noticed.config, argparse.Namespace(set=[], engine=None, max_states=LIMIT, workers=1))
    (checked,) = [one for one in job.options.properties if one.name == prop]
    job = job._replace(options=replace(job.options, properties=(checked,)))
    return MutantRunner([record_baseline(job, {str(one.source.path) for one in functions}, modules)], modules).judge(
        mutant
    )


CASES = [
    (model, prop, noticed)
    for model, properties in (NOTICED | {"prevote": PREVOTE}).items()
    for prop, noticed in properties.items()
]


@pytest.mark.parametrize(
    ("model", "prop", "noticed"),
    [
        pytest.param(*case, id=": ".join(case[:2]), marks=pytest.mark.exhaustive if number % 5 else pytest.mark.slow)
        for number, case in enumerate(CASES)
    ],
)
def test_a_property_notices_a_mutant(model: str, prop: str, noticed: Noticed) -> None:
    found = verdict(model, prop, noticed)
    assert (found.verdict, found.by) == (KILLED, prop)


# Rates


def rate(tmp_path: Path, *arguments: str) -> float:
    """Return the share, in percent, of the mutants that reach something new which properties kill."""
    path = tmp_path / "mutants.json"
    assert main(["mutate", *arguments, "--json", str(path), "--quiet"]) == 0
    found = json.loads(path.read_text())
    return 100 * float(found["gaining_killed"]) / float(found["gaining"])


@pytest.mark.slow
@pytest.mark.parametrize(("model", "explained"), [("lock-service", []), ("two-phase-commit", ["two-phase-commit.txt"])])
def test_every_survivor_of_the_examples_is_explained(model: str, explained: list[str], tmp_path: Path) -> None:
    why = [word for name in explained for word in ("--explained", str(EXPLANATIONS / name))]
    assert rate(tmp_path, model, "--strict", *why) >= 90


@pytest.mark.slow
@pytest.mark.parametrize(("model", "config", "sample", "least"), SAMPLES)
def test_a_sample_of_fixed_seed_is_killed_as_before(
    model: str, config: str, sample: int, least: int, tmp_path: Path
) -> None:
    limits = ("--sample", str(sample), "--seed", "1", "--max-states", "2000")
    assert rate(tmp_path, model, "--config", config, *limits) >= least


DESIGNS = [
    ("recovery", "registrations", "contract.registrations", "variants."),
    ("recovery", "eligible-leaders", "contract.eligible-leaders", "variants."),
    ("registration", "sessions-tracked", "contract.sessions", "variants."),
    ("quorum", "snapshot-pieces", "contract.snapshot-pieces", "reports."),
    ("quorum", "listeners", "contract.listeners", "reports."),
    ("quorum", "delayed-fetches", "contract.delayed-fetches", "surroundings."),
    ("quorum", "updates-checked", "contract.updates-checked", "coming."),
    ("quorum", "controllers", "contract.controllers", "controllers."),
    ("quorum", "rolled-by-operator", "contract.rolled-by-operator", "rolling."),
    ("recovery", "min-isr-changed", "contract.min-isr-changed", "variants."),
]
"""Models, variants with contracts of their own, their configurations, and the functions that are mutated."""


@pytest.mark.parametrize(
    ("model", "variant", "config", "only"),
    [
        pytest.param(*one, marks=pytest.mark.exhaustive if place else pytest.mark.slow)
        for place, one in enumerate(DESIGNS)
    ],
)
def test_the_mutants_of_a_design_are_killed(model: str, variant: str, config: str, only: str, tmp_path: Path) -> None:
    limits = ("--max-states", "2000" if model == "quorum" else "8000")
    assert rate(tmp_path, model, "--variant", variant, "--config", config, "--only", only, *limits) >= 95


@pytest.mark.exhaustive
@pytest.mark.parametrize(("model", "least"), WHOLE)
def test_the_mutants_of_a_model_are_killed_as_before(model: str, least: int, tmp_path: Path) -> None:
    configs = [word for name in DETAILS.get(model, ()) for word in ("--config", name)]
    assert rate(tmp_path, model, *configs, "--max-states", "3000" if configs else "10000") >= least


@pytest.mark.parametrize("name", ["quorum", "reconfig", "prevote"])
def test_no_slip_changes_a_contract(name: str) -> None:
    """A method of a contract that has the name of something in an action would be changed with it."""
    model = find_model(name)
    changed = changeable_functions(model.protocol, changeable_modules(model, model.protocol))
    assert changed
    places = [{one.source.path.stem, one.source.path.parent.name} for one in changed]
    assert not [place for place in places if place & {"contracts", "own_steps"}]


def test_explanations_are_read() -> None:
    files = sorted(EXPLANATIONS.glob("*.txt"))
    assert {file.stem for file in files} >= {"two-phase-commit", "recovery"}
    for file in files:
        assert SurvivorExplanations(file).unused, file
