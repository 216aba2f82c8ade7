"""Notes that the user or the system asks a search to stop."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks a search to stop: Ctrl-C, the system, a terminal that is closed."""

PATIENCE = 3
"""Seconds after which whoever pressed Ctrl-C is told what is waited for."""


class Interruption:
    """Within it Ctrl-C, SIGTERM and SIGHUP are noted, once; a second one raises KeyboardInterrupt at once.

    Where the first does not end the search soon, as with an action that never ends, that is said on standard error.

    Outside the main thread, where Python allows no signal handlers, it does nothing; nor for a signal that is ignored.

    Parameters
    ----------
    hurry
        Called, in a thread of its own, when the search is asked to stop: it brings to an end what the search waits for.

    Attributes
    ----------
    asked
        Whether the search is asked to stop.
    """

    def __init__(self, hurry: Callable[[], None] | None = None) -> None:
        self.asked = False
        self._hurry = hurry
        self._before: dict[int, Any] = {}
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            heeded = [number for number in SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
            self._before = {number: signal.signal(number, self._note) for number in heeded}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        threading.Thread(target=self._explain, daemon=True).start()
        if self._hurry is not None:
            threading.Thread(target=self._hurry, daemon=True).start()

    def _explain(self) -> None:
        if not self._over.wait(PATIENCE):
            what = "interrupted: ending what is under way; Ctrl-C again ends it at once, and keeps less"
            print(f"\n{what}", file=sys.stderr, flush=True)
