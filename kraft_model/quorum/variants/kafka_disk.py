"""Where Kafka's own log on disk is known to do something else than `Quorum`, and than the log of Kafka's own tests.

`kraftcheck lockstep --disk` puts these classes under the model, as it does with those of `kafka`.
"""

# ruff: noqa: D102 - a method here overrides one that says what it is for
from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.records import Mode
from kraftcheck.kraft_model.quorum.state import Replica


class HighWatermarkStartsAtSnapshot(Quorum):
    """A replica that restarts takes its log's start for the high watermark; the model's knows of none.

    `UnifiedLog` begins with the log start, which a snapshot has raised. What is before a snapshot is committed, so no
    harm is in it. From 4.3 on, in kafka-raft; before that `KafkaMetadataLog` of the server does the same.
    """

    def after_restart(self, me: Replica) -> Replica:
        back = super().after_restart(me)
        return back.but(high_watermark=back.start)

    def high_watermark_never_decreases(self, before: Replica, after: Replica) -> bool:
        """The high watermark grows as long as a process runs; one that has just started knows of its snapshot."""
        starts = after.mode is not Mode.LEADER and not after.fetched and after.high_watermark == after.start
        return starts or super().high_watermark_never_decreases(before, after)


DIFFERENCES: tuple[type[Quorum], ...] = (HighWatermarkStartsAtSnapshot,)
"""All known differences of Kafka's log on disk."""
