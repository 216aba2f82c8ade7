"""Users' files that import `spec`, `kraft_model`, `explorer` or `traces`: exit code 2, and the new name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kraftcheck
from kraftcheck.spec.discovery import OLD_TOP_LEVEL_PACKAGES

CHECKOUT = Path(kraftcheck.__file__).parents[1]
PROTOCOL = """
from kraftcheck import Protocol, Record

class Node(Record):
    id: int

class Shared(Record):
    pass

class Mine(Protocol):
    def initial(self):
        yield self.start([Node(1)], Shared())
"""


@pytest.fixture(params=["plain folder", "checkout"])
def path(request, tmp_path, monkeypatch) -> Path:
    """The user's file; what can be imported is `kraftcheck` alone, or the folders of the checkout too."""
    path = [entry for entry in sys.path if not (Path(entry or ".") / "kraft_model").exists()]
    if request.param == "checkout":
        path.insert(0, str(CHECKOUT))
        monkeypatch.chdir(CHECKOUT)
    else:
        monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", path)
    for name in OLD_TOP_LEVEL_PACKAGES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path / "mine.py"


@pytest.mark.parametrize(
    ("statement", "old", "expected"),
    [
        ("from kraft_model.quorum import Quorum", "kraft_model.quorum", "kraft_model.quorum\n"),
        ("from kraft_model.quorum_base import X", "kraft_model.quorum_base", "kraft_model\n"),
        ("from kraft_model import quorum_base", "kraft_model", "kraft_model\n"),
        ("from spec import Protocol, on", "spec", "spec\n"),
        ("from spec.values import (\n    Map,\n    Record,\n)", "spec.values", "spec.values\n"),
        ("from spec.view import TlaStateConverter", "spec.view", "spec\n"),
        ("from spec.tla import parse_value", "spec.tla", "spec.tla\n"),
        ("from spec.nothing import X", "spec.nothing", "spec\n"),
        ("import spec", "spec", "spec\n"),
        ("import explorer.tables.learner as l", "explorer.tables.learner", "explorer.tables\n"),
        ("import json, traces", "traces", "traces\n"),
    ],
)
def test_the_new_name_is_told(run, path, statement, old, expected) -> None:
    path.write_text(f"import os\n{statement}\n{PROTOCOL}")
    outcome = run("check", f"{path}:Mine")
    message = f"{path}:2: cannot be imported: {old} is an old name; expected kraftcheck.{expected}"
    assert outcome.code == 2
    assert outcome.err.startswith(f"kraftcheck: error: {message}"), outcome.err
    assert outcome.err.count("\n") == 1


def test_in_a_file_that_the_users_file_imports(run, path) -> None:
    helper = path.with_name("helper_of_mine.py")
    helper.write_text("\nfrom spec.values import Record\n")
    path.write_text(f"from helper_of_mine import Record\n{PROTOCOL}")
    outcome = run("check", f"{path}:Mine")
    assert outcome.code == 2
    assert f"{helper}:2: cannot be imported: spec.values is an old name" in outcome.err


def test_a_users_own_module_may_have_such_a_name(run, path) -> None:
    path.with_name("spec.py").write_text("NUMBER = 1\n")
    path.write_text(f"from spec import NUMBER\n{PROTOCOL}    number = NUMBER\n")
    try:
        assert run("check", f"{path}:Mine", "--no-deadlock").code == 0
        path.write_text(f"from spec import NUMBRE\n{PROTOCOL}")
        outcome = run("check", f"{path}:Mine")
    finally:
        sys.modules.pop("spec")
    assert outcome.code == 2
    assert f"{path}:1: cannot be imported: ImportError: cannot import name 'NUMBRE'" in outcome.err


@pytest.mark.parametrize("where", ["plain folder", "checkout"])
def test_a_process_of_its_own(tmp_path, where) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"from kraft_model.quorum import Quorum\n{PROTOCOL}")
    site = tmp_path / "site"
    site.mkdir()
    (site / "kraftcheck").symlink_to(CHECKOUT / "kraftcheck")
    found = [str(site), *[entry for entry in sys.path if entry.endswith("-packages")]]  # -S: not the links in them
    done = subprocess.run(
        [sys.executable, "-S", "-m", "kraftcheck", "check", f"{path}:Mine"],
        cwd=tmp_path if where == "plain folder" else CHECKOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(found)},
        capture_output=True,
        text=True,
    )
    expected = f"kraftcheck: error: {path}:1: cannot be imported: kraft_model.quorum is an old name; "
    assert (done.returncode, done.stderr) == (2, f"{expected}expected kraftcheck.kraft_model.quorum\n")
