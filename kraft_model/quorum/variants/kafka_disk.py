"""Where Kafka's own log on disk is known to do something else than `Quorum`, and than the log of Kafka's own tests.

`kraftcheck lockstep --disk` puts these classes under the model, as it does with those of `kafka`.
"""

# ruff: noqa: D102 - a method here overrides one that says what it is for
from __future__ import annotations

from kraftcheck.kraft_model.quorum import Quorum
from kraftcheck.kraft_model.quorum.state import Replica


class HighWatermarkStartsAtSnapshot(Quorum):
    """A replica that restarts takes its log's start for the high watermark; the model's knows of none.

    `UnifiedLog` begins with the log start, which a snapshot has raised. What is before a snapshot is committed, so no
    harm is in it. From 4.3 on, in kafka-raft; before that `KafkaMetadataLog` of the server does the same.
    """

    def after_restart(self, me: Replica) -> Replica:
        back = super().after_restart(me)
        return back.but(high_watermark=back.start)


DIFFERENCES: tuple[type[Quorum], ...] = (HighWatermarkStartsAtSnapshot,)
"""All known differences of Kafka's log on disk."""
