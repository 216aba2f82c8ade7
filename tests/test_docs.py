"""The pages of `docs` say what is there: actions, scenarios, variants, numbers; their commands print what they show."""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kraftcheck.catalogue import find_model
from kraftcheck.cli import main
from tests.support.kraft_model.faults import (
    QUORUM_FAULTS,
    QUORUM_READINGS,
    RECOVERY_FAULTS,
    RECOVERY_READINGS,
    REGISTRATION_FAULTS,
    Fault,
)
from tests.support.kraft_model.progress import STUCK

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SCENARIOS = ROOT / "tests" / "scenarios"
RECOVERY = RECOVERY_READINGS + RECOVERY_FAULTS
QUORUM = QUORUM_READINGS + QUORUM_FAULTS
SHOWN_BY = re.compile(r"\b(faults?|variant|property|properties) ([A-Za-z][\w-]*(?:, [A-Za-z][\w-]*)*)")
SECTION = re.compile(r"^## [^\n]*`([\w-]+)`$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


# Coverage


class Row(NamedTuple):
    """A row of `docs/coverage.md`."""

    model: str
    section: str
    statement: str
    action: str
    shown_by: str


def rows() -> list[Row]:
    found = []
    for model, text in SECTION.findall((DOCS / "coverage.md").read_text()):
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if line.startswith("| ") and not line.startswith(("| section ", "|---")):
                assert len(cells) in (3, 4), line
                found.append(Row(model, *cells, *[""] * (4 - len(cells))))
    return found


ROWS = rows()


def test_every_contract_is_listed() -> None:
    listed = set(re.findall(r"\b[A-Z]\w+\b", (DOCS / "coverage.md").read_text()))
    properties = find_model("quorum").protocol.properties.values()
    assert {prop.name for prop in properties if prop.of_actor} <= listed


def test_every_part_is_covered() -> None:
    models = {row.model for row in ROWS}
    assert models == {"recovery", "registration", "quorum", "eligible-leaders"}
    for model in models:
        protocol = find_model(model).protocol
        named = {name for row in ROWS if row.model == model for name in re.findall(r"`(\w+)`", row.action)}
        actions = {*protocol.actions, *protocol.network.own_actions()}
        assert named <= actions
        unnamed = {"LoseMessage", "ShrinkIsr", "FetchFromLeader", "AppendProduced", "SendInvalidAlterPartition"}
        assert actions - named <= (set() if model == "quorum" else unnamed | {"RunUpgrade"})


@pytest.mark.parametrize("model", ["quorum", "reconfig", "prevote", "recovery", "registration"])
def test_a_model_says_which_module_has_which_action(model: str) -> None:
    protocol = find_model(model).protocol
    package = sys.modules[protocol.__module__]
    entries = re.findall(r"^`(\w+)/?` +(.*(?:\n  .*)*)", package.__doc__ or "", re.MULTILINE)
    listed = {name: set(re.findall(r"\b[A-Z]\w+", text)) for name, text in entries}
    folder = Path(str(package.__file__)).parent
    assert set(listed) == {file.stem for file in folder.iterdir() if not file.name.startswith("__")}
    for action in protocol.actions.values():
        module = action.function.__module__.removeprefix(f"{package.__name__}.")
        assert [name for name, actions in listed.items() if action.name in actions] == [module], action.name


def known_tests() -> dict[str, str]:
    """The source of every test in `tests/kraft_model`, by its name."""
    found = {}
    for path in sorted((ROOT / "tests" / "kraft_model").glob("test_*.py")):
        source = path.read_text()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = found.get(node.name, "") + (ast.get_source_segment(source, node) or "")
    return found


TESTS = known_tests()


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.model}: {row.statement}" for row in ROWS])
def test_a_statement_is_handled_by_an_action_that_a_scenario_shows(row: Row) -> None:
    actions = re.findall(r"`(\w+)`", row.action)
    assert actions or row.action.startswith("none: "), row
    files = re.findall(r"`([\w.-]+\.txt)`", row.shown_by)
    told = "\n".join((SCENARIOS / file).read_text() for file in files)
    tests = re.findall(r"`(test_\w+)`", row.shown_by)
    called = "\n".join(TESTS[test] for test in tests)
    model = find_model(row.model)
    if files or tests:
        for action in actions:
            in_scenario = re.search(rf"^(briefly |cannot )?{action}\b", told, re.MULTILINE)
            in_test = re.search(rf"\.{snake_case(action)}\b", called)
            assert in_scenario or in_test, f"{action} in {files + tests}"
    for kind, names in SHOWN_BY.findall(row.shown_by):
        for name in names.split(", "):
            known = model.protocol.properties if kind.startswith("prop") else model.variants
            assert name in known, name
    assert files or tests or not actions or "fault" in row.shown_by or "variant" in row.shown_by, row


def snake_case(name: str) -> str:
    """Return the name of an action's method."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


# Faults and findings


@pytest.mark.parametrize(
    ("model", "faults"), [("recovery", RECOVERY), ("registration", REGISTRATION_FAULTS), ("quorum", QUORUM)]
)
def test_the_table_of_faults_is_that_of_the_tests(model: str, faults: list[Fault]) -> None:
    text = dict(SECTION.findall((DOCS / "faults.md").read_text()))[model]
    shown = {row[0]: row[1:] for row in re.findall(r"^ {5,}(\S+) +violation +(\w+) +(\d+) ", text, re.MULTILINE)}
    assert shown == {fault.variant: (fault.property, str(fault.length)) for fault in faults}
    bases = re.findall(r"^\S+ +base +(ok|holds to depth \d+) +([\d,]+) ", text, re.MULTILINE)
    assert len(bases) == len(faults)
    for fault, (verdict, states) in zip(faults, bases, strict=True):
        if fault.base is None:
            assert int(verdict.removeprefix("holds to depth ")) >= fault.length, fault
        else:
            assert (verdict, states) == ("ok", f"{fault.base:,}"), fault


def test_the_table_of_traps_is_that_of_the_tests() -> None:
    text = dict(SECTION.findall((DOCS / "faults.md").read_text()))["quorum"]
    row = r"^\| `([\w-]+)` \| `([\w.-]+)` \| `(\w+)` \| ([\d,]+ of [\d,]+) \| ([\d,]+) \|$"
    assert re.findall(row, text, re.MULTILINE) == [
        (one.variant, one.config, one.property, f"{one.stuck:,} of {one.among:,}", f"{one.base:,}") for one in STUCK
    ]


FINDINGS = re.findall(r"^    kraftcheck (?!lockstep)(.+)$", (DOCS / "findings.md").read_text(), re.MULTILINE)
# What lockstep finds is in tests/data/kafka, and tests/traces/test_lockstep_known.py drives Kafka with each.
LONG = (
    *("duplicate-directory-allowed", "version-once-committed", "kip853-draft", "leader-not-ready"),
    *("version-zero-vote", "pre-vote-unless-follower", "finding.own-vote", "update-voter-answered-at-once"),
    *("finding.never-settled", "finding.never-elected-unaware", "finding.never-elected-lost-disk", "live.removal"),
    *("added-by-controller-id", "removed-by-controller-id", "overridden-alone", "overridden-voters", "MaxOverrides=0"),
    *(
        "overridden-endpoints",
        "coming.updates-checked",
        "updates-checked",
        "formatted-with-new-voters",
        "--max-depth 10",
    ),
    *(
        "--max-depth 12",
        "--max-depth 13",
        "--max-depth 9",
        "coming.formatting-needed",
        "waits-for-cluster-id",
        "metadata-downgraded",
        "finding.never-upgraded",
        "finding.never-upgraded-static",
        "removed-voter-stands",
        "updates-what-differs",
    ),
)
"""Variants that take the commands of their findings more than a moment."""


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    "command", [pytest.param(one, marks=[pytest.mark.slow] * one.endswith(LONG)) for one in FINDINGS]
)
def test_a_findings_command_shows_what_it_says(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """How long the counterexamples are, or how many states have no way out.

    Where there is neither, how many states the model has and how many the variant.
    """
    model, *_ = arguments = shlex.split(command)[1:]
    code = main([*shlex.split(command), "--quiet"])
    assert code in ((20,) if "--max-depth" in command else (0, 12, 13))
    sections = [text for name, text in SECTION.findall((DOCS / "findings.md").read_text()) if name == model]
    parts = [part for section in sections for part in section.split("\n### ")]
    about = next(part for part in parts if f"    kraftcheck {command}\n" in part)
    about, printed = " ".join(about.split()), capsys.readouterr().out
    lengths = re.findall(r"^.* violation +[\w, ]+? +(\d+) ", printed, re.MULTILINE)
    lengths += re.findall(r"^Counterexample to \w+, (\d+) states$", printed, re.MULTILINE)
    traps = re.findall(r"([\d,]+ of [\d,]+)(?:\)| states have no way out)", printed)
    if traps:
        for trap in traps:
            assert re.search(rf"\b{trap}(?= |,)", about), f"{trap} in {about}"
        return
    if code == 0:
        lengths = re.findall(r"^.* ok +([\d,]+) +[\d.]+", printed, re.MULTILINE)
        assert len(lengths) == 2 or command.startswith("check")
        lengths += re.findall(r"^OK: nothing is violated; ([\d,]+) distinct states", printed, re.MULTILINE)
    assert lengths or code == 20, arguments
    for length in lengths:
        assert f"{length} states" in about, f"{length} states in {about}"


# Commands


class Example(NamedTuple):
    """A command in a page, and what is shown to come of it."""

    page: str
    command: str
    shown: str


def examples(page: str) -> list[Example]:
    found = re.findall(r"^```console\n\$ (.+)\n((?:.*\n)*?)```$", (DOCS / page).read_text(), re.MULTILINE)
    return [Example(page, command, shown) for command, shown in found]


OWN = examples("your-own-variant.md")
SLOW_EXAMPLE = "kraftcheck compare quorum handover.py"


def with_files(page: str, folder: Path) -> None:
    """Write the files that a page tells its reader to write: each is named in the words before it."""
    text = (DOCS / page).read_text()
    blocks = re.findall(r"`(\w+\.(?:py|cfg))`[^`]*```(?:python|cfg)\n((?:.*\n)*?)```$", text, re.MULTILINE)
    assert {name for name, _ in blocks} >= {"sooner.py", "handover.py", "handover.cfg"}
    for name, content in blocks:
        (folder / name).write_text(content)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "example",
    [pytest.param(one, id=one.command, marks=[pytest.mark.slow] * one.command.startswith(SLOW_EXAMPLE)) for one in OWN],
)
def test_a_change_of_ones_own_as_the_page_has_it(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_files(example.page, tmp_path)
    monkeypatch.chdir(tmp_path)
    name, *arguments = shlex.split(example.command)
    assert name == "kraftcheck"
    assert main(arguments) == 12
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.rstrip().split("\n")) + "\n"
    shown = example.shown.replace("TIME", "...")
    assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS), printed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sooner.py:Sooner", pytest.param("handover.py:Handover", marks=pytest.mark.slow)])
def test_the_change_of_ones_own_is_pure(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_files("your-own-variant.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(OWN) == 6
    assert main(["check", name, "--config", "smoke", "--check-actions"]) == 0


@pytest.mark.slow
def test_records_messages_and_fields_of_ones_own_are_written_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`PreferredLeader` has the same fields as LeaderChange, and is another record all the same."""
    with_files("your-own-variant.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    walks = ["--runs", "3", "--seed", "1", "--depth", "40", "--out", "walks"]
    assert main(["simulate", "handover.py:Handover", *walks]) == 0
    files = sorted(map(str, Path("walks").glob("*.tla")))
    assert any('type |-> "PreferredLeader"' in Path(file).read_text() for file in files)
    assert main(["replay", "handover.py:Handover", *files]) == 0


@pytest.mark.slow
def test_the_change_of_ones_own_harms_no_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_files("your-own-variant.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (tmp_path / "sooner.cfg").read_text()
    others = text.replace("    RecoveringHasOneInSync\n", "").replace("PROPERTY SuccessorElectedUncleanly\n", "")
    (tmp_path / "clients.cfg").write_text(others)
    arguments = ["sooner.py:Sooner", "--config", "clients.cfg", "--set", "MaxRequests=1"]
    assert main(["check", *arguments]) == 0
