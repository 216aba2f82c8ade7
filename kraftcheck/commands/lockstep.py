"""Run Kafka's own Raft client beside the model, step for step.

exit codes: 0 all walks agree; 1 one differs, or Kafka threw an exception; 12 Kafka's own states violate a property;
2 bad input, or the Java process ended; 130 interrupted

for example:
    kraftcheck lockstep quorum --runs 100 --seed 1
    kraftcheck lockstep quorum --kafka 4.2.0 --kafka 4.3.1 --walk walks/found.txt
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftcheck.jobs import add_options, parse_count, parse_seed
from kraftcheck.lockstep.driver_process import Driver, DriverDied
from kraftcheck.lockstep.walks import DEFAULT_DEPTH, DEFAULT_RUNS
from kraftcheck.reporting.lines import HEAD, ProgressMeter, escape_control_characters, print_lines
from kraftcheck.reporting.lockstep import (
    VerdictCell,
    all_walks_agree_with_model,
    campaign_as_json,
    campaign_as_report_data,
    campaign_report_lines,
    code_coverage_markdown,
    count_walks_by_finding,
    edge_cover_as_json,
    edge_cover_lines,
    lockstep_exit_code,
    verdict_cell,
    verdicts_by_version_table,
    version_change_markdown,
)
from kraftcheck.reporting.output import OutputFiles, convert_write_errors
from kraftcheck.reporting.report import write_report
from kraftcheck.spec.errors import InputError

if TYPE_CHECKING:
    from kraftcheck.lockstep.campaign import LockstepTask, TaskResult
    from kraftcheck.lockstep.version_changes import VersionChanges

EXIT_VIOLATED, EXIT_INTERRUPTED = 12, 130
"""Exit codes: Kafka violates a property; the user interrupted the command."""

NEWEST_KAFKA = "4.3.1"
"""The default version of Kafka."""


class VersionRun(NamedTuple):
    """Results of the lockstep tasks that were started on one version of Kafka."""

    version: str  # as the jars name it
    made: list[TaskResult]  # one for each started task


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "model", help="quorum")
    add_options(parser, "--config", "--set", "--variant")
    kafka = f"a version in Maven Central, from 4.1.0 on, or a folder with Kafka's jars (default: {NEWEST_KAFKA})"
    kafka += "; repeatable: prints a table of walks by version; NAME=VERSION: a replica of one mixed cluster"
    kafka += "; NAME=VERSION:VERSION: its restart takes the next version"
    parser.add_argument("--kafka", action="append", metavar="[NAME=]VERSION|DIR", help=kafka)
    disk = "keep Kafka's log and quorum-state in temporary files instead of memory (from 4.3 on)"
    parser.add_argument("--disk", action="store_true", help=disk)
    walks = parser.add_argument_group("walks")
    runs = f"number of random walks (default: {DEFAULT_RUNS}; with --walk: none)"
    walks.add_argument("--runs", type=parse_count, metavar="N", help=runs)
    depth = f"steps of a walk (default: {DEFAULT_DEPTH}); with --cover steps from the start (default: all)"
    walks.add_argument("--depth", type=parse_count, metavar="N", help=depth)
    walks.add_argument("--seed", type=parse_seed, default=0, metavar="N", help="seed of the random walks (default: 0)")
    walk = "take the walks of these files: walk files, scenarios, or traces (as replay reads them)"
    walks.add_argument("--walk", type=Path, nargs="+", metavar="FILE", help=walk)
    cover = "take every labelled step of a bounded model's state graph (default for --config: smoke)"
    walks.add_argument("--cover", action="store_true", help=cover)
    known = "let the model deviate as Kafka is known to do (docs/kafka.md; default: yes)"
    walks.add_argument("--known", action=argparse.BooleanOptionalAction, default=True, help=known)
    without = "report this known difference: the model does not deviate there (repeatable)"
    walks.add_argument("--without", action="append", default=[], metavar="NAME", help=without)
    walks.add_argument("--go-on", action="store_true", help="go on from Kafka's state after a difference")
    changes = "compare the last --kafka with the last one before it that agrees: findings and classes that changed"
    changes += "; exit code 1 if findings changed, else 0"
    walks.add_argument("--changes", action="store_true", help=changes)
    files = parser.add_argument_group("output")
    out = "write a shortened walk for each kind of finding"
    files.add_argument("--out", type=Path, metavar="DIR", help=out)
    junit = "write the walk with its violation as a Maven project with a JUnit test for Kafka (one walk, one version)"
    files.add_argument("--junit-test", type=Path, metavar="DIR", help=junit)
    logs = "write the logs of Kafka's Raft clients on the first walk, at TRACE, for validate"
    files.add_argument("--logs", type=Path, metavar="DIR", help=logs)
    reach = "write the lines and branches of Kafka's Raft client that the walks covered, by class (with JaCoCo)"
    files.add_argument("--reach", type=Path, metavar="FILE", help=reach)
    report = "write the walks with findings as a page for the browser (.html), or as Markdown (.md)"
    add_options(files, "--report", help=report)
    add_options(files, "--json", "--quiet")


def run(arguments: argparse.Namespace) -> int:
    from kraftcheck.commands._lockstep import lockstep_tasks

    arguments.kafka = versions = _requested_kafka_versions(arguments)
    with OutputFiles(arguments, "json", "reach", "report") as files:
        asked = list(lockstep_tasks(arguments))
        _require_tasks_fit_junit_test(arguments, asked)
        with ProgressMeter("walks", quiet=arguments.quiet) as meter:
            driven = list(
                _run_versions(versions, lambda kafka: _run_tasks_on_version(kafka, asked, arguments, meter, files))
            )
        changed = _changes_between_kafka_versions(driven, asked, versions, arguments)
        _write_json_and_report(driven, asked, files, changed)
        if len(versions) > 1:
            _print_versions_table(driven, asked, versions)
            print("\n".join(("", *version_change_markdown(changed)) if changed else ()), end="\n" if changed else "")
        else:
            _print_findings(driven[0], asked, quiet=arguments.quiet)
        made = [one for kafka in driven for one in kafka.made]
        if changed is not None:
            return int(bool(changed.findings) or not changed.agreed)
        _raise_if_driver_or_all_tasks_failed(driven[-1].made if arguments.changes else made)
    return _exit_code(made)


def _requested_kafka_versions(arguments: argparse.Namespace) -> list[str]:
    """Return the versions of Kafka; those of one mixed cluster as one text."""
    from kraftcheck.lockstep.driver_process import is_mixed_version_text

    given = list(dict.fromkeys(arguments.kafka or [NEWEST_KAFKA]))
    if arguments.changes and (len(given) < 2 or any(map(is_mixed_version_text, given))):
        raise InputError("--changes: expected at least two versions of Kafka, the oldest first; give --kafka twice")
    if not any(map(is_mixed_version_text, given)):
        _require_options_fit_versions(arguments, given)
        return given
    for option in ("disk", "reach", "logs", "junit_test"):
        if getattr(arguments, option):
            name = option.replace("_", "-")
            raise InputError(f"--{name}: not supported with --kafka NAME=VERSION; leave one out")
    return [",".join(given)]


def _require_options_fit_versions(arguments: argparse.Namespace, given: Sequence[str]) -> None:
    for option in ("reach", "logs"):
        if len(given) > 1 and getattr(arguments, option):
            raise InputError(f"--{option}: several versions of Kafka are given; give one")


def _require_tasks_fit_junit_test(arguments: argparse.Namespace, asked: Sequence[LockstepTask]) -> None:
    """Refuse `--junit-test` for more than one walk or version, or with Kafka's log on disk."""
    from kraftcheck.lockstep.junit import refuse_foreign_folder

    if arguments.junit_test is None:
        return
    if len(asked) != 1 or not arguments.walk or len(arguments.kafka) > 1:
        raise InputError("--junit-test: expected one walk and one version of Kafka; give one --walk and one --kafka")
    if arguments.disk:
        raise InputError("--junit-test: not supported with --disk; the test has Kafka's MockLog, so leave --disk out")
    refuse_foreign_folder(arguments.junit_test)


def _run_versions(versions: Sequence[str], drive: Callable[[str], VersionRun]) -> Iterator[VersionRun]:
    """Yield the outcomes on each version; stop at an interruption."""
    for kafka in versions:
        driven = drive(kafka)
        yield driven
        if any(one.interrupted for one in driven.made):
            return


def _run_tasks_on_version(
    kafka: str, tasks: Sequence[LockstepTask], arguments: argparse.Namespace, meter: ProgressMeter, files: OutputFiles
) -> VersionRun:
    """Run all tasks on one version of Kafka, without output: a later error can change a verdict."""
    from kraftcheck.lockstep.campaign import TaskResult, rare_garbage_collection
    from kraftcheck.lockstep.code_coverage import CoverageRecorder
    from kraftcheck.lockstep.driver_process import is_mixed_version_text
    from kraftcheck.lockstep.jars import driver_classpath

    if is_mixed_version_text(kafka):
        return _run_tasks_on_mixed_cluster(kafka, tasks, arguments, meter, files)
    try:
        path = driver_classpath(kafka, disk=arguments.disk)
        reach = CoverageRecorder(path) if arguments.reach else None
        options = path.options if reach is None else reach.options
        driving = Driver(path.java, path.text, options, disk=arguments.disk)
    except InputError as problem:
        return VersionRun(kafka, [TaskResult(problem=problem)] * len(tasks))
    driven = VersionRun(path.version, [])
    with reach or nullcontext():
        with driving as driver, rare_garbage_collection():
            driver.logs = None if arguments.logs is None else str(_make_log_folder(arguments.logs))
            driven.made.extend(_run_tasks(driver, path.version, tasks, arguments, meter, files))
        if reach is not None and not driver.died:
            files.lines("reach", lambda: code_coverage_markdown(reach.classes()))
    return driven


def _run_tasks_on_mixed_cluster(
    kafka: str, tasks: Sequence[LockstepTask], arguments: argparse.Namespace, meter: ProgressMeter, files: OutputFiles
) -> VersionRun:
    """Run all tasks on one cluster of several versions of Kafka."""
    from kraftcheck.lockstep.campaign import TaskResult, rare_garbage_collection
    from kraftcheck.lockstep.driver_process import start_mixed_version_driver

    try:
        driving = start_mixed_version_driver(kafka, NEWEST_KAFKA)
    except InputError as problem:
        return VersionRun(kafka, [TaskResult(problem=problem)] * len(tasks))
    with driving as driver, rare_garbage_collection():
        return VersionRun(kafka, list(_run_tasks(driver, kafka, tasks, arguments, meter, files)))


def _make_log_folder(folder: Path) -> Path:
    """Return a new or an empty folder for logs."""
    with convert_write_errors("--logs", folder):
        folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InputError(f"--logs {folder}: expected an empty folder, found files in it; give another one")
    return folder.resolve()


def _run_tasks(
    driver: Driver,
    version: str,
    tasks: Sequence[LockstepTask],
    arguments: argparse.Namespace,
    meter: ProgressMeter,
    files: OutputFiles,
) -> Iterator[TaskResult]:
    """Yield the outcome of each task; stop at an interruption or at the end of the Java process."""
    from kraftcheck.lockstep.campaign import run_task

    for number, task in enumerate(tasks, start=1):
        made = run_task(driver, task, arguments, meter.add)
        if arguments.out:
            several = {version: len(arguments.kafka) > 1, str(number): len(tasks) > 1}
            folder = arguments.out.joinpath(*(name for name, needed in several.items() if needed))
            made = _write_walk_files(made, folder, files)
        if arguments.junit_test and made.campaign is not None and driver.died is None:
            _write_junit_project(driver, made, version, arguments, files)
        yield made if driver.died is None else made._replace(problem=driver.died)
        if driver.died or made.interrupted:
            return


def _write_junit_project(
    driver: Driver, made: TaskResult, version: str, arguments: argparse.Namespace, files: OutputFiles
) -> None:
    from kraftcheck.lockstep.junit import write_junit_project

    assert made.campaign is not None
    with files.of("--junit-test", arguments.junit_test):
        write_junit_project(driver, made.campaign, arguments.walk[0].stem, version, arguments.junit_test)


def _write_walk_files(made: TaskResult, folder: Path, files: OutputFiles) -> TaskResult:
    """Write the walks with findings to files; return the task's result with the paths of these files."""
    if made.campaign is None or not made.campaign.walks:
        return made
    try:
        with files.of("--out", folder):
            return made._replace(kinds=made.campaign.write(folder))
    except KeyboardInterrupt:
        return made._replace(interrupted=True)
    return made


def _exit_code(made: Sequence[TaskResult]) -> int:
    if any(one.interrupted for one in made):
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return lockstep_exit_code(made)


def _raise_if_driver_or_all_tasks_failed(made: Sequence[TaskResult]) -> None:
    """Raise the error that ended the Java process, or that prevented every task."""
    problems = [one.problem for one in made if one.problem is not None]
    if len(made) == len(problems) == 1 or any(isinstance(problem, DriverDied) for problem in problems):
        raise problems[-1]
    if problems and all(one.campaign is None for one in made):
        raise problems[0]


def _print_versions_table(driven: Sequence[VersionRun], asked: Sequence[LockstepTask], versions: Sequence[str]) -> None:
    """Print a table of the walks by version."""
    columns = dict(
        zip(_version_names(driven, versions), (_verdict_column_of_version(one, asked) for one in driven), strict=True)
    )
    print("\n".join(verdicts_by_version_table([_task_row_name(task) for task in asked], columns)))


def _version_names(driven: Sequence[VersionRun], versions: Sequence[str]) -> list[str]:
    """Return the versions as their jars name them; those with equal names as on the command line."""
    found = [one.version for one in driven]
    return [kafka if found.count(name) > 1 else name for kafka, name in zip(versions, found, strict=False)]


def _changes_between_kafka_versions(
    driven: Sequence[VersionRun], asked: Sequence[LockstepTask], versions: Sequence[str], arguments: argparse.Namespace
) -> VersionChanges | None:
    """Return what changed in the last version; None without `--changes`, or after an interruption."""
    from kraftcheck.lockstep.jars import driver_classpath
    from kraftcheck.lockstep.version_changes import VersionResults, compare_versions

    newest = driven[-1].made
    is_whole = len(driven) == len(versions) and not any(one.interrupted or one.campaign is None for one in newest)
    if not arguments.changes or not is_whole:
        return None
    compared = [
        VersionResults(kafka, name, all_walks_agree_with_model(one.made), [*map(count_walks_by_finding, one.made)])
        for kafka, name, one in zip(versions, _version_names(driven, versions), driven, strict=True)
    ]
    jars = lambda kafka: driver_classpath(kafka, disk=arguments.disk).entries[1:]  # noqa: E731
    return compare_versions(compared, [_task_row_name(task) for task in asked], jars)


def _print_findings(driven: VersionRun, asked: Sequence[LockstepTask], *, quiet: bool) -> None:
    """Print the findings of the walks on one version."""
    several = len(asked) > 1
    for task, one in zip(asked, driven.made, strict=False):
        if several and one.problem is not None and not isinstance(one.problem, DriverDied):
            print(escape_control_characters(f"kraftcheck: error: {one.problem}"), file=sys.stderr)
        if one.campaign is not None and one.campaign.walks:
            print_lines([[(HEAD, task.name)]] if several else [])
            print_lines(campaign_report_lines(one.campaign, one.kinds, one.verdict, driven.version, quiet=quiet))
            print_lines(edge_cover_lines(one.cover) if one.cover is not None else [])


def _write_json_and_report(
    driven: Sequence[VersionRun], asked: Sequence[LockstepTask], files: OutputFiles, changed: VersionChanges | None
) -> None:
    """Write the files of `--json` and `--report`, unless no task was started."""
    found = [(version, task, one) for version, made in driven for task, one in zip(asked, made, strict=False)]
    if all(one.campaign is None for _, _, one in found):
        return
    more = [] if changed is None else [{"changes": changed.as_json()}]
    files.json(lambda: [*(_task_result_as_json(one, version) for version, _, one in found), *more])
    runs = (
        campaign_as_report_data(one.campaign, one.verdict, version, task.name.rpartition("/")[2])
        for version, task, one in found
        if one.campaign is not None
    )
    files.file("report", lambda path: write_report(path, list(runs)))


def _task_result_as_json(made: TaskResult, version: str) -> dict[str, Any]:
    document = {} if made.campaign is None else campaign_as_json(made.campaign, made.kinds, made.verdict, version)
    if made.cover is not None:
        document["cover"] = edge_cover_as_json(made.cover)
    return document if made.problem is None else document | {"kafka": version, "error": str(made.problem)}


def _task_row_name(task: LockstepTask) -> str:
    """Return the name of a task's row in the table of versions."""
    return task.name if task.path is None else task.path.stem


def _verdict_column_of_version(driven: VersionRun, asked: Sequence[LockstepTask]) -> list[VerdictCell]:
    """Return a version's column of the table: for each task the findings, or the reason for an early end."""
    cells = []
    for one in driven.made:
        ended = str(one.problem or ("interrupted" if one.interrupted else ""))
        why = re.split("; (?:enabled are|there is) ", ended)[0]
        cells.append(
            VerdictCell("none", why) if one.campaign is None else verdict_cell([kind.first for kind in one.kinds], why)
        )
    return cells + [VerdictCell("-")] * (len(asked) - len(cells))
