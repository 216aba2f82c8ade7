"""One file to share: the page asks for nothing and takes nothing for markup; the Markdown is what Mermaid reads."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.explorer.result import TraceStep
from kraftcheck.reporting.counterexample import message_flows
from kraftcheck.reporting.report import MOST_DIAGRAM_CHARACTERS, markdown_report, mermaid_diagrams, report_page
from kraftcheck.spec import Bag, ModelValue, Record
from kraftcheck.spec.examples.lock_service import LockService
from kraftcheck.spec.language.semantics import Semantics
from tests.support.command_line import Run
from tests.support.reports import EVIL, made_up, with_text

ROOT = Path(__file__).parents[2]
BROKEN = ("check", "lock-service", "--variant", "impatient-server", "--engine", "reference", "--quiet")


class Parsed(HTMLParser):
    """What a browser finds in a page: elements with their attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:
            self.texts.append((self.cdata_elem, data))


@pytest.fixture(scope="module")
def lock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return both reports on a counterexample, by their endings."""
    from kraftcheck.cli import main

    folder = tmp_path_factory.mktemp("reports")
    for ending in ("html", "md"):
        assert main([*BROKEN, "--report", str(folder / f"lock.{ending}")]) == 12
    return {ending: (folder / f"lock.{ending}").read_text() for ending in ("html", "md")}


def data_of(text: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


# The page


def test_the_page_is_one_file_that_runs_its_own_script_alone(lock: dict[str, str]) -> None:
    parsed = Parsed(lock["html"])
    assert [tag for tag, _ in parsed.found if tag in {"link", "img", "iframe", "object", "base", "form"}] == []
    assert [name for _, given in parsed.found for name in given if name in {"src", "href", "style"}] == []
    policies = [str(given["content"]) for _, given in parsed.found if given.get("http-equiv")]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; ")
    allowed = dict(part.split(" ", 1) for part in policies[0].split("; "))
    scripts = [text for tag, text in parsed.texts if tag == "script"]
    styles = [text for tag, text in parsed.texts if tag == "style"]
    for directive, text in (("script-src", scripts[1]), ("style-src", styles[0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert allowed[directive] == f"'sha256-{digest}'"
    assert "unsafe" not in policies[0]
    assert set(re.findall(r"\w+://[\w./]+", lock["html"])) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", scripts[1])


def test_what_the_page_holds(lock: dict[str, str]) -> None:
    data = data_of(lock["html"])
    (run,) = data["runs"]
    (trace,) = run["traces"]
    assert (data["tool"], run["model"], run["variant"]) == ("kraftcheck", "lock-service", "impatient-server")
    assert run["constants"] == {"Clients": ["c1", "c2", "c3", "c4"], "MaxLosses": 1}
    assert (trace["property"], len(trace["steps"])) == ("MutualExclusion", 8)
    assert run["actions"]["Ask"] == 591
    assert trace["why"]["place"]["file"] == "lock_service/__init__.py"
    told = [(data["values"][flow["message"]]["_type"], flow["source"], flow["dest"]) for flow in trace["flows"]]
    assert told[0] == ("Acquire", "c1", "server")
    assert told[2] == ("Grant", "server", "c1")
    assert [(flow["sent"], flow["until"], flow["fate"]) for flow in trace["flows"]] == [
        (2, 4, "delivered"), (3, 7, "delivered"), (4, 5, "delivered"), (7, 8, "delivered"),
    ]  # fmt: skip
    assert trace["bounds"] == {"losses": ["MaxLosses", "1"]}


def test_a_hostile_trace_stays_text() -> None:
    parsed, harmless = (Parsed(report_page([with_text(made_up(6), text)])) for text in (EVIL, "x"))
    assert [tag for tag, _ in parsed.found] == [tag for tag, _ in harmless.found]
    assert parsed.texts[-1] == harmless.texts[-1]  # our script
    raw = parsed.texts[1][1]
    assert not set(raw) & set("<>&\u2028\u2029\ud800")
    assert json.loads(raw)["runs"][0]["traces"][0]["steps"][1]["action"] == EVIL


def test_a_long_counterexample_is_small() -> None:
    """24 steps with 5 replicas and 60 messages."""
    run = made_up(24, replicas=5, messages=60)
    assert len(run["traces"][0]["flows"]) == 60
    assert len(report_page([run]).encode()) < 200_000


def test_a_report_of_another_form_is_refused(run: Run, tmp_path: Path) -> None:
    told = run(*BROKEN, "--report", tmp_path / "lock.pdf")
    assert told.code == 2
    assert told.err.endswith("lock.pdf: expected a file that ends in .html or .md\n")
    told = run(*BROKEN, "--report", tmp_path / "x.html", "--json", tmp_path / "x.html")
    assert (told.code, "writes the same file" in told.err) == (2, True)


def test_where_nothing_is_violated(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "ok.html"
    done = run("check", "two-phase-commit", "--config", "smoke", "--engine", "reference", "--report", path)
    assert done.code == 0
    assert data_of(path.read_text())["runs"][0]["traces"] == []


@pytest.mark.kernel
def test_a_walk_has_a_report(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "walk.md"
    walk = ("simulate", "lock-service", "--variant", "impatient-server", "--seed", "1", "--quiet")
    assert run(*walk, "--report", path).code == 12
    assert "sequenceDiagram" in path.read_text()


@pytest.mark.parametrize("variant", [(), ("--variant", "fetch-position-unchecked")])
def test_a_replayed_trace_has_a_report(run: Run, tmp_path: Path, variant: tuple[str, ...]) -> None:
    folder = ROOT / "tests" / "data" / "tlc" / "counterexamples"
    trace, config = folder / "diverging.out.gz", folder / "diverging.cfg"
    done = run("replay", "reconfig", *variant, "--config", config, trace, "--quiet", "--report", tmp_path / "x.html")
    assert done.code == (1 if variant else 0)
    (found,) = data_of((tmp_path / "x.html").read_text())["runs"]
    (told,) = found["traces"]
    assert found["configuration"] == "diverging.cfg"
    assert len(told["steps"]) == (8 if variant else 9)
    if variant:
        assert (found["result"], told["end"]) == ("diverges", "the trace diverges here")
        assert "does not follow from state 8 by DivergingFetchRequest" in found["reason"]
        assert "DivergingFetchRequest is not enabled" in found["details"]
    else:
        assert found["result"] == "conforms"
        assert told["end"].startswith("a violation of NoDiverging is not evaluated")
    assert [step["action"] for step in told["steps"]][1:3] == ["RequestVote", "HandleRequestVoteRequest"]


def test_compared_runs_have_a_report(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    compare = ("compare", "lock-service", "impatient-server", "--engine", "reference", "--quiet")
    assert run(*compare, "--report", path).code == 12
    base, variant = data_of(path.read_text())["runs"]
    assert (base["label"], base["traces"], variant["label"]) == ("base", [], "impatient-server")
    assert len(variant["traces"]) == 1


# What became of messages


class Note(Record):
    text: str
    source: int
    dest: int


def test_what_becomes_of_messages() -> None:
    protocol = LockService(clients=frozenset(map(ModelValue, ("c1", "c2"))), losses=1)
    semantics = Semantics(protocol)
    trace = [TraceStep(next(iter(protocol.initial())))]
    for action in ("Ask", "LoseMessage", "Ask"):
        taken = next(one for one in semantics.transitions(trace[-1].state) if one.action == action)
        trace.append(TraceStep(taken.target, taken.action, taken.actor, taken.message))
    lost, waiting = message_flows(protocol.network, trace)
    assert (lost.source, lost.dest, lost.sent, lost.until, lost.fate) == ("c1", "server", 2, 3, "lost")
    assert (waiting.sent, waiting.until, waiting.fate) == (4, None, "under way")


def test_a_copy_and_a_message_that_is_kept() -> None:
    network = Bag(duplicates=True)
    note = Note("hello", 1, 2)
    state = next(iter(LockService(clients=frozenset({ModelValue("c1")}), losses=0).initial()))
    one, two = (state.but(inboxes=state.inboxes.put(2, network.empty.put(note, copies))) for copies in (1, 2))
    kept = TraceStep(two, "Read", 2, note)
    trace = [TraceStep(state), TraceStep(one, "Write", 1), TraceStep(two, "DuplicateMessage", 2, note), kept]
    found = [(flow.sent, flow.until, flow.fate, flow.is_copy) for flow in message_flows(network, trace)]
    assert found == [(2, None, "under way", False), (2, 4, "kept", False), (3, None, "under way", True)]


# Mermaid


def test_the_markdown(lock: dict[str, str]) -> None:
    told = lock["md"]
    assert "## Violation: `lock-service`, variant `impatient-server`, configuration `default`" in told
    assert "    participant r1 as c1\n" in told
    assert "    Note over r1: 2 Ask by c1\n    r1--)r5: Acquire\n" in told
    assert "    r1->>r5: Acquire\n    Note over r5: 4 Grant by server\n" in told
    assert "c2.phase  waiting -> holding" in told


def test_mermaid_takes_nothing_of_a_trace_as_syntax() -> None:
    evil = with_text(made_up(6), EVIL)
    (found,) = mermaid_diagrams(evil["traces"][0])
    line = re.compile(
        r"participant (r\d+|env) as \S.*|Note over [\w,]+: .+|\w+(->>|--\)|--x)\w+: .+|sequenceDiagram", re.ASCII
    )
    assert [text for text in found.split("\n") if not line.fullmatch(text.strip())] == []
    assert not set(re.sub(r"#\d+;|->>", "", found)) & set("#;<>&'\"`%{}[]|@\u2028\u202e")
    outside = re.sub(r"(`{3,})\w+\n.*?\n\1|`[^`\n]*`", "", markdown_report([evil]), flags=re.DOTALL)
    assert set(re.findall(r"</?(\w+[^>]*)>", outside)) == {"details", "summary", "sub"}
    assert "alert" not in outside


def test_a_behaviour_too_long_for_one_diagram_is_several() -> None:
    found = list(mermaid_diagrams(made_up(2_000, messages=2_000)["traces"][0]))
    assert len(found) > 1
    assert all(len(text) < MOST_DIAGRAM_CHARACTERS + 5_000 and text.startswith("sequenceDiagram\n") for text in found)
