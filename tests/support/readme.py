"""The README's commands, what it shows of them, and the program that it has its reader write."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONSOLE: list[tuple[str, str]] = re.findall(r"^```console\n\$ (.+)\n((?:.*\n)*?)```$", README, re.MULTILINE)
TIMES = re.compile(r"[\d.,]+ s; [\d,]+ states/s")


PROGRAMS: list[str] = re.findall(r"^```python\n((?:.*\n)*?)```$", README, re.MULTILINE)
WAY = re.search(r"^## Eight commands .*\n(?:.*\n)*?```sh\n((?:.*\n)*?)```$", README, re.MULTILINE)


def way() -> list[str]:
    """Return the commands from nothing to a protocol of one's own."""
    assert WAY is not None
    return WAY[1].splitlines()


def write_program(folder: Path) -> None:
    """Write the README's protocol to `ring.py`, and its test to `test_ring.py`."""
    for name, what in (("ring.py", "class Ring"), ("test_ring.py", "def test_ring")):
        (program,) = [one for one in PROGRAMS if what in one]
        (folder / name).write_text(program)


LINES = re.compile(r"\.py:\d+")


def difference(shown: str, printed: str) -> str | None:
    """Return what was printed, without times and numbers of lines, if it is not what the README shows."""
    printed = "\n".join(line.rstrip() for line in printed.rstrip().split("\n")) + "\n"
    wanted, found = (LINES.sub(".py:LINE", TIMES.sub("TIME", text)) for text in (shown, printed))
    return None if doctest.OutputChecker().check_output(wanted, found, doctest.ELLIPSIS) else found
