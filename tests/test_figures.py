"""The figures of speed: docs/figures.toml, docs/performance.md, the README and the chart agree."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TABLES: list[dict[str, Any]] = tomllib.loads((DOCS / "figures.toml").read_text())["table"]
PAGE = (DOCS / "performance.md").read_text()
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def numbers(text: str) -> set[str]:
    return set(NUMBER.findall(text))


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("table", TABLES, ids=[table["id"] for table in TABLES])
def test_the_page_has_the_cells_command_machine_and_date_of_each_table(table: dict[str, Any]) -> None:
    text = section(table["heading"])
    head, _, *body = rows(text)
    assert [head, *body] == [table["columns"], *table["rows"]]
    assert f"`{table['command']}`" in text
    assert f"{table['machine']}; {table['date']}".lower() in text.lower()


def test_each_table_of_the_page_is_in_the_file() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert [one for one in headings if rows(section(one))] == [table["heading"] for table in TABLES]


def test_the_readme_quotes_no_other_figure_of_speed() -> None:
    known = {
        number for table in TABLES for row in [table["columns"], *table["rows"]] for number in numbers(" ".join(row))
    }
    items = re.findall(r"^- (?:.|\n(?!- |\n))+", (ROOT / "README.md").read_text(), re.MULTILINE)
    quoting = [item for item in items if "docs/performance.md" in item]
    assert len(quoting) == 3
    for item in quoting:
        assert numbers(item) <= known, item


def test_the_charts_show_the_figures_of_the_file() -> None:
    sys.path.insert(0, str(DOCS))
    try:
        import pictures
    finally:
        sys.path.remove(str(DOCS))
    for name in ("light", "dark"):
        drawn = (DOCS / "pictures" / f"chart-{name}.svg").read_text()
        for title, bars in pictures.bars(pictures.tables()):
            for text in (title, *(part for label, _, figure in bars for part in (label, figure))):
                assert f">{text}</text>" in drawn, text
