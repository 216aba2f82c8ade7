"""The store of a search's levels, and the files under it."""

from __future__ import annotations

from errno import ENOSPC
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kraftcheck.explorer.tables.rows import SpillingLevels
from kraftcheck.persistence.stored_files import DIGEST_BYTES, AppendOnlyFile, CorruptFileError

pytestmark = pytest.mark.kernel

Rows = NDArray[np.int32]


@st.composite
def contents(draw: st.DrawFn) -> list[list[Rows]]:
    """Draw levels of chunks that become wider and wider."""
    columns, number, levels = 1, 0, []
    for _ in range(draw(st.integers(1, 5))):
        level = []
        for _ in range(draw(st.integers(0, 5))):
            columns += draw(st.sampled_from((0, 0, 0, 1)))
            count = draw(st.integers(1, 12))
            level.append(np.arange(number + 1, number + 1 + count * columns, dtype=np.int32).reshape(count, columns))
            number += count * columns
        levels.append(level)
    return levels


def filled(levels: SpillingLevels, contents: list[list[Rows]]) -> None:
    for level in contents:
        levels.begin()
        for rows in level:
            levels.append(rows)


@given(contents(), st.integers(0, 400), st.integers(1, 20), st.data())
def test_gives_back_what_was_appended(
    contents: list[list[Rows]], budget: int, most: int, data: st.DataObject
) -> None:
    levels = SpillingLevels(budget)
    filled(levels, contents)
    assert levels.nbytes <= budget
    assert levels.depth == len(contents)
    assert levels.counts == [sum(map(len, level)) for level in contents]
    for number, level in enumerate(contents, start=1):
        expected = [row.tolist() for rows in level for row in rows]
        found = [row.tolist() for rows in levels.chunks(number, most) for row in rows]
        assert found == expected
        assert all(1 <= len(rows) <= most for rows in levels.chunks(number, most))
        assert levels.count(number) == len(expected)
        if expected:
            first = data.draw(st.integers(0, len(expected) - 1))
            part = levels.read(number, first, most)
            assert part.flags.c_contiguous
            assert part.tolist() == expected[first : first + len(part)]
    assert [[len(rows) for rows in level] for level in levels] == [
        [len(rows) for rows in levels.chunks(number)] for number in range(1, levels.depth + 1)
    ]
    levels.close()


@given(contents(), st.integers(0, 400))
def test_another_can_take_them_up(contents: list[list[Rows]], budget: int) -> None:
    file = AppendOnlyFile.temporary()
    levels = SpillingLevels(budget, file)
    filled(levels, contents)
    levels.flush()
    assert levels.nbytes == 0
    other = SpillingLevels(budget, file)
    assert other.restore(levels.extents) == file.length
    assert other.counts == levels.counts
    for number in range(1, other.depth + 1):
        assert [r.tolist() for r in other.chunks(number)] == [r.tolist() for r in levels.chunks(number)]
    other.append(np.full((3, 9), 7, np.int32))
    assert other.count(other.depth) == levels.count(levels.depth) + 3
    file.close()


def test_a_level_can_be_read_while_the_next_is_built() -> None:
    levels = SpillingLevels(budget=200)
    levels.begin()
    levels.append(np.arange(40, dtype=np.int32).reshape(20, 2))
    levels.begin()
    seen = []
    for rows in levels.chunks(1, 3):
        seen += rows.tolist()
        levels.append(rows * 2)
    assert seen == np.arange(40).reshape(20, 2).tolist()
    assert [row for rows in levels.chunks(2) for row in rows.tolist()] == (np.arange(40) * 2).reshape(20, 2).tolist()
    levels.close()


def test_rows_of_a_larger_array_do_not_keep_it_in_memory() -> None:
    levels = SpillingLevels(budget=1 << 20)
    levels.begin()
    large = np.zeros((1000, 4), np.int32)
    levels.append(large[:3])
    assert levels.read(1, 0, 5).base is not large


def test_nothing_is_written_while_there_is_room(tmp_path: Path) -> None:
    levels = SpillingLevels(budget=1 << 20, folder=tmp_path / "nowhere")
    filled(levels, [[np.zeros((5, 2), np.int32)]])
    levels.close()


def test_a_temporary_file_has_no_name(tmp_path: Path) -> None:
    file = AppendOnlyFile.temporary(tmp_path)
    file.append(b"x" * 100)
    assert list(tmp_path.iterdir()) == []
    file.close()


def test_a_full_disk_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(ENOSPC, "No space left on device")

    file = AppendOnlyFile.temporary(tmp_path)
    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        file.append(b"x")
    assert caught.value.filename == str(tmp_path)
    assert file.length == 0
    file.close()


def test_cleared_levels_begin_anew() -> None:
    levels = SpillingLevels(budget=0)
    filled(levels, [[np.ones((5, 2), np.int32)]])
    levels.clear()
    assert levels.depth == 0
    filled(levels, [[np.full((2, 3), 4, np.int32)]])
    assert [rows.tolist() for rows in levels.chunks(1)] == [[[4, 4, 4], [4, 4, 4]]]
    levels.close()


# Growing files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = AppendOnlyFile.at(tmp_path / "file")
    assert file.append(b"hello ") == 0
    assert file.append(np.frombuffer(b"world", np.uint8)) == 6
    assert file.append(np.zeros((0, 3), np.int32)) == 11
    file.sync()
    file.close()
    return tmp_path / "file"


def digest_of(data: bytes) -> str:
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def test_what_lies_beyond_the_length_is_cut_off(path: Path) -> None:
    file = AppendOnlyFile.at(path)
    file.restore(6, digest_of(b"hello "))
    assert path.read_bytes() == b"hello "
    file.append(b"you")
    assert file.read(3, 6) == b"lo you"
    assert file.digest == digest_of(b"hello you")
    with pytest.raises(CorruptFileError, match="it ends after 9 bytes"):
        file.read(3, 7)
    file.close()


def test_a_file_that_changed_is_refused(path: Path) -> None:
    with pytest.raises(CorruptFileError, match="its content has changed"):
        AppendOnlyFile.at(path).restore(6, digest_of(b"hellO "))
    with pytest.raises(CorruptFileError, match="expected 12 bytes, found 11"):
        AppendOnlyFile.at(path).restore(12, digest_of(b"hello world!"))
    assert path.read_bytes() == b"hello world"
