"""Properties that nothing made worth checking."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftcheck import check
from kraftcheck.cli import main
from kraftcheck.explorer import reference
from kraftcheck.explorer.result import SearchRequest
from kraftcheck.persistence.folder import manifest_bytes
from kraftcheck.spec import Protocol, ProtocolError, Record, State, Steps, become, constant, internal, invariant
from kraftcheck.spec.diagnosis.lint import PropertyCoverageProbe, install_coverage_probes, vacuous_properties


class Node(Record):
    id: int
    at: int = 0
    leads: bool = False
    kept: tuple[int, ...] = ()


class Ghost(Record):
    id: int


class Shared(Record):
    limit: int = 3


class Base(Protocol):
    def helper(self) -> bool:
        return True


class Walk(Base):
    """Two nodes walk up to 2; nobody ever leads or keeps anything."""

    watching: bool = constant("Watching", default=False)
    nodes: int = constant("Nodes", default=2)

    def initial(self) -> Iterator[State]:
        yield self.start([Node(number) for number in range(self.nodes)], Shared())

    @internal
    def walk(self, me: Node) -> Steps:
        if me.at < 2:
            yield become(me.but(at=me.at + 1))

    @invariant
    def bounded(self, me: Node) -> bool:
        return me.at <= 2

    @invariant
    def leaders_stand_still(self, me: Node) -> bool:
        return not me.leads or me.at == 0

    @invariant
    def leaders_stand_still_in_lines(self, me: Node) -> bool:
        if not me.leads:
            return True
        return me.at == 0

    @invariant
    def kept_is_small(self, me: Node) -> bool:
        return all(one < 10 for one in me.kept)

    @invariant
    def kept_by_number(self, me: Node) -> bool:
        return {one: one for one in me.kept} == {}

    @invariant
    def ghosts_are_few(self, me: Ghost) -> bool:
        return me.id < 3

    @invariant
    def pairs(self, me: Node, peer: Node) -> bool:
        return me.id != peer.id

    @invariant
    def nothing_changes(self, shared: Shared) -> bool:
        return shared.limit == 3

    @invariant
    def what_it_reads_stays_but_the_state_changes(self, state: State) -> bool:
        return len(state.replicas) < 3

    @invariant(needs=["Watching"])
    def watched(self, me: Node) -> bool:
        return me.at < 3

    @invariant
    def an_exemption_is_no_claim(self, me: Node) -> bool:
        return me.at >= 0 or me.leads

    @invariant
    def some_elements_are_enough(self, me: Node) -> bool:
        kept = {one + 1 for one in me.kept}
        return all(me.at > one for one in range(me.at)) or bool(kept)

    @invariant
    def a_bare_truth_is_no_claim(self, me: Node) -> bool:
        for place in range(3):
            if me.at == place:
                return me.at < 3
        return True

    @invariant
    def later(self, me: Node) -> bool:
        if me.at == 2:
            return me.at <= 2
        return not me.at or me.at == 1

    @invariant
    def of_the_base_too(self, me: Node) -> bool:
        return super().helper() and (lambda: me.at < 3)()


def found(walk: Walk) -> dict[str, str]:
    properties = tuple(walk.properties.values())
    watched = install_coverage_probes(walk, properties)
    result = reference.explore(walk, SearchRequest(properties=properties, deadlock=False))
    assert not result.violations
    return dict(vacuous_properties(walk, watched))


VACUOUS = {
    "LeadersStandStill": r"`me.at == 0` was never evaluated \(test_vacuity.py:\d+\)",
    "LeadersStandStillInLines": r"`return me.at == 0` was never evaluated",
    "KeptIsSmall": r"`one < 10` was never evaluated",
    "KeptByNumber": r"`one` was never evaluated",
    "GhostsAreFew": "it was never evaluated: there was no me",
    "NothingChanges": "its inputs never changed",
    "Watched": "it needs Watching, which is FALSE here",
}


def test_what_nothing_made_worth_checking() -> None:
    noted = found(Walk())
    assert noted.keys() == VACUOUS.keys()
    for name, reason in VACUOUS.items():
        assert re.match(reason, noted[name]), noted[name]


@pytest.mark.kernel
@pytest.mark.parametrize("engine", ["reference", "tables", "symbolic"])
def test_engines_agree(engine: str) -> None:
    noted = dict(check(Walk(), engine=engine, deadlock=False).vacuous)
    assert noted == found(Walk())


def test_a_pair_that_there_never_was() -> None:
    noted = found(Walk(nodes=1, watching=True))
    assert noted.keys() == {*VACUOUS, "Pairs"} - {"Watched"}
    assert noted["Pairs"] == "it was never evaluated: there was no me with a peer"


def test_marks_that_were_met_are_taken_out_again() -> None:
    walk = Walk()
    one = PropertyCoverageProbe(walk.properties["Later"])
    assert len(one.never()) == 3
    for at in (0, 1, 2, 0, 0, 0, 0, 0):
        assert one(walk, Node(1, at))
    assert one.never() == []
    assert one._function is one.prop.function


def test_a_constant_that_there_is_not() -> None:
    class Misspelt(Walk):
        @invariant(needs=["Wachting"])
        def wrong(self, me: Node) -> bool:
            return True

    with pytest.raises(ProtocolError, match="property Wrong, needs=: unknown constant Wachting \\(perhaps Watching"):
        install_coverage_probes(Misspelt(), tuple(Misspelt.properties.values()))


def test_a_stopped_search_claims_nothing_of_a_property_without_an_evaluation() -> None:
    class Haunted(Base):
        def initial(self) -> Iterator[State]:
            yield self.start([Node(1)], Shared())

        @internal
        def move(self, me: Node) -> Steps:
            yield become(me.but(at=(me.at + 1) % 9))

        @invariant
        def rests(self, me: Ghost) -> bool:
            return me.id > 0

    for limit, names in ((3, []), (None, ["Rests"])):
        found = check(Haunted(), engine="reference", max_states=limit)
        assert [one.property for one in found.vacuous or ()] == names


@pytest.mark.slow
def test_check_notes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    asked = ["check", "registration", "--config", "smoke", "--engine", "reference", "--quiet", "--json", str(file)]
    assert main(asked) == 0
    reason = "`not self._is_member(me, shared)` was never evaluated (properties.py:"
    assert f"Note: RecordsAreUnderstood holds vacuously: {reason}" in capsys.readouterr().out
    content = json.loads(file.read_text())
    assert "RecordsAreUnderstood" in [one["property"] for one in content["vacuous"]]
    assert content["never_evaluated"]["RecordsAreUnderstood"][0]["is_claim"] is True


@pytest.mark.sampled(2)
@pytest.mark.kernel
@pytest.mark.parametrize("engine", ["tables", "symbolic"])
def test_a_resumed_search_knows_what_was_evaluated_before(engine: str, tmp_path: Path) -> None:
    asked = ["check", "two-phase-commit", "--config", "smoke", "--engine", engine, "--quiet"]
    asked += ["--search", "bfs", "--json", str(tmp_path / "found.json")]

    def told(*more: str, code: int = 0) -> tuple[object, object]:
        assert main([*asked, *more]) == code
        content = json.loads((tmp_path / "found.json").read_text())
        return content["vacuous"], content["never_evaluated"]

    kept = str(tmp_path / "kept")
    whole = told()
    assert [one["property"] for one in whole[0]] == ["OutcomeIsFinal"]  # type: ignore[attr-defined]
    told("--checkpoint", kept, "--max-states", "40", code=20)
    assert told("--resume", kept) == whole
    assert told("--resume", kept) == whole  # the search is over
    manifest = tmp_path / "kept" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["search"]["watched"]["OutcomeIsFinal"] = [1, [99]]
    body = {name: value for name, value in content.items() if name != "checksum"}
    manifest.write_bytes(manifest_bytes(body))
    with pytest.raises(KeyError, match="vacuous"):  # not known
        told("--resume", kept)
    assert main([*asked, "--resume", kept, "--strict"]) == 20


def test_an_input_from_before_a_search_is_resumed_counts_once() -> None:
    walk = Walk()
    prop = walk.properties["LeadersStandStill"]
    before, after = PropertyCoverageProbe(prop), PropertyCoverageProbe(prop)
    before(walk, Node(1))
    assert after.restore(json.loads(json.dumps(before.noted)))
    after(walk, Node(1))
    assert (before.inputs, after.inputs, [part.text for part in after.never()]) == (1, 1, ["me.at == 0"])
    after(walk, Node(2, leads=True))
    assert (after.inputs, after.never()) == (2, [])
    for forged in (None, 3, [], ["1", []], [1, [True]], [1, [{}]], [1, [7]]):
        assert not PropertyCoverageProbe(prop).restore(forged)
