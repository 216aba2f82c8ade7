"""The entry point of `kraftcheck` and `python -m kraftcheck`. It imports little before it handles Ctrl-C."""

import _thread
import os
import sys
import time


def main() -> int:
    """Run the command line of this process and return the exit code."""
    sys.unraisablehook = _repeat_ignored_interrupt
    try:
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


def _repeat_ignored_interrupt(ignored: "sys.UnraisableHookArgs") -> None:
    """Repeat a KeyboardInterrupt that Python ignored in a destructor or in an import callback."""
    if ignored.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(ignored)
        return

    def interrupt() -> None:
        time.sleep(0.05)  # until Python has left the callback
        os.kill(os.getpid(), 2)  # SIGINT also ends a blocking call; `signal` is not imported yet

    _thread.start_new_thread(interrupt, ())


if __name__ == "__main__":
    sys.exit(main())
