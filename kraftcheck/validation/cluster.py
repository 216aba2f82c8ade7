"""The validation of a cluster from its logs and disks, and the replay of the events of its nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, filterfalse
from pathlib import Path
from typing import Protocol

from kraftcheck.spec.errors import InputError
from kraftcheck.validation.disks import is_record_batch_file_by_content, may_hold_disk_files, read_disks
from kraftcheck.validation.events import (
    Event,
    SendReceivePairs,
    assign_sequence_numbers,
    nodes_by_address,
    pair_receipts_with_sends,
)
from kraftcheck.validation.log4j import DEFAULT_PATTERN
from kraftcheck.validation.models import model_of_logs_with_difference_uses, translator_of_logs
from kraftcheck.validation.monitors import check_disks, check_events
from kraftcheck.validation.replay import ClusterReplay
from kraftcheck.validation.replay_state import NodeProgress
from kraftcheck.validation.replayed_model import FormatByDisk
from kraftcheck.validation.sources import (
    DEFAULT_LIMIT_BYTES,
    ClusterLogs,
    LogOptions,
    read_cluster_logs,
    read_line_of_event,
)
from kraftcheck.validation.verdict import Validation, find_log_gaps, find_request_storms, sender_by_unlogged_receipt_id


def prepare_log_replay(
    logs: dict[int, Sequence[Event]],
    *,
    heads: Mapping[int, Sequence[Event]] = {},
    without: Collection[str] = (),
    pairs: SendReceivePairs | None = None,
) -> ClusterReplay:
    """Return the replay of the events of a cluster's nodes, each in the order of its log.

    `heads` are events before those that are to be replayed. `pairs` are the two ends of each message; by default they
    are found.
    """
    for number, head in heads.items():
        logs = {**logs, number: [*head, *logs.get(number, ())]}
    for events in logs.values():
        assign_sequence_numbers(events)
    terms = translator_of_logs(logs)
    nodes = {node: NodeProgress(node, events, len(heads.get(node, ()))) for node, events in logs.items()}
    formats: FormatByDisk = {}
    homes = nodes_by_address(logs)
    protocol, known = model_of_logs_with_difference_uses(logs, terms, formats, homes, without, is_late=bool(heads))
    return ClusterReplay(
        protocol, terms, nodes, pairs or pair_receipts_with_sends(logs, homes), formats, homes, known=known
    )


class ReplayListener(Protocol):
    """A follower of the replay, such as the page of a cluster's life."""

    def add(self, events: Sequence[Event]) -> object:
        """Take the next replayed events of a node."""

    def diverges(self, event: Event, what: str) -> object:
        """Take the divergence."""

    def end(self) -> object:
        """End the replay."""


@dataclass(frozen=True)
class ValidationInputs:
    """The logs and disks of a cluster, and how to read and judge them; times are in milliseconds."""

    paths: tuple[Path, ...]
    nodes: tuple[tuple[int, Path], ...] = ()  # paths whose events are those of one node
    pattern: str = DEFAULT_PATTERN
    since: int | None = None
    until: int | None = None
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    kafka: str = ""
    without: tuple[str, ...] = ()  # known differences that the model has not
    monitors: bool = False
    seconds: float | None = None  # of the replay

    def read(self, report: Callable[[int], object] = lambda count: None) -> Validation:
        """Read the disks and the logs; raise InputError if there is neither, or one cannot be read."""
        disks = read_disks([path for path in self.paths if may_hold_disk_files(path)], limit_bytes=self.limit_bytes)
        wanted = LogOptions(self.pattern, self.since, self.until, self.limit_bytes, report)
        sources = read_cluster_logs(filterfalse(is_record_batch_file_by_content, self.paths), self.nodes, wanted)
        _require_any_input(self, sources, has_disks=bool(disks))
        return Validation(sources, disks, self.kafka, self.without, self.monitors)


def replay_and_check_cluster(
    found: Validation,
    inputs: ValidationInputs,
    report: Callable[[int, float], object] = lambda count, seconds: None,
    recorder: ReplayListener | None = None,
) -> None:
    """Replay the logs that show messages, and check the others and the disks."""
    sources = found.sources
    if found.disks:
        found.disk_report = check_disks(found.disks)
    if inputs.monitors or not sources.logs:
        found.monitored = check_events(chain.from_iterable(sources.every.values())) if sources.every else None
    found.storms = find_request_storms(sources)
    if sources.logs:
        _replay_to_divergence(found, inputs, report, recorder)


def _require_any_input(inputs: ValidationInputs, sources: ClusterLogs, *, has_disks: bool) -> None:
    """Raise InputError unless a log or a disk was found."""
    if sources.logs or sources.quiet or has_disks:
        return
    named = [*map(str, inputs.paths), *(f"{node}={path}" for node, path in inputs.nodes)]
    is_limited = inputs.since is not None or inputs.until is not None
    more = " between --from and --to" if is_limited else f" in {sources.others:,} files"
    raise InputError(
        f"{', '.join(named[:4])}: expected lines of org.apache.kafka.raft, or folders __cluster_metadata-0, found"
        f" neither{more}; name others, or give the logs' pattern by --pattern"
    )


def _replay_to_divergence(
    found: Validation, inputs: ValidationInputs, report: Callable[[int, float], object], recorder: ReplayListener | None
) -> None:
    """Replay the logs up to the first divergence."""
    replay = found.replay = prepare_log_replay(
        dict(found.sources.logs), heads=found.sources.late, without=found.without
    )
    replay.check.unwritten = sender_by_unlogged_receipt_id(replay)
    began = time.monotonic()
    replayed = {number: node.position for number, node in replay.nodes.items()}
    for number, node in enumerate(replay.run()):
        if recorder is not None:
            recorder.add(node.events[replayed[node.number] : node.position])
            replayed[node.number] = node.position
        if number % 100 == 0:
            spent = time.monotonic() - began
            report(sum(replay.explained.values()), spent)
            if inputs.seconds is not None and spent > inputs.seconds:
                found.limit = f"--time-limit {inputs.seconds:g}"
                break
    found.seconds = time.monotonic() - began
    late = replay.nodes if inputs.since is not None else found.sources.late
    found.gaps = find_log_gaps(replay, late, ends=inputs.until is not None)
    if recorder is not None:
        recorder.end()
    if replay.divergence is not None:
        if recorder is not None:
            recorder.diverges(replay.divergence.event, replay.divergence.what)
        paths = [*inputs.paths, *(path for _, path in inputs.nodes)]
        found.line = read_line_of_event(paths, replay.divergence.event, inputs.limit_bytes)
