"""Cache-miss handler of the table engine: calls handlers and properties, and memoizes their results.

Values are interned as dense ids. A handler is called once for each distinct input that it reads; its steps become
outcomes in the tables. The kernel records cache misses, and `Learner.resolve` fills the missing entries. Callers
pass the tables to kernel functions as an opaque handle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from kraftcheck.explorer.calls.handlers import Calls, MissingRead
from kraftcheck.explorer.calls.proxies import SharedProxy
from kraftcheck.explorer.native.arrays import Arrays
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MOST_ACT_PROPERTIES, MOST_PROPERTIES, MOST_STEP_PROPERTIES, REFUSED
from kraftcheck.explorer.tables.kernel.flat.invariants import resolve_evaluations
from kraftcheck.explorer.tables.kernel.resolving.requests import TableFull
from kraftcheck.explorer.tables.kernel.resolving.resolve import resolve
from kraftcheck.explorer.tables.kernel.tree_walk import next_unanswered
from kraftcheck.explorer.tables.kernel.worker import WorkerArrays
from kraftcheck.explorer.tables.learning.decision_trees import DecisionTrees, EffectTable, ImpureCallError, ProxyPolicy
from kraftcheck.explorer.tables.learning.growing_tables import require_below
from kraftcheck.explorer.tables.learning.interner import Interner
from kraftcheck.explorer.tables.learning.queries import Query
from kraftcheck.explorer.tables.learning.read_log import ReadLog
from kraftcheck.explorer.transition_system import LabelTable
from kraftcheck.spec.errors import ActionError, ProtocolError, RaisedError
from kraftcheck.spec.language.declarations import REFINES, Action, Property
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import act_of
from kraftcheck.spec.language.state import State, Step
from kraftcheck.spec.values import Record, Value

Make = Callable[[Arrays, WorkerArrays], None]
"""A compiled function that resolves a worker's cache misses."""
FlaggedSteps = list[tuple[Step, int]]
"""Steps, each with the flags of the properties that it violates."""
MOST_IDLE = 1_000  # rounds of misses without a request, after an error left requests unanswered


class TreeOwner(NamedTuple):
    """The call that a decision tree memoizes: of an action of a replica on a message, or of a property."""

    owner: Action | Property
    me: Value = None
    message: Value = None


class Learner:
    """The memo of one protocol: interned values, decision trees, and the calls that fill them."""

    def __init__(
        self,
        protocol: Protocol,
        properties: tuple[Property, ...] = (),
        constraints: tuple[Property, ...] = (),
        step_properties: tuple[Property, ...] = (),
        action_constraints: tuple[Property, ...] = (),
        message_properties: tuple[Property, ...] = (),
        view: str | None = None,
        symmetry: str | None = None,
        check_actions: bool = False,
    ) -> None:
        local = (*properties, *constraints)
        self.state_properties = (*local, *message_properties)
        of_pairs, of_actor, mapped = _by_kind(step_properties)
        of_pairs += action_constraints
        self.step_properties = (*of_pairs, *of_actor, *mapped)
        self.refinements = list(enumerate(mapped, start=len(of_pairs) + len(of_actor)))
        require_below(len(self.state_properties), MOST_PROPERTIES, "properties of states")
        require_below(len(of_pairs), MOST_STEP_PROPERTIES, "properties of steps")
        require_below(len(self.step_properties), MOST_ACT_PROPERTIES, "properties of steps")
        self._of_actor = [(codes.STEP_BAD | 4 << bit, p) for bit, p in enumerate(self.step_properties) if p.of_actor]
        self.calls = Calls(protocol, thorough=check_actions)
        self.interner = Interner(protocol, self._message_violations, view, symmetry)
        self.action_names = [*protocol.actions, *protocol.network.own_actions()]
        self.book = LabelTable(protocol, self.action_names, ())
        self._failed: ProtocolError | None = None
        self._idle = 0
        self._trees = DecisionTrees(self.interner)
        self._policy = ProxyPolicy(self.interner, self._trees)
        self._effects = EffectTable(self.interner)
        self._roots: dict[int, TreeOwner] = {}
        self._tracks_changes = not self._of_actor
        self.interner.slot_added = self._forget_replicas
        self.interner.shared.sets.added = self._trees.forget_awaiting
        self.interner.shared.sets.is_allowed &= self._tracks_changes
        tables = self.interner.tables
        for i, prop in enumerate(local):
            kind = 2 if "peer" in prop.asks else int("me" in prop.asks)
            tables.append("properties", (root := self._root(TreeOwner(prop)), kind, int(i >= len(properties))))
            self._policy.misses |= {root: 0} if kind == 1 else {}
            tables.judged[int(i >= len(properties)), kind] |= 1 << i
        for prop in of_pairs:
            tables.append("step_properties", (self._root(TreeOwner(prop)), int(prop in action_constraints)))
        own = list(protocol.network.own_operations())
        for name, _, spends in own:
            self._effects.add_network_step(self.book.number(name, None, None, Step()), spends)
        tables.meta[codes.M_PROPERTIES] = len(local)
        tables.meta[codes.M_CONSTRAINTS] = len(constraints)
        tables.meta[codes.M_STEP_PROPERTIES] = len(of_pairs)
        tables.meta[codes.M_COLLECTS] = len(mapped)
        tables.meta[codes.M_NETWORK_STEPS] = len(own)

    @property
    def protocol(self) -> Protocol:
        """The memoized protocol."""
        return self.calls.protocol

    @property
    def tables(self) -> Arrays:
        """The memo tables, as kernel functions take them."""
        return self.interner.tables

    def follow(self, fairness: tuple[Fairness, ...]) -> None:
        """Label steps for fairness, and record steps that only bounds disable; call before any other method."""
        self.book = LabelTable(self.protocol, self.action_names, fairness)
        self.interner.tables.meta[codes.M_WATCH_BOUNDS] = 1
        self.interner.shared.sets.is_allowed = False
        self._tracks_changes = False

    @property
    def tells_more(self) -> bool:
        """Whether steps of one action may have several labels."""
        return self.book.tells_more

    @property
    def width(self) -> int:
        """Number of columns of a state's row."""
        return self.interner.width

    @property
    def permutations(self) -> int:
        """Order of the symmetry group."""
        return len(self.interner.group)

    def counts(self) -> list[int]:
        """Return the number of ids of each column of a state's row."""
        return self.interner.counts()

    def encode_state(self, state: State) -> list[int]:
        """Return a state as a row of ids."""
        return self.interner.encode_state(state)

    def decode_state(self, row: Any) -> State:
        """Return the state of a row of ids."""
        return self.interner.decode_state(row)

    def mask_of(self, names: set[str], *, over_steps: bool) -> int:
        """Return the mask of the state or step properties with these names."""
        properties = self.step_properties if over_steps else self.state_properties
        return sum(1 << bit for bit, prop in enumerate(properties) if prop.name in names)

    def properties_in(self, mask: int, *, over_steps: bool) -> list[Property]:
        """Return the state or step properties in a mask."""
        properties = self.step_properties if over_steps else self.state_properties
        return [prop for bit, prop in enumerate(properties) if mask >> bit & 1]

    def resolve(self, workers: Sequence[WorkerArrays], make: Make | None = None) -> None:
        """Resolve the workers' cache misses, with calls to user code where the tables do not suffice.

        `make` is the compiled function that fills the tables for the layout; the default is that of control rows.
        """
        try:
            for worker in workers:
                self._resolve(worker, make or self._make_rows)
        except ProtocolError as error:
            self._failed = error
            raise
        if self.interner.shared.explode_sets():
            self._trees.forget_all(self._roots)

    def _make_rows(self, tables: Arrays, worker: WorkerArrays) -> None:
        """Run the compiled resolution of cache misses for states with control rows."""
        has_groups = self.interner.inboxes.has_groups
        resolve(tables, worker, True if self.permutations > 1 else None, True if has_groups else None)

    def _resolve(self, worker: WorkerArrays, make: Make) -> None:
        """Resolve one worker's cache misses until no request is left."""
        tables = self.interner.tables
        retry = worker.retry[: worker.stats[codes.S_RETRY]]
        tables.waiting = codes.grown(tables.waiting, len(retry))
        tables.waiting[: len(retry)] = retry
        tables.meta[[codes.M_RESOLVED, codes.M_SETTLED, codes.M_WAITING]] = 0
        tables.meta[codes.M_LEFT] = len(retry) if self._has_all_columns(worker, make) else 0
        # Compiled code and Python take turns. Compiled code fills the entries that follow from others, and files
        # requests for the rest. Only Python calls a handler, interns a value or grows a table; no thread expands states
        # then, so the tables may move in memory.
        while not self._make(worker, make):
            self._answer(worker)
            tables.grow()
            if not self._has_all_columns(
                worker, make
            ):  # a new replica widens the rows: the search must convert them first
                break

    def _make(self, worker: WorkerArrays, make: Make) -> bool:
        """Run the compiled miss resolution once; return whether it ended without a request or a full table."""
        meta, is_done = self.interner.tables.meta, False
        try:
            make(self.interner.tables, worker)
            is_done = not meta[codes.M_ASKED]
            meta[codes.M_LEFT] = meta[codes.M_WAITING]
            meta[[codes.M_SETTLED, codes.M_WAITING]] = 0
        except TableFull:
            pass
        self._idle = 0 if meta[codes.M_ASKED] else self._idle + 1
        if self._failed is not None and self._idle > MOST_IDLE:
            raise self._failed
        return is_done

    def _has_all_columns(self, worker: WorkerArrays, make: Any) -> bool:
        """Return whether the worker's rows have an inbox column for every replica, or are evaluated only."""
        columns = self.interner.first_inbox + len(self.interner.slots)
        return make is resolve_evaluations or worker.states.shape[1] == columns

    def call_with_room(self, call: Callable[[], None]) -> None:
        """Repeat `call` until it finds no table full; grow the full tables before each repetition."""
        while True:
            try:
                call()
                return
            except TableFull:
                self.interner.tables.grow()

    # Answers

    def _answer(self, worker: WorkerArrays) -> None:
        """Answer each distinct request of the kernel once; skip requests that an earlier answer covers."""
        tables, known, done = self.interner.tables, 0, set[tuple[int, ...]]()
        inboxes, count = self.interner.first_inbox, int(tables.meta[codes.M_ASKED])
        tables.meta[codes.M_ASKED] = 0
        answers = {
            codes.ASK_ROOTS: self._answer_roots,
            codes.ASK_OPERATION: self._answer_operation,
            codes.ASK_CHANGE: self._answer_change,
        }
        for number, (kind, a, b, c, d, e) in enumerate(tables.asked[:count].tolist()):
            if kind == codes.ASK_PATH:
                if number >= known:
                    known = next_unanswered(tables, number, count, worker.states, inboxes)
                if number == known:
                    self._answer_path(a, b, c, d, None if e < 0 else worker.states[e, inboxes:].tolist())
            elif (kind, a, b) not in done:
                answers[kind](a, b)
                done.add((kind, a, b))

    def _answer_roots(self, local: int, number: int) -> None:
        me = self.interner.locals[local]
        message = self.interner.inboxes.messages[number - 1] if number else None
        nodes = []
        for action in self.calls.applicable(me, message):
            steps = self._call_without_context(action, me, message)
            if steps is None:
                node = self._root(TreeOwner(action, me, message))
                nodes.append(~node if any(read.of_inbox for read in action.reads) else node)
            elif steps:
                node = self._trees.node()
                self._set_outcomes(node, action, me, message, steps)
                nodes.append(node)
        tables = self.interner.tables
        index = tables.append("lists", (tables.extend("list_nodes", nodes), len(nodes)))
        tables.put("roots", local << 32 | number, index)
        if not number:
            tables.own_roots[local] = index

    def _answer_change(self, local: int, change: int) -> None:
        self.interner.tables.put("changed_locals", change << 32 | local, self.interner.changed(local, change))

    def _root(self, about: TreeOwner) -> int:
        node = self._trees.node()
        self._roots[node] = about
        return node

    def _forget_replicas(self) -> None:
        """Reset decision trees that read projections of all replicas: a new replica invalidates these trees."""
        reading = [node for node, root in self._roots.items() if root.owner.reads or "state" in root.owner.asks]
        for node in reading:
            self._trees.forget(node)
        if reading:  # bundles hold copies of the outcomes of trees that were single leaves
            tables = self.interner.tables
            tables.bundles[:] = -1
            tables.meta[codes.M_BUNDLES] = 0

    @cached_property
    def _unread(self) -> dict[str, Value]:
        """Arguments with a shared state that raises `MissingRead` when an action reads it."""
        assert self.interner.shared.type is not None
        return {"shared": SharedProxy(self.interner.shared.type, _refuse)}

    def _call_without_context(self, action: Action, me: Any, message: Any) -> FlaggedSteps | None:
        """Return an action's steps if they depend on the local state and the message alone, else None."""
        if action.reads:
            return None
        try:
            return self._with_violations(me, message, self.calls.steps(action, me, message, self._unread), self._unread)
        except MissingRead:
            return None

    def _call(self, root: TreeOwner, log: ReadLog) -> FlaggedSteps:
        action, me, message = root
        assert isinstance(action, Action)
        steps = log.steps(self.calls, action, me, message, tracks=self._tracks_changes)
        return self._with_violations(me, message, steps, log.arguments(action) if self._of_actor else {})

    def _with_violations(self, me: Any, message: Any, steps: list[Step], given: dict[str, Value]) -> FlaggedSteps:
        """Return steps, each with the flags of the actor's step properties that it violates."""
        judged = []
        for step in steps:
            flags = 0
            for flag, prop in self._of_actor if me is not None else ():
                known = act_of(prop, me, message, step)
                if known is not None and not self.calls.holds(prop, {**known, **given}):
                    flags |= flag
            judged.append((step, flags))
        return judged

    def _message_violations(self, message: Record) -> int:
        """Return the mask of the message invariants that a message violates."""
        return sum(
            1 << bit
            for bit, prop in enumerate(self.state_properties)
            if prop.asks == ("message",) and isinstance(message, prop.kinds("message"))
            if not self.calls.holds(prop, {"message": message})
        )

    def _set_outcomes(self, node: int, action: Action, me: Any, message: Any, steps: FlaggedSteps) -> None:
        labels = [self.book.number(action.name, me, message, step) for step, _ in steps]
        self._trees.set_leaf(node, self._effects.add(labels, me, steps), len(steps))

    def _answer_path(self, number: int, row: int, me: int, peer: int, inboxes: list[int] | None) -> None:
        """Answer a request for a decision tree's result: call its owner, and insert the path of its reads."""
        if inboxes is not None and self._trees.has_leaf(number, row, me, peer, inboxes):
            return  # an earlier request of the same batch had the same path
        root, slots = self._roots[number], len(self.interner.slots)
        owner, found = root.owner, None
        while found is None:
            given = self._policy.of(number, owner)
            log = ReadLog(self.interner, row, inboxes or [], *given)
            try:
                found = self._call(root, log) if isinstance(owner, Action) else log.holds(self.calls, owner, me, peer)
            except (ActionError, RaisedError):
                if not (log.by_field and log.used_proxies):
                    raise
                self._policy.opaque.add(owner.name)  # the error may come from a proxy: call again with plain records
        self._trees.await_elements(number, log.awaited)
        node = self._leaf(number, log.path)
        if isinstance(found, bool):
            self._trees.set_leaf(node, int(found))
            return
        assert isinstance(owner, Action)
        self._set_outcomes(node, owner, root.me, root.message, found)
        if len(self.interner.slots) > slots and owner.reads:
            self._trees.forget(number)  # its reads do not cover the replica that it creates

    def _leaf(self, root: int, path: dict[Query, int]) -> int:
        """Insert a path of reads; return its leaf. Raises an error where the owner is not pure."""
        owner, actor, message = self._roots[root]
        try:
            return self._trees.insert(root, path)
        except ImpureCallError:
            problem = "is not pure: called twice on the same input, it read other values"
            if isinstance(owner, Action):
                raise ActionError(owner, self.protocol, actor, message, problem) from None
            raise AssertionError(f"property {owner.name} {problem}") from None

    def _answer_operation(self, content: int, op: int) -> None:
        inboxes, tables = self.interner.inboxes, self.interner.tables
        name, message = inboxes.operations[op]
        after = self.protocol.network.apply(name, inboxes.decode_content(content), inboxes.messages[message])
        slot = int(tables.operations[op, 0])
        result = int(REFUSED) if after is None else inboxes.content(slot, after)
        tables.put("operated", content << 24 | op, result)


def _refuse(name: str) -> Value:
    raise MissingRead(name)


def _by_kind(properties: tuple[Property, ...]) -> tuple[tuple[Property, ...], ...]:
    """Partition step properties: those of changed replicas, those of the acting replica, and refinements."""
    kinds = [(prop.kind == REFINES) * 2 + prop.of_actor for prop in properties]
    return tuple(tuple(p for p, kind in zip(properties, kinds, strict=True) if kind == wanted) for wanted in range(3))
