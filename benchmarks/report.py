"""How quick the page of `--report` is in Chromium: to open, and while it is scrolled.

    python benchmarks/report.py

For a behaviour of 24 states with 5 replicas and 60 messages, and for one of 2,000 states with 3,000 messages: the size
of the page, the time to open it, how long a frame takes while it is scrolled a window a frame (half of them, 95 of 100
and all take no longer), and the work of the main thread for a frame. It needs the extra `browser` and Chromium. The
last is what to compare: the others wait for whatever else runs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from kraftcheck.reporting.report import report_page
from tests.support.browser import Watched, chromium
from tests.support.reports import made_up


def main() -> None:
    """Print a line for each behaviour."""
    print(
        f"{'states':>8} {'KB':>8} {'open, ms':>9} {'frame, ms':>10} {'95 %':>6} {'longest':>8} {'work a frame, ms':>17}"
    )
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for states, messages in ((24, 60), (2_000, 3_000)):
            file = Path(folder) / f"{states}.html"
            file.write_text(report_page([made_up(states, replicas=5, messages=messages)]), encoding="utf-8")
            watched = Watched(browser.new_page(viewport={"width": 1400, "height": 900}))
            watched.open(file)
            before = watched.worked()
            frames = watched.scroll()
            work = (watched.worked() - before) / len(frames)
            half, most = frames[len(frames) // 2], frames[len(frames) * 95 // 100]
            size = file.stat().st_size / 1000
            times = f"{watched.opened():>9,.0f} {half:>10,.0f} {most:>6,.0f} {frames[-1]:>8,.0f}"
            print(f"{states:>8,} {size:>8,.0f} {times} {work:>17,.1f}")


if __name__ == "__main__":
    main()
