"""Answers to the kernel's requests: calls of handlers and properties, with the effects of their steps.

A call's reads become a path in a decision tree, and the leaf holds the result. So a handler is called once for each
distinct input that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from kraftcheck.explorer.calls.handlers import HandlerCaller, MissingRead
from kraftcheck.explorer.calls.proxies import SharedRecordProxy
from kraftcheck.explorer.tables.kernel import arrays, codes, tree_walk
from kraftcheck.explorer.tables.learning.decision_trees import (
    DecisionTrees,
    FlaggedSteps,
    ImpureCallError,
    OutcomeTable,
    ReadLog,
    ReadProxyPolicy,
)
from kraftcheck.explorer.tables.learning.growing_tables import NOT_EVALUATED
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.spec.errors import ActionError, RaisedError
from kraftcheck.spec.language.declarations import Action, Property
from kraftcheck.spec.language.semantics import step_property_arguments
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Value


class MemoizedCall(NamedTuple):
    """The call that a decision tree memoizes: of an action of a replica on a message, or of a property."""

    owner: Action | Property
    me: Value = None
    message: Value = None
    piece: int | None = None  # of the action


class PythonMissHandler:
    """Fills the entries of the memo tables that need a call of user code."""

    def __init__(
        self, calls: HandlerCaller, interner: Interner, of_actor: list[tuple[int, Property]], action_names: list[str]
    ) -> None:
        self.calls, self.interner = calls, interner
        self.trees = DecisionTrees(interner)
        self.policy = ReadProxyPolicy(interner, self.trees)
        self.effects = OutcomeTable(interner, action_names)
        self.tracks_changes = not of_actor
        self._of_actor = of_actor  # step properties of the acting replica, each with the flag of its violation
        self._roots: dict[int, MemoizedCall] = {}

    def forget_all(self) -> None:
        """Reset all decision trees, and the lists of actions: with exploded sets, some actions are called in pieces."""
        tables = self.interner.tables
        self.trees.forget_all(self._roots)
        tables.roots[:] = -1
        tables.own_roots[:] = NOT_EVALUATED
        tables.meta[codes.META_ROOTS] = 0

    def answer(self, worker: arrays.WorkerArrays) -> None:
        """Answer each distinct request of the kernel once; skip requests that an earlier answer covers."""
        tables, known, done = self.interner.tables, 0, set[tuple[int, ...]]()
        inboxes, count = self.interner.first_inbox, int(tables.meta[codes.META_ASKED])
        tables.meta[codes.META_ASKED] = 0
        answers = {
            codes.ASK_HANDLERS: self._answer_handlers,
            codes.ASK_OPERATION: self._answer_operation,
            codes.ASK_CHANGE: self._answer_change,
        }
        for number, (kind, a, b, c, d, e) in enumerate(tables.asked[:count].tolist()):
            if kind == codes.ASK_PATH:
                if number >= known:
                    known = tree_walk.first_unanswered_python_request(tables, number, count, worker.states, inboxes)
                if number == known:
                    self._answer_path(a, b, c, d, None if e < 0 else worker.states[e, inboxes:].tolist())
            elif (kind, a, b) not in done:
                answers[kind](a, b)
                done.add((kind, a, b))

    def _answer_handlers(self, local: int, number: int) -> None:
        """Call the handlers that read only their replica and message, and plant a tree for each other one."""
        me = self.interner.locals[local]
        message = self.interner.inboxes.messages[number - 1] if number else None
        nodes = []
        for action in self.calls.applicable(me, message):
            steps = self._call_without_context(action, me, message)
            if steps is None:
                for piece in self._pieces(action, message):
                    node = self.root(MemoizedCall(action, me, message, piece))
                    nodes.append(~node if any(read.of_inbox for read in action.reads) else node)
            elif steps:
                node = self.trees.node()
                self._set_outcomes(node, MemoizedCall(action, me, message), steps)
                nodes.append(node)
        tables = self.interner.tables
        index = tables.append("lists", (tables.extend("list_nodes", nodes), len(nodes)))
        tables.put("roots", local << 32 | number, index)
        if not number:
            tables.own_roots[local] = index

    def _pieces(self, action: Action, message: Any) -> Iterable[int | None]:
        """Return the numbers of the pieces of an action that may read exploded sets; None for an action in one."""
        is_split = message is None and self.interner.shared.sets.elements
        return self.calls.pieces(action) if is_split and not any(read.of_inbox for read in action.reads) else (None,)

    def _answer_change(self, local: int, change: int) -> None:
        self.interner.tables.put("changed_locals", change << 32 | local, self.interner.changed(local, change))

    def root(self, about: MemoizedCall) -> int:
        """Return the root of a new decision tree."""
        node = self.trees.node()
        self._roots[node] = about
        return node

    def forget_replicas(self) -> None:
        """Reset decision trees that read projections of all replicas: a new replica invalidates these trees."""
        reading = [node for node, root in self._roots.items() if root.owner.reads or "state" in root.owner.asks]
        for node in reading:
            self.trees.forget(node)
        if reading:  # bundles hold copies of the outcomes of trees that were single leaves
            tables = self.interner.tables
            tables.bundles[:] = -1
            tables.meta[codes.META_BUNDLES] = 0

    @cached_property
    def _unread(self) -> dict[str, Value]:
        """Arguments with a shared state that raises `MissingRead` when an action reads it."""
        assert self.interner.shared.type is not None
        return {"shared": SharedRecordProxy(self.interner.shared.type, _raise_missing_read)}

    def _call_without_context(self, action: Action, me: Any, message: Any) -> FlaggedSteps | None:
        """Return an action's steps if they depend on the local state and the message alone, else None."""
        if action.reads:
            return None
        with suppress(MissingRead):
            steps = self.calls.steps(action, me, message, self._unread)
            with suppress(RaisedError):  # of a property; an error of the action, such as an impurity, ends the search
                return self._with_violations(me, message, steps, self._unread)
        return None

    def _call(self, root: MemoizedCall, log: ReadLog) -> FlaggedSteps:
        action, me, message, piece = root
        assert isinstance(action, Action)
        steps = log.steps(self.calls, action, me, message, piece, tracks=self.tracks_changes)
        return self._with_violations(me, message, steps, log.arguments(action) if self._of_actor else {}, log)

    def _with_violations(
        self, me: Any, message: Any, steps: list[Step], given: dict[str, Value], log: ReadLog | None = None
    ) -> FlaggedSteps:
        """Return steps, each with the flags of the actor's step properties that it violates."""
        judged = []
        for step in steps:
            flags = 0
            for flag, prop in self._of_actor if me is not None else ():
                known = step_property_arguments(prop, me, message, step)
                if known is not None and not self._satisfies(prop, {**known, **given}, log):
                    flags |= flag
            judged.append((step, flags))
        return judged

    def _satisfies(self, prop: Property, given: dict[str, Value], log: ReadLog | None) -> bool:
        """Whether a step satisfies a property; False if the property raises an error for plain records.

        Bounds may exclude the step from every state. If it is taken, the counterexample's search raises the error.
        """
        try:
            return self.calls.holds(prop, given)
        except RaisedError:
            if log is None or (log.by_field and log.used_proxies):
                raise
            return False

    def _set_outcomes(self, node: int, owner: MemoizedCall, steps: FlaggedSteps) -> None:
        action, me, message, piece = owner
        assert isinstance(action, Action)
        first = self.effects.add(action, me, message, steps, is_piece=piece is not None)
        self.trees.set_leaf(node, first, len(steps))

    def _answer_path(self, number: int, row: int, me: int, peer: int, inboxes: list[int] | None) -> None:
        """Answer a request for a decision tree's result: call its owner, and insert the path of its reads."""
        if inboxes is not None and self.trees.has_leaf(number, row, me, peer, inboxes):
            return  # an earlier request of the same batch had the same path
        root, slots = self._roots[number], len(self.interner.slots)
        owner, found = root.owner, None
        while found is None:
            given = self.policy.of(number, owner)
            log = ReadLog(self.interner, row, inboxes or [], *given)
            try:
                found = self._call(root, log) if isinstance(owner, Action) else log.holds(self.calls, owner, me, peer)
            except (ActionError, RaisedError):
                if not (log.by_field and log.used_proxies):
                    raise
                self.policy.opaque.add(
                    owner.method_name
                )  # the error may come from a proxy: call again with plain records
        self.trees.await_elements(number, log.awaited)
        node = self._leaf(number, log)
        if isinstance(found, bool):
            self.trees.set_leaf(node, int(found))
            return
        self._set_outcomes(node, root, found)
        if len(self.interner.slots) > slots and owner.reads:
            self.trees.forget(number)  # its reads do not cover the replica that it creates

    def _leaf(self, root: int, log: ReadLog) -> int:
        """Insert a path of reads; return its leaf. Raises an error where the owner is not pure."""
        owner, actor, message, _ = self._roots[root]
        try:
            return self.trees.insert(root, log.path)
        except ImpureCallError:
            problem = "is not pure: called twice on the same input, it read other values"
            if isinstance(owner, Action):
                raise ActionError(owner, self.calls.protocol, actor, message, problem) from None
            raise AssertionError(f"property {owner.name} {problem}") from None

    def _answer_operation(self, content: int, op: int) -> None:
        inboxes, tables = self.interner.inboxes, self.interner.tables
        name, message = inboxes.operations[op]
        after = self.calls.protocol.network.apply(name, inboxes.decode_content(content), inboxes.messages[message])
        slot = int(tables.operations[op, 0])
        result = int(codes.REFUSED) if after is None else inboxes.content(slot, after)
        tables.put("operated", content << 24 | op, result)


def _raise_missing_read(name: str) -> Value:
    raise MissingRead(name)
