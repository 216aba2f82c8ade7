"""Compare a model's states with those of TLC.

exit codes: 0 equal; 1 different; 11, 12, 13 TLC itself found a deadlock, or a safety or temporal property violated;
2 bad input, or TLC failed; 130 interrupted

for example:
    kraftcheck crosscheck reconfig --config small.cfg --dump states.dot.gz
    kraftcheck crosscheck reconfig --config small.cfg --spec KRaftWithReconfig.tla
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kraftcheck.catalogue import requested_model
from kraftcheck.commands._crosscheck import crosscheck_dump, crosscheck_spec
from kraftcheck.jobs import add_options, leniently_bound_job, parse_count
from kraftcheck.reporting.crosscheck import crosscheck_as_json, crosscheck_lines
from kraftcheck.reporting.lines import print_lines, print_warnings
from kraftcheck.reporting.output import OutputFiles

EXIT_EQUAL, EXIT_DIFFERENT = 0, 1
EXIT_CODE_OF_VIOLATION = {"deadlock": 11, "safety": 12, "temporal": 13}
"""TLC's exit codes for violations."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "model")
    add_options(parser, "--config", help="a .cfg file, or one of the model's", required=True)
    add_options(parser, "--variant")
    other = parser.add_mutually_exclusive_group(required=True)
    other.add_argument("--dump", type=Path, metavar="FILE", help="a file of TLC's -dump, or of -dump dot,actionlabels")
    other.add_argument("--spec", type=Path, metavar="FILE", help="a .tla file; TLC runs on a copy of it")
    most = "with --spec: compare the states themselves if there are at most N (default: 10,000)"
    parser.add_argument("--compare-states", type=parse_count, default=10_000, metavar="N", help=most)
    unlabelled = "compare steps without action names, where TLC's labels are not the protocol's actions"
    parser.add_argument("--unlabelled", action="store_true", help=unlabelled)
    add_options(parser, "--workers", help="with --spec: TLC's threads (default: 1)", default=1, dest="tlc_workers")
    add_options(parser, "--max-size")
    add_options(parser, "--json")
    add_options(parser, "--quiet", help="print no progress and only the differences")


def run(arguments: argparse.Namespace) -> int:
    with requested_model(arguments) as model, OutputFiles(arguments, "json") as files:
        job, warnings = leniently_bound_job(model, arguments, whole_space=True)
        if job.options.view is not None:
            problem = "the set of found states may depend on the search order"
            warnings.append(f"VIEW {job.options.view}: {problem}")
        print_warnings(warnings)
        shipped = model.configurations.get(job.config_name)
        file = job.config_name if shipped is None else shipped.file
        if arguments.dump is None:
            from kraftcheck.traces import crosscheck as tlc

            text = tlc.read_unpacked_module(Path(file)).decode() if shipped is None else shipped.text
            outcome = crosscheck_spec(job, (file, text), arguments)
        else:
            outcome = crosscheck_dump(job, arguments)
        files.json(lambda: crosscheck_as_json(model.name, job.protocol, file, outcome))
        print_lines(crosscheck_lines(outcome, quiet=arguments.quiet))
    if outcome.tlc is not None and outcome.tlc.violated is not None:
        return EXIT_CODE_OF_VIOLATION[outcome.tlc.kind or "safety"]
    return EXIT_EQUAL if outcome.equal else EXIT_DIFFERENT
