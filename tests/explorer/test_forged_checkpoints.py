"""Checkpoints that were forged, with digests made anew: a search that goes on from one is right, or refuses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from kraftcheck import load
from kraftcheck.explorer.result import Interrupted, SearchRequest
from kraftcheck.explorer.symbolic.engine import explore as by_sets
from kraftcheck.explorer.tables import checkpoint as tables_checkpoint
from kraftcheck.explorer.tables.searches.bfs import BreadthFirstSearch
from kraftcheck.persistence.stored_files import CorruptFileError, require_json_shape
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.protocol import Protocol
from tests.support.explorer.boards import Boards, take_apart_at
from tests.support.explorer.comparison import found
from tests.support.explorer.random_protocols import sample
from tests.support.forging import NUMBERS, digests_made_anew, outcomes
from tests.support.sizes import sizes
from tests.support.tlc import MCReconfig, bound

pytestmark = pytest.mark.kernel


def stopped(reports: int) -> Callable[[object], None]:
    left = iter(range(reports))

    def report(_: object) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    return report


def by_tables(protocol: Any, options: SearchRequest) -> Any:
    return BreadthFirstSearch(protocol, options, 1, batch=50).run()


class Checkpoint:
    """A checkpoint of a search with violations that is under way, and the way on from it."""

    def __init__(
        self, folder: Path, explore: Callable[..., Any] = by_tables, protocol: Protocol | None = None, **more: Any
    ) -> None:
        self.folder, self._explore = folder, explore
        self.protocol = protocol or bound("counts/two-voters", MCReconfig).protocol
        checked = tuple(p for p in self.protocol.properties.values() if p.kind == "invariant")
        self.options = SearchRequest(properties=checked, deadlock=False, keep_going=True, **more)
        if explore is by_tables:
            with pytest.raises(Interrupted):
                explore(self.protocol, replace(self.options, checkpoint=folder, report=stopped(13)))
        else:
            explore(self.protocol, replace(self.options, checkpoint=folder, time_limit=1e-6))
        self.right = found(explore(self.protocol, self.options))

    def resumed(self, folder: Path) -> dict[str, object]:
        return found(self._explore(self.protocol, replace(self.options, resume=folder)))

    def manifest(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return content

    def refusal(self, manifest: dict[str, Any] | None = None) -> str:
        """Go on after digests were made anew; return why that is refused."""
        digests_made_anew(self.folder, self.manifest() if manifest is None else manifest)
        with pytest.raises(InputError) as raised:
            self.resumed(self.folder)
        message = str(raised.value)
        start = f"--resume {self.folder}: the checkpoint is damaged: "
        assert message.startswith(start)
        return message.removeprefix(start)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return Checkpoint(tmp_path_factory.mktemp("kept") / "c")


@pytest.fixture
def checkpoint(kept: Checkpoint, tmp_path: Path) -> Checkpoint:
    """Return a checkpoint that a test may change."""
    mine = copy(kept)
    mine.folder = Path(copytree(kept.folder, tmp_path / "c"))
    return mine


# Numbers at random


@pytest.mark.parametrize("count", sizes(12, 80, 600))
def test_a_forged_checkpoint_of_tables(checkpoint: Checkpoint, count: int, tmp_path: Path) -> None:
    assert checkpoint.resumed(checkpoint.folder) == checkpoint.right
    came = outcomes(checkpoint.folder, tmp_path / "forged", range(count), checkpoint.resumed, checkpoint.right)
    assert came["refused"] > came["right"]


@pytest.mark.parametrize("count", sizes(2, 20, 400))
def test_a_forged_checkpoint_of_exploded_sets(count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    take_apart_at(2, monkeypatch)
    checkpoint = Checkpoint(tmp_path / "c", protocol=load(Boards).protocol, max_depth=7)
    assert checkpoint.resumed(checkpoint.folder) == checkpoint.right
    came = outcomes(checkpoint.folder, tmp_path / "forged", range(count), checkpoint.resumed, checkpoint.right)
    assert came["refused"] > came["right"]


@pytest.mark.parametrize("count", sizes(2, 12, 150))
@pytest.mark.parametrize(
    "order", ["bfs", *(pytest.param(order, marks=pytest.mark.slow) for order in ("saturation", "chaining"))]
)
def test_a_forged_checkpoint_of_sets(order: str, count: int, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "c", by_sets, search=order)
    assert checkpoint.resumed(checkpoint.folder) == checkpoint.right
    came = outcomes(checkpoint.folder, tmp_path / "forged", range(count), checkpoint.resumed, checkpoint.right)
    assert came["refused"] > came["right"]


@pytest.mark.parametrize("count", sizes(None, 8, 40))
def test_forged_checkpoints_of_random_protocols(count: int, tmp_path: Path) -> None:
    """With channels, symmetries, views, constraints and values that Python learns."""
    for number, drawn in enumerate(sample(12, seed=3, large=100, most=600)):
        folder, options = tmp_path / str(number), drawn.description.options(drawn.protocol)
        stop = replace(options, checkpoint=folder, report=stopped(8))
        with suppress(Interrupted):
            BreadthFirstSearch(drawn.protocol, stop, 1, batch=8).run()

        def resumed(folder: Path, drawn: Any = drawn, options: SearchRequest = options) -> dict[str, object]:
            return found(BreadthFirstSearch(drawn.protocol, replace(options, resume=folder), 1).run())

        outcomes(folder, tmp_path / "forged", range(count), resumed, found(drawn.result))


# Numbers that fit


@pytest.mark.parametrize(
    ("place", "more", "why"),
    [
        (("position",), -1, "states"),
        (("position",), 1, "position: expected at most"),
        (("actions", "RequestVote"), 1, "the step counts differ"),
        (("ids", "messages"), 1, "expected {"),
        (("ids", "slots"), 1 << 40, "expected {"),
        (("ids", "items"), 1 << 40, "inbox_items: expected .* bytes"),
        (("ids", "controls", 0, 0), 1 << 40, "controls: expected .* bytes"),
        (("levels", 2, 0, 0), 1 << 40, "states: expected .* bytes"),
        (("seconds",), float("inf"), "seconds: expected a number"),
    ],
)
def test_a_number_that_does_not_agree(checkpoint: Checkpoint, place: tuple[Any, ...], more: float, why: str) -> None:
    manifest = checkpoint.manifest()
    holder = manifest["search"]
    for part in place[:-1]:
        holder = holder[part]
    holder[place[-1]] += more
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(checkpoint.refusal(manifest))


def test_a_checkpoint_without_levels(checkpoint: Checkpoint) -> None:
    manifest = checkpoint.manifest()
    manifest["search"]["levels"] = []
    manifest["search"]["position"] = 0
    assert checkpoint.refusal(manifest) == "no levels, or an empty level before the last"


def test_a_state_in_another_level(checkpoint: Checkpoint) -> None:
    manifest = checkpoint.manifest()
    levels = manifest["search"]["levels"]
    levels[2][0][0] -= 1
    levels[3][0][0] += 1
    assert checkpoint.refusal(manifest).startswith("level 3: expected ")


def test_a_violation_that_is_left_out_or_made_up(checkpoint: Checkpoint) -> None:
    manifest = checkpoint.manifest()
    noted = manifest["search"]["violations"]
    names = [prop.name for prop in checkpoint.options.properties]
    assert noted
    left_out = noted.pop()
    assert checkpoint.refusal(manifest) == f"a violation of {left_out[0]} is missing"
    other = next(name for name in names if name not in checkpoint.right["violations"])  # type: ignore[operator]
    noted.append([other, left_out[1]])
    assert checkpoint.refusal(manifest) == f"the counterexample to {other} does not violate it"


def test_other_files_than_its_own_are_not_touched(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "precious.bin").write_text("precious")
    manifest = checkpoint.manifest()
    manifest["files"]["../precious"] = {"bytes": 0, "digest": "cae66941d9efbd404e4d88758ea67670"}
    assert "expected the files states, values" in checkpoint.refusal(manifest)
    assert (tmp_path / "precious.bin").read_text() == "precious"


# Large ones


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint of which only a sample is looked at, as of a large one."""
    monkeypatch.setattr(tables_checkpoint, "MOST_RECHECKED_STATES", 20)
    return checkpoint


def test_a_large_checkpoint_is_searched_in_part(large: Checkpoint) -> None:
    assert large.resumed(large.folder) == large.right


def test_a_large_checkpoint_that_lacks_states_is_refused(large: Checkpoint) -> None:
    manifest = large.manifest()
    rows, columns = manifest["search"]["levels"][-1][0]
    kept = (large.folder / "states.bin").read_bytes()[: -4 * columns * (rows // 2)]
    (large.folder / "states.bin").write_bytes(kept)
    manifest["search"]["levels"][-1][0][0] -= rows // 2
    manifest["files"]["states"]["bytes"] = len(kept)
    assert large.refusal(manifest) == "successors of its states are missing"


# JSON of a form


@pytest.mark.parametrize("number", [*NUMBERS[-3:], -1, True, 1.5, "1", None])
def test_what_is_no_number(number: object) -> None:
    with pytest.raises(CorruptFileError, match=r"it\.a\[1\]: expected a number of at least 0, found"):
        require_json_shape({"a": [0, number]}, {"a": [int]})
    with pytest.raises(CorruptFileError, match=r"it\.x: expected a list of 2, found"):
        require_json_shape({"x": [1]}, {str: (int, int)})
    with pytest.raises(CorruptFileError, match="expected an object with a, b, found a"):
        require_json_shape({"a": 1}, {"a": int, "b": int})
