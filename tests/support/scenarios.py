"""Scenario files, run and compared with their recorded output."""

from __future__ import annotations

from pathlib import Path

from kraftcheck.reporting.scenarios import ScenarioRun
from kraftcheck.traces.scenarios import CommandsWithOutput, ScenarioError, blocks_as_text, parse_scenario_blocks


def run_scenario(path: Path, *, rewrite: bool = False) -> list[tuple[CommandsWithOutput, list[str]]]:
    """Run a scenario file; return its blocks, each with the output of its commands."""
    try:
        blocks, after = parse_scenario_blocks(path.read_text(encoding="utf-8"))
    except ScenarioError as error:
        raise ScenarioError(f"{path.name}, {error}") from None
    running = ScenarioRun()
    found: list[tuple[CommandsWithOutput, list[str]]] = []
    for block in blocks:
        shown: list[str] = []
        for number, command in enumerate(block.commands, start=block.line):
            try:
                shown += running.run(command)
            except Exception as error:
                raise ScenarioError(f"{path.name}, line {number}: {command}: {error}") from error
        found.append((block, shown))
    if rewrite:
        path.write_text(blocks_as_text([block._replace(told=shown) for block, shown in found], after), encoding="utf-8")
    return found
