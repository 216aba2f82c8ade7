"""What a temporal property costs: beside the safety search of the same model, and beside TLC on the same property.

    python benchmarks/temporal.py [--spec KRaftWithReconfig.tla --jar tla2tools.jar] [--runs 3]

The model is three-voters: 1.5 million states, 3.6 million steps. The property, ValuesNotStuck, is of the form
"infinitely often", under weak fairness of the next-state action (LivenessSpec). Whole processes, in turn, with one
worker each and empty tables; compiled code is cached by runs that are not counted. The specification is not part of
this project: give your own copy (with its module MessagePassing beside it), or leave TLC out.

    python benchmarks/temporal.py --rings 171

is about strong fairness: three walkers on rings of so many places, each of whom may pass a gate only while another
stands at an even place. That is 5 million states in one component; everyone comes home again and again if passing the
gate is strongly fair, and need not if it is weakly fair.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kraftcheck import (
    Formula,
    Map,
    Protocol,
    Record,
    State,
    Steps,
    at,
    become,
    constant,
    infinitely_often,
    internal,
    predicate,
    projection,
    strong,
    temporal,
    weak,
)

CONFIG = Path(__file__).parents[1] / "tests" / "data" / "tlc" / "counts" / "three-voters.cfg"
LEAST = 100
"""How many times the processor time of ours TLC should take."""
MOST = 3
"""How many times the processor time of a safety search a temporal one may take."""


class Walker(Record):
    id: int
    at: int = 0


class Nothing(Record):
    pass


class Rings(Protocol):
    """Three walkers, each on a ring with a gate."""

    places: int = constant("Places", at_least=3)
    specifications = {
        "Strong": (weak("Walk", each="replica"), strong("Pass", each="replica")),
        "Weak": (weak("Walk", each="replica"), weak("Pass", each="replica")),
    }

    def initial(self) -> Iterator[State]:
        yield self.start(map(Walker, (1, 2, 3)), Nothing())

    @projection
    def even(self, me: Walker) -> bool:
        return me.at % 2 == 0

    @internal
    def walk(self, me: Walker) -> Steps:
        if me.at < self.places - 1:
            yield become(me.but(at=me.at + 1))

    @internal(name="Pass", reads=even)
    def pass_the_gate(self, me: Walker, even: Map[int, bool]) -> Steps:
        if me.at == self.places - 1 and even[me.id % 3 + 1]:
            yield become(me.but(at=0))

    @predicate
    def home(self, me: Walker) -> bool:
        return me.at == 0

    @temporal
    def comes_home(self) -> Formula:
        return infinitely_often(at(1, self.home))


def configured(folder: Path, *, temporal: bool) -> Path:
    """Write a `.cfg` of the model, with its invariants or with the temporal property."""
    text = re.sub(r"CHECK_DEADLOCK \w+", "", CONFIG.read_text())
    if temporal:
        text = text.split("INIT Init")[0] + "SPECIFICATION LivenessSpec\nPROPERTY ValuesNotStuck\n"
    path = folder / ("temporal.cfg" if temporal else "safety.cfg")
    path.write_text(text)
    return path


def processor_time(command: list[str], folder: str) -> tuple[float, int, str]:
    """Run a command to its end; return its processor seconds, its peak resident bytes and what it printed."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, output


def run_kraftcheck(config: Path) -> tuple[float, int]:
    """Run kraftcheck once."""
    command = [sys.executable, "-m", "kraftcheck", "check", "reconfig", "--config", str(config), "--no-deadlock"]
    seconds, peak, output = processor_time([*command, "--engine", "tables", "--workers", "1", "--quiet"], os.getcwd())
    if "OK: nothing is violated; 1,501,534 distinct states" not in output:
        sys.exit(f"kraftcheck found something else:\n{output[-2000:]}")
    return seconds, peak


def run_tlc(jar: str, spec: Path, config: Path) -> tuple[float, int]:
    """Run TLC once, with one worker."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["java", "-XX:+UseSerialGC", "-cp", jar, "tlc2.TLC", "-workers", "1", "-metadir", folder, "-deadlock"]
        path = os.path.relpath(config, spec.parent)
        seconds, peak, output = processor_time([*command, "-config", path, str(spec)], str(spec.parent))
    if "No error has been found" not in output or "1501534 distinct states" not in output.replace(",", ""):
        sys.exit(f"TLC found something else:\n{output[-2000:]}")
    return seconds, peak


def run_rings(places: int) -> None:
    """Print what strong fairness takes on the rings, and that weak fairness is not enough."""
    with tempfile.TemporaryDirectory() as name:
        for specification, expected in (
            ("Strong", "OK: nothing is violated"),
            ("Weak", "VIOLATION: violated: ComesHome"),
        ):
            config = Path(name) / "rings.cfg"
            for size in (3, places):  # the first compiles, and is not counted
                config.write_text(f"CONSTANT Places = {size}\nSPECIFICATION {specification}\nPROPERTY ComesHome\n")
                command = [sys.executable, "-m", "kraftcheck", "check", f"{__file__}:Rings", "--config", str(config)]
                seconds, peak, output = processor_time([*command, "--engine", "tables", "--quiet"], os.getcwd())
                if expected not in output:
                    sys.exit(f"kraftcheck found something else:\n{output[-2000:]}")
            found = output[output.index(expected) :].strip()
            print(
                f"  {specification:8} {seconds:9.2f} s of the processor  {peak / 2**20:8,.0f} MiB  {found}", flush=True
            )


def told(what: str, runs: list[tuple[float, int]]) -> float:
    """Print what runs took; return the median of their processor times."""
    seconds = [run[0] for run in runs]
    median = statistics.median(seconds)
    listed = ", ".join(f"{one:.2f}" for one in seconds)
    print(f"  {what:36} {median:9.2f} s  ({listed})  {max(run[1] for run in runs) / 2**20:8,.0f} MiB", flush=True)
    return median


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", type=Path, help="your copy of the specification")
    parser.add_argument("--jar", help="a TLC jar, or a class path")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rings", type=int, metavar="PLACES", help="strong fairness on so many places, nothing else")
    options = parser.parse_args()
    if options.rings:
        run_rings(options.rings)
        return
    with tempfile.TemporaryDirectory() as name:
        configs = [configured(Path(name), temporal=temporal) for temporal in (False, True)]
        for config in configs:
            run_kraftcheck(config)
        pairs = [[run_kraftcheck(config) for config in configs] for _ in range(options.runs)]
        print("three-voters, processor time and peak memory")
        safety = told("safety (five invariants)", [one for one, _ in pairs])
        temporal = told("[]<> under WF, the graph included", [one for _, one in pairs])
        print(f"  temporal / safety: {temporal / safety:.2f}, at most {MOST} wanted")
        if options.jar and options.spec:
            theirs = told("TLC, the same property", [run_tlc(options.jar, options.spec.resolve(), configs[1])])
            print(f"  TLC / kraftcheck: {theirs / temporal:.0f}, at least {LEAST} wanted")


if __name__ == "__main__":
    main()
