"""Where Kafka's own log on disk is known to do something else than `Quorum`, and than the log of Kafka's own tests.

`kraftcheck lockstep --disk` puts these classes under the model, as it does with those of `kafka`.
"""

# ruff: noqa: D102 - a method here overrides one that says what it is for
from __future__ import annotations

from collections.abc import Iterator

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.state import Replica
from kraftcheck.spec import Step, Steps


class LogStartMovesBack(Quorum):
    """A restart moves the log start back, to where the oldest segment begins that is still there.

    `KafkaRaftLog.deleteBeforeSnapshot` raises the start in memory and deletes segments that are wholly before it;
    `KafkaRaftLog.createLog` opens the log with a start of 0. Which segments there are the model does not know, so
    each earlier start is an outcome. From 4.3 on, in kafka-raft; before that in `KafkaMetadataLog` of the server.
    """

    def restart(self, me: Replica) -> Steps:
        return self.with_earlier_starts(super().restart(me))

    def restart_losing_unflushed(self, me: Replica) -> Steps:
        return self.with_earlier_starts(super().restart_losing_unflushed(me))

    def move_endpoint(self, me: Replica) -> Steps:
        return self.with_earlier_starts(super().move_endpoint(me))

    def change_software(self, me: Replica) -> Steps:
        return self.with_earlier_starts(super().change_software(me))

    def with_earlier_starts(self, steps: Steps) -> Iterator[Step]:
        """Yield steps, and each of them with every earlier log start."""
        for step in steps:
            yield step
            assert isinstance(step.me, Replica)
            for start in range(step.me.start):
                yield step.but(me=step.me.but(start=start))


DIFFERENCES: tuple[type[Quorum], ...] = (LogStartMovesBack,)
"""All known differences of Kafka's log on disk."""
