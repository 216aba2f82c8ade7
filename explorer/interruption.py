"""Interruption of searches, and of the process, by signals."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a search to stop: Ctrl-C, the system, a closed terminal."""

PATIENCE = 3
"""Seconds for the search to stop by itself; then Ctrl-C prints a message, and other signals raise an exception."""

GRACE = 4.5
"""Seconds from SIGTERM, SIGHUP or a second Ctrl-C to the end of the process; containers allow ten."""

EXIT_INTERRUPTED = 130


class Interruption:
    """Records the first Ctrl-C, SIGTERM or SIGHUP; a second one raises KeyboardInterrupt at once.

    If the search does not end within `PATIENCE`, as with an endless action, Ctrl-C prints a message. SIGTERM and SIGHUP
    raise KeyboardInterrupt then, since a second one may never come.

    Outside the main thread, where Python allows no signal handlers, the context does nothing. Ignored signals stay
    ignored.
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
        threading.Thread(target=self._urge, args=(number,), daemon=True).start()
        if self._hurry is not None:
            threading.Thread(target=self._hurry, daemon=True).start()

    def _urge(self, number: int) -> None:
        if self._over.wait(PATIENCE):
            return
        if number == signal.SIGINT:
            what = "interrupted: finishing the current work; Ctrl-C again ends it at once, and keeps less"
            print(f"\n{what}", file=sys.stderr, flush=True)
        elif (main := threading.main_thread().ident) is not None:
            signal.pthread_kill(main, number)


@contextmanager
def ending_soon() -> Iterator[None]:
    """Ensure that SIGTERM, SIGHUP or a second Ctrl-C ends the process within `GRACE` seconds.

    Python calls signal handlers only between two bytecodes of the main thread. A separate thread reads the signals from
    a pipe, so it ends the process even during compilation or a long call of compiled code.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    asked = threading.Event()

    def watch() -> None:
        interrupts = 0
        while number := os.read(reading, 1):
            interrupts += number[0] == signal.SIGINT
            if number[0] in (signal.SIGTERM, signal.SIGHUP) or interrupts > 1:
                asked.set()
                threading.Event().wait(GRACE)
                with suppress(OSError):
                    os.write(2, b"interrupted: the current work did not end in time\n")
                os._exit(EXIT_INTERRUPTED)
        os.close(reading)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))  # a child's signals must not arrive here
    try:
        yield
    finally:
        if not asked.is_set():  # else the thread must still end the process in time
            signal.set_wakeup_fd(-1)
            os.close(writing)
            thread.join(0.1)  # briefly: a signal may have come just now
