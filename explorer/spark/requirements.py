"""Checks that Spark can be had: PySpark, Java and a master that answers."""

from __future__ import annotations

import re
import socket
from importlib.util import find_spec

from kraftcheck.java import LEAST_JAVA, java_program, java_version
from kraftcheck.spec.errors import InputError

LEAST_SPARK = (4, 1)
PATIENCE = 30.0  # seconds that a master has to answer, and then to give an executor
_STANDALONE = re.compile(r"spark://(.+)")
_OTHER_MASTERS = re.compile(r"(local(\[|$)|yarn$|k8s://)")


def require_pyspark() -> None:
    """Raise InputError where a package is missing or too old."""
    for package in ("pyspark", "pyarrow"):
        if find_spec(package) is None:
            raise InputError(f"--engine spark needs the package {package}: pip install 'kraftcheck[spark]'")
    import pyspark

    found = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if found < LEAST_SPARK:
        least = ".".join(map(str, LEAST_SPARK))
        raise InputError(f"--engine spark needs PySpark {least} or newer, found {pyspark.__version__}")


def require_java() -> None:
    """Raise InputError where Java is missing or too old."""
    needs = f"--engine spark needs Java {LEAST_JAVA} or newer"
    program, where = java_program("java")
    if program is None:
        raise InputError(f"{needs}: there is none on {where}")
    found = java_version(program)
    if found is None:
        raise InputError(f"{needs}: {program} -version does not say which")
    if found < LEAST_JAVA:
        raise InputError(f"{needs}; {program} is Java {found}")


def require_answer(master: str) -> None:
    """Raise InputError where none of the addresses of a standalone master answers."""
    match = _STANDALONE.fullmatch(master)
    if match is None:
        if not _OTHER_MASTERS.match(master):
            raise InputError(f"--master {master}: expected local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT")
        return
    problems = []
    for address in match[1].split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise InputError(f"--master {master}: expected spark://HOST:PORT")
        try:
            socket.create_connection((host, int(port)), timeout=PATIENCE).close()
            return
        except (OSError, OverflowError) as error:
            problems.append(f"{address}: {error}")
    raise InputError(f"--master {master}: it does not answer ({'; '.join(problems)})")
