"""What can be wrong with Spark, Java, the master or the folder: each a clear error, and nothing else happens."""

from __future__ import annotations

import itertools
import socket
import struct
from contextlib import suppress
from pathlib import Path
from threading import Thread
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from kraftcheck.explorer import spark_cluster
from kraftcheck.spec.errors import InputError, ProcessFailureError
from tests.support.command_line import Run
from tests.support.spark.standalone import free_port
from tests.support.tlc import COUNTS

pytestmark = pytest.mark.kernel

CONFIG = str(COUNTS / "two-voters.cfg")
SPARK = ("check", "reconfig", "--engine", "spark", "--quiet", "--config")


def refused(run: Run, *options: object) -> str:
    outcome = run(*SPARK, CONFIG, *options)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("kraftcheck: error: ")
    return outcome.err


def a_java(folder: Path, says: str) -> str:
    (folder / "bin").mkdir()
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return str(folder)


def test_no_java(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "needs Java 17 or newer: there is none on the PATH" in refused(run)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"there is none on JAVA_HOME ({tmp_path})" in refused(run)


@pytest.mark.parametrize(("says", "found"), [('java version "1.8.0_202"', 8), ('openjdk version "11.0.2" 2019', 11)])
def test_old_java(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, found: int) -> None:
    monkeypatch.setenv("JAVA_HOME", a_java(tmp_path, says))
    assert f"is Java {found}" in refused(run)


def test_no_pyspark(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_cluster, "find_spec", lambda name: None)
    assert "needs the package pyspark: pip install 'kraftcheck[spark]'" in refused(run)


@pytest.mark.spark
def test_a_master_that_does_not_answer(run: Run) -> None:
    assert "the Spark master does not answer" in refused(run, "--master", f"spark://127.0.0.1:{free_port()}")


@pytest.mark.spark
@pytest.mark.parametrize("master", ["spark://host", "mesos://a:1", "http://a"])
def test_what_is_no_master(run: Run, master: str) -> None:
    assert f"--master {master}: expected" in refused(run, "--master", master)


def test_settings_begin_with_spark(run: Run) -> None:
    outcome = run(*SPARK, CONFIG, "--conf", "cores=3")
    assert outcome.code == 2
    assert "expected spark.KEY=VALUE, found 'cores=3'" in outcome.err


def test_what_the_engine_does_not_do(run: Run) -> None:
    assert "--engine" in refused(run, "--search", "dfs")
    assert "--engine" in refused(run, "--workers", "2")


def test_a_folder_of_another_engine(run: Run, tmp_path: Path) -> None:
    folder = str(tmp_path / "c")
    run("check", "reconfig", "--config", CONFIG, "--engine", "tables", "--max-depth", "5", "--checkpoint", folder)
    assert "engine: none in the checkpoint, now spark" in refused(run, "--resume", folder)
    assert "holds the checkpoint" in refused(run, "--checkpoint", folder)


def test_the_wait_for_an_executor_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = object.__new__(spark_cluster.SparkApplication)
    waiting.local, waiting.spark = False, MagicMock()
    context = waiting.spark.sparkContext
    context.master = "spark://idle:7077"
    scala = context._jsc.sc.return_value
    scala.isStopped.return_value = False
    scala.getExecutorMemoryStatus.return_value.size.return_value = 1  # the driver alone
    clock = itertools.count()
    monkeypatch.setattr(spark_cluster.time, "monotonic", clock.__next__)
    monkeypatch.setattr(spark_cluster.time, "sleep", lambda _: None)
    waiting._conf = {spark_cluster.EXECUTOR_WAIT_SETTING: "7"}
    with pytest.raises(ProcessFailureError, match=r"spark://idle:7077 gives no executor within 7 s"):
        waiting._await_executor()
    assert next(clock) == 9, "it looked once a second"
    waiting._conf = {spark_cluster.EXECUTOR_WAIT_SETTING: "soon"}
    with pytest.raises(InputError, match=r"spark.kraftcheck.wait: expected a number from 1 to 86,400, found soon"):
        waiting._await_executor()


def test_the_heap_of_a_local_session_does_not_grow_to_its_limit(tmp_path: Path) -> None:
    """The JVM would choose a collector that expands the heap before it collects; on a cluster the user's is kept."""
    one = MagicMock(_folder=tmp_path)
    assert (
        "-XX:+UseSerialGC" in spark_cluster.SparkApplication._settings(one, "local[2]")["spark.driver.extraJavaOptions"]
    )
    assert "spark.driver.extraJavaOptions" not in spark_cluster.SparkApplication._settings(one, "spark://host:7077")


def test_a_connection_that_a_killed_jvm_resets_leaves_no_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    from py4j.java_gateway import GatewayParameters, JavaGateway
    from py4j.protocol import Py4JError

    starting = MagicMock(_says=tmp_path / "says", _conf={})
    spark_cluster.SparkApplication._start(starting, MagicMock(), "local[1]")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reset() -> None:
            with suppress(OSError):  # the server is closed
                while True:
                    connection = server.accept()[0]
                    connection.recv(1)  # the rest stays unread, so that closing sends a reset
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.close()

        Thread(target=reset, daemon=True).start()
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=server.getsockname()[1]))
        with pytest.raises(Py4JError):
            gateway.jvm.java.lang.System.nanoTime()
    assert not caplog.records
    assert "Traceback" not in capfd.readouterr().err
