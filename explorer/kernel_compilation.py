"""Compile times, and the folder of compiled code.

No kernel module may be imported before the first call of `replace_unusable_cache_folder`, which chooses the folder.
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import Any

from kraftcheck.explorer.result import SEARCH_CLOCK
from kraftcheck.files import folder_distrust_reason
from kraftcheck.spec.errors import InputError

_IMPORTING_NUMBA = Lock()  # threads that import it at once may wait for each other
LEAST_ADDRESS_SPACE_BYTES = 1 << 30
"""Least bytes of address space for a compiled engine: with less, LLVM ends the process."""


def _require_compiler_can_run() -> None:
    """Raise InputError if the environment prevents Numba from compiling."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE_BYTES:
        least = f"{LEAST_ADDRESS_SPACE_BYTES >> 10:,} KB"
        expected = f"expected at least {least} for compiled engines, found {limit >> 10:,} KB"
        raise InputError(f"the limit on address space (ulimit -v): {expected}; --engine reference needs less")
    disabled, threads = (os.environ.get(name, "").strip() for name in ("NUMBA_DISABLE_JIT", "NUMBA_NUM_THREADS"))
    if disabled not in ("", "0"):
        raise InputError(f"NUMBA_DISABLE_JIT: expected it not to be set, found {disabled[:20]}: engines are compiled")
    if threads.lstrip("-").isdecimal() and len(threads) < 20 and int(threads) < 1:
        raise InputError(f"NUMBA_NUM_THREADS: expected a number of at least 1, found {threads}")


@cache
def replace_unusable_cache_folder() -> str | None:
    """Return the reason why the folder for compiled code is unusable, and replace it by a temporary one; else None."""
    _require_compiler_can_run()
    given = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    problem: str | None = f"{given} cannot be written to"
    with suppress(OSError, RuntimeError):
        folder = Path(given).expanduser() / "kraftcheck"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if os.access(folder, os.W_OK):
            problem = folder_distrust_reason(folder)  # cached code is executed
    if problem is None:
        return None
    own = mkdtemp(prefix="kraftcheck-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = own
    elsewhere = "so each run compiles again; set NUMBA_CACHE_DIR to another folder"
    return f"the compiled kernel cannot be kept: {problem}, {elsewhere}"


def are_kernels_compiled() -> bool:
    """Whether the kernels that take longest to compile are compiled, in this process or in Numba's cache."""
    replace_unusable_cache_folder()
    from kraftcheck.explorer.tables.kernel.expand import expand_batch
    from kraftcheck.explorer.tables.kernel.resolve import resolve_misses_of_states

    with suppress(OSError):
        return all(
            one.signatures or one._cache._cache_file._load_index() for one in (expand_batch, resolve_misses_of_states)
        )
    return True


class CompileTimer:
    """Listener that adds up the time of compilation."""

    def __init__(self, on_start: Callable[[], object] | None) -> None:
        self.seconds, self._began, self._depth = 0.0, 0.0, 0
        self._on_start = on_start

    def notify(self, event: Any) -> None:
        """Handle the start or the end of a compilation, which may be nested in another."""
        self._depth += 1 if event.is_start else -1
        if event.is_start and self._depth == 1:
            self._began = time.monotonic()
            if self._on_start is not None:
                self._on_start()
            self._on_start = None
        elif self._depth == 0:
            seconds = time.monotonic() - self._began
            self.seconds += seconds
            SEARCH_CLOCK.compiling += seconds


@contextmanager
def timed_compilation(on_start: Callable[[], object] | None = None) -> Iterator[CompileTimer]:
    """Measure compilation within the block; the clock of searches stops meanwhile."""
    with _IMPORTING_NUMBA:
        from numba.core import event

    events: Any = event  # what Numba exports without annotations
    compiling = CompileTimer(on_start)
    events.Listener.register(CompileTimer)
    events.register("numba:compile", compiling)
    try:
        yield compiling
    finally:
        events.unregister("numba:compile", compiling)


def compiled_code_folder() -> str:
    """Return the folder of compiled code."""
    from kraftcheck.explorer.tables.kernel import CACHE_FOLDER

    return CACHE_FOLDER
