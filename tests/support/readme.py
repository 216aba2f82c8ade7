"""The commands of README.md and docs/commands.md, and the lines that the pages show of their output."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()


def consoles(page: str) -> list[tuple[str, str]]:
    """Return the command and the shown lines of each console block."""
    return re.findall(r"^```console\n\$ (.+)\n((?:.*\n)*?)```$", page, re.MULTILINE)


CONSOLE = consoles(README) + consoles(COMMANDS)
TABLE: list[str] = re.findall(r"^\| `kraftcheck ([^`]+)` \|", README, re.MULTILINE)
SHELL: list[str] = re.findall(r"^```sh\n((?:.*\n)*?)```$", README, re.MULTILINE)
(PROGRAM,) = re.findall(r"^```python\n((?:.*\n)*?)```$", README, re.MULTILINE)


def write_program(folder: Path) -> None:
    """Write the README's protocol to `ring.py`."""
    (folder / "ring.py").write_text(PROGRAM)


def lacking(shown: str, printed: str) -> list[str]:
    """Return the shown lines that the output lacks, or has in another order. Spaces do not count."""
    rest = iter(printed.splitlines())
    wanted = [squeezed(line) for line in shown.splitlines() if line.strip()]
    return [line for line in wanted if not any(line in squeezed(found) for found in rest)]


def squeezed(line: str) -> str:
    return " ".join(line.split())
