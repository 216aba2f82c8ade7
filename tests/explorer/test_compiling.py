"""Compiled code that is found on disk is loaded without what only compiling needs."""

from __future__ import annotations

import subprocess
import sys

import numba
import pytest

from kraftcheck.explorer.native import compiling

pytestmark = pytest.mark.kernel

PROGRAM = """
import sys
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


def test_nothing_is_made_ready_for_code_that_is_there() -> None:
    if not numba.__version__.startswith(compiling._TAKEN_AT_ONCE):
        pytest.skip(f"Numba {compiling._TAKEN_AT_ONCE}*, whose cache is known")
    searched()  # this compiles what is not there
    assert searched() == ["0", "0"]


def test_of_another_release_nothing_is_taken_for_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    known = compiling._compiled(searched, compiling.cache_folder())
    monkeypatch.setattr(numba, "__version__", "99.0.0")
    unknown = compiling._compiled(searched, compiling.cache_folder())
    assert (type(known._cache), type(unknown._cache)) == (compiling._Cache, compiling._Cache.__mro__[1])


def test_what_compiles_nothing_does_without_the_compiler() -> None:
    program = "import sys; import kraftcheck.explorer.reference; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
