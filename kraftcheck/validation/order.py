"""Causal order of a replay: a receipt runs once its sending has run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kraftcheck.validation.effects import Effects
from kraftcheck.validation.events import Event, Kind
from kraftcheck.validation.pairing import request_key
from kraftcheck.validation.state import Node, Refusal, unit_of
from kraftcheck.validation.terms import end_offset

NEAR = 4_000
"""Events of a sender in which an equal message is sought that may take the place of a later one."""


class Order(Effects):
    """The order in which the units of all nodes run."""

    def advance(self, node: Node) -> None:
        """Replay a node's next unit; raise Refusal if the model does not allow it."""
        raise NotImplementedError

    def run(self) -> Iterator[Node]:
        """Replay every unit; yield the node of each. Stops at the first divergence."""
        ready, idle = deque(self._unfinished()), 0
        while ready:
            if idle >= len(ready):
                waiting = [self.nodes[number] for number in ready]
                released = [node for node in waiting if self._released(node)]
                if not released:
                    event = waiting[0].events[waiting[0].position]
                    self.divergence = Refusal(event, "is received before it is sent")
                    return
                idle = 0
            node = self.nodes[ready.popleft()]
            idle += 1
            while not node.is_done and not self._blocked(node):
                idle = 0
                try:
                    self.advance(node)
                except Refusal as refusal:
                    node.diverged = True
                    self.divergence = refusal
                    return
                yield node
            if not node.is_done:
                ready.append(node.number)

    def _unfinished(self) -> Iterator[int]:
        return (number for number, node in sorted(self.nodes.items()) if not node.is_done)

    def _blocked(self, node: Node) -> bool:
        event = node.events[node.position]
        if event.kind in (Kind.DISK, Kind.BOOTSTRAP, Kind.BOOT):
            return self._waits_for_log(node)
        origin = self.pairs.sent.get(id(event)) or self.pairs.answered.get(id(event))
        return origin is not None and id(origin) not in self.done

    def _waits_for_log(self, node: Node) -> bool:
        """Whether a killed process has stored batches, without a line, that no replayed node has yet."""
        if node.state is None or node.is_released:
            return False
        wanted = node.end_at(node.events[node.position].incarnation)
        ends = [end_offset(n.state.me.log[-1]) for n in self.nodes.values() if n.state is not None and n.state.me.log]
        return wanted > max(ends, default=0)

    def _released(self, node: Node) -> bool:
        """Whether a blocked node can go on after all.

        Equal messages are paired by their ids alone, which leaves several ways where a connection breaks. A receipt
        may take an equal message that was sent before, and leaves its own to the receipt of that one.
        """
        event = node.events[node.position]
        if event.kind in (Kind.DISK, Kind.BOOTSTRAP, Kind.BOOT):
            node.is_released = True
            return True
        pairs = self.pairs.sent if event.kind is Kind.REQUEST else self.pairs.answered
        wanted = pairs[id(event)]
        if self._is_written_late(wanted):
            self.done.add(id(wanted))
            return True
        owners = {id(origin): receipt for receipt, origin in pairs.items()}
        sender = self.nodes[wanted.node]
        for other in reversed(sender.events[max(0, sender.position - NEAR) : sender.position]):
            if other.kind is wanted.kind and self._is_alike(other, wanted) and id(other) not in self.used:
                owner = owners.get(id(other))
                if owner is not None:
                    pairs[owner] = wanted
                pairs[id(event)] = other
                return True
        return False

    def _is_written_late(self, answer: Event) -> bool:
        """Whether a parked fetch has timed out with a response whose line comes in the unit of a later message.

        Another thread sends and writes it. The receiver's next request may be written first.
        """
        node = self.nodes[answer.node]
        if answer.kind is not Kind.ANSWER or node.state is None or node.is_done:
            return False
        waiting = node.state.waiting.get(request_key(answer))
        is_next = node.position <= answer.seq < node.position + len(unit_of(node))
        return is_next and waiting is not None and waiting.is_timed_out_by(answer)

    @staticmethod
    def _is_alike(one: Event, other: Event) -> bool:
        same = one.incarnation == other.incarnation and one.body == other.body
        return same and (one.address, one.peer) == (other.address, other.peer)
