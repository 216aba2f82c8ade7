"""`kraftcheck explore`: what the page is told, what is saved, and whom the server answers."""

from __future__ import annotations

import argparse
import gzip
import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from kraftcheck.catalogue import SearchJob, find_model
from kraftcheck.explorer.result import Violation
from kraftcheck.exploring.session import SAVED_FILE_FORMATS, Server, Session
from kraftcheck.exploring.tree import StateTree
from kraftcheck.jobs import leniently_bound_job
from kraftcheck.reporting.output import write_counterexamples
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.state import permute_model_values
from tests.support.command_line import Run, start
from tests.support.scenarios import run_scenario

DATA = Path(__file__).parents[1] / "data" / "tlc"
LIMIT = 2**30


def job(model: str, config: str | None = None, variant: str | None = None, *settings: str) -> SearchJob:
    arguments = argparse.Namespace(config=config, set=list(settings), engine=None)
    return leniently_bound_job(find_model(model, variant), arguments, whole_space=True, properties=True)[0]


def tree(*asked: Any) -> StateTree:
    return StateTree(job(*asked), asked[3:])


LOCK = ("lock-service", None, "impatient-server", "MaxLosses=0")


def walk(session: Session, *steps: tuple[str, str | None]) -> int:
    """Take steps, each named by its action and who takes it, from the start; return the last node."""
    node = 0
    for action, by in steps:
        enabled = session.offers(node)["enabled"]
        choice = next(at for at, one in enumerate(enabled) if one["action"] == action and by in (None, one["by"]))
        node = session.take(node, choice)["runs"][0]["traces"][0]["steps"][-1]["node"]
    return node


VIOLATION = (
    *(("Ask", "c1"), ("Ask", "c2"), ("Grant", "server"), ("Enter", "c1")),
    *(("Expire", None), ("Grant", "server"), ("Enter", "c2")),
)


# What the page is told


def test_a_state_tells_its_steps_with_what_they_do_and_why_others_are_not_enabled() -> None:
    session = Session(tree(*LOCK))
    offers = session.offers(walk(session, ("Ask", "c1"), ("Ask", "c2"), ("Grant", "server"), ("Enter", "c1")))
    enabled = {(one["action"], one["by"]): one for one in offers["enabled"]}
    leave = enabled["Leave", "c1"]
    assert leave["changes"] == [["c1.phase", "holding -> idle"]]
    assert leave["messages"] == [["sent", {"_type": "Release", "source": "c1", "dest": "server"}]]
    disabled = {one["action"]: one for one in offers["disabled"]}
    (why,) = [one for one in disabled["Grant"]["reasons"] if one["kind"] == "guard"]
    assert why["text"] == "me.holder is not Name.NOBODY (me.holder = c1)"
    assert why["place"].startswith("lock_service/__init__.py:")
    assert [who for who, _ in why["who"]] == ["server"]
    assert disabled["Enter"]["reasons"][0]["text"] == "no Grant is under way to it"
    assert disabled["Ask"]["others"]
    assert [(one["name"], one["holds"]) for one in offers["properties"]] == [("MutualExclusion", True)]
    assert not offers["deadlock"]


def test_a_step_that_breaks_a_property_says_so_beforehand_and_afterwards() -> None:
    session = Session(tree(*LOCK))
    before = session.offers(walk(session, *VIOLATION[:-1]))
    assert {tuple(one["breaks"]) for one in before["enabled"] if one["action"] == "Enter"} == {("MutualExclusion",)}
    last = walk(session, *VIOLATION)
    (verdict,) = session.offers(last)["properties"]
    assert verdict["holds"] is False
    assert set(verdict["why"]["false_of"].values()) == {"c1", "c2"}
    run = session.walk(last)["runs"][0]
    assert run["traces"][0]["end"] == "violates MutualExclusion"
    assert [step["breaks"] for step in run["traces"][0]["steps"]][-2:] == [[], ["MutualExclusion"]]


def test_only_what_is_asked_for_is_expanded() -> None:
    found = tree(*LOCK)
    session = Session(found)
    session.offers(0)
    assert sum(found.semantics.handler_calls.values()) <= len(found.actions) * len(found.node(0).step.state.replicas)
    session.take(0, 0)
    assert len(found.node(1).way) == 2
    with pytest.raises(InputError, match="state 2: unknown after a restart"):
        found.node(2)


def test_a_step_that_is_taken_twice_leads_to_one_node_and_another_one_branches() -> None:
    session = Session(tree(*LOCK))
    one, other = walk(session, ("Ask", "c1")), walk(session, ("Ask", "c2"))
    assert walk(session, ("Ask", "c1")) == one != other
    assert [offer["node"] for offer in session.offers(0)["enabled"]][:2] == [one, other]


def test_a_back_step_a_constraint_and_a_step_property_are_told(ping: str, tmp_path: Path) -> None:
    config = tmp_path / "ping.cfg"
    config.write_text("INIT Init\nNEXT Next\nCONSTRAINT AtMostOne\nINVARIANT FewPings NoSuch\nPROPERTY LogGrows\n")
    found = tree(ping, str(config))
    session = Session(found)
    twice = session.offers(session.take(0, 0)["runs"][0]["traces"][0]["steps"][-1]["node"])
    sent = next(one for one in twice["enabled"] if one["changes"][0][0] == "1.pings")
    assert (sent["outside"], sent["breaks"]) == (["AtMostOne"], ["FewPings"])
    holds = {one["name"]: one["holds"] for one in session.offers(0)["properties"]}
    assert holds == {"FewPings": True, "LogGrows": None, "AtMostOne": True}


def test_a_property_that_raises_is_told_and_the_walk_goes_on(ping: str, tmp_path: Path) -> None:
    file = Path(ping.rpartition(":")[0])
    file.write_text(file.read_text().replace("return len(me.log) < 2", "return me.log[0] > 0 or me.pings < 9"))
    session = Session(tree(ping))
    assert len(session.offers(0)["enabled"]) == 2
    (raised,) = [one for one in session.offers(0)["properties"] if one["error"]]
    assert raised["name"] == "ShortLog"
    assert "IndexError" in raised["error"]
    assert session.walk(0)["runs"][0]["traces"][0]["steps"][0]["breaks"] == ["ShortLog"]


def test_an_action_that_raises_is_told_in_the_state_where_it_does(ping: str) -> None:
    file = Path(ping.rpartition(":")[0])
    file.write_text(file.read_text().replace("if me.pings > 99:", "if 1 // (1 - me.pings) > 99:"))
    session = Session(tree(ping))
    last = session.take(0, 0)["runs"][0]["traces"][0]["steps"][-1]
    assert last["breaks"] == []
    with pytest.raises(InputError, match="action Never of PingPong raised ZeroDivisionError"):
        session.offers(last["node"])


# Traces in, files out


@pytest.mark.parametrize("name", SAVED_FILE_FORMATS)
def test_a_walk_is_saved_in_every_form_and_read_back(name: str, tmp_path: Path, run: Run) -> None:
    session = Session(tree(*LOCK))
    last = walk(session, *VIOLATION)
    path = tmp_path / name
    path.write_bytes(session.save(last, name))
    if name == "walk.txt":
        told = run_scenario(path)
        assert [block.told for block, _ in told] == [lines for _, lines in told]
        assert told[-1][0].commands == ["Enter by c2"]
    elif name in ("walk.html", "walk.md"):
        assert "MutualExclusion" in path.read_text()
    else:
        replayed = run("replay", "lock-service", "--variant", "impatient-server", "--set", "MaxLosses=0", path)
        end = ", to a violation of MutualExclusion" if name != "walk.json" else ""
        assert (replayed.code, replayed.out.splitlines()[0]) == (0, f"{path}: conforms, 7 steps{end}")
        again = tree(*LOCK)
        again.open(path, LIMIT)
        assert [one.step for one in again.node(again.starts[0].node).way][1:] == [
            one.step for one in session._tree.node(last).way
        ][1:]


def test_a_walk_of_a_users_file_is_saved_as_a_scenario(ping: str, tmp_path: Path) -> None:
    session = Session(tree(ping))
    last = session.take(0, 0)["runs"][0]["traces"][0]["steps"][-1]
    path = tmp_path / "walk.txt"
    path.write_bytes(session.save(last["node"], "walk.txt"))
    told = run_scenario(path)
    assert len(told) == 2
    assert [block.told for block, _ in told] == [lines for _, lines in told]


@pytest.mark.slow
def test_a_scenario_tells_steps_and_starts_apart(tmp_path: Path) -> None:
    session = Session(tree("quorum", "lockstep"))
    node = 0
    for choice in (3, 0, 5, 2, 7, 1, 4, 9):
        offered = session.offers(node)["enabled"]
        node = session.take(node, choice % len(offered))["runs"][0]["traces"][0]["steps"][-1]["node"]
    path = tmp_path / "walk.txt"
    path.write_bytes(session.save(node, "walk.txt"))
    assert [told for _, told in run_scenario(path)][-1] == run_scenario(path)[-1][0].told
    assert path.read_text().count("----") == 9


def test_a_trace_is_followed_as_far_as_it_conforms() -> None:
    diverging = ("reconfig", str(DATA / "counterexamples" / "diverging.cfg"))
    found = tree(*diverging)
    found.open(DATA / "counterexamples" / "diverging.out.gz", LIMIT)
    assert found.starts[0].name == "diverging.out.gz"
    assert "a violation of NoDiverging is not evaluated" in found.starts[0].note
    assert len(found.node(found.starts[0].node).way) == 9
    found = tree(*diverging, "fetch-position-unchecked")
    found.open(DATA / "counterexamples" / "diverging.out.gz", LIMIT)
    assert len(found.node(found.starts[0].node).way) == 8
    assert "diverges at state 9" in found.starts[0].note
    assert "DivergingFetchRequest is not enabled" in found.starts[0].note


def test_a_file_of_several_traces_numbers_each_once(tmp_path: Path) -> None:
    bound = ("reconfig", str(DATA / "counterexamples" / "diverging.cfg"), "fetch-position-unchecked")
    trace = gzip.decompress((DATA / "counterexamples" / "diverging.out.gz").read_bytes())
    (tmp_path / "two.out").write_bytes(trace + trace)
    found = tree(*bound)
    found.open(tmp_path / "two.out", LIMIT)
    assert [start.note.partition(":")[0] for start in found.starts[:2]] == ["two.out", "two.out, trace 2"]


def test_a_trace_made_under_symmetry_is_shown_as_a_real_behaviour(tmp_path: Path) -> None:
    config, path = tmp_path / "lock.cfg", tmp_path / "lock.out"
    config.write_text("CONSTANTS Clients = {c1, c2} MaxLosses = 0\nSYMMETRY symmClients\nCHECK_DEADLOCK FALSE\n")
    found = tree("lock-service", str(config))
    last = walk(Session(found), ("Ask", "c1"), ("Ask", "c2"), ("Grant", "server"), ("Enter", None))
    way = [one.step for one in found.node(last).way]
    c1, c2 = found.job.protocol.clients
    way[-1] = replace(way[-1], state=permute_model_values(way[-1].state, {c1: c2, c2: c1}))
    write_counterexamples(found.job.protocol, [Violation("", tuple(way))], path)
    again = tree("lock-service", str(config))
    again.open(path, LIMIT)
    assert "stands for our" in again.starts[0].note
    real = again.node(again.starts[0].node).way
    assert [one.step.action for one in real] == [one.action for one in way]
    assert real[-1].step.state != way[-1].state
    assert real[-1].transition is not None
    assert real[-1].transition.target == real[-1].step.state


# Whom the server answers


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(Session(tree(*LOCK))) as found:
        Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield found
        found.shutdown()


def ask(server: Server, method: str, path: str, body: bytes | None = None, **headers: str | None) -> Answer:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    given = {"Host": server.host} | {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(method, path, skip_host=True)
    for name, value in given.items():
        if value is not None:
            connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    with connection.getresponse() as found:
        return Answer(found.status, dict(found.getheaders()), found.read())


def test_the_page_says_what_it_may_ask_for(server: Server) -> None:
    found = ask(server, "GET", f"/{server.token}/")
    assert found.status == 200
    assert "frame-ancestors 'none'" in found.headers["Content-Security-Policy"]
    assert b"default-src 'none'; script-src 'sha256-" in found.content
    assert b"connect-src 'self'" in found.content
    assert b"unsafe" not in found.content.partition(b"<style>")[0]
    assert found.headers["Referrer-Policy"] == "no-referrer"
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 32


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 200),
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "localhost"}, 421),
        ({"Host": None}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"token": "guessed"}, 403),
        ({"token": ""}, 403),
        ({"token": "%C3"}, 403),
    ],
)
def test_who_is_not_our_page_gets_no_answer(server: Server, changes: dict[str, Any], status: int) -> None:
    given = dict(changes)
    token = given.pop("token", server.token)
    for method, path, body in (("GET", "offers?node=0", None), ("POST", "take", b'{"node":0,"choice":0}')):
        headers = {"Origin": f"http://{server.host}", "Content_Type": "application/json"} if method == "POST" else {}
        path = f"/{token}/{path}"
        found = ask(server, method, path, body, **(headers | given))
        assert found.status == status
        assert (b"Ask" in found.content) == (status == 200)


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "take", b'{"node":0,"choice":0}', {"Origin": None}, 403),
        ("POST", "take", b'{"node":0,"choice":0}', {"Content_Type": "text/plain"}, 415),
        ("POST", "take", b'{"node":0,"choice":99}', {}, 422),
        ("POST", "take", b'{"node":-1,"choice":0}', {}, 422),
        ("POST", "take", b'{"node":true}', {}, 400),
        ("POST", "take", b"[" * 4000, {}, 400),
        ("POST", "take", b" " * 5000, {}, 413),
        ("GET", "take?node=0&choice=0", None, {}, 404),
        ("GET", "walk?node=x", None, {}, 400),
        ("GET", "walk?node=12345", None, {}, 422),
        ("GET", "save?node=0&name=../../etc/passwd", None, {}, 422),
        ("GET", "../", None, {}, 404),
        ("PUT", "take", b"", {}, 501),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    server: Server, method: str, path: str, body: bytes | None, headers: dict[str, Any], status: int
) -> None:
    ours = {"Origin": f"http://{server.host}", "Content_Type": "application/json"} if method == "POST" else {}
    found = ask(server, method, f"/{server.token}/{path}", body, **(ours | headers))
    assert found.status == status
    if status != 501:
        assert json.loads(found.content)["error"]


# The command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such-model",), "unknown model no-such-model"),
        (("lock-service", "--config", "none.cfg"), "none.cfg"),
        (("lock-service", "--trace", "none.out"), "none.out"),
        (("lock-service", "--port", "0"), "expected a port from 1 to 65535, found '0'"),
        (("lock-service", "--trace", str(DATA / "counterexamples" / "diverging.out.gz")), "diverging.out.gz"),
    ],
)
def test_bad_input_is_told_in_one_message(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("explore", *arguments, "--no-browser")
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_port_that_another_program_has(run: Run, server: Server) -> None:
    done = run("explore", "lock-service", "--no-browser", "--port", server.server_port)
    assert (done.code, "not available" in done.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_it_cleanly(sent: signal.Signals) -> None:
    process = start("explore", "lock-service", "--no-browser")
    assert process.stdout is not None
    address = process.stdout.readline().rpartition(": ")[2].strip()
    assert address.startswith("http://127.0.0.1:")
    process.send_signal(sent)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "ended\n")
