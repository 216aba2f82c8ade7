"""What docs/kernel.md says of the kernel: its numbers, and the steps of its proofs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftcheck.explorer.tables.kernel import jit
from kraftcheck.explorer.tables.kernel.hash_set import ceil_divide
from kraftcheck.explorer.tables.kernel.packing import (
    HOME_BITS,
    hash_words,
    put_bits,
    read_bits,
    restore_mixed_bits,
    xor_bits,
)

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.kernel


@pytest.mark.slow
def test_the_miss_is_what_the_page_shows() -> None:
    command = [sys.executable, str(DOCS / "cache_miss.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"cache_miss.py -->\n```text\n(.*?)```", (DOCS / "kernel.md").read_text(), re.S)
    assert found is not None
    assert found[1] == printed


@jit
def scaled_back(least: Any, capacity: Any) -> Any:
    return ceil_divide(least, capacity)


@pytest.mark.slow
@given(st.integers(0, (1 << HOME_BITS) - 1), st.integers(1, (1 << 30) - 1))
def test_what_is_scaled_follows_from_its_home_and_the_upper_bits_of_its_rest(number: int, capacity: int) -> None:
    scale = capacity.bit_length() - 1
    kept = (number * capacity) >> scale << scale
    assert scaled_back(np.uint64(kept), np.uint64(capacity)) == number


@jit
def mixed_and_back(words: Any) -> Any:
    mixed, first = hash_words(words, 0), words[0, 0]
    words[0, 0] = first >> np.uint64(40) << np.uint64(40)
    restore_mixed_bits(words, 0, mixed)
    return words[0, 0] == first


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=3))
def test_the_first_bits_follow_from_their_mix_and_the_others(words: list[int]) -> None:
    assert mixed_and_back(np.array([words], np.uint64))


@jit
def packed_and_changed(widths: Any, before: Any, after: Any, words: Any, found: Any) -> None:
    position = np.int64(0)
    for f in range(len(widths)):
        put_bits(words, 0, position, widths[f], before[f])
        xor_bits(words, 0, position, widths[f], before[f] ^ after[f])
        position += widths[f]
    position = np.int64(0)
    for f in range(len(widths)):
        found[f] = read_bits(words, 0, position, widths[f])
        position += widths[f]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 31), st.integers(0), st.integers(0)), min_size=1, max_size=12))
def test_fields_hold_what_they_are_changed_to(fields: list[tuple[int, int, int]]) -> None:
    widths = np.array([width for width, _, _ in fields], np.int64)
    before, after = (np.array([field[side] % (1 << field[0]) for field in fields], np.uint64) for side in (1, 2))
    words, found = np.zeros((1, 7), np.uint64), np.zeros(len(fields), np.uint64)
    packed_and_changed(widths, before, after, words, found)
    assert found.tolist() == after.tolist()
