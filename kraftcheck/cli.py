"""The command line. What a command needs is imported when it runs: `kraftcheck --help` imports nothing heavy."""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MODEL_HELP = "a name that `kraftcheck models` lists, or path/to/file.py:ClassName"
EXITS = """\
exit codes: 0 all holds and the search was complete; 11 deadlock; 12 a property is violated; 20 nothing violated, but
the search stopped at a limit; 2 bad input; 130 interrupted"""
WALK_EXITS = """\
exit codes: 0 all walks were made; 11 deadlock; 12 a property is violated; 20 nothing violated, but it stopped at a
limit; 2 bad input; 130 interrupted"""
REPLAY_EXITS = """\
exit codes: 0 all traces conform; 1 one diverges, or one among several cannot be read; 2 bad input, or nothing that
could be read; 130 interrupted"""
CROSSCHECK_EXITS = """\
exit codes: 0 equal; 1 different; 11, 12, 13 TLC itself found a deadlock, or a safety or temporal property violated;
2 bad input, or TLC cannot do its part; 130 interrupted"""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Parameters
    ----------
    arguments
        The arguments; by default those of the process.

    Returns
    -------
    int
        The exit code.
    """
    given = parser().parse_args(arguments)
    given.words = list(sys.argv[1:] if arguments is None else arguments)
    from kraftcheck.spec.errors import InputError

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # it stops what Ctrl-C stops, in the same way
    try:
        code: int = given.run(given)
        sys.stdout.flush()
        return code
    except InputError as error:
        return _complain(str(error))
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _complain(message: str) -> int:
    print(f"kraftcheck: error: {message}", file=sys.stderr)
    return 2


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="kraftcheck", description="An explicit-state model checker for KRaft, Kafka's Raft.", allow_abbrev=False
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    models = commands.add_parser("models", help="list the models, their variants and configurations")
    models.add_argument("--json", type=Path, metavar="FILE", help="write the list as JSON too")
    models.set_defaults(run=_models)
    what = "search a model's states for a violation"
    _add_check(commands.add_parser("check", help=what, description=what, epilog=EXITS, allow_abbrev=False))
    what = "search a model and variants of it within the same bounds, and say what differs"
    _add_compare(commands.add_parser("compare", help=what, description=what, epilog=EXITS, allow_abbrev=False))
    what = "walk at random through a model's states"
    _add_simulate(commands.add_parser("simulate", help=what, description=what, epilog=WALK_EXITS, allow_abbrev=False))
    what = "walk traces through a model: does it do the same?"
    _add_replay(commands.add_parser("replay", help=what, description=what, epilog=REPLAY_EXITS, allow_abbrev=False))
    what = "compare a model's states with those that TLC finds"
    epilog = CROSSCHECK_EXITS
    _add_crosscheck(commands.add_parser("crosscheck", help=what, description=what, epilog=epilog, allow_abbrev=False))
    what = "replay many traces on Spark, into tables of Parquet"
    epilog = REPLAY_EXITS
    _add_pipeline(commands.add_parser("pipeline", help=what, description=what, epilog=epilog, allow_abbrev=False))
    return top


def _models(arguments: argparse.Namespace) -> int:
    from kraftcheck.commands import models as models_command

    return models_command.run(arguments)


def _check(arguments: argparse.Namespace) -> int:
    from kraftcheck.commands import check as check_command

    return check_command.run(arguments)


def _simulate(arguments: argparse.Namespace) -> int:
    from kraftcheck.commands import simulate as simulate_command

    return simulate_command.run(arguments)


def _replay(arguments: argparse.Namespace) -> int:
    from kraftcheck.commands import replay as replay_command

    return replay_command.run(arguments)


def _add_replay(replay: argparse.ArgumentParser) -> None:
    replay.set_defaults(run=_replay)
    replay.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    what = "a trace: a log of TLC's, what it writes with -simulate or -dumpTrace, or ITF"
    replay.add_argument("traces", nargs="+", metavar="TRACE", help=what)
    replay.add_argument("--config", metavar="CONFIG", help="a .cfg file, or one of the model's (default: default)")
    replay.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="give a constant another value (repeatable)"
    )
    replay.add_argument("--variant", metavar="NAME", help="a variant of the model")
    replay.add_argument("--max-size", type=_size, metavar="SIZE", help="what a file may unpack to (default: 4G)")
    replay.add_argument("--json", type=Path, metavar="FILE", help="write what became of each trace as JSON")
    replay.add_argument("--quiet", action="store_true", help="only the verdicts")


def _crosscheck(arguments: argparse.Namespace) -> int:
    from kraftcheck.commands import crosscheck as crosscheck_command

    return crosscheck_command.run(arguments)


def _add_crosscheck(crosscheck: argparse.ArgumentParser) -> None:
    crosscheck.set_defaults(run=_crosscheck)
    crosscheck.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    crosscheck.add_argument("--config", metavar="CONFIG", required=True, help="a .cfg file, or one of the model's")
    crosscheck.add_argument("--variant", metavar="NAME", help="a variant of the model")
    other = crosscheck.add_mutually_exclusive_group(required=True)
    other.add_argument("--dump", type=Path, metavar="FILE", help="what TLC wrote with -dump, or -dump dot,actionlabels")
    other.add_argument("--spec", type=Path, metavar="FILE", help="a .tla file: TLC is run on a copy of it")
    what = "with --spec: compare the states themselves up to so many (default: 10,000)"
    crosscheck.add_argument("--compare-states", type=_count, default=10_000, metavar="N", help=what)
    crosscheck.add_argument("--workers", type=_count, metavar="N", help="with --spec: TLC's threads (default: 1)")
    crosscheck.add_argument("--max-size", type=_size, metavar="SIZE", help="what a file may unpack to (default: 4G)")
    crosscheck.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")
    crosscheck.add_argument("--quiet", action="store_true", help="no progress, and only what differs")


def _pipeline(arguments: argparse.Namespace) -> int:
    from kraftcheck.commands import pipeline as pipeline_command

    return pipeline_command.run(arguments)


def _add_pipeline(pipeline: argparse.ArgumentParser) -> None:
    pipeline.set_defaults(run=_pipeline)
    what = "files with traces, folders of such, or glob patterns; in every format that replay takes"
    pipeline.add_argument("inputs", nargs="+", metavar="IN", help=what)
    what = "folder for the tables; running again does only what is new"
    pipeline.add_argument("--out", type=Path, metavar="DIR", required=True, help=what)
    pipeline.add_argument("--model", metavar="MODEL", required=True, help=MODEL_HELP)
    pipeline.add_argument("--config", metavar="CONFIG", help="a .cfg file, or one of the model's (default: default)")
    pipeline.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="give a constant another value (repeatable)"
    )
    pipeline.add_argument("--variant", metavar="NAME", help="a variant of the model")
    pipeline.add_argument("--master", metavar="URL", help="Spark's master (default: local[*])")
    what = "one of Spark's settings (repeatable)"
    pipeline.add_argument("--conf", type=_conf, action=_Pairs, default=(), metavar="KEY=VALUE", help=what)
    pipeline.add_argument("--max-size", type=_size, metavar="SIZE", help="what a file may unpack to (default: 4G)")
    pipeline.add_argument("--json", type=Path, metavar="FILE", help="write the summary as JSON")
    pipeline.add_argument("--quiet", action="store_true", help="no progress, and no table of actions")


def _compare(arguments: argparse.Namespace) -> int:
    from kraftcheck.commands import compare as compare_command

    return compare_command.run(arguments)


def _add_compare(compare: argparse.ArgumentParser) -> None:
    none = dict.fromkeys(("variant", "graph", "trace", "checkpoint", "checkpoint_every", "resume"))
    compare.set_defaults(run=_compare, calls=False, **none)  # of check's options, those that it does not have
    compare.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    compare.add_argument(
        "variants", nargs="+", metavar="VARIANT", help="a variant of the model, or path/to/file.py:ClassName"
    )
    _add_checked(compare, "by default each variant's own, else default")
    _add_search(compare)
    files = compare.add_argument_group("output")
    files.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON, the base first")
    files.add_argument("--quiet", action="store_true", help="only the table")


def _add_simulate(simulate: argparse.ArgumentParser) -> None:
    none = dict.fromkeys(("max_depth", "graph", "memory", "checkpoint", "checkpoint_every", "resume"))
    # Of check's options, those that it does not have.
    simulate.set_defaults(run=_simulate, search="bfs", **none)
    _add_what(simulate)
    how = simulate.add_argument_group("how")
    how.add_argument("--runs", type=_count, default=1000, metavar="N", help="walks (default: 1000)")
    how.add_argument("--depth", type=_count, default=100, metavar="N", help="states along a walk (default: 100)")
    what = "make a walk that ends with fewer states again, by other choices (default: 1)"
    how.add_argument("--min-depth", type=_count, default=1, metavar="N", help=what)
    how.add_argument("--seed", type=int, default=0, metavar="N", help="another seed, other walks (default: 0)")
    how.add_argument("--engine", metavar="NAME", help="the engine: tables or, for a corpus in --out, spark")
    how.add_argument("--workers", type=_count, metavar="N", help="threads")
    _add_spark(simulate)
    limits = simulate.add_argument_group("where to stop")
    limits.add_argument("--max-states", type=_count, metavar="N", help="distinct states")
    limits.add_argument("--time-limit", type=_seconds, metavar="SECONDS")
    files = _add_output(simulate)
    files.add_argument("--out", type=Path, metavar="DIR", help="write each walk as TLC's -simulate does")


def _add_what(check: argparse.ArgumentParser) -> None:
    check.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    what = _add_checked(check, "default: default")
    what.add_argument("--variant", metavar="NAME", help="a variant of the model")


def _add_checked(check: argparse.ArgumentParser, default: str) -> argparse._ArgumentGroup:
    what = check.add_argument_group("what is checked")
    what.add_argument("--config", metavar="CONFIG", help=f"a .cfg file, or one of the model's ({default})")
    what.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="give a constant another value (repeatable)"
    )
    flag = argparse.BooleanOptionalAction
    what.add_argument("--deadlock", action=flag, help="check for deadlock, whatever the .cfg says")
    what.add_argument("--symmetry", action=flag, help="reduce by symmetry, whatever the .cfg says")
    what.add_argument("--continue", dest="keep_going", action="store_true", help="go on after a violation")
    what.add_argument("--check-actions", action="store_true", help="test that actions are pure")
    return what


def _add_output(check: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    files = check.add_argument_group("output")
    files.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")
    files.add_argument("--trace", type=Path, metavar="FILE", help="write the counterexample as TLC prints it")
    files.add_argument("--calls", action="store_true", help="say how often each action had to be called in Python")
    files.add_argument("--quiet", action="store_true", help="only the verdict, with warnings and counterexamples")
    return files


def _add_check(check: argparse.ArgumentParser) -> None:
    check.set_defaults(run=_check)
    _add_what(check)
    _add_search(check)
    resuming = check.add_argument_group("stopping and going on")
    resuming.add_argument("--checkpoint", type=Path, metavar="DIR", help="where to keep the search's state")
    resuming.add_argument(
        "--checkpoint-every", type=_seconds, metavar="SECONDS", help="how often it is written (default: 300)"
    )
    resuming.add_argument("--resume", type=Path, metavar="DIR", help="go on with a search from its checkpoint")
    files = _add_output(check)
    files.add_argument("--graph", type=Path, metavar="FILE", help="write the state graph (.graphml, .json or .dot)")


def _add_search(check: argparse.ArgumentParser) -> None:
    how = check.add_argument_group("how")
    how.add_argument("--search", choices=("bfs", "dfs", "iddfs"), default="bfs", help="the order (default: bfs)")
    how.add_argument("--engine", metavar="NAME", help="the engine (default: the first that can do what is asked)")
    how.add_argument("--workers", type=_count, metavar="N", help="threads")
    how.add_argument("--memory", type=_size, metavar="SIZE", help="for the states, such as 4G; the rest goes to disk")
    _add_spark(check)
    limits = check.add_argument_group("where to stop")
    limits.add_argument("--max-states", type=_count, metavar="N", help="distinct states")
    limits.add_argument("--max-depth", type=_count, metavar="N", help="states along a path; 1: the initial ones alone")
    limits.add_argument("--time-limit", type=_seconds, metavar="SECONDS")


def _add_spark(check: argparse.ArgumentParser) -> None:
    spark = check.add_argument_group("on Spark, with --engine spark")
    spark.add_argument("--master", metavar="URL", help="spark://HOST:PORT, yarn, ... (default: this machine)")
    setting = "one of Spark's settings (repeatable)"
    spark.add_argument("--conf", type=_conf, action=_Pairs, default=(), metavar="KEY=VALUE", help=setting)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found {text!r}")
    return int(text)


class _Pairs(argparse.Action):
    """Collects pairs."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), values))


def _conf(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"expected spark.KEY=VALUE, found {text!r}")
    return key, value


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found {text!r}")
    return seconds


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"expected a size such as 512M or 4G, found {text!r}")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))
