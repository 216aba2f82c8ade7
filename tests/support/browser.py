"""A real browser, Debian's Chromium, without a window."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

SCROLL = """async () => {
  const scroller = document.querySelector(".scroller");
  const frames = [];
  let before = performance.now();
  for (let top = 0; top < scroller.scrollHeight; top += 900) {
    scroller.scrollTop = top;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    frames.push(now - before);
    before = now;
  }
  return frames;
}"""


def missing() -> str | None:
    """Return what a test in a browser needs and this machine lacks."""
    if importlib.util.find_spec("playwright") is None:
        return "the package playwright is not installed (extra browser)"
    return None if CHROMIUM else "chromium is not on the PATH"


class Watched:
    """A page in a browser, with what must not happen noted: errors, requests, dialogs.

    Parameters
    ----------
    page
        Playwright's page.
    home
        The beginning of the addresses that may be asked for.

    Attributes
    ----------
    page
        Playwright's page.
    troubles
        What happened.
    """

    def __init__(self, page: Any, home: str = "file:") -> None:
        self.page = page
        self._home = home
        self._session: Any = None
        self.troubles: list[str] = []
        page.on("console", lambda message: self.troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.on("popup", lambda popup: self.troubles.append("another window"))

    def _dialog(self, dialog: Any) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        is_own = request.is_navigation_request() or self._home.startswith("http:")
        if not is_own or not request.url.startswith(self._home):
            self.troubles.append(f"request: {request.url}")

    def open(self, file: Path, fragment: str = "") -> None:
        """Open a file, and wait until its script has run."""
        self.page.goto(f"{file.as_uri()}{fragment}")
        self.page.wait_for_selector("main h1")

    def reads(self, selector: str) -> str:
        """Return the text of the first such element."""
        return str(self.page.locator(selector).first.inner_text())

    def scroll(self) -> list[float]:
        """Scroll the diagram from its top to its end, a window a frame; return how long each frame took, in ms."""
        return sorted(map(float, self.page.evaluate(SCROLL)))

    def opened(self) -> float:
        """Return how long the page took to open, in ms."""
        return float(self.page.evaluate("performance.getEntriesByType('navigation')[0].domComplete"))

    def worked(self) -> float:
        """Return how long the page's main thread has worked so far, in ms: waiting for the processor left out."""
        if self._session is None:
            self._session = self.page.context.new_cdp_session(self.page)
            self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(float(metric["value"]) * 1000 for metric in metrics if metric["name"] == "TaskDuration")

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield Chromium; it ends with the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        alone = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=alone)
        yield browser
        browser.close()
