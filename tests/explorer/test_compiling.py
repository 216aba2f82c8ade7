"""Compiled code that is found on disk is loaded without what only compiling needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from kraftcheck.explorer.native import compiling
from kraftcheck.explorer.tables.kernel.arrays import WorkerArrays

pytestmark = pytest.mark.kernel

PROGRAM = """
import sys
from pathlib import Path
from numba.core.cpu import CPUContext

prepared, prepare = [], CPUContext.load_additional_registries
CPUContext.load_additional_registries = lambda self: (prepared.append(1), prepare(self))
from kraftcheck.cli import main

code = main("check die-hard --config smoke --engine tables --workers 1 --quiet".split())
print(code, len(prepared))
"""


def searched() -> list[str]:
    """Search in another process; return its exit code, and how often it made ready to compile."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    return done.stdout.split()[-2:]


def test_the_series_whose_internals_are_known_is_installed() -> None:
    """What this module tests, Numba does not document: with another series, look at all of it."""
    assert numba.__version__.startswith(compiling.NUMBA_SERIES)


@pytest.mark.slow
def test_nothing_is_made_ready_for_code_that_is_there() -> None:
    searched()  # this compiles what is not there
    assert searched() == ["0", "0"]


def test_what_compiles_nothing_does_without_the_compiler() -> None:
    program = "import sys; import kraftcheck.explorer.reference; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


KERNEL = """
from pathlib import Path
from kraftcheck.explorer.native.compiling import kernel_compiler, inlined
jit = kernel_compiler(Path(__file__).parent)
@inlined
def thrice(n):
    return 3 * n
@jit
def inner(n, m):
    return thrice(n) + m
@jit
def countdown(n):
    return 1 + countdown(n - 1) if n > 0 else 0
@jit
def outer(n):
    return inner(n, 1) + inner(n, 2) + countdown(n)
"""


@pytest.mark.slow
def test_what_only_compiled_functions_call_is_made_no_code_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)

    def run(expression: str) -> list[str]:
        told = f"{expression}, len(inner.signatures), *outer.stats.cache_hits.values()"
        program = f"from kernel import inner, outer; print({told})"
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()

    assert run("outer(2)") == ["17", "0"]
    assert run("outer(2), inner(2, 1)") == ["17", "7", "1", "1"]  # one is taken from disk, one is compiled
    assert run("inner(2, 1), outer(3)") == ["7", "24", "1", "1"]  # so are both
    assert not [*(tmp_path / "__pycache__").glob("*.nb?")]  # it is where the kernel's sources are told apart


def test_only_our_own_indices_never_count_from_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative index, which none of ours is, counts from the end elsewhere; in our code it is taken as it is."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    numbers = np.arange(10)

    def second(given: Any, index: Any) -> Any:
        return given[5:][index], given[-1]

    assert numba.njit(second)(numbers, -1) == (9, 9)
    assert compiling.kernel_compiler(tmp_path)(second)(numbers, -1) == (4, 9)
    assert numba.njit(lambda given, index: given[index])(numbers, -2) == 8


def test_a_group_of_arrays_takes_none_of_other_columns() -> None:
    """Compiled code would read it as if it had as many as are declared."""
    worker = WorkerArrays()
    worker.facts = np.zeros((4, 2), np.int64)
    with pytest.raises(TypeError, match=r"facts: expected a contiguous array of int64 \(-1, 2\), found int64 \(4, 3\)"):
        worker.facts = np.zeros((4, 3), np.int64)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("NUMBA_DISABLE_JIT", "1", "it not to be set"), ("NUMBA_NUM_THREADS", "0", "a number of at least 1")],
)
def test_an_environment_in_which_nothing_is_compiled_is_told_of(name: str, value: str, expected: str) -> None:
    words = ["check", "die-hard", "--config", "smoke", "--engine", "tables", "--quiet"]
    environment = {**os.environ, name: value}
    command = [sys.executable, "-m", "kraftcheck", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith(f"kraftcheck: error: {name}: expected {expected}, found {value}")
    assert done.stderr.count("\n") == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kilobytes", "words", "said"),
    [
        (400_000, (), "the limit on address space (ulimit -v): expected at least 1,048,576 KB for compiled engines"),
        (1_100_000, ("--workers", "200"), "can't start new thread: see ulimit -u and ulimit -v"),
    ],
)
@pytest.mark.kernel
def test_little_address_space(kilobytes: int, words: tuple[str, ...], said: str) -> None:
    command = f'ulimit -v {kilobytes}; exec "$0" -m kraftcheck check reconfig --engine tables --quiet "$@"'
    done = subprocess.run(["bash", "-c", command, sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"kraftcheck: error: {said}")
    assert done.stderr.count("\n") == 1


EVERY_KERNEL = "from tests.support import kernel; print(*kernel.run_tables())"
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="settings of glibc")
def test_no_array_is_used_after_it_was_freed() -> None:
    """With these settings freed memory goes back to the system, so that using it is a segmentation fault.

    The first process compiles, which takes very long with them.
    """
    freed_at_once = {"MALLOC_MMAP_THRESHOLD_": "64", "MALLOC_MMAP_MAX_": "1000000"}
    for settings in ({}, freed_at_once):
        require_equal_counts(settings)


def require_equal_counts(settings: dict[str, str]) -> None:
    """Fail unless both searches of another process end, and find as many states."""
    command = [sys.executable, "-c", EVERY_KERNEL]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | settings, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split()
    assert first == second


@pytest.mark.kernel
@pytest.mark.slow(minutes=2)
def test_no_index_is_out_of_bounds() -> None:
    """With this setting the kernel is compiled with checks, and each index below 0 is refused."""
    require_equal_counts({"KRAFTCHECK_KERNEL": "debug"})


@pytest.mark.slow
def test_checked_code_refuses_what_is_out_of_bounds(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(
        "from pathlib import Path\nimport numpy as np\n"
        "from kraftcheck.explorer.native.compiling import kernel_compiler\n"
        "@kernel_compiler(Path(__file__).parent)\ndef at(numbers, index):\n    return numbers[index]\n"
    )
    program = (
        "import kernel, numpy as np\nfor index in (4, 5, -1):\n"
        "    try:\n        print(kernel.at(np.arange(5), index))\n"
        "    except IndexError as error:\n        print(error)\n"
    )
    environment = {**os.environ, "KRAFTCHECK_KERNEL": "debug", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment |= {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["4", *["index is out of bounds"] * 2]


FIRST_SEARCHES = """
from concurrent.futures import ThreadPoolExecutor
from kraftcheck import *

class Node(Record):
    id: int
    count: int = 0

class Counting(Protocol):
    def initial(self):
        yield self.start([Node(1), Node(2)])

    @internal
    def step(self, me: Node) -> Steps:
        if me.count < 3:
            yield become(me.but(count=me.count + 1))

with ThreadPoolExecutor(3) as pool:
    print(*pool.map(lambda _: check(Counting(), engine="tables", deadlock=False).distinct_states, range(3)))
"""


@pytest.mark.slow
@pytest.mark.kernel
def test_the_first_searches_of_a_process_are_in_threads(tmp_path: Path) -> None:
    file = tmp_path / "first_searches.py"
    file.write_text(FIRST_SEARCHES)
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=600)
    assert done.stdout.split() == ["16"] * 3, done.stderr
