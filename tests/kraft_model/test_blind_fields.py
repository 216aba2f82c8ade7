"""Whatever a record of a shipped model holds, some property notices another value: no field is a blind spot."""

from __future__ import annotations

from functools import cache

import pytest

from kraftcheck.catalogue import shipped_model_modules
from tests.support.kraft_model.blind_fields import BlindFields
from tests.support.kraft_model.searches import bound

CONFIGS = {
    "quorum": "smoke smoke-answers smoke-network default-told default-upgrade default-snapshot default-join",
    "recovery": "smoke smoke-zookeeper default default-versions",
    "registration": "smoke default-static default-timeouts default-brokers",
    "reconfig": "smoke-details joining-details competing-details",
    "prevote": "disturbed-details growing-details",
}
"""Configurations in which walks meet every field; of the examples they are smoke and default."""

SLOW = ("quorum", "reconfig", "recovery", "registration", "prevote", "paxos-commit", "eligible-leaders")

ROUTE = "routing alone; the published properties are about processes"
ID = "the key of a process, compared with that of a peer"
CONTENT = "the published properties are about processes, which hear of it"
OWN = "what a process knows for itself; what it does with it is checked"

EXPLAINED = {
    "chang-roberts": {"Candidacy": CONTENT, "Node.started": OWN},
    "dining-philosophers": {"Fork": OWN, "Philosopher.hungry": "temporal properties read it", "Philosopher.id": ID,
                            "Table": OWN},
    "eligible-leaders": {"AlterPartitionRequest": CONTENT, "AlterPartitionResponse": CONTENT, "Broker": OWN,
                         "Change": "two of its sets are compared", "Controller": OWN, "FetchRequest": CONTENT,
                         "FetchResponse": CONTENT, "Fetcher": OWN, "History": "what may have been acknowledged",
                         "Known": OWN, "Pending": OWN, "Position": OWN, "Progress": OWN, "Registration": OWN,
                         "World": "counters"},
    "ewd998": {"Node.active": "Safra's invariant allows it where the token may fail", "Node.colour": "as active",
               "Payload": ROUTE},
    "lamport-mutex": {"Acknowledge": ROUTE, "Release": ROUTE, "Request": CONTENT, "Process.acknowledged": OWN,
                      "Process.clock": OWN, "Process.id": ID, "Process.requests": OWN},
    "lock-service": {"Acquire": ROUTE, "Grant": ROUTE, "Release": ROUTE, "Client.id": ID, "Server": OWN},
    "paxos": {"Accepted.dest": ROUTE, "Accepted.source": ROUTE, "Acceptor.id": ID, "Leader.id": ID,
              "Prepare": CONTENT, "Promise": CONTENT, "Propose": CONTENT},
    "paxos-commit": {"Accepted": CONTENT, "Acceptor": OWN, "Decision": CONTENT, "Leader.id": ID, "Prepare": CONTENT,
                     "Promise": CONTENT, "Propose": CONTENT, "ResourceManager": "false of several alone", "Vote": OWN},
    "two-phase-commit": {"Decision": CONTENT, "Prepared": CONTENT, "ResourceManager.id": ID,
                         "TransactionManager": OWN},
}  # fmt: skip
"""By model: fields, or all of a record, that no property notices, and why."""

UNSEEN = {
    "Admin": ("described", "told"),
    "AdminResponse": ("about",),
    "Answered": ("busy", "mode", "subject", "version", "voters"),
    "Change": ("asked", "checked", "client"),
    "DescribeQuorumResponse": ("committed", "current", "epoch", "high_watermark", "observers", "source"),
    "Replica": ("ballot", "ended", "flushed", "joining", "watched"),
    "Shared": ("committed", "elected", "lost"),
    "Term": ("epoch", "leader"),
    "Told": ("about", "operation"),
}
"""Fields of `quorum` that Kafka does not show, or that tell later what was so: walks beside Kafka compare none."""

COMPARED_LATER = {
    "Answered.voters": "read where the error of RemoveVoter is INVALID_REQUEST, which these walks do not meet",
    "Answered.version": "read where the error is UNSUPPORTED_VERSION, which these walks do not meet",
    "Change.checked": "the VotersRecord and its answer, which are compared, show it",
    "Change.client": "the answer, which is compared, goes there",
    "Replica.flushed": "a restart, after which logs are compared, shows it",
}
"""Those of which no property of states says anything, and why."""


@cache
def looked_at(model: str) -> BlindFields:
    """Return what the properties of a model notice."""
    found = BlindFields()
    for config in CONFIGS.get(model, "smoke default").split():
        found.look(bound(model, config))
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "model", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in shipped_model_modules()]
)
def test_every_field_is_noticed_or_explained(model: str) -> None:
    found = looked_at(model)
    blind = {".".join(field) for field in found.met - found.noticed}
    explained = EXPLAINED.get(model, {})
    unused = {name for name in explained if not any(name in (field, field.partition(".")[0]) for field in blind)}
    assert {field for field in blind if field not in explained and field.partition(".")[0] not in explained} == set()
    assert unused == set()


@pytest.mark.slow
def test_what_kafka_does_not_show_is_noticed_in_states() -> None:
    """Contracts, which see the step alone, are not evaluated beside Kafka; nor is it compared."""
    found = looked_at("quorum")
    unseen = {(record, name) for record, names in UNSEEN.items() for name in names}
    assert unseen <= found.met
    assert {".".join(field) for field in unseen - found.noticed_in_states} == set(COMPARED_LATER)
