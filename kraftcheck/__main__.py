"""The entry point of `kraftcheck` and `python -m kraftcheck`. It imports little before it handles signals."""

import _thread
import os
import sys
import time
from types import FrameType

MAX_DELAY_SECONDS = 2
"""Seconds for which an import may delay a signal."""
delayed_since: list[float] = []
"""The time of the first signal during an import."""
received: list[int] = []
"""The signals that came."""


def main() -> int:
    """Run the command line of this process and return the exit code."""
    sys.unraisablehook = _repeat_ignored_interrupt
    try:
        import signal

        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        for number, handler in before.items():
            if handler in (signal.default_int_handler, signal.SIG_DFL):
                signal.signal(number, _interrupt_after_import)
        from kraftcheck.cli import main

        try:
            return main()
        finally:  # the report is complete, so a signal ends the process without a traceback
            for number in before:
                if signal.getsignal(number) is _interrupt_after_import:
                    signal.signal(number, signal.SIG_DFL)
    except ModuleNotFoundError as error:
        from kraftcheck import _missing_link_message

        message = _missing_link_message(error)
        if message is None:
            raise
        print(f"kraftcheck: error: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # while modules are imported, or an error is reported
        exec("")  # where `exec` was interrupted, CPython would end by the signal
        print("interrupted", file=sys.stderr)
        return 130


def _interrupt_after_import(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, after an import has ended: extension modules ignore it, and `__set_name__` wraps it."""
    received.append(number)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>" and _is_first_delay_recent():
            _repeat_signal(number)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _is_first_delay_recent() -> bool:
    """Whether the first delayed interrupt is recent: the import of a protocol may never end."""
    if not delayed_since:
        delayed_since.append(time.monotonic())
    return time.monotonic() - delayed_since[0] < MAX_DELAY_SECONDS


def _repeat_ignored_interrupt(ignored: "sys.UnraisableHookArgs") -> None:
    """Repeat a KeyboardInterrupt that Python ignored in a destructor or in an import callback."""
    if ignored.exc_type is KeyboardInterrupt:
        _repeat_signal(received[-1] if received else 2)
    else:
        sys.__unraisablehook__(ignored)


def _repeat_signal(number: int) -> None:
    def interrupt() -> None:
        time.sleep(0.01)  # until Python has left the callback or the import
        os.kill(os.getpid(), number)  # a signal also ends a blocking call

    _thread.start_new_thread(interrupt, ())


if __name__ == "__main__":
    sys.exit(main())
