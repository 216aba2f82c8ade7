"""States of `quorum` up to the order of their epochs, so that an endless row of elections is a cycle.

A view identifies states by `relative_epochs`, which applies three maps. Each is a bisimulation, as `docs/temporal.md`
argues, and every search tests it on its states.

1. Parts that no rule reads again are removed: messages to processes that have ended, leaders of past epochs.
2. Batches of fillers (LeaderChangeMessage) are removed that every log has. No log may later end before the next batch,
   and no offset in use is the end of the removed batch.
3. Epochs are renamed by their order. Differences stay from the lowest epoch of a running replica on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import ClassVar

from kraftcheck.kraft_model.quorum.base import QuorumBase
from kraftcheck.kraft_model.quorum.records import ENDED_MODES, DescribeQuorumResponse, LeaderChange, LogRecord, Replica
from kraftcheck.kraft_model.quorum.rules import Log
from kraftcheck.spec import Map, Record, RelativeNumbers, State, constraint

EPOCH_RENAMING = RelativeNumbers("epoch", "last_epoch", "of")
LOG_END_RENAMING = RelativeNumbers("offset", "last_offset", "flushed")
"""Offsets at which a log may come to end."""
LOG_START_RENAMING = RelativeNumbers("start", "high_watermark")
"""Offsets that are only compared with others."""
OFFSET_RENAMING = RelativeNumbers("offset", "last_offset", "flushed", "start", "high_watermark")


class QuorumEpochRenaming(QuorumBase):
    """The renaming of states, and the bound on the spread of epochs that it needs."""

    epoch_spread: int
    old_epochs: int
    fillers: ClassVar[tuple[type[LogRecord], ...]] = (LeaderChange,)
    """The log records that no rule and no property reads."""

    def relative_epochs(self, state: State, lift: int | None = 0) -> State:
        """Return the state that stands for all states with the same order of epochs; `lift` raises its epochs.

        With None, only the parts that no rule reads are removed.
        """
        kept = self.without_idle_parts(state)
        if lift is None:
            return kept
        kept = self.without_fillers(kept)
        return EPOCH_RENAMING.relative(kept, [one.epoch for one in running_replicas(kept)], lift)

    def messages(self, state: State) -> list[Record]:
        """Return the messages in flight to processes that have not ended."""
        ended = {one.id for one in replicas_of_state(state) if one.mode in ENDED_MODES}
        inboxes = [inbox for host, inbox in state.inboxes.items() if host not in ended]
        return [message for inbox in inboxes for message in self.network.known(inbox)]

    def without_idle_parts(self, state: State) -> State:
        """Return a state without messages that can never be received, and without leaders of past epochs.

        No replica can be elected in an epoch below that of every running replica. A process that has ended stays so.
        """
        ended = {one.id for one in replicas_of_state(state) if one.mode in ENDED_MODES}
        inboxes = state.inboxes
        if not self.losses and not self.duplicates:
            inboxes = Map((host, inbox) for host, inbox in inboxes.items() if host not in ended)
        lowest, shown = min((one.epoch for one in running_replicas(state)), default=0), self.shown_epochs(state)
        elected = frozenset(term for term in state.shared.elected if term.epoch >= lowest or term.epoch in shown)
        return state.but(inboxes=inboxes, shared=state.shared.but(elected=elected))

    def shown_epochs(self, state: State) -> set[int]:
        """Return the epochs of responses to DescribeQuorum, and those with several leaders; properties read both."""
        leaders = Counter(term.epoch for term in state.shared.elected)
        told = [*self.messages(state), *(one for me in state.replicas.values() for one in getattr(me, "described", ()))]
        described = {one.epoch for one in told if isinstance(one, DescribeQuorumResponse)}
        return described | {epoch for epoch, count in leaders.items() if count > 1}

    def without_fillers(self, state: State) -> State:
        """Return a state whose logs lack the batches of fillers that all of them have, and that no offset follows."""
        gone = self.removable(state)
        if not gone:
            return state
        held = OFFSET_RENAMING.held(state.replicas) | OFFSET_RENAMING.held(state.inboxes)
        names = {offset: _offset_shifted_by_removed_batches(offset, gone) for offset in held}

        def cut(log: Log) -> Log:
            return tuple(batch for place, batch in enumerate(log) if place not in gone)

        def renamed(one: Record) -> Record:
            if not isinstance(one, Replica):
                return one
            found: Replica = OFFSET_RENAMING.renamed(one, names)
            ends = Map((key, _offset_shifted_by_removed_batches(end, gone)) for key, end in one.offsets.items())
            return found.but(log=cut(one.log), offsets=ends)

        lost = Map((key, cut(log)) for key, log in state.shared.lost.items())
        return state.but(
            replicas=Map((host, renamed(one)) for host, one in state.replicas.items()),
            inboxes=OFFSET_RENAMING.renamed(state.inboxes, names),
            shared=state.shared.but(committed=cut(state.shared.committed), lost=lost),
        )

    def removable(self, state: State) -> list[int]:
        """Return the places of the batches of fillers that the logs need not hold."""
        here = running_replicas(state)
        marks = LOG_START_RENAMING.held((*here, *self.messages(state))) | {
            end for one in here for end in one.offsets.values()
        }
        return [
            place
            for place, batch in enumerate(state.shared.committed[: max(0, self.settled_end(state) - 1)])
            if place + 1 not in marks and all(isinstance(record, self.fillers) for record in batch.records)
        ]

    def settled_end(self, state: State) -> int:
        """Return a committed end offset up to which all logs agree, and before which none of them may come to end."""
        here, messages = running_replicas(state), self.messages(state)
        if any(getattr(one, name, ()) for one in (*here, *messages) for name in ("snapshots", "content")):
            return 0
        committed = state.shared.committed
        ended = [one.log for one in replicas_of_state(state) if one.mode in ENDED_MODES]
        agreed = [min(_first_differing_offset(one.log, committed), len(one.log)) for one in here]
        agreed += [_first_differing_offset(log, committed) for log in (*ended, *state.shared.lost.values())]
        waiting = [part for one in here for part in (one.pending, one.change)]
        return min([len(committed), *agreed, *LOG_END_RENAMING.held((*here, *messages, *waiting))])

    @constraint
    def epochs_stay_close(self, state: State) -> bool:
        """Epochs differ by at most EpochSpread; at most OldEpochs in flight are below those of all running replicas."""
        epochs = [one.epoch for one in running_replicas(state)]
        sent = {getattr(one, name, 0) for one in self.messages(state) for name in ("epoch", "of")}
        lowest, highest = min(epochs, default=0), max([0, *epochs, *sent])
        old = sum(0 < epoch < lowest for epoch in sent)
        return highest - lowest <= self.epoch_spread and old <= self.old_epochs


def replicas_of_state(state: State) -> list[Replica]:
    return [one for one in state.replicas.values() if isinstance(one, Replica)]


def running_replicas(state: State) -> list[Replica]:
    """Return the replicas whose processes have not ended."""
    return [one for one in replicas_of_state(state) if one.mode not in ENDED_MODES]


def _first_differing_offset(log: Log, other: Log) -> int:
    """Return the first offset at which two logs have different batches; the end of `other` if there is none."""
    return next(_differing_offsets(log, other), len(other))


def _differing_offsets(log: Log, other: Log) -> Iterator[int]:
    return (place for place, (one, two) in enumerate(zip(log, other, strict=False)) if one != two)


def _offset_shifted_by_removed_batches(offset: int, gone: Collection[int]) -> int:
    """Return an offset once the batches at some places are gone."""
    return offset - sum(place < offset for place in gone)


__all__ = ["QuorumEpochRenaming"]
