"""Walk through a protocol step by step in the browser.

Only this machine can open the page. Ctrl-C ends the command.

exit codes: 0 ended by the user; 2 bad input

for example:
    kraftcheck explore lock-service
    kraftcheck explore reconfig --config small.cfg --trace trace.out
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import webbrowser

from kraftcheck.catalogue import requested_model
from kraftcheck.exploring.session import Server, Session
from kraftcheck.exploring.tree import StateTree
from kraftcheck.jobs import add_options, leniently_bound_job
from kraftcheck.reporting.lines import print_warnings

BROWSER_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Environment variables of a graphical browser. Without one of them a browser would run in the terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "model", "--config", "--set", "--variant")
    trace = "start with the traces of a file, such as a counterexample of check --trace"
    parser.add_argument("--trace", metavar="FILE", help=trace)
    add_options(parser, "--max-size")
    parser.add_argument(
        "--port", type=_parse_port, default=0, metavar="N", help="the port of the page (default: a free one)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address of the page")


def _parse_port(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a port from 1 to 65535, found {text!r}")


def run(arguments: argparse.Namespace) -> int:
    with requested_model(arguments) as model:
        job, warnings = leniently_bound_job(model, arguments, whole_space=True, properties=True)
        print_warnings(warnings)
        tree = StateTree(job, arguments.set)
        if arguments.trace:
            tree.open(arguments.trace, arguments.max_size)
    try:
        with Server(Session(tree, warnings), arguments.port) as server:
            print(f"{model.name}, configuration {job.config_name}: {server.address}\nCtrl-C ends it", flush=True)
            if not arguments.no_browser and (sys.platform == "darwin" or any(map(os.environ.get, BROWSER_VARIABLES))):
                threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
            server.serve_forever()
    except KeyboardInterrupt:
        print("ended", file=sys.stderr)
    return 0
