"""The page of `kraftcheck explore` in a real browser: clicks, keys, undo, jumps, files, a phone and a desk."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.exploring.session import Server, Session
from kraftcheck.exploring.tree import StateTree
from kraftcheck.jobs import leniently_bound_job
from tests.support.browser import Watched, chromium
from tests.support.reports import EVIL
from tests.support.scenarios import run_scenario

pytestmark = [pytest.mark.browser, pytest.mark.slow]

Open = Callable[..., Watched]
VIOLATION = ("Ask by c1", "Ask by c2", "Grant by server on Acquire from c1", "Enter by c1 on Grant", "Expire by server")
VIOLATION += ("Grant by server on Acquire from c2", "Enter by c2 on Grant")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def explore(browser: Any) -> Iterator[Open]:
    """Return a function that explores a model in a new page; afterwards nothing untoward may have happened."""
    opened: list[tuple[Server, Any, Watched]] = []

    def call(
        model: str = "lock-service",
        variant: str | None = "impatient-server",
        trace: Path | None = None,
        config: str | None = None,
        width: int = 1400,
        scheme: str = "light",
        fragment: str = "",
    ) -> Watched:
        settings = ["MaxLosses=0"] if model == "lock-service" else []
        arguments = argparse.Namespace(config=config, set=settings, engine=None)
        job, warnings = leniently_bound_job(find_model(model, variant), arguments, whole_space=True, properties=True)
        tree = StateTree(job, settings)
        if trace is not None:
            tree.open(trace, 2**20)
        server = Server(Session(tree, warnings))
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(10_000)
        watched = Watched(context.new_page(), server.address)
        opened.append((server, context, watched))
        watched.page.goto(f"{server.address}{fragment}")
        settled(watched)
        return watched

    yield call
    for server, context, watched in opened:
        assert watched.troubles == []
        context.close()
        server.shutdown()
        server.server_close()


def settled(watched: Watched, states: int | None = None) -> None:
    """Wait until what the chosen step offers is listed."""
    if states is not None:
        watched.page.wait_for_selector(f'.row[aria-posinset="{states}"][aria-setsize="{states}"]', state="attached")
    watched.page.wait_for_selector(".next:not([aria-busy]) .offers", state="attached")


def take(watched: Watched, *steps: str) -> None:
    for step in steps:
        states = watched.page.locator(".row").count()
        watched.page.locator(".offer").filter(has_text=step.replace(" by ", "by ", 1)).first.click()
        settled(watched, states + 1)


def counted(watched: Watched) -> str:
    return watched.reads(".counter")


def test_a_walk_to_a_violation_by_clicks(explore: Open) -> None:
    watched = explore()
    page = watched.page
    first = page.locator(".offers li").first
    assert first.locator(".changes").inner_text().split() == ["c1.phase", "idle", "→", "waiting"]
    assert "Acquire c1 → server" in first.locator(".message").inner_text()
    page.locator("summary", has_text="Not enabled").click()
    assert "c1, c2, c3, c4: no Grant is under way to it" in page.locator(".disabled").inner_text()
    take(watched, *VIOLATION[:4])
    assert "me.holder is not Name.NOBODY (me.holder = c1)" in page.locator(".disabled").inner_text()
    take(watched, *VIOLATION[4:6])
    bad = page.locator(".offers li", has_text="Enter").last
    assert "violates MutualExclusion" in bad.inner_text()
    take(watched, VIOLATION[6])
    assert watched.reads("h1") == "VIOLATION Walk, 8 states: violates MutualExclusion"
    assert "violated for me = c" in watched.reads(".next .reason")
    assert watched.reads(".row.last .who").startswith("violates MutualExclusion")
    assert page.locator(".blamed").get_attribute("d").count("M") == 2
    assert watched.reads(".told:not(.next) h2") == "Step 8 Enter"


def test_undo_jump_and_another_way(explore: Open) -> None:
    watched = explore()
    page = watched.page
    take(watched, *VIOLATION[:4])
    page.get_by_label("undo").click()
    settled(watched, 4)
    page.keyboard.press("u")
    settled(watched, 3)
    page.go_back()
    settled(watched, 4)
    page.go_back()
    settled(watched, 5)
    page.locator('[data-step="1"]').click()
    page.wait_for_selector("text=A step taken here leaves the 3 steps behind it.")
    settled(watched)
    assert "the walk goes on so" in page.locator(".offers li", has_text="Askby c2").inner_text()
    assert page.url.endswith("-step-2")
    take_here = page.locator(".offer", has_text="Askby c3")
    take_here.click()
    settled(watched, 3)
    assert watched.reads(".told:not(.next) h2") == "Step 3 Ask"
    page.go_back()
    settled(watched, 5)
    assert counted(watched) == "2 of 5"
    page.reload()
    settled(watched, 5)
    assert counted(watched) == "2 of 5"


def test_the_keyboard_alone(explore: Open) -> None:
    watched = explore()
    press = watched.page.keyboard.press
    for states, key in enumerate(("1", "1", "1"), start=2):
        press(key)
        settled(watched, states)
    press("ArrowLeft")
    assert counted(watched) == "3 of 4"
    press("Home")
    assert counted(watched) == "1 of 4"
    settled(watched)
    press("End")
    press("u")
    settled(watched, 3)
    watched.page.evaluate("document.activeElement.blur()")
    for _ in range(20):
        press("Tab")
        if watched.page.evaluate("document.activeElement.classList.contains('offer')"):
            break
    press("Enter")
    settled(watched, 4)
    assert watched.page.evaluate("document.activeElement.classList.contains('next')")
    assert "enabled" in watched.page.locator(".unseen[aria-live]").inner_text()


def test_filters_stay_while_one_walks_on(explore: Open) -> None:
    watched = explore("quorum", None, config="lockstep")
    page = watched.page
    page.locator(".filters summary").click()
    page.get_by_role("checkbox", name="n3").uncheck()
    search = page.locator(".next input[type=search]")
    search.fill("timeout n1")
    texts = page.locator(".offer").all_inner_texts()
    assert texts
    assert all("Timeout" in one and "n1" in one for one in texts)
    take(watched, "by n1")
    assert page.get_by_role("checkbox", name="n3").is_checked() is False
    assert page.locator(".head", has_text="n3").count() == 0
    assert search.input_value() == "timeout n1"


def test_a_walk_is_saved_and_opened_again(explore: Open, tmp_path: Path) -> None:
    watched = explore()
    page = watched.page
    take(watched, *VIOLATION)
    for name in ("walk.out", "walk.txt", "walk.html"):
        page.get_by_label("Save as").select_option(name)
        with page.expect_download() as download:
            page.get_by_label("save the walk").click()
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / name)
    assert [told for block, told in run_scenario(tmp_path / "walk.txt") if told != block.told] == []
    shared = Watched(page.context.new_page())
    shared.open(tmp_path / "walk.html")
    assert shared.reads("h1") == "VIOLATION Walk, 8 states"
    assert shared.troubles == []
    again = explore(trace=tmp_path / "walk.out")
    assert counted(again) == "8 of 8"
    again.page.get_by_label("Begin with").select_option("Initial state")
    settled(again, 1)


def test_what_the_program_refuses_is_told(explore: Open) -> None:
    watched = explore(fragment="#walk-99-step-3")
    assert "state 99: unknown after a restart" in watched.reads("main > pre")
    assert counted(watched) == "1 of 1"
    watched.troubles.clear()  # Chromium tells of the status 422


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_both_themes_on_a_phone_and_a_wide_window(explore: Open, scheme: str, width: int) -> None:
    watched = explore(scheme=scheme, width=width)
    take(watched, *VIOLATION[:3])
    watched.page.locator("summary", has_text="Not enabled").click()
    watched.page.locator("summary", has_text="Properties").click()
    assert watched.overflow() == 0
    ground = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
    box = watched.page.locator(".next").bounding_box()
    assert box["x"] + box["width"] <= width


HOSTILE = '''
from kraftcheck import *

class Node(Record):
    id: str
    said: str

class Note(Record):
    text: str
    source: str
    dest: str

class Shared(Record):
    heard: str

class Hostile(Protocol):
    """Text of strangers."""
    network = MessageSet()

    def initial(self):
        yield self.start([Node({evil!r} + "1", ""), Node("<b>2</b>", "")], Shared(""))

    @internal
    def speak(self, me: Node) -> Steps:
        for text in ({evil!r}, "W" * 3000, "<img src=x onerror=alert(1)>"):
            if me.said != text:
                yield become(me.but(said=text)).send(Note(text, me.id, "<b>2</b>"))

    @on(Note)
    def hear(self, me: Node, note: Note, shared: Shared) -> Steps:
        if shared.heard != note.text:
            yield consume(me).put(heard=note.text)

    @invariant
    def silent(self, me: Node) -> bool:
        """<img src=x onerror=alert(1)>"""
        return "onerror" not in me.said
'''


@pytest.mark.parametrize("width", [400, 1400])
def test_text_of_strangers_stays_text(explore: Open, tmp_path: Path, width: int) -> None:
    file = tmp_path / "hostile.py"
    file.write_text(HOSTILE.replace("{evil!r}", repr(EVIL.replace("\ud800", ""))))
    watched = explore(f"{file}:Hostile", None, width=width)
    watched.page.locator("summary", has_text="Not enabled").click()
    for states in (2, 3, 4, 5):
        watched.page.keyboard.press(str(states))
        settled(watched, states)
        watched.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        watched.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        assert watched.overflow() == 0
    assert watched.page.locator("#page :is(script, img, iframe, style, form, object, base, b)").count() == 0
    assert "onerror" in watched.reads(".next")
