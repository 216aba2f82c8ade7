"""Folders that someone else prepared: no link in them is followed, and no code of others is run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftcheck.explorer.kernel_compilation import replace_unusable_cache_folder
from kraftcheck.explorer.native import compiling
from kraftcheck.files import folder_distrust_reason, remove_path
from kraftcheck.lockstep import jars
from kraftcheck.mutation.workers import VerdictFolder
from kraftcheck.persistence.folder import BatchFolder
from kraftcheck.spec.errors import InputError
from kraftcheck.traces.corpus import CorpusFolder
from kraftcheck.traces.pipeline.driver import PipelineFolder
from tests.support.command_line import Run

CHECK = ("check", "die-hard", "--config", "smoke", "--quiet", "--checkpoint")
SYMBOLIC = (*CHECK[:-1], "--engine", "symbolic", "--checkpoint")
TABLES = (*CHECK[:-1], "--engine", "tables", "--checkpoint")

# Links


def hard_link(path: Path, target: Path) -> None:
    path.hardlink_to(target)


@pytest.mark.kernel
@pytest.mark.parametrize("link", [Path.symlink_to, hard_link])
@pytest.mark.parametrize(
    ("command", "name"),
    [(TABLES, "lock"), (TABLES, "states.bin"), (TABLES, "inboxes.bin"), (SYMBOLIC, "lock")],
)
def test_a_linked_file_of_a_checkpoint_is_not_overwritten(
    command: tuple[str, ...], name: str, link: Callable[[Path, Path], None], run: Run, tmp_path: Path
) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.write_text("precious")
    folder.mkdir()
    link(folder / name, victim)
    outcome = run(*command, folder)
    assert outcome.code == 2, outcome
    assert f"{folder / name}: expected a file, found a link, which is not followed; remove it" in outcome.err
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("kind", [VerdictFolder, CorpusFolder, PipelineFolder])
def test_a_linked_file_or_folder_of_an_output_folder_is_not_written(kind: type[BatchFolder], tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.mkdir()
    (victim / "file").write_text("precious")
    with kind(folder, {}) as opened:
        opened.claim()
        notes = opened.inner
    inside = [notes / "done", *(folder / name for name in ("traces", "steps") if kind is PipelineFolder)]
    for path, target in [(notes / "lock", victim / "file"), *((one, victim) for one in inside)]:
        remove_path(path)
        path.symlink_to(target)
        with pytest.raises(InputError, match=rf"{path}: expected a \w+, found a link, which is not followed; remove"):
            kind(folder, {})
        path.unlink()
    (folder / "staging").symlink_to(victim)
    kind(folder, {}).__exit__()
    assert [(path.name, path.read_text()) for path in victim.iterdir()] == [("file", "precious")]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(VerdictFolder, "mutation.json"), (CorpusFolder, ".corpus/corpus.json"), (PipelineFolder, "pipeline.json")],
)
def test_an_output_folder_of_format_1_is_refused(kind: type[BatchFolder], name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match=rf"{tmp_path}: the folder has format 1, this version reads 2"):
        kind(tmp_path, {})
    assert not (tmp_path / name).with_name("lock").exists()


def test_a_linked_folder_of_levels_is_not_cleared(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from kraftcheck.explorer.spark.shared_folder import SharedFolder

    victim, shared = tmp_path / "victim", SharedFolder(tmp_path / "folder")
    (victim / "00001").mkdir(parents=True)
    shared.path.mkdir()
    (shared.path / "levels").symlink_to(victim)
    with pytest.raises(InputError, match="levels: expected a folder, found a link"):
        shared.clear()
    (shared.path / "levels").unlink()
    shared.clear()
    (shared.path / "levels" / "00001").symlink_to(victim)
    shared.clear(after=3)
    shared.begin_level(1)
    assert (victim / "00001").is_dir()
    assert list((shared.path / "levels").iterdir()) == [shared.path / "levels" / "00001"]
    assert not (shared.path / "levels" / "00001").is_symlink()


def test_a_pipe_is_not_waited_for(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    outcome = run(*TABLES, tmp_path)
    assert (outcome.code, "lock: expected a file, found a device or a pipe" in outcome.err) == (2, True)


# Compiled code

KERNEL = (
    "from pathlib import Path\n"
    "from kraftcheck.explorer.native.compiling import kernel_compiler\n"
    "jit = kernel_compiler(Path(__file__).parent)\n"
    "@jit\ndef thrice(n):\n    return 3 * n\n"
)
PROGRAM = (
    "from kraftcheck.explorer.kernel_compilation import replace_unusable_cache_folder\n"
    "print(replace_unusable_cache_folder())\n"
    "from kernel import thrice; print(thrice(2), sum(thrice.stats.cache_hits.values()))"
)


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[[], list[str]]:
    """Return a function that compiles in another process, and returns what is wrong, the result and the hits."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}

    def compile_there() -> list[str]:
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return compile_there


def flipped(content: bytes) -> bytes:
    half = len(content) // 2
    return content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]


def cut(content: bytes) -> bytes:
    return content[:-40]


@pytest.mark.slow
def test_damaged_code_is_compiled_again(compiled: Callable[[], list[str]], tmp_path: Path) -> None:
    assert compiled() == ["None", "6 0"]
    assert compiled() == ["None", "6 1"]
    files = sorted((tmp_path / "cache").rglob("*.nb?"))
    assert [path.suffix for path in files] == [".nbc", ".nbi"]
    for path, how in zip(files, (flipped, cut), strict=True):
        path.write_bytes(how(path.read_bytes()))
        assert compiled() == ["None", "6 0"]
        assert compiled() == ["None", "6 1"]


@pytest.mark.slow
def test_code_that_others_can_write_is_not_run(compiled: Callable[[], list[str]], tmp_path: Path) -> None:
    compiled()
    folder = tmp_path / "cache" / "kraftcheck"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    assert compiled() == ["None", "6 1"]
    (file,) = folder.rglob("*.nbc")
    file.write_bytes(b"what another user wrote")
    file.chmod(0o666)
    problem, result = compiled()
    assert f"cannot be kept: other users can write to {file}, so each run compiles again" in problem
    assert result == "6 0"
    assert file.read_bytes() == b"what another user wrote"


def test_code_of_another_user_is_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert folder_distrust_reason(tmp_path) is None
    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    if os.getuid() == 0:  # what root writes is trusted
        os.chown(tmp_path / "file", 4711, 4711)
    assert folder_distrust_reason(
        tmp_path
    ) == f"{tmp_path if os.getuid() else tmp_path / 'file'} belongs to the user " + str(os.getuid() or 4711)


def test_a_driver_that_others_can_write_is_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    driver = jars.make_trusted_cache_folder() / "driver.jar"
    driver.touch()
    assert jars.make_trusted_cache_folder().stat().st_mode & 0o777 == 0o700
    jars.make_trusted_cache_folder().chmod(0o755)
    driver.chmod(0o666)
    with pytest.raises(InputError, match=f"other users can write to {driver}, and its files are executed; remove"):
        jars.make_trusted_cache_folder()


def test_the_cache_is_where_its_folder_was_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
        (tmp_path / name / "kraftcheck").mkdir(parents=True)
        (tmp_path / name / "kraftcheck").chmod(0o777)
        assert f"other users can write to {tmp_path / name}/kraftcheck" in str(
            replace_unusable_cache_folder.__wrapped__()
        )
        assert not Path(compiling.cache_folder_for_sources()).is_relative_to(tmp_path)
        monkeypatch.delenv("NUMBA_CACHE_DIR")
