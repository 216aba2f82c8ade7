"""Test a model's properties by mutation: seed one small fault at a time and list the faults that survive.

A mutant is killed by a property or an error. It survives if it changes the behaviour and violates nothing. Other
mutants only remove behaviour, are equivalent in the searched configurations, or are never reached there.

exit codes: 0 done; 1 with --strict, if a mutant survived that --explained does not explain; 2 bad input;
130 interrupted

for example:
    kraftcheck mutate two-phase-commit
    kraftcheck mutate my_protocol.py:MyProtocol --sample 50 --json mutants.json
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from kraftcheck.catalogue import Model, SearchJob, requested_model
from kraftcheck.explorer.result import INTERRUPTED_LIMIT, NOTHING_CHECKED_WARNING
from kraftcheck.jobs import add_options, job_of_arguments, parse_count, parse_seed
from kraftcheck.mutation.baseline import BaselineRun, record_baseline
from kraftcheck.mutation.mutants import (
    Mutant,
    changeable_functions,
    changeable_modules,
    disabled_cached_properties,
    mutants_of,
)
from kraftcheck.mutation.trial import SURVIVED, MutantRunner, MutantVerdict
from kraftcheck.mutation.workers import MutantWorkers, VerdictFolder, identity_of_mutation_run, judge_mutants
from kraftcheck.processes import EXIT_INTERRUPTED, default_worker_count
from kraftcheck.reporting.lines import (
    FAINT,
    HEAD,
    PLAIN,
    Line,
    ProgressMeter,
    count_with_noun,
    print_lines,
    print_warnings,
)
from kraftcheck.reporting.mutation import SurvivorExplanations, mutation_report_as_json, mutation_report_lines
from kraftcheck.reporting.output import OutputFiles
from kraftcheck.spec.errors import InputError

DEFAULT_MOST_STATES = 100_000
"""Default limit on distinct states of a configuration."""

MUTANT_SECONDS = 600.0
"""Default time limit of a mutant, in seconds."""

MUTATION_ENGINES = ("tables", "reference")
"""Engines that search in the mutant's process, call its functions, and have a limit on states."""

SHIPPED_CONFIG_PATTERNS = ("smoke*", "default*")
"""Default configurations for the mutants of a shipped model."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "model")
    checked = parser.add_argument_group("model and properties")
    config = "a .cfg file, or one of the model's, * for any (repeatable; default: smoke* and default*)"
    add_options(checked, "--config", action="append", help=config)
    add_options(checked, "--set", "--variant")
    which = parser.add_argument_group("choice of mutants")
    which.add_argument("--sample", type=parse_count, metavar="N", help="only N mutants, chosen by --seed")
    which.add_argument("--seed", type=parse_seed, default=0, metavar="N", help="seed of the sample (default: 0)")
    only = "only mutants whose name contains this (repeatable)"
    which.add_argument("--only", action="append", default=[], metavar="TEXT", help=only)
    how = parser.add_argument_group("search")
    engines = f"{' or '.join(MUTATION_ENGINES)} (default: {MUTATION_ENGINES[0]})"
    add_options(how, "--engine", choices=MUTATION_ENGINES, help=engines)
    add_options(how, "--workers", help="processes (default: one for each processor)", dest="processes", default=None)
    stop = parser.add_argument_group("limits")
    add_options(stop, "--max-states", help=f"distinct states per configuration (default: {DEFAULT_MOST_STATES:,})")
    add_options(stop, "--max-depth")
    limit = f"time limit per mutant (default: {MUTANT_SECONDS:.0f}); a mutant beyond it counts as killed by an error"
    add_options(stop, "--time-limit", help=limit, dest="seconds", default=MUTANT_SECONDS)
    going = parser.add_argument_group("checkpoints")
    kept = "folder for the verdicts; the same command resumes from there"
    add_options(going, "--checkpoint", help=kept, dest="folder", default=None)
    files = parser.add_argument_group("output")
    explained = "explanations of survivors: the name of a mutant, and indented below it the reason"
    files.add_argument("--explained", type=Path, metavar="FILE", help=explained)
    files.add_argument("--strict", action="store_true", help="exit with 1 if a mutant survived without an explanation")
    add_options(files, "--json")
    add_options(files, "--quiet", help="print only the table and the survivors")


def run(arguments: argparse.Namespace) -> int:
    with requested_model(arguments) as model, OutputFiles(arguments, "json") as files:
        explanations = SurvivorExplanations(arguments.explained)
        jobs = [
            _job_with_limits(model, config, arguments) for config in _chosen_configurations(model, arguments.config)
        ]
        modules = changeable_modules(model, model.protocol)
        functions = changeable_functions(model.protocol, modules)
        mutants = _chosen_mutants(list(mutants_of(functions, modules)), arguments)
        if not arguments.quiet:
            print_lines(_header_lines(model, jobs, mutants))
        print_warnings(f"{job.config_name}: {NOTHING_CHECKED_WARNING}" for job in jobs if job.options.checks_nothing)
        changed = {function.function.__code__.co_filename for function in functions}
        baselines, verdicts = _record_baselines_and_judge_mutants(jobs, modules, changed, mutants, arguments)
        judged = [(mutant, verdicts[mutant.name]) for mutant in mutants if mutant.name in verdicts]
        is_whole = len(judged) == len(mutants)
        about = {
            "model": model.name,
            "variant": model.protocol.variant,
            "configurations": _baselines_as_json(baselines),
            **_completeness_as_json(len(mutants), is_whole=is_whole),
        }
        files.json(lambda: mutation_report_as_json(judged, explanations, about))
        print_lines(mutation_report_lines(judged, explanations, quiet=arguments.quiet, is_whole=is_whole))
    if not is_whole:
        print_lines(_interruption_lines(arguments, len(judged), len(mutants)))
        return EXIT_INTERRUPTED
    survived = [mutant for mutant, verdict in judged if verdict.verdict == SURVIVED]
    return int(arguments.strict and not all(map(explanations.of, survived)))


def _record_baselines_and_judge_mutants(
    jobs: list[SearchJob],
    modules: list[ModuleType],
    files: set[str],
    mutants: list[Mutant],
    arguments: argparse.Namespace,
) -> tuple[list[BaselineRun], dict[str, MutantVerdict]]:
    """Return the baselines of the model, and the verdict on each mutant; those so far if interrupted."""
    folder = arguments.folder
    in_folder = nullcontext() if folder is None else VerdictFolder(folder, identity_of_mutation_run(jobs))
    with disabled_cached_properties(modules), in_folder as kept:
        try:
            baselines = _record_baselines(jobs, files, modules, arguments)
        except KeyboardInterrupt:
            return [], {}
        processes = arguments.processes or default_worker_count()
        workers = MutantWorkers(MutantRunner(baselines, modules), processes, arguments.seconds)
        with ProgressMeter(f"of {len(mutants):,} mutants", quiet=arguments.quiet) as meter:
            return baselines, judge_mutants(workers, mutants, kept, meter.reach)


def _chosen_configurations(model: Model, chosen: list[str]) -> Iterator[str | None]:
    """Yield the chosen configurations without duplicates."""
    known = model.configurations
    patterns = chosen or ([] if model.file is not None else list(SHIPPED_CONFIG_PATTERNS))
    if not patterns:
        yield None
    names: list[str] = []
    for pattern in patterns:
        names += [name for name in known if fnmatchcase(name, pattern)] if "*" in pattern else [pattern]
        if not names:
            raise InputError(f"--config {pattern}: no such configuration; {model.name} has {', '.join(known)}")
    yield from dict.fromkeys(names)


def _job_with_limits(model: Model, config: str | None, arguments: argparse.Namespace) -> SearchJob:
    """Return the job of a configuration; every mutant has the same limits."""
    job = job_of_arguments(model, config, arguments)
    most = job.options.max_states or DEFAULT_MOST_STATES
    return job._replace(options=replace(job.options, max_states=most, workers=None if job.engine != "tables" else 1))


def _chosen_mutants(mutants: list[Mutant], arguments: argparse.Namespace) -> list[Mutant]:
    """Return the mutants to test: all, those whose name matches, or a sample that is independent of line numbers."""
    named = [one for one in mutants if not arguments.only or any(text in one.name for text in arguments.only)]
    if not named:
        of_that_name = " of that name" if arguments.only else ""
        raise InputError(f"{arguments.model}: no mutants{of_that_name}")
    if arguments.sample is None:
        return named
    drawn = sorted(named, key=lambda one: blake2b(f"{arguments.seed}/{one.name}".encode()).digest())
    return [mutant for mutant in named if mutant in drawn[: arguments.sample]]


def _record_baselines(
    jobs: list[SearchJob], files: set[str], modules: list[ModuleType], arguments: argparse.Namespace
) -> list[BaselineRun]:
    """Return the baseline of each configuration; raise InputError if the unchanged model violates a property."""
    found: list[BaselineRun] = []
    with ProgressMeter(quiet=arguments.quiet) as meter:
        for job in jobs:
            baseline = record_baseline(job, files, modules, meter.show)
            result = baseline.result
            if result.violations:
                names = ", ".join(violation.property for violation in result.violations)
                asked = "" if job.config_name == "none" else f" --config {job.config_name}"
                raise InputError(
                    f"{job.config_name}: {names} is violated without a mutation; choose a configuration in which all"
                    f" properties hold (kraftcheck check {job.model.name}{asked})"
                )
            found.append(baseline)
    return found


def _header_lines(model: Model, jobs: list[SearchJob], mutants: Iterable[Mutant]) -> Iterator[Line]:
    mutants = list(mutants)
    functions = len({mutant.changed.function for mutant in mutants})
    variant = f" ({model.protocol.variant})" if model.protocol.variant else ""
    what = f"{count_with_noun(len(mutants), 'mutant')} of {count_with_noun(functions, 'function')}"
    yield [(HEAD, f"{model.name}{variant}"), (PLAIN, f", {what}, at most {jobs[0].options.max_states:,} states")]
    yield [(FAINT, f"configurations: {', '.join(job.config_name for job in jobs)}")]
    yield []


def _baselines_as_json(baselines: Iterable[BaselineRun]) -> dict[str, Any]:
    return {
        one.job.config_name: {"distinct_states": one.result.distinct_states, "complete": one.result.complete}
        for one in baselines
    }


def _completeness_as_json(chosen: int, *, is_whole: bool) -> dict[str, Any]:
    result, limit = ("ok", None) if is_whole else ("incomplete", INTERRUPTED_LIMIT)
    return {"result": result, "limit": limit, "chosen": chosen}


def _interruption_lines(arguments: argparse.Namespace, judged: int, chosen: int) -> Iterator[Line]:
    yield [(PLAIN, f"interrupted: {judged:,} of {count_with_noun(chosen, 'mutant')} judged")]
    if arguments.folder is not None:
        yield [(PLAIN, f"To go on: kraftcheck {shlex.join(arguments.words)}")]
    else:
        yield [(PLAIN, "No verdicts were saved; with --checkpoint DIR the same command can resume")]
