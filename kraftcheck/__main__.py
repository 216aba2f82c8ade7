"""The entry point of `kraftcheck` and `python -m kraftcheck`. It imports little before it handles Ctrl-C."""

import _thread
import os
import sys
import time
from types import FrameType


def main() -> int:
    """Run the command line of this process and return the exit code."""
    sys.unraisablehook = _repeat_ignored_interrupt
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        from kraftcheck.cli import main

        return main()
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


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; within the import of an extension module, later, since its C code may ignore it."""
    while frame is not None:
        if type(frame.f_locals.get("self")).__name__ == "ExtensionFileLoader":
            _repeat_interrupt()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _repeat_ignored_interrupt(ignored: "sys.UnraisableHookArgs") -> None:
    """Repeat a KeyboardInterrupt that Python ignored in a destructor or in an import callback."""
    if ignored.exc_type is KeyboardInterrupt:
        _repeat_interrupt()
    else:
        sys.__unraisablehook__(ignored)


def _repeat_interrupt() -> None:
    def interrupt() -> None:
        time.sleep(0.05)  # until Python has left the callback or the import
        os.kill(os.getpid(), 2)  # SIGINT also ends a blocking call

    _thread.start_new_thread(interrupt, ())


if __name__ == "__main__":
    sys.exit(main())
