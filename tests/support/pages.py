"""Runs the examples of a page: each section is a module, and what stands after `>>>` in it prints what is shown."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

BLOCK = re.compile(r"^```python\n((?:.*\n)*?)```$", re.MULTILINE)


class Section(NamedTuple):
    """A section of a page.

    Attributes
    ----------
    title
        Its heading.
    preamble
        The Python that stands before the first heading, which belongs to all sections.
    own
        The Python in it: the blocks of code that are no session.
    sessions
        What is typed, and what comes of it.
    """

    title: str
    preamble: str
    own: str
    sessions: str

    @property
    def program(self) -> str:
        return self.preamble + "\n\n" + self.own

    @property
    def module_name(self) -> str:
        return "page_" + re.sub(r"\W+", "_", self.title.lower())


def sections(page: Path) -> list[Section]:
    """Return the sections of a page that have Python in them. What stands before the first heading belongs to all."""
    before, *parts = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    preamble = "".join(BLOCK.findall(before))
    found = []
    for part in parts:
        blocks = BLOCK.findall(part)
        programs = [block for block in blocks if not block.startswith(">>> ")]
        sessions = [block for block in blocks if block.startswith(">>> ")]
        if blocks:
            found.append(Section(part.partition("\n")[0], preamble, "\n\n".join(programs), "\n".join(sessions)))
    return found


@contextmanager
def module_of(section: Section, folder: Path) -> Iterator[ModuleType]:
    """Write a section's program to a file and import it, as long as this context lasts."""
    file = folder / f"{section.module_name}.py"
    file.write_text(section.program)
    spec = importlib.util.spec_from_file_location(section.module_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[section.module_name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[section.module_name]


def problems(section: Section, module: ModuleType) -> str:
    """Return what differs from what the sessions of a section show."""
    told: list[str] = []
    test = doctest.DocTestParser().get_doctest(section.sessions, vars(module), section.title, None, 0)
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    return "".join(told)
