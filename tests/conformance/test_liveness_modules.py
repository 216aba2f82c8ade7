"""Temporal properties of examples and of random protocols: verdicts are those of TLC, lassos replay both ways."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.explorer import reference
from kraftcheck.explorer.result import Options
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.crosscheck.tlc import find_tool
from kraftcheck.traces.replay.replayer import Replayer, ReplayVerdict
from tests.support import live
from tests.support.explorer.lassos import require_counterexample

ENGINES = [
    pytest.param(reference.explore, id="reference"),
    pytest.param(tables.explore, id="tables", marks=[pytest.mark.kernel, pytest.mark.slow]),
]
MODULES = sorted({one["module"] for one in live.recorded()})


def pairs_of(module: str) -> list[list[dict[str, Any]]]:
    """Return what TLC said of a module, by what is one search: the properties of one specification."""
    mine = [one for one in live.recorded() if one["module"] == module]
    if module == "Walks":
        return [[one] for one in mine]
    return [list(found) for _, found in groupby(mine, key=lambda one: (one["settings"], one["specification"]))]


def ours(pairs: list[dict[str, Any]]) -> tuple[Protocol, Options]:
    one = pairs[0]
    if one["module"] == "Walks":
        return live.walks(live.described(one["settings"]))
    properties = [pair["property"] for pair in pairs]
    return live.options_of(one["module"], one["settings"], one["specification"], properties)


def told(one: dict[str, Any]) -> str:
    return ", ".join(str(one[name]) for name in ("module", "settings", "specification", "property"))


@pytest.mark.parametrize("explore", ENGINES)
@pytest.mark.parametrize(
    "module", [pytest.param(name, marks=[pytest.mark.slow] * (name == "MCEwd998")) for name in MODULES]
)
def test_verdicts_are_those_of_tlc(explore: Any, module: str) -> None:
    for pairs in pairs_of(module):
        protocol, options = ours(pairs)
        found = explore(protocol, options)
        violated = {violation.property for violation in found.violations}
        assert violated == {one["property"] for one in pairs if one["verdict"] == "violated"}, told(pairs[0])
        assert found.distinct_states == pairs[0]["distinct"], told(pairs[0])
        for violation in found.violations:
            require_counterexample(protocol, options, violation)


@pytest.mark.parametrize("module", MODULES)
def test_counterexamples_of_tlc_are_ours_too(module: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.out"
    for pairs in pairs_of(module):
        replayer = Replayer(ours(pairs)[0])
        for one in pairs:
            if one["verdict"] != "violated":
                continue
            text = one["trace"].replace("Temporal properties were", f"Temporal properties {one['property']} were")
            if one.get("misnumbered"):  # see README.md
                text = re.sub(r"^State (\d+): Stuttering", r"Back to state \1", text, flags=re.MULTILINE)
            path.write_text(text)
            (replay,) = replayer.replay(path)
            found = replay.verdict, replay.violated
            assert found == (ReplayVerdict.CONFORMS, one["property"]), f"{told(one)}: {replay.reason}"
            assert not [note for note in replay.notes if "is true of it" in note], told(one)


def test_both_kinds_of_counterexample_are_well_represented() -> None:
    kinds = Counter(one.get("ends") for one in live.recorded())
    assert len(live.recorded()) >= 30
    assert min(kinds["stuttering"], kinds["back"], kinds[None]) >= 30
    assert sum(one["module"] == "Walks" for one in live.recorded()) >= 20


@pytest.mark.tlc
@pytest.mark.slow
def test_tlc_still_says_so(tmp_path: Path) -> None:
    """A few of them, with the TLC that is there."""
    tool = find_tool()
    walks = [one for one in live.recorded() if one["module"] == "Walks"]
    locks = [one for one in live.recorded() if one["module"] == "MCLock" and one["specification"] == "Busy"]
    for number, one in enumerate([*walks[::14], *locks[1:3]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        if one["module"] == "Walks":
            (folder / "Walks.tla").write_text(live.module_of(live.described(one["settings"])))
            config = live.config_of("", "", "Spec", ["Claim"])
        else:
            shutil.copy(live.MODULES / "MCLock.tla", folder)
            shutil.copy(live.MODULES.parents[1] / "toy" / "LockService.tla", folder)
            config = live.config_of(one["settings"], live.NAMED["MCLock"][1], one["specification"], [one["property"]])
        (folder / "x.cfg").write_text(config)
        command = [tool.java, "-XX:+UseSerialGC", "-Xmx300m", "-cp", tool.class_path, "tlc2.TLC", "-deadlock"]
        command += ["-config", "x.cfg", one["module"]]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert ("Temporal properties were violated" in done.stdout) is (one["verdict"] == "violated"), done.stdout
