"""What `pip install` brings: one package, with all of its files, which works beside a user's files of any name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.browser import Watched, chromium, missing
from tests.support.readme import CONSOLE, SHELL, lacking, write_program

ROOT = Path(__file__).parents[2]
FOLDERS = ("spec", "kraft_model", "explorer", "traces")
KINDS = (".py", ".pyi", ".lark", ".toml", ".typed", ".js", ".css", ".html")
CODES = {
    **dict.fromkeys(("simulate", "crosscheck"), (0,)),
    "check": (0, 12),
    "replay": (0, 1),
    "validate": (0, 1, 12, 20),
}


OWN = (
    "kraftcheck check reconfig --config smoke",
    "kraftcheck check ring.py:Ring --report ring.html",
    "python -m webbrowser ring.html",
    "python -m pytest test_ring.py",
    "sed -i 's/become(me)/become(me.but(has_token=False))/' ring.py",
    "python -m pytest test_ring.py",
)
TEST = """
import pytest

@pytest.mark.kraftcheck("ring.py:Ring")
def test_ring(kraftcheck):
    assert kraftcheck.complete
"""


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def pip(*arguments: object, cwd: Path | None = None) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout: what a build may look at."""
    folder = tmp_path_factory.mktemp("project") / "kraftcheck"
    folder.mkdir()
    for name in ("kraftcheck", *FOLDERS, "docs", "tests"):
        left_out = shutil.ignore_patterns("__pycache__", "data")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def python(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a new environment in which the copy is installed; what it needs is that of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    found = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    present = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (site / "present.pth").write_text("".join(f"{path}\n" for path in present))
    before = files_of(checkout)
    pip("--python", found, "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", ".", cwd=checkout)
    assert files_of(checkout) == before
    return found


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return a folder with files of somebody else's, whose names were ours once, and with the README's own."""
    for name in ("spec.py", "traces.py", "kraft_model.py", "explorer/__init__.py", "tests/__init__.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise RuntimeError('this is somebody else\\'s')\n")
    write_program(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_protocol_of_the_users_from_its_check_to_its_test(python: Path, hostile: Path) -> None:
    """The commands of a new user, after `pip install`."""
    ring = hostile / "ring"
    shutil.copytree(hostile, ring, ignore=shutil.ignore_patterns("ring"), dirs_exist_ok=True)
    (ring / "test_ring.py").write_text(TEST)
    shown, browser = hostile / "shown.txt", hostile / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{shlex.quote(str(shown))}\n')
    browser.chmod(0o755)
    before = f". {shlex.quote(str(python.parent / 'activate'))} && export BROWSER={shlex.quote(str(browser))} && "
    done = [run(["bash", "-c", before + command], ring) for command in OWN]
    assert [one.returncode for one in done] == [0, 12, 0, 1, 0, 0], done
    assert "VIOLATION: violated: OneHolder; 3 distinct states" in done[1].stdout
    assert shown.read_text().strip().endswith("ring.html")
    assert "Counterexample to OneHolder, 3 states" in done[3].stdout
    assert "1 passed" in done[5].stdout
    if missing() is None:
        with chromium() as browser:
            watched = Watched(browser.new_page())
            watched.open(ring / "ring.html")
            assert "OneHolder" in watched.page.content()
            assert watched.troubles == []


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV", "PYTEST"))}
    environment = {**own, "COLUMNS": "100"}
    if "PYTHONPYCACHEPREFIX" in os.environ:  # else each module of NumPy and Numba is compiled to bytecode again
        environment["PYTHONPYCACHEPREFIX"] = os.environ["PYTHONPYCACHEPREFIX"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_wheel_has_one_package_with_all_of_its_files(checkout: Path, tmp_path: Path) -> None:
    pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ".", cwd=checkout)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in packed}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kraftcheck"}
    assert len(tops) == 2
    own = {f"kraftcheck/{path.relative_to(ROOT / 'kraftcheck')}" for path in (ROOT / "kraftcheck").rglob("*")}
    linked = {f"kraftcheck/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*")}
    wanted = {name for name in own | linked if name.endswith(KINDS)}
    assert {"kraftcheck/py.typed", "kraftcheck/spec/values.py"} <= wanted
    assert {Path(name).suffix for name in wanted} == set(KINDS)
    assert wanted <= packed
    assert {name for name in packed if name.endswith(KINDS)} <= wanted


def built(source: Path, folder: Path) -> dict[str, bytes]:
    """Return the files of the wheel that pip builds from a folder or a source distribution."""
    pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.fixture(scope="module")
def unlinked(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout as Python's `zipfile` unpacks its ZIP: links are files with their targets."""
    folder = tmp_path_factory.mktemp("unpacked") / "kraftcheck"
    shutil.copytree(checkout, folder, symlinks=True)
    links = [path for path in folder.rglob("*") if path.is_symlink()]
    assert len(links) >= len(FOLDERS)
    for path in links:
        target = os.readlink(path)
        path.unlink()
        path.write_text(target)
    return folder


@pytest.mark.slow
def test_a_source_distribution_and_a_zip_without_links_build_the_same_wheel(
    checkout: Path, unlinked: Path, tmp_path: Path
) -> None:
    wheel = built(checkout, tmp_path / "checkout")
    assert "kraftcheck/explorer/result.py" in wheel
    assert built(unlinked, tmp_path / "unlinked") == wheel
    sdists = []
    for name, folder in (("checkout", checkout), ("unlinked", unlinked)):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path / f"{name}-sdist")]
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
        sdists += (tmp_path / f"{name}-sdist").glob("*.tar.gz")
    assert sdists[0].read_bytes() == sdists[1].read_bytes()
    assert built(sdists[0], tmp_path / "from-sdist") == wheel


@pytest.mark.slow
def test_a_checkout_without_links_says_so_in_one_line(unlinked: Path) -> None:
    remedy = "run 'pip install .' and then the installed kraftcheck, or clone with 'git clone -c core.symlinks=true'"
    for words in (["check", "reconfig"], ["--help"]):
        done = run([sys.executable, "-m", "kraftcheck", *words], unlinked)
        assert (done.returncode, done.stdout) == (2, "")
        found = re.fullmatch(
            r"kraftcheck: error: kraftcheck/(\w+): expected a symbolic link to \.\./(\w+); (.*)\n", done.stderr
        )
        assert found, done.stderr
        assert (found[1], found[3]) == (found[2], remedy)
    done = run([sys.executable, "-c", "from kraftcheck import check"], unlinked)
    message = f"ImportError: kraftcheck/spec: expected a symbolic link to ../spec; {remedy}\n"
    assert (done.returncode, done.stderr.endswith(message)) == (1, True), done.stderr


@pytest.mark.slow
def test_the_installed_command_runs_beside_files_of_the_same_names(python: Path, hostile: Path) -> None:
    said = run([str(python), "-c", "import kraftcheck; print(kraftcheck.__file__)"], hostile)
    assert str(python.parents[1]) in said.stdout, said
    for start in ([str(python), "-m", "kraftcheck"], [str(python.parent / "kraftcheck")]):
        done = run([*start, "check", "ring.py:Ring", "--engine", "reference"], hostile)
        assert done.returncode == 12, done
        assert done.stdout.splitlines()[0].startswith("ring.py:Ring, configuration none, engine reference"), done


@pytest.mark.slow(minutes=1)
def test_the_installed_command_runs_the_readmes_examples(python: Path, hostile: Path) -> None:
    install, check = SHELL[0].splitlines()[0].split(" && .venv/bin/kraftcheck ")
    assert install.endswith(".venv/bin/pip install .")
    smoke = [*check.split(), "--engine", "tables"]
    compiled = run([str(python), "-m", "kraftcheck", *smoke], hostile)
    assert compiled.returncode == 0, compiled
    assert "; 5,394 distinct states; 7,522 generated; depth 26; " in compiled.stdout
    for command, shown in CONSOLE:
        name, what, *arguments = shlex.split(command.replace("tests/data", str(ROOT / "tests" / "data")))
        shown = shown.replace("tests/data", str(ROOT / "tests" / "data"))
        for start in ([str(python), "-m", name], [str(python.parent / name)]):
            done = run([*start, what, *arguments], hostile)
            assert done.returncode in CODES[what], done
            assert lacking(shown, done.stdout) == [], done
