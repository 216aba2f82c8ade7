"""Learns a protocol as integer tables.

Values become dense ids. A handler is called once for each distinct input that it really reads; what it yields becomes
outcomes. The kernel notes its cache misses, and `Learner.resolve` makes what is missing. What is above sees no array
of this: the tables are an opaque handle, which the kernel's functions take.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from kraftcheck.explorer.by_type import note_types
from kraftcheck.explorer.native.arrays import Arrays
from kraftcheck.explorer.purity import PurityTest
from kraftcheck.explorer.tables.kernel import codes
from kraftcheck.explorer.tables.kernel.codes import MOST_ACT_PROPERTIES, MOST_PROPERTIES, MOST_STEP_PROPERTIES, REFUSED
from kraftcheck.explorer.tables.kernel.flat.properties import resolve_judged
from kraftcheck.explorer.tables.kernel.resolving.asking import Full
from kraftcheck.explorer.tables.kernel.resolving.resolve import resolve
from kraftcheck.explorer.tables.kernel.tries import next_unanswered
from kraftcheck.explorer.tables.kernel.worker import WorkerArrays
from kraftcheck.explorer.tables.learning.giving import HowGiven
from kraftcheck.explorer.tables.learning.interner import Interner, within
from kraftcheck.explorer.tables.learning.marked import followed
from kraftcheck.explorer.tables.learning.outcomes import Outcomes
from kraftcheck.explorer.tables.learning.questions import InboxQuestions
from kraftcheck.explorer.tables.learning.reads import MapReader, SharedReader, plain
from kraftcheck.explorer.tables.learning.recording import Recording
from kraftcheck.explorer.tables.learning.shared_sets import Passes, passes_or_fails
from kraftcheck.explorer.tables.learning.tries import Impure, Tries
from kraftcheck.explorer.transition_system import LabelTable
from kraftcheck.spec.errors import ActionError, ProtocolError, RaisedError
from kraftcheck.spec.language.declarations import Action, Property
from kraftcheck.spec.language.formula import Fairness
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import act_of, call_action, evaluate_property
from kraftcheck.spec.language.state import State, Step, is_within, note_spent
from kraftcheck.spec.values import Value

Judged = tuple[tuple[Step, int], ...]
"""Steps, each with the flags of the properties that it violates."""
MOST_IDLE = 1_000  # times that workers miss something and nothing is asked, once an error left questions unanswered


class Root(NamedTuple):
    """What a trie decides: an action on a message by a replica, or a property."""

    owner: Action | Property
    me: Value = None
    message: Value = None


class Learner:
    """Learns one protocol."""

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
        of_pairs = (*[prop for prop in step_properties if not prop.of_actor], *action_constraints)
        self.step_properties = (*of_pairs, *[prop for prop in step_properties if prop.of_actor])
        within(len(self.state_properties), MOST_PROPERTIES, "properties of states")
        within(len(of_pairs), MOST_STEP_PROPERTIES, "properties of steps")
        within(len(self.step_properties), MOST_ACT_PROPERTIES, "properties of steps")
        self._of_actor = [(codes.STEP_BAD | 4 << bit, p) for bit, p in enumerate(self.step_properties) if p.of_actor]
        self.protocol = protocol
        self.interner = Interner(protocol, tuple(enumerate(self.state_properties))[len(local) :], view, symmetry)
        self.purity = PurityTest(protocol, thorough=check_actions)
        self.action_names = [*protocol.actions, *protocol.network.own_actions()]
        self.book = LabelTable(self.action_names, ())
        self.handler_calls: Counter[str] = Counter()
        self.most_spent: dict[str, int] = {}
        self._failed: ProtocolError | None = None
        self._idle = 0
        self.inbox_questions = InboxQuestions(self.interner.tables, self.interner.decode_content)
        self._tries = Tries(self.interner, self.inbox_questions)
        self._outcomes = Outcomes(self.interner)
        self._roots: dict[int, Root] = {}
        self._reads_replicas: set[int] = set()
        self._given = HowGiven(self.interner, self._tries, note_types(protocol))
        self._marks = not self._of_actor
        self._actions: dict[type, list[Action]] = {}
        self.interner.slot_added = self._forget_replicas
        self._awaiting: defaultdict[int, dict[int, dict[Value, Passes | None]]] = defaultdict(dict)
        self.interner.sets.added = self._forget_awaiting
        self.interner.sets.is_allowed &= self._marks
        tables = self.interner.tables
        for i, prop in enumerate(local):
            kind = 2 if "peer" in prop.asks else int("me" in prop.asks)
            tables.append("properties", (root := self._root(Root(prop)), kind, int(i >= len(properties))))
            self._given.asked |= {root: 0} if kind == 1 else {}
            tables.judged[int(i >= len(properties)), kind] |= 1 << i
        for prop in of_pairs:
            tables.append("step_properties", (self._root(Root(prop)), int(prop in action_constraints)))
        own = list(protocol.network.own_operations())
        for name, _, spends in own:
            self._outcomes.add_network_step(self.book.number(name, None, None, Step()), spends)
        tables.meta[codes.M_PROPERTIES] = len(local)
        tables.meta[codes.M_CONSTRAINTS] = len(constraints)
        tables.meta[codes.M_STEP_PROPERTIES] = len(of_pairs)
        tables.meta[codes.M_NETWORK_STEPS] = len(own)

    @property
    def tables(self) -> Arrays:
        """What the kernel's functions take."""
        return self.interner.tables

    def follow(self, fairness: tuple[Fairness, ...]) -> None:
        """Tell steps apart as fairness does, and note what bounds alone forbid. It is called before anything else."""
        self.book = LabelTable(self.action_names, fairness)
        self.interner.tables.meta[codes.M_WATCH_BOUNDS] = 1
        self.interner.sets.is_allowed = False
        self._marks = False

    @property
    def tells_more(self) -> bool:
        """Whether steps of one action may have several labels."""
        return self.book.tells_more

    @property
    def width(self) -> int:
        """Columns of a state's row."""
        return self.interner.width

    @property
    def permutations(self) -> int:
        """Elements of the symmetry group."""
        return len(self.interner.group)

    def counts(self) -> list[int]:
        """Return how many ids each column of a state's row has."""
        return self.interner.counts()

    def encode_state(self, state: State) -> list[int]:
        """Return a state's row of ids."""
        return self.interner.encode_state(state)

    def decode_state(self, row: Any) -> State:
        """Return the state of a row."""
        return self.interner.decode_state(row)

    def mask_of(self, names: set[str], *, over_steps: bool) -> int:
        """Return the mask of the properties of these names, of states or of steps."""
        properties = self.step_properties if over_steps else self.state_properties
        return sum(1 << bit for bit, prop in enumerate(properties) if prop.name in names)

    def properties_in(self, mask: int, *, over_steps: bool) -> list[Property]:
        """Return the properties of states, or of steps, that a mask stands for."""
        properties = self.step_properties if over_steps else self.state_properties
        return [prop for bit, prop in enumerate(properties) if mask >> bit & 1]

    def resolve(self, workers: Sequence[WorkerArrays], make: Callable[[Arrays, WorkerArrays], None] = resolve) -> None:
        """Make what workers missed, asking Python where need be."""
        try:
            self._resolve(workers, make)
        except ProtocolError as error:
            self._failed = error
            raise

    def _resolve(self, workers: Sequence[WorkerArrays], make: Callable[[Arrays, WorkerArrays], None]) -> None:
        tables = self.interner.tables
        for worker in workers:
            retry = worker.retry[: worker.stats[codes.S_RETRY]]
            tables.waiting = codes.grown(tables.waiting, len(retry))
            tables.waiting[: len(retry)] = retry
            tables.meta[[codes.M_RESOLVED, codes.M_SETTLED, codes.M_WAITING]] = 0
            tables.meta[codes.M_LEFT] = len(retry) if self._has_all(worker, make) else 0
            is_done = False
            while not is_done:
                try:
                    make(tables, worker)
                    is_done = not tables.meta[codes.M_ASKED]
                    tables.meta[codes.M_LEFT] = tables.meta[codes.M_WAITING]
                    tables.meta[[codes.M_SETTLED, codes.M_WAITING]] = 0
                except Full:
                    pass
                self._idle = 0 if tables.meta[codes.M_ASKED] else self._idle + 1
                if self._failed is not None and self._idle > MOST_IDLE:
                    raise self._failed
                self._answer(worker)
                tables.grow()
                if not self._has_all(worker, make):  # there is another replica
                    break
        if self.interner.take_apart():
            self._awaiting.clear()
            for root in self._roots:
                self._tries.forget(root)

    def _has_all(self, worker: WorkerArrays, make: Any) -> bool:
        """Whether the states of a worker have an inbox for every replica; where they are judged, it does not matter."""
        columns = int(self.interner.tables.meta[codes.M_INBOXES]) + len(self.interner.slots)
        return make is resolve_judged or worker.states.shape[1] == columns

    def making_room(self, call: Callable[[], None]) -> None:
        """Call compiled code until it has had room for all that it makes."""
        while True:
            try:
                call()
                return
            except Full:
                self.interner.tables.grow()

    # Answers

    def _answer(self, worker: WorkerArrays) -> None:
        tables = self.interner.tables
        inboxes, count = int(tables.meta[codes.M_INBOXES]), int(tables.meta[codes.M_ASKED])
        asked, number, done = list(map(tuple, tables.asked[:count].tolist())), 0, set()
        tables.meta[codes.M_ASKED] = 0
        while number < count:
            kind, a, b, c, d, e = one = asked[number]
            if kind == codes.ASK_PATH and (later := next_unanswered(tables, number, count, worker.states)) > number:
                number = later  # the answer to another question was the answer to this one
                continue
            number += 1
            if kind == codes.ASK_PATH:
                self._answer_path(a, b, c, d, None if e < 0 else worker.states[e, inboxes:].tolist())
            elif one in done:
                continue
            elif kind == codes.ASK_ROOTS:
                self._answer_roots(a, b)
            elif kind == codes.ASK_OPERATION:
                self._answer_operation(a, b)
            elif kind == codes.ASK_CHANGE:
                tables.put("changed_locals", b << 32 | a, self.interner.changed(a, b))
            done.add(one)

    def _answer_roots(self, local: int, number: int) -> None:
        me = self.interner.locals[local]
        message = self.interner.messages[number - 1] if number else None
        nodes = []
        for action in self._actions_on(type(message)):
            if not self._applies(action, me, message):
                continue
            steps = self._call_alone(action, me, message)
            if steps is None:
                node = self._root(Root(action, me, message))
                nodes.append(~node if any(read.of_inbox for read in action.reads) else node)
            elif steps:
                node = self._tries.node()
                self._set_outcomes(node, action, me, message, steps)
                nodes.append(node)
        tables = self.interner.tables
        index = tables.append("lists", (tables.extend("list_nodes", nodes), len(nodes)))
        tables.put("roots", local << 32 | number, index)
        if not number:
            tables.own_roots[local] = index

    def _root(self, about: Root) -> int:
        node = self._tries.node()
        self._roots[node] = about
        if about.owner.reads:
            self._reads_replicas.add(node)
        return node

    def _forget_replicas(self) -> None:
        """Forget what was learned of all replicas: it does not cover a new one."""
        for node in self._reads_replicas:
            self._tries.forget(node)
        if self._reads_replicas:  # a bundle has what the root of a trie led to, where that was a leaf
            tables = self.interner.tables
            tables.bundles[:] = -1
            tables.meta[codes.M_BUNDLES] = 0

    def _forget_awaiting(self, field: int, element: Value) -> None:
        """Forget what was learned of all elements of a shared set, unless they would have passed over a new one."""
        for root, tests in list(self._awaiting[field].items()):
            if any(passes is None or passes_or_fails(passes, element) for passes in tests.values()):
                self._tries.forget(root)
                del self._awaiting[field][root]

    def _actions_on(self, kind: type) -> list[Action]:
        """Return the actions on messages of a class; those on no message for the class of None."""
        found = self._actions.get(kind)
        if found is None:
            actions = self.protocol.actions.values()
            found = self._actions[kind] = [
                action
                for action in actions
                if (issubclass(kind, action.messages) if action.kind == "on" else kind is type(None))
            ]
        return found

    def _applies(self, action: Action, me: Any, message: Any) -> bool:
        if me is None or action.kind == "environment":
            return me is None and action.kind == "environment"
        return isinstance(me, action.actors) and (message is None or self.protocol.receives(me, message))

    @cached_property
    def _unread(self) -> dict[str, Value]:
        """What an action gets of the shared state when it must not read it."""
        assert self.interner.shared_type is not None
        return {"shared": SharedReader(self.interner.shared_type, _refuse)}

    def _call_alone(self, action: Action, me: Any, message: Any) -> Judged | None:
        """Return the steps of an action that reads nothing else, or None where it does."""
        if action.reads:
            return None
        try:
            return self._call(action, me, message, self._unread)
        except Reads:
            return None

    def _call(
        self, action: Action, me: Any, message: Any, given: dict[str, Value], recording: Recording | None = None
    ) -> Judged:
        """Return the steps of an action that bounds do not rule out, with their flags."""
        self.handler_calls[action.name] += 1
        if self.purity.is_due(action):
            self.purity.call(action, me, message, given if recording is None else recording.whole(action))
        if recording is not None and recording.by_field:
            action = followed(action, recording, marks=self._marks, filters=bool(self.interner.sets.elements))
        steps = call_action(self.protocol, action, me, message, given)
        if recording and any(isinstance(one, MapReader) and one.was_read_whole for one in given.values()):
            steps = plain(steps)
        note_spent(steps, self.most_spent)
        bounds = self.protocol.bounds
        return tuple([(step, self._flags(me, message, step, given)) for step in steps if is_within(step, bounds)])

    def _flags(self, me: Any, message: Any, step: Step, given: dict[str, Value]) -> int:
        """Return the flags of a step that properties of a replica's own steps do not allow."""
        flags = 0
        for flag, prop in self._of_actor if me is not None else ():
            known = act_of(prop, me, message, step)
            if known is not None and not evaluate_property(self.protocol, prop, {**known, **given}):
                flags |= flag
        return flags

    def _set_outcomes(self, node: int, action: Action, me: Any, message: Any, steps: Judged) -> None:
        actor = getattr(me, "id", None)
        labels = [self.book.number(action.name, actor, message, step) for step, _ in steps]
        self._tries.set_leaf(node, self._outcomes.add(labels, me, steps), len(steps))

    def _answer_path(self, root: int, row: int, me: int, peer: int, inboxes: list[int] | None) -> None:
        if inboxes is not None and self._tries.has_leaf(root, row, me, peer, inboxes):
            return  # another question of the same batch had the same answer
        owner, actor, message = self._roots[root]
        slots, given = len(self.interner.slots), self._given.of(root, owner.name)
        recording = Recording(self.interner, self.inbox_questions, row, inboxes or [], *given)
        try:
            if isinstance(owner, Action):
                steps = self._call(owner, actor, message, recording.given(owner), recording)
            else:
                holds = recording.holds(owner, me, peer)
        except (ActionError, RaisedError):
            if not (recording.by_field and recording.lent):
                raise
            self._given.wholly.add(owner.name)  # a stand-in may have been used in a way that it does not serve
            self._answer_path(root, row, me, peer, inboxes)
            return
        for (field, key), passes in recording.awaited.items():
            self._awaiting[field].setdefault(root, {})[key] = passes
        if isinstance(owner, Action):
            self._set_outcomes(self._leaf(root, recording), owner, actor, message, steps)
            if len(self.interner.slots) > slots and root in self._reads_replicas:
                self._tries.forget(root)  # what it read does not tell of the replica that it makes
        else:
            self._tries.set_leaf(self._leaf(root, recording), int(holds))

    def _leaf(self, root: int, recording: Recording) -> int:
        owner, actor, message = self._roots[root]
        try:
            return self._tries.insert(root, recording.path)
        except Impure:
            problem = "is not pure: on the same input it read something else than before"
            if isinstance(owner, Action):
                raise ActionError(owner, self.protocol, actor, message, problem) from None
            raise AssertionError(f"property {owner.name} {problem}") from None

    def _answer_operation(self, content: int, op: int) -> None:
        interner = self.interner
        name, message = interner.operations[op]
        after = interner.network.apply(name, interner.decode_content(content), interner.messages[message])
        slot = int(interner.tables.operations[op, 0])
        result = int(REFUSED) if after is None else interner.content(slot, after)
        interner.tables.put("operated", content << 24 | op, result)


class Reads(BaseException):
    """An action reads the shared state."""


def _refuse(name: str) -> Value:
    raise Reads
