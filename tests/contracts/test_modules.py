"""Every module of the product has one name, whoever imports it: the links in `kraftcheck` give it no second one."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import kraftcheck

ROOT = Path(__file__).parents[2]
FOLDERS = ("spec", "kraft_model", "explorer", "traces")


def names_of_files(modules: dict[str, Any]) -> dict[Path, set[str]]:
    """Return the names under which each source file of the checkout's product is loaded."""
    found = defaultdict(set)
    for name, module in list(modules.items()):
        path = Path(getattr(module, "__file__", None) or "/").resolve()
        if ROOT in path.parents and path.relative_to(ROOT).parts[0] in (*FOLDERS, "kraftcheck"):
            found[path].add(name)
    return dict(found)


def test_each_file_is_loaded_under_one_name(request: pytest.FixtureRequest) -> None:
    """In this process, which has collected every test and every doctest."""
    for module in walk_packages(kraftcheck.__path__, "kraftcheck."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    loaded = {path: names - {"__main__"} for path, names in names_of_files(sys.modules).items()}
    twice = {str(path): names for path, names in loaded.items() if len(names) > 1}
    assert twice == {}
    assert {name.split(".")[0] for names in loaded.values() for name in names} == {"kraftcheck"}
    doctests = [item for item in request.session.items if isinstance(item, pytest.DoctestItem)]
    assert {item.dtest.globs["__name__"].split(".")[0] for item in doctests if item.dtest} <= {"kraftcheck", "tests"}


def test_a_second_name_is_seen() -> None:
    module = import_module("kraftcheck.spec.values")
    found = names_of_files({"kraftcheck.spec.values": module, "spec.values": module})
    assert list(found.values()) == [{"kraftcheck.spec.values", "spec.values"}]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_no_package_of_its_own(folder: str) -> None:
    command = [sys.executable, "-c", f"import {folder}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"this package is kraftcheck.{folder}: import that" in done.stderr
