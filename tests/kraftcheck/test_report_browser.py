"""The page of `--report` in a real browser: clicks, keys, filters, themes, a phone and a desk, hostile traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

from kraftcheck.reporting.report import report_page as page_of
from tests.support.browser import Watched, chromium
from tests.support.reports import hostile, made_up

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = 1_000
"""How many mutated traces are shown."""
A_PAGE = 25
"""How many of them stand in one page."""
MOST_FOR_A_FRAME = 50
"""Milliseconds of work for a frame while a long behaviour is scrolled; `benchmarks/report.py` prints more."""

Open = Callable[..., Watched]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens runs in a new page; afterwards nothing untoward may have happened."""
    opened = []

    def call(*runs: Any, width: int = 1400, scheme: str = "light", fragment: str = "") -> Watched:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        watched = Watched(context.new_page())
        opened.append((context, watched))
        file = tmp_path / f"{len(opened)}.html"
        file.write_text(page_of(runs), encoding="utf-8")
        watched.open(file, fragment)
        return watched

    yield call
    for context, watched in opened:
        assert watched.troubles == []
        context.close()


def chosen(watched: Watched) -> str:
    (found,) = watched.page.locator('.row[aria-selected="true"]').all()
    assert watched.page.locator(".space").get_attribute("aria-activedescendant") == found.get_attribute("id")
    return str(found.locator(".number").inner_text())


def arrows(watched: Watched) -> int:
    """Return how many arrows are drawn; one that crosses blocks of rows counts in each."""
    return sum(int(lines.get_attribute("data-arrows")) for lines in watched.page.locator(".lines").all())


def rows(watched: Watched) -> int:
    """Return how many steps there are, drawn or not."""
    return int(watched.page.locator(".row").first.get_attribute("aria-setsize"))


def test_a_click_chooses_a_step(show: Open) -> None:
    watched = show(made_up(24, replicas=5, messages=60))
    assert chosen(watched) == "24"
    watched.page.locator("#step-20").click()
    assert chosen(watched) == "20"
    assert watched.reads(".told h2") == "Step 20 Act6"
    assert "19 → 20" in watched.reads(".changes")
    assert watched.page.url.endswith("#step-20")
    assert watched.reads(".counter") == "20 of 24"
    assert arrows(watched) > 30
    watched.page.locator(".message").first.locator("summary").click()
    assert "epoch" in watched.page.locator(".message").first.inner_text()


def test_a_page_of_few_steps_has_no_empty_half(show: Open) -> None:
    watched = show(made_up(3, messages=2))
    box = "part => document.querySelector(part).getBoundingClientRect().toJSON()"
    parts = (".canvas", ".scroller", ".pane", ".told")
    canvas, scroller, pane, told = (watched.page.evaluate(box, part) for part in parts)
    assert canvas["height"] >= scroller["height"]
    assert told["top"] >= pane["bottom"]
    assert told["width"] == pane["width"] > 1300
    long = show(made_up(60))
    pane, told, work = (long.page.evaluate(box, part) for part in (".pane", ".told", ".work"))
    assert told["top"] == pane["top"]
    assert 500 < work["height"] <= 900


def test_the_keyboard_alone(show: Open) -> None:
    watched = show(made_up(24))
    press = watched.page.keyboard.press
    told = []
    for key in ("Home", "ArrowDown", "ArrowRight", "j", "k", "ArrowLeft", "PageDown", "ArrowUp", "End", "ArrowDown"):
        press(key)
        told.append(chosen(watched))
    assert told == ["1", "2", "3", "4", "3", "2", "12", "11", "24", "24"]
    watched.page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(12):
        press("Tab")
        reached.append(watched.page.evaluate(FOCUSED))
    assert {"space", "told"} <= {name for name, _ in reached}
    assert all(is_seen for _, is_seen in reached), reached
    assert watched.page.locator(".unseen[aria-live]").inner_text().startswith("Step 24: ")


def test_the_slider_and_the_buttons(show: Open) -> None:
    watched = show(made_up(24))
    slider = watched.page.locator('input[type="range"]')
    slider.fill("4")
    assert chosen(watched) == "5"
    assert slider.get_attribute("aria-valuetext") == "step 5: Act5"
    slider.press("ArrowRight")
    watched.page.get_by_label("the next step").click()
    assert chosen(watched) == "7"
    watched.page.get_by_label("the step before").click()
    assert chosen(watched) == "6"


def test_a_link_leads_to_a_step(show: Open) -> None:
    watched = show(made_up(24), made_up(12), fragment="#step-7")
    assert chosen(watched) == "7"
    watched.page.evaluate("location.hash = '#trace-2-step-3'")
    watched.page.wait_for_function("document.querySelector('.counter').textContent === '3 of 12'")
    watched.page.get_by_label("Behaviour").select_option("0")
    assert watched.reads(".counter") == "24 of 24"
    for nonsense in ("#step-999", "#step-<img>", "#trace-9-step-1", "#"):
        watched.page.evaluate("hash => { location.hash = hash }", nonsense)
        assert chosen(watched)


def test_two_behaviours_side_by_side(show: Open) -> None:
    other = made_up(24)
    for state in other["traces"][0]["states"][9:]:
        state["action"] = "Other"
    watched = show(made_up(24), other)
    watched.page.get_by_label("Beside it").select_option("1")
    first, second = watched.page.locator(".pane").all()
    assert second.locator(".parts").inner_text().split("\n") == ["10", "Other", "here they part — by n2"]
    assert [pane.locator(".counter").inner_text() for pane in (first, second)] == ["10 of 24"] * 2
    first.locator('[data-step="4"]').click()
    assert [pane.locator(".counter").inner_text() for pane in (first, second)] == ["5 of 24"] * 2
    assert watched.page.url.endswith("#step-5-beside-2")
    second.locator('[data-step="14"]').click()
    assert [pane.locator(".counter").inner_text() for pane in (first, second)] == ["5 of 24", "15 of 24"]
    assert watched.reads(".told h2") == "Step 15 Other"
    watched.page.reload()
    watched.page.wait_for_selector(".two")
    assert watched.page.locator(".pane").count() == 2
    watched.page.set_viewport_size({"width": 400, "height": 900})
    assert watched.overflow() == 0
    watched.page.get_by_label("Beside it").select_option("")
    assert watched.page.locator(".pane").count() == 1


def test_a_lasso_leads_back(show: Open) -> None:
    """The step by which a behaviour goes on for ever is a row of its own, which says where it leads."""
    lasso = made_up(12)
    (trace,) = lasso["traces"]
    back = {**trace["states"][3], "number": 13, "action": "Again", "on": None}
    trace |= {"states": [*trace["states"], back], "end": "back in state 4", "property": None, "why": None}
    watched = show(lasso)
    assert rows(watched) == 13
    last = watched.page.locator(".row").last
    assert last.inner_text().split("\n") == ["13", "Again", "back in state 4 — by n2"]
    watched.page.locator('[data-step="4"]').click()
    watched.page.keyboard.press("End")
    assert last.get_attribute("aria-selected") == "true"


def test_filters(show: Open) -> None:
    watched = show(made_up(24))
    page = watched.page
    heads, drawn = page.locator(".head").count(), arrows(watched)
    page.locator(".filters summary").click()
    page.get_by_role("checkbox", name="n2").uncheck()
    assert page.locator(".head").count() == heads - 1
    assert rows(watched) < 24
    assert arrows(watched) < drawn
    assert page.locator(".card strong", has_text="n2").count() == 0
    page.get_by_role("checkbox", name="n2").check()
    page.get_by_role("checkbox", name="FetchRequest").uncheck()
    assert rows(watched) == 24
    assert 0 < arrows(watched) < drawn
    page.locator('input[type="search"]').fill("n1.epoch")
    assert {row.inner_text().split("by ")[-1].split()[0] for row in page.locator(".row").all()[1:-1]} == {"n1"}
    page.locator('input[type="search"]').fill("no such field")
    assert rows(watched) == 2
    page.locator('input[type="search"]').fill("")
    assert rows(watched) == 24


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_both_themes_on_a_phone_and_a_wide_window(show: Open, scheme: str, width: int) -> None:
    watched = show(made_up(24, replicas=5, messages=60), scheme=scheme, width=width)
    assert watched.overflow() == 0
    ground, text = watched.page.evaluate(
        "(({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(document.body))"
    )
    assert contrast(ground, text) > 7
    for selector in (".who", ".counter", ".permalink", ".verdict", "ins", "del"):
        colour = watched.page.locator(selector).first.evaluate("element => getComputedStyle(element).color")
        assert contrast(ground, colour) > 4.5, (selector, colour)
    assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
    assert watched.page.locator(".head").count() == 5
    assert watched.page.locator(".head").last.bounding_box()["x"] < width


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.2, "contrast ratio")."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def strangers(traces: int, random: Random) -> dict[str, Any]:
    """Return a run with mutated traces."""
    run = made_up(4, replicas=2, messages=4)
    return hostile(run | {"traces": run["traces"] * traces}, random)


@pytest.mark.parametrize("width", [400, pytest.param(1400, marks=pytest.mark.exhaustive)])
def test_hostile_traces_stay_text(show: Open, width: int) -> None:
    watched = show(made_up(6), width=width)
    random = Random(width)
    file = Path(watched.page.url.removeprefix("file://"))
    seen = 0
    for number in range(HOSTILE // 2 // A_PAGE):
        file.write_text(page_of([strangers(A_PAGE - 1, random), strangers(1, random)]), encoding="utf-8")
        watched.open(file)
        shown = watched.page.evaluate(LOOK)
        assert [one for one in shown if one["trouble"]] == [], number
        assert watched.troubles == [], number
        seen += len({one["text"] for one in shown})
    assert seen > HOSTILE // 2 * 0.95  # each was there


def test_the_policy_stops_a_script_that_gets_in(show: Open) -> None:
    """Markup that is put into the page by hand does nothing; without the policy it does, so that this would be seen."""
    watched = show(made_up(6))
    file = Path(watched.page.url.removeprefix("file://"))
    with asked() as (address, requests):
        evil = f"<script>window.hacked = 1</script><img src='{address}/x.png' onerror='window.hacked = 2'>"
        guarded = file.read_text().replace("<noscript>", f"{evil}<noscript>")
        file.write_text(guarded)
        watched.open(file)
        assert (watched.page.evaluate("window.hacked"), requests) == (None, [])
        file.write_text(guarded.replace("Content-Security-Policy", "Nothing"))
        watched.open(file)
        watched.page.wait_for_function("window.hacked === 2")
        assert requests == ["/x.png"]
    file.write_text(guarded)
    watched.open(file)
    refused = watched.page.evaluate("try { document.body.innerHTML = '<b>x</b>' } catch (error) { error.name }")
    assert refused == "TypeError"
    assert any("Content Security Policy" in trouble for trouble in watched.troubles)
    watched.troubles.clear()


@contextmanager
def asked() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server on this machine, and the paths that it is asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", paths
        server.shutdown()


def test_two_thousand_steps_are_quick(show: Open) -> None:
    watched = show(made_up(2_000, replicas=5, messages=3_000))
    page = watched.page
    assert page.locator(".row").count() < 100
    assert arrows(watched) < 300
    before = watched.worked()
    frames = watched.scroll()
    assert (watched.worked() - before) / len(frames) < MOST_FOR_A_FRAME
    page.keyboard.press("Home")
    assert chosen(watched) == "1"
    page.locator('input[type="range"]').fill("1500")
    assert chosen(watched) == "1501"


FOCUSED = """() => {
  const outlined = (element) => element !== null && getComputedStyle(element).outlineStyle !== "none";
  const found = document.activeElement;
  return [found.className || found.tagName, outlined(found) || outlined(found.closest(".scroller"))];
}"""

LOOK = """async () => {
  const found = [];
  const root = document.documentElement;
  const count = document.querySelector("select").options.length;
  for (let number = 0; number < count; number += 1) {
    const choice = document.querySelector("select");
    choice.value = String(number);
    choice.dispatchEvent(new Event("change"));
    if (number % 4 === 0) {
      document.querySelectorAll(".told details:not([open])").forEach((part) => { part.open = true; });
      await new Promise((done) => setTimeout(done));
    }
    const wide = root.scrollWidth - root.clientWidth;
    const markup = "#page :is(script, img, iframe, style, form, object, base, link)";
    const elements = document.querySelectorAll(markup).length;
    const text = document.querySelector(".told").textContent;
    const isBad = window.hacked !== undefined || wide > 0 || elements > 0 || text === "";
    found.push({ number, trouble: isBad ? [wide, elements, window.hacked ?? null] : null, text });
  }
  return found;
}"""
