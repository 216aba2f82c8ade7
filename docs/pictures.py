"""Make docs/pictures, and the tables of docs/performance.md from docs/figures.toml.

    python docs/pictures.py [report] [chart] [page]

The report of a counterexample needs the extra `browser` and Chromium, the chart the extra `docs`.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"
CHECK = (
    "reconfig",
    "--engine",
    "tables",
    "--variant",
    "second-vote-in-epoch",
    "--config",
    "fault.second-vote-in-epoch",
)
WINDOW = {"width": 1180, "height": 640}
COLORS = {  # text, lines, kraftcheck, peers
    "light": ("#1f2328", "#d1d9e0", "#0969da", "#9aa4af"),
    "dark": ("#e6edf3", "#3d444d", "#4493f8", "#7d8590"),
}


def figures() -> list[dict[str, Any]]:
    """Return the tables of the file of figures."""
    found: list[dict[str, Any]] = tomllib.loads((DOCS / "figures.toml").read_text())["table"]
    return found


def tables() -> dict[str, list[list[str]]]:
    """Return the rows of each table by its id."""
    return {table["id"]: table["rows"] for table in figures()}


def number(cell: str) -> float:
    """Return the first number of a cell."""
    found = re.search(r"[\d,]+(\.\d+)?", cell)
    assert found is not None, cell
    return float(found[0].replace(",", ""))


def bars(found: dict[str, list[list[str]]]) -> list[tuple[str, list[tuple[str, float, str]]]]:
    """Return the chart's two panels: a title, and bars of (label, length, figure)."""
    ours, theirs = (number(row[1]) for row in found["tlc"])
    large = number(found["large"][0][1])
    seconds = [
        ("kraftcheck, 1.5 million states", ours, f"{ours:g} s"),
        ("kraftcheck, 46 million states", large, f"{large:g} s"),
        ("TLC, 1.5 million states", theirs, f"{theirs:g} s"),
    ]
    names = ("C, for this protocol alone", "Spin", "stateright", "kraftcheck", "TLC")
    rates = [(name, number(row[2])) for name, row in zip(names, found["peers"], strict=True)]
    return [
        ("KRaft with reconfiguration: seconds, two workers", seconds),
        ("Two-phase commit: states a second on one core", [(name, rate, f"{rate:,.0f}") for name, rate in rates]),
    ]


def page(folder: Path) -> None:
    """Write each table's rows into its section of the page beside `folder`."""
    path = folder.parent / "performance.md"
    text = path.read_text()
    for table in figures():
        start = text.index(f"\n## {table['heading']}\n")
        rows = text.index("\n|---", start) + 1
        rows = text.index("\n", rows) + 1
        end = text.index("\n\n", rows) + 1
        text = text[:rows] + "".join(f"| {' | '.join(row)} |\n" for row in table["rows"]) + text[end:]
    path.write_text(text)


def chart(folder: Path) -> None:
    """Draw the chart as SVG whose text stays text."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    settings = {"svg.fonttype": "none", "svg.hashsalt": "kraftcheck", "font.family": "sans-serif", "font.size": 10}
    for name, (text, line, own, peer) in COLORS.items():
        with pyplot.rc_context({**settings, "text.color": text, "axes.labelcolor": text, "ytick.color": text}):
            panels = bars(tables())
            heights = [len(rows) for _, rows in panels]
            figure, places = pyplot.subplots(len(panels), figsize=(8.3, 3.4), height_ratios=heights)
            for place, (title, rows) in zip(places, panels, strict=True):
                labels, lengths, figures = zip(*rows, strict=True)
                colors = [own if label.startswith("kraftcheck") else peer for label in labels]
                drawn = place.barh(range(len(rows)), lengths, color=colors, height=0.62)
                place.bar_label(drawn, figures, padding=4)
                place.set_yticks(range(len(rows)), labels)
                place.invert_yaxis()
                place.set_title(title, loc="left", fontsize=11, fontweight="bold")
                place.set_xlim(0, max(lengths) * 1.16)
                place.xaxis.set_visible(False)
                place.tick_params(length=0)
                place.spines[["top", "right", "bottom"]].set_visible(False)
                place.spines["left"].set_color(line)
            figure.tight_layout(h_pad=1.2)
            metadata = {"Date": None, "Creator": None}
            figure.savefig(folder / f"chart-{name}.svg", transparent=True, metadata=metadata)
            pyplot.close(figure)


def report(folder: Path) -> None:
    """Check a model with a violated property, and take a picture of the report page."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        page_file = Path(scratch) / "report.html"
        command = [sys.executable, "-m", "kraftcheck", "check", *CHECK, "--quiet", "--report", str(page_file)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        assert done.returncode == 12, f"{' '.join(command)} ended with {done.returncode}, not with a violation"
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in COLORS:
            page = browser.new_page(viewport=WINDOW, color_scheme=name, device_scale_factor=1.5)
            page.goto(page_file.as_uri())
            page.wait_for_timeout(500)
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(64, dither=Image.Dither.NONE).save(folder / f"report-{name}.png", optimize=True)
        browser.close()


def main(wanted: list[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    for make in (report, chart, page):
        if not wanted or make.__name__ in wanted:
            make(PICTURES)


if __name__ == "__main__":
    main(sys.argv[1:])
