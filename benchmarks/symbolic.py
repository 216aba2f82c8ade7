"""Sets of states beside states one by one: distinct states, diagram nodes, time and memory.

    python benchmarks/symbolic.py                                     # the shipped configurations `default`
    python benchmarks/symbolic.py --only symbolic --model reconfig --config three-voters.cfg --set MaxRestarts=1
    python benchmarks/symbolic.py --only symbolic --model two-phase-commit --managers 20
    python benchmarks/symbolic.py --only symbolic --model reconfig --config three-voters.cfg --reverse  # another order
    python benchmarks/symbolic.py --ladder                            # what a final node costs, from few nodes to many

Each search is a process of its own, limited to --seconds. Properties of the configuration are checked, deadlock is not.
Compilation is left out: a small search goes before.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from kraftcheck.catalogue import find_config_name_and_content, find_model
from kraftcheck.engines import ENGINES
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.symbolic.engine import SATURATION_SEARCH, SymbolicSearch
from kraftcheck.explorer.symbolic.state_space import StateSpace
from kraftcheck.explorer.symbolic.variable_orders import shared_first_order
from kraftcheck.explorer.symbolic.variables import LayoutChanged, VariableLayout
from kraftcheck.spec.cfg.binding import bind, with_assignments
from kraftcheck.spec.cfg.config import parse_setting

MODELS = ("two-phase-commit", "lock-service", "prevote", "quorum", "reconfig", "recovery", "registration")
ENGINES_COMPARED = ("symbolic", "tables")
THREE_VOTERS = str(Path(__file__).resolve().parents[1] / "tests/data/tlc/counts/three-voters.cfg")
LADDER = (
    ["--model", "two-phase-commit", "--managers", "20"],
    ["--model", "reconfig", "--config", THREE_VOTERS],
    ["--model", "recovery"],
    ["--model", "quorum"],
    ["--model", "reconfig", "--config", THREE_VOTERS, "--set", "Value={v1, v2}"],
    ["--model", "reconfig", "--config", THREE_VOTERS, "--set", "MaxRestarts=1"],
    ["--model", "reconfig", "--config", THREE_VOTERS, "--set", "MaxRemoveReconfigs=1"],
    ["--model", "recovery", "--config", "large"],
    ["--model", "quorum", "--config", "large"],
    ["--model", "registration", "--config", "large"],
    ["--model", "reconfig", "--config", THREE_VOTERS, "--set", "MaxElections=2"],
    [
        *("--model", "reconfig", "--variant", "new-servers-on-one-host", "--config", THREE_VOTERS),
        *("--set", "MaxAddReconfigs=1", "--set", "MaxSpawnedServers=4"),
    ],
)
"""Searches by what they cost, more or less."""


class Reversed(SymbolicSearch):
    """A search whose variables stand in another order: what it counts must be the same."""

    def _layout(self) -> VariableLayout:
        layout = super()._layout()
        layout.replicas.reverse()
        return layout


class SharedFirst(SymbolicSearch):
    """A search that takes the order with shared fields first, whatever a smaller search says of it."""

    def _look_for_order(self, space: StateSpace) -> None:
        self._orders.give_up()
        space.variables.layout.order = shared_first_order(tuple(space.variables.keys))
        raise LayoutChanged


def one(given: argparse.Namespace, engine: str) -> dict[str, Any]:
    """Search, and return what was measured."""
    model = find_model(given.model, given.variant)
    _, config = find_config_name_and_content(model, given.config)
    settings = list(given.set)
    if given.managers:
        settings.append("RM={" + ",".join(f"rm{number}" for number in range(1, given.managers + 1)) + "}")
    bound = bind(model.protocol, with_assignments(config, [parse_setting(text, config) for text in settings]))
    small = find_model("two-phase-commit")
    search_small = bind(small.protocol, find_config_name_and_content(small, "smoke")[1])
    order = SATURATION_SEARCH if engine == "symbolic" else "bfs"
    ENGINES[engine].run(search_small.protocol, SearchRequest(search=order))
    plain = {"symmetry": None, "reachable": (), "deadlock": False, "search": order, "time_limit": given.seconds}
    options = replace(SearchRequest.of(bound), **plain)
    began, worked, nodes, made, peak = time.monotonic(), time.process_time(), 0, 0, 0
    if engine == "symbolic":
        kind = Reversed if given.reverse else SharedFirst if given.shared_first else SymbolicSearch
        search = kind(bound.protocol, options)
        result = search.run()
        if search.space is not None:
            made, nodes, peak = search.space.store.nodes_made, search.nodes, search.space.store.peak_nodes
    else:
        result = ENGINES[engine].run(bound.protocol, options)
    return {
        "states": result.distinct_states,
        "limit": result.limit,
        "nodes": nodes,
        "made": made,
        "peak": peak,
        "seconds": time.monotonic() - began,
        "processor": time.process_time() - worked,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def line(name: str, engine: str, found: dict[str, Any]) -> str:
    """Return a line of the table."""
    states = "-" if found["limit"] and engine == "symbolic" else f"{found['states']:,}"
    seconds = f"{found['seconds']:>8.1f} s {found['processor']:>8.1f} s"
    nodes = f"{found['nodes']:>10,} {found['peak']:>11,} {found['made']:>11,}"
    each = f"{found['processor'] * 1e9 / max(found['nodes'], 1):>11,.0f}"
    stopped = f"  stopped: {found['limit']}" if found["limit"] else ""
    return f"{name:<40} {engine:<9} {states:>28} {nodes} {seconds} {each} {found['megabytes']:>8,.0f} MiB{stopped}"


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--variant")
    parser.add_argument("--config", default="default")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--managers", type=int, help="resource managers of two-phase-commit")
    parser.add_argument("--reverse", action="store_true", help="the replicas' variables in the opposite order")
    parser.add_argument("--shared-first", action="store_true", help="shared fields before the replicas' variables")
    parser.add_argument("--only", choices=ENGINES_COMPARED)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--child", choices=ENGINES_COMPARED, help=argparse.SUPPRESS)
    parser.add_argument("--ladder", action="store_true", help="many searches by sets, from few nodes to many")
    given = parser.parse_args()
    if given.child:
        print(json.dumps(one(given, given.child)))
        return
    times = f"{'time':>10} {'processor':>10}"
    nodes = f"{'nodes':>10} {'at one time':>11} {'ever made':>11}"
    print(f"{'':<40} {'engine':<9} {'states':>28} {nodes} {times} {'ns a node':>11} {'peak':>12}")
    for words in LADDER if given.ladder else ([],):
        search(parser.parse_args([*sys.argv[1:], *words]))


def search(given: argparse.Namespace) -> None:
    """Search, each engine in a process of its own, and print what was measured."""
    engines = ("symbolic",) if given.ladder else (given.only,) if given.only else ENGINES_COMPARED
    for model in (given.model,) if given.model else MODELS:
        for engine in engines:
            words = [*given_again(given), "--model", model, "--child", engine]
            command = [sys.executable, __file__, *words]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=given.seconds + 120)
            except subprocess.TimeoutExpired:
                print(f"{model:<40} {engine:<9} did not stop", flush=True)
                continue
            name = " ".join(
                [model, Path(given.config).stem, *given.set, *([f"x{given.managers}"] if given.managers else [])]
            )
            if done.returncode:
                print(f"{name:<40} {engine:<9} {done.stderr.strip().splitlines()[-1]}", flush=True)
            else:
                print(line(name, engine, json.loads(done.stdout)), flush=True)


def given_again(given: argparse.Namespace) -> list[str]:
    """Return the options that a child needs."""
    words = ["--config", given.config, "--seconds", str(given.seconds), *["--reverse"] * given.reverse]
    words += ["--shared-first"] * given.shared_first
    words += ["--variant", given.variant] if given.variant else []
    words += [word for text in given.set for word in ("--set", text)]
    return [*words, *(["--managers", str(given.managers)] if given.managers else [])]


if __name__ == "__main__":
    main()
