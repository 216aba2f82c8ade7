"""The threads of a search: who does which piece, and what becomes of an error."""

from __future__ import annotations

from itertools import pairwise
from threading import Barrier, get_ident

import numpy as np
import pytest

from kraftcheck.explorer.tables.expander import SMALLEST_PIECE_DIVISOR, index_pieces_for_workers
from kraftcheck.explorer.tables.rows import MOST_SERIAL_STATES, ThreadPool


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_piece_is_done_once_and_the_first_in_this_thread(count: int) -> None:
    threads, together = ThreadPool(count), Barrier(count)
    done: dict[int, int] = {}

    def work(number: int) -> None:
        together.wait(timeout=60)  # all at a time
        assert number not in done
        done[number] = get_ident()

    threads.run(work, count)
    threads.close()
    assert sorted(done) == list(range(count))
    assert done[0] == get_ident()
    assert len(set(done.values())) == count


@pytest.mark.parametrize("bad", [0, 1])
def test_an_error_is_raised_once_all_is_done(bad: int) -> None:
    threads, done = ThreadPool(2), []

    def work(number: int) -> None:
        if number == bad:
            raise ValueError("broken")
        done.append(number)

    with pytest.raises(ValueError, match="broken"):
        threads.run(work, 2)
    assert done == [1 - bad]
    threads.close()


@pytest.mark.parametrize("count", [1, MOST_SERIAL_STATES, MOST_SERIAL_STATES + 1, 100_000])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_pieces_are_ever_smaller_and_have_each_state_once(count: int, workers: int) -> None:
    which = np.arange(count)[::-1]
    pieces = list(index_pieces_for_workers(which, workers))
    assert np.concatenate(pieces).tolist() == which.tolist()
    assert all(len(one) >= len(next_one) > 0 for one, next_one in pairwise(pieces))
    if workers == 1:
        assert len(pieces) == 1
    elif count >= MOST_SERIAL_STATES:
        assert len(pieces) > workers
        assert len(pieces[0]) < count / workers
        assert len(pieces[-1]) <= MOST_SERIAL_STATES // SMALLEST_PIECE_DIVISOR
