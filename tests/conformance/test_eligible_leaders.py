"""The port of the specification of KIP-966: steps that TLC counts twice, and rules whose loss a property notices."""

from __future__ import annotations

import pytest

from kraftcheck import check, load
from kraftcheck.explorer.reference import ReferenceSearch
from kraftcheck.explorer.result import SearchRequest, Verdict
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.examples.eligible_leaders import EligibleLeaders
from kraftcheck.spec.examples.eligible_leaders.records import Broker, Members, RegistrationRequest, Role


@pytest.mark.slow
@pytest.mark.parametrize(("min_isr", "twice"), [(2, 28_460 - 28_376), (1, 35_234 - 35_146)])
def test_what_tlc_counts_twice_are_leaders_that_learn_of_an_epoch(min_isr: int, twice: int) -> None:
    protocol = EligibleLeaders(broker_count=2, min_isr=min_isr, isr_size=2, fences=1)
    search = ReferenceSearch(protocol, SearchRequest(deadlock=False))
    search.run()
    found = 0
    for state in search.states():
        for action, acting, _, _, after in search.semantics.transitions(state):
            if action == "ReceiveMetadataUpdate":
                before, now = state.replicas[acting], after.replicas[acting]
                assert isinstance(before, Broker)
                record = after.shared.metadata[now.cursor - 1]
                found += before.role is Role.LEADER and record.leader_epoch > before.known.leader_epoch
    assert found == twice


class TakenAsClean(EligibleLeaders):
    """A broker that has lost its broker epoch stays in ISR and ELR."""

    def _is_unclean(self, request: RegistrationRequest) -> bool:
        return False


class CommitsBelowMinIsr(EligibleLeaders):
    """The high watermark advances with an ISR below MinISR."""

    def _may_commit(self, isr: Members) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize(
    ("protocol", "broken"),
    [
        (
            TakenAsClean(broker_count=2, min_isr=2, isr_size=2, unclean_shutdowns=1),
            "LeaderCandidateCompletenessProperty",
        ),
        (
            CommitsBelowMinIsr(broker_count=2, min_isr=2, isr_size=2, fences=1, clean_shutdowns=1),
            "LeaderCandidateCompletenessProperty",
        ),
    ],
)
def test_a_lost_rule_is_noticed(protocol: EligibleLeaders, broken: str) -> None:
    found = check(protocol, deadlock=False, max_states=300_000)
    assert (found.verdict, found.violations[0].property) == (Verdict.VIOLATION, broken)


def test_an_isr_below_its_minimum_is_refused() -> None:
    with pytest.raises(InputError, match="InitIsrSize: expected 2 to 3, found 1"):
        EligibleLeaders(broker_count=3, min_isr=2, isr_size=1)


def test_the_smallest_model_is_that_of_tlc() -> None:
    found = load("eligible-leaders", config="smoke").check(engine="reference")
    assert (found.distinct_states, found.depth, found.generated_states) == (108, 18, 134)
