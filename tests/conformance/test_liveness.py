"""Temporal properties: verdicts are those of TLC, and its counterexamples are ours too."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftcheck.explorer import reference
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.explorer.tables import engine as tables
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import parse_config
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.traces.replay.claims import ClaimVerdict
from kraftcheck.traces.replay.replayer import Replayer, ReplayVerdict
from tests.support.explorer.lassos import require_counterexample
from tests.support.mclive import MCLive

DATA = Path(__file__).parents[1] / "data" / "tlc"
PROTOCOLS: dict[str, type[Protocol]] = {"liveness": MCLive}
ENGINES = [
    pytest.param(reference.explore, id="reference"),
    pytest.param(tables.explore, id="tables", marks=pytest.mark.kernel),
]
SLOW = ("two-voters-restart",)


def expected(folder: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return what TLC said, by model and specification."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in json.loads((DATA / folder / "expected.json").read_text()):
        groups.setdefault((one["model"], one["specification"]), []).append(one)
    return groups


def groups() -> Iterator[Any]:
    for folder in PROTOCOLS:
        for model, specification in expected(folder):
            marks = [pytest.mark.slow] if model in SLOW else []
            yield pytest.param(folder, model, specification, id=f"{folder}: {model}, {specification}", marks=marks)


def options_of(folder: str, model: str, specification: str, properties: list[str]) -> tuple[Protocol, SearchRequest]:
    text = (DATA / folder / f"{model}.cfg.template").read_text()
    text = text.replace("@SPECIFICATION@", specification).replace("@PROPERTY@", "\n".join(properties))
    bound = bind(PROTOCOLS[folder], parse_config(text, f"{model}.cfg"))
    return bound.protocol, SearchRequest.of(bound, keep_going=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("explore", ENGINES)
@pytest.mark.parametrize(("folder", "model", "specification"), list(groups()))
def test_verdicts_are_those_of_tlc(explore: Any, folder: str, model: str, specification: str) -> None:
    wanted = expected(folder)[model, specification]
    protocol, options = options_of(folder, model, specification, [one["property"] for one in wanted])
    found = {one.property: one for one in explore(protocol, options).violations}
    assert dict.fromkeys(found, "violated") == {
        one["property"]: "violated" for one in wanted if one["verdict"] == "violated"
    }
    for one in found.values():
        require_counterexample(protocol, options, one)


def test_there_are_enough_of_them() -> None:
    everything = [one for folder in PROTOCOLS for group in expected(folder).values() for one in group]
    assert len(everything) >= 90
    assert {one["verdict"] for one in everything} == {"holds", "violated"}


@pytest.mark.parametrize(
    "path", [path for folder in PROTOCOLS for path in sorted((DATA / folder).glob("*.out.gz"))], ids=lambda p: p.name
)
def test_counterexamples_of_tlc_are_behaviours_that_break_the_property(path: Path) -> None:
    folder = path.parent.relative_to(DATA).as_posix()
    model, specification, prop = path.name.removesuffix(".out.gz").split(".")
    protocol, options = options_of(folder, model, specification, [prop])
    (replay,) = Replayer(protocol, fairness=options.fairness).replay(path)
    assert (replay.verdict, replay.violated) == (ReplayVerdict.CONFORMS, prop)
    assert replay.claim is not None
    assert replay.claim.verdict is ClaimVerdict.SHOWN


def test_a_counterexample_to_another_property_is_none(tmp_path: Path) -> None:
    """The behaviour is one of the protocol; that it breaks what it names is not taken for granted."""
    text = gzip.decompress((DATA / "liveness" / "two-voters.LivenessSpec.CandidaciesEnd.out.gz").read_bytes()).decode()
    path = tmp_path / "trace.out"
    path.write_text(text.replace("CandidaciesEnd", "SteadyOrSilent"))
    protocol, _ = options_of("liveness", "two-voters", "LivenessSpec", ["SteadyOrSilent"])
    (replay,) = Replayer(protocol).replay(path)
    assert (replay.verdict, replay.reason) == (
        ReplayVerdict.REFUTED,
        "a violation of SteadyOrSilent is claimed, but SteadyOrSilent is true of the behaviour",
    )
