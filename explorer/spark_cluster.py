"""Spark application of the engine: requirements, start, code for executors, tasks, shutdown."""

from __future__ import annotations

import atexit
import logging
import os
import re
import socket
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from kraftcheck.explorer import executor_boot as boot
from kraftcheck.explorer.executor_boot import PACKAGE_NAME, USER_FOLDER, files_digest, source_files
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.files import TemporaryFolder
from kraftcheck.processes import (
    LEAST_JAVA_VERSION,
    java_version,
    jdk_program_and_lookup_place,
    kill_children_on_interrupt,
)
from kraftcheck.spec.discovery import USER_MODULE_PREFIX, project_modules_of_protocol, source_path
from kraftcheck.spec.errors import InputError, ProcessFailureError
from kraftcheck.spec.language.protocol import Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_ENDED_TEXT = (
    "Spark ended early: its Java process was killed, or ran out of memory; continue with --resume (or, for --out, "
    "repeat the command)"
)
CANCEL_INTERVAL_SECONDS = 0.5  # seconds between two cancellations of running jobs
FIXED_ZIP_DATE = (2001, 9, 9, 0, 0, 0)  # fixed time of files in the zip, so that equal content makes equal zips
LEAST_SPARK_VERSION, LEAST_REPLAY_VERSION = (4, 1), (3, 5)
MASTER_TIMEOUT_SECONDS = 30.0  # seconds for a master to answer, and then to provide an executor
EXECUTOR_WAIT_SETTING = "spark.kraftcheck.wait"
"""The setting for the seconds to wait for an executor."""
_STANDALONE_MASTER = re.compile(r"spark://(.+)")
_LOCAL_OR_MANAGED_MASTERS = re.compile(r"(local(\[|$)|yarn$|k8s://)")
_TASK_ERROR_LINE = re.compile(r"(?:[a-z_]\w*\.)*([A-Z]\w*): (.*)")
_PY4J_ERROR_PREFIX = "An error occurred while calling "
RAISED_NAMES = ("RaisedError", "ActionError")
OWN_ERROR_NAMES = (*RAISED_NAMES, "InputError", "ProtocolError", "ConstantError", "DecodingError", "HiddenReadError")

SPARK_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # one task for each group of partitions, as the engine divides them
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32",  # a row holds up to a megabyte of states
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",  # a worker process keeps its memoized calls
}
"""Spark settings of the engine, unless the user sets them."""

SMALL_HEAP_OPTIONS = (
    "-XX:+UseSerialGC -Xms128m -Xmn64m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20 -XX:TieredStopAtLevel=1"
)
SMALL_PAGE_SETTINGS = {"spark.buffer.pageSize": "1m"}
"""JVM options and settings of a local session, whose memory then hardly grows with its time.

G1 would fill the heap, and by default the serial collector keeps two fifths of it free. The second compiler compiles
to the end of a run. By default an aggregation takes pages of 32 MiB.
"""


class SparkApplication:
    """A Spark application that runs tasks of the engine."""

    def __init__(
        self, name: str, options: SearchRequest, protocol: type[Protocol], least: tuple[int, int] = LEAST_SPARK_VERSION
    ) -> None:
        require_pyspark(least)
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        if not submitted:
            require_java()
        self._temporary = TemporaryFolder()
        self._folder = self._temporary.path
        self._group = f"kraftcheck-{uuid4().hex}"
        self._conf = dict(options.conf)
        self._says = None if options.verbose or submitted else self._folder / "spark.log"
        self._own = self._closed = False
        try:
            self.spark = self._session(name, options.master, submitted)
            context = self.spark.sparkContext
            self.local = str(context.master).startswith("local")
            self._await_executor()
            code, digest, content = code_zip_with_name_and_digest(protocol)
            archive = self._folder / f"{code}.zip"
            if archive.name not in {Path(path).name for path in context.listFiles}:
                archive.write_bytes(content)
                context.addFile(str(archive))
            self._code = code, digest
        except BaseException:
            self.close()
            raise

    def _session(self, name: str, master: str | None, submitted: bool) -> SparkSession:
        from pyspark.sql import SparkSession

        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        builder, conf = SparkSession.builder.appName(name), self._conf
        given = conf.get("spark.master", master)
        if given is None and not submitted:
            given = os.environ.get("MASTER", "local[*]")
        if given is not None:
            require_master_answers(given)
            builder = builder.master(given)
            if given.startswith("local"):
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        for key, value in (conf if submitted else self._settings(given) | conf).items():
            builder = builder.config(key, value)
        self._own = SparkSession.getActiveSession() is None
        spark = self._start(builder, given)
        for key, value in SPARK_SETTINGS.items():
            if key.startswith("spark.sql") and key not in conf:
                spark.conf.set(key, value)
        return spark

    def _start(self, builder: SparkSession.Builder, master: str | None) -> SparkSession:
        from pyspark import SparkContext
        from pyspark.errors import PySparkException

        # A JVM that it does not know yet would not end.
        known = kill_children_on_interrupt(unless=lambda: SparkContext._gateway)
        try:
            with (
                nullcontext() if self._says is None else redirect_stderr_into(self._says),
                self._temporary.made_within(),
                known,
            ):
                spark = builder.getOrCreate()
                server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
                # Py4J and the server print a traceback if the JVM ends.
                logging.getLogger().addFilter(_is_not_logged_by_py4j)
                if server is not None:
                    server.handle_error = lambda *_: None
                if "spark.log.level" not in self._conf:
                    spark.sparkContext.setLogLevel("ERROR")
        except PySparkException as error:
            raise InputError(f"Spark does not start: {_first_line_of_error(error)}{self._last_words()}") from None
        except Exception as error:  # py4j raises various kinds if the JVM refuses
            raise InputError(f"Spark does not start with master {master}: {_first_line_of_error(error)}") from None
        return spark

    def _settings(self, master: str | None) -> dict[str, str]:
        if not (master or "").startswith("local"):
            return SPARK_SETTINGS
        # If Spark is killed, its temporary files are removed with this process's.
        java = {"spark.driver.extraJavaOptions": f'{SMALL_HEAP_OPTIONS} "-Djava.io.tmpdir={self._folder}"'}
        return SPARK_SETTINGS | SMALL_PAGE_SETTINGS | {"spark.local.dir": str(self._folder)} | java

    def _last_words(self) -> str:
        """Return the last line of Spark's log, if the log was not shown."""
        lines = [] if self._says is None else self._says.read_text(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f" ({said[-1]}; --verbose shows all)" if said else ""

    def _await_executor(self) -> None:
        """Wait for an executor; raise ProcessFailureError after some seconds, which the user may set."""
        patience = self.number(EXECUTOR_WAIT_SETTING, int(MASTER_TIMEOUT_SECONDS), least=1, most=86_400)
        if self.local:
            return
        scala = self.spark.sparkContext._jsc.sc()
        until = time.monotonic() + patience
        while scala.getExecutorMemoryStatus().size() < 2:  # the driver is one
            if scala.isStopped() or time.monotonic() > until:
                raise ProcessFailureError(
                    f"the master {self.spark.sparkContext.master} gives no executor within {patience:,} s: it has no "
                    "worker with the requested memory and cores, or is not a Spark master "
                    f"(--conf {EXECUTOR_WAIT_SETTING}=SECONDS)"
                )
            time.sleep(0.1)

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at the same time."""
        return max(1, int(self.spark.sparkContext.defaultParallelism))

    def number(self, key: str, usual: int, *, least: int, most: int) -> int:
        """Return a numeric Spark setting, `usual` if it is not set; raise InputError outside of `least` to `most`."""
        wanted = str(self._conf.get(key) or self.spark.sparkContext.getConf().get(key, str(usual)))
        if not (wanted.isascii() and wanted.isdigit() and least <= int(wanted) <= most):
            raise InputError(f"{key}: expected a number from {least} to {most:,}, found {wanted}")
        return int(wanted)

    def run(self, tasks: int, name: str, arguments: str, schema: str) -> Any:
        """Run tasks; return the table of their rows."""
        return _collect_table(self._dataset(tasks, name, arguments, schema))

    def exchange(self, tasks: int, first: tuple[str, str, str], reducers: int, second: tuple[str, str, str]) -> Any:
        """Run two stages of tasks; a first-stage row goes to the task in its column `task`. Return the final rows."""
        sent = self._dataset(tasks, *first)
        if tasks > 1 or reducers > 1:
            sent = sent.repartitionById(reducers, "task")
        name, arguments, schema = second
        return _collect_table(sent.mapInArrow(self.task(name, arguments), schema))

    def _dataset(self, tasks: int, name: str, arguments: str, schema: str) -> Any:
        return self.spark.range(0, tasks, 1, tasks).mapInArrow(self.task(name, arguments), schema)

    def task(self, name: str, arguments: str) -> Any:
        """Return the function that runs a task on an executor, for `mapInArrow`; parameters as in `run`."""
        return _pickle_boot_by_value(boot.remote_task(name, arguments, *self._code))

    def cancel(self) -> None:
        """Cancel the running job and later ones, until Spark is closed."""
        while not self._closed:
            with suppress(Exception):  # Spark may be gone
                self.spark.sparkContext.cancelJobGroup(self._group)
            time.sleep(CANCEL_INTERVAL_SECONDS)

    def describe(self, text: str) -> None:
        """Describe the following jobs in Spark's UI and log."""
        context = self.spark.sparkContext
        context.setJobGroup(self._group, text, interruptOnCancel=True)
        jvm: Any = context._jvm
        jvm.org.slf4j.LoggerFactory.getLogger("kraftcheck").info(text)

    def close(self) -> None:
        """Stop Spark, unless it was already running at the start, and remove temporary files."""
        self._closed = True
        spark: Any = getattr(self, "spark", None)
        if spark is not None and not self._own:  # Spark serves the code as long as it runs
            atexit.register(self._temporary.close)
            return
        with suppress(Exception):  # the JVM may be gone, as after Ctrl-C, or did not start
            spark.stop()
        self._temporary.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        is_gone = isinstance(error, Exception) and not isinstance(error, TaskRaisedError) and self._is_gone(wait=1)
        self.close()
        if is_gone:
            raise ProcessFailureError(SPARK_ENDED_TEXT) from error

    def require_running(self) -> None:
        """Raise ProcessFailureError if the JVM has ended."""
        if self._is_gone():
            raise ProcessFailureError(SPARK_ENDED_TEXT)

    def _is_gone(self, wait: float = 0) -> bool:
        """Whether the JVM has ended, for example because it was killed; wait some seconds for its end."""
        process = getattr(getattr(self.spark.sparkContext, "_gateway", None), "proc", None)
        if process is None:
            return False
        with suppress(subprocess.TimeoutExpired):
            process.wait(wait)
        return process.poll() is not None


@contextmanager
def redirect_stderr_into(file: Path) -> Iterator[None]:
    """Redirect standard error to a file within the block; processes started there keep writing to the file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with file.open("wb") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _is_not_logged_by_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _collect_table(dataset: Any) -> Any:
    with convert_spark_errors():
        return dataset.toArrow()


@contextmanager
def convert_spark_errors() -> Iterator[None]:
    """Convert an error of Spark or of a task in the block into an InputError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise input_error_from_spark_text(str(error)) from error


class TaskRaisedError(InputError):
    """A method of the protocol raised an error in a task, or broke its contract."""


def input_error_from_spark_text(text: str) -> InputError:
    """Return the InputError with the message of a task's exception."""
    lines = text.splitlines()
    frames = [number for number, line in enumerate(lines) if line.lstrip().startswith("File ")]
    for number in range(frames[-1], len(lines)) if frames else ():
        match = _TASK_ERROR_LINE.match(lines[number])
        if match is not None:
            is_own = match[1] in OWN_ERROR_NAMES
            first = match[2] if is_own else f"a task on Spark failed: {match[1]}: {match[2]}"
            message = "\n".join([first, *takewhile(_is_indented_continuation, lines[number + 1 :])])
            if match[1] in RAISED_NAMES:
                return TaskRaisedError(message)
            return (InputError if is_own else ProcessFailureError)(message)
    reasons = [line.removeprefix(": ") for line in lines if line and not line.startswith(_PY4J_ERROR_PREFIX)]
    return ProcessFailureError(f"a job on Spark failed: {next(iter(reasons), 'no reason is given')}")


def _is_indented_continuation(line: str) -> bool:
    """Whether a line continues the message before it: it is indented, and not a Java stack frame."""
    return line.startswith("  ") and not line.lstrip().startswith("at ")


def _first_line_of_error(error: Exception) -> str:
    cause = getattr(error, "java_exception", None)
    text = str(cause.getMessage() if cause is not None else error).strip()
    return text.splitlines()[0] if text else type(error).__name__


# Requirements of Spark


def require_pyspark(least: tuple[int, int], version: str | None = None) -> None:
    """Raise InputError if a package is missing, or if PySpark, or the Spark of a session, is too old."""
    for package in ("pyspark", "pyarrow"):
        if find_spec(package) is None:
            raise InputError(f"Spark needs the package {package}: pip install 'kraftcheck[spark]'")
    import pyspark

    found = version or pyspark.__version__
    if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < least:
        raise InputError(f"PySpark {'.'.join(map(str, least))} or newer is needed, found {found}; update it")


def require_java() -> None:
    """Raise InputError if Java is missing or too old."""
    needs = f"--engine spark needs Java {LEAST_JAVA_VERSION} or newer"
    program, where = jdk_program_and_lookup_place("java")
    if program is None:
        raise InputError(f"{needs}: there is none on {where}; install it, or use --engine tables")
    found = java_version(program)
    if found is None:
        raise InputError(f"{needs}: {program} -version prints no version")
    if found < LEAST_JAVA_VERSION:
        raise InputError(f"{needs}; {program} is Java {found}")


def require_master_answers(master: str) -> None:
    """Raise InputError if `master` is malformed, or names a standalone Spark master that does not answer."""
    match = _STANDALONE_MASTER.fullmatch(master)
    if match is None:
        if not _LOCAL_OR_MANAGED_MASTERS.match(master):
            raise InputError(f"--master {master}: expected local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT")
        return
    problems = []
    for address in match[1].split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise InputError(f"--master {master}: expected spark://HOST:PORT")
        try:
            socket.create_connection((host, int(port)), timeout=MASTER_TIMEOUT_SECONDS).close()
            return
        except (OSError, OverflowError) as error:
            problems.append(f"{address}: {error}")
    raise InputError(f"--master {master}: the Spark master does not answer ({'; '.join(problems)})")


# The code for executors


def task_with_code(name: str, arguments: str, protocol: type[Protocol]) -> Any:
    """Return a function as `SparkApplication.task` does, with the code for executors in it: it needs no context."""
    return _pickle_boot_by_value(boot.remote_task(name, arguments, *code_zip_with_name_and_digest(protocol)))


def _pickle_boot_by_value(task: boot.PartitionFunction) -> boot.PartitionFunction:
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(boot)  # type: ignore[no-untyped-call]
    return task


def code_zip_with_name_and_digest(protocol: type[Protocol]) -> tuple[str, str, bytes]:
    """Return the name of the zip of the code that executors need, a digest of the project's code, and the zip."""
    own = source_files(Path(str(import_module(PACKAGE_NAME).__file__)).parents[1])
    files = sorted([*own, *_user_module_files(protocol)])
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files:
            archive.writestr(zipfile.ZipInfo(name, FIXED_ZIP_DATE), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return f"kraftcheck-{files_digest(files)}", files_digest(own), content.getvalue()


def _user_module_files(protocol: type[Protocol]) -> Iterator[tuple[str, Path]]:
    """Yield the files of the user's modules, under their names in the folder `USER_FOLDER`."""
    for module in project_modules_of_protocol(protocol):
        path = source_path(module)
        name = module.__name__
        if path is None or name.split(".")[0] == PACKAGE_NAME:
            continue
        yield f"{USER_FOLDER}/{name.removeprefix(USER_MODULE_PREFIX).replace('.', '/')}.py", path
        for depth in range(1, len(name.split("."))):
            outer = path.parents[depth - 1] / "__init__.py"
            if outer.is_file():
                package = "/".join(name.split(".")[:-depth])
                yield f"{USER_FOLDER}/{package}/__init__.py", outer
