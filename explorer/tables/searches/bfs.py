"""Breadth first: level by level, so that the first counterexample is a shortest one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

import numpy as np

from kraftcheck.explorer.behaviour import Behaviour, least, step_of
from kraftcheck.explorer.bookkeeping import Stop
from kraftcheck.explorer.checkpoint import folder_of
from kraftcheck.explorer.interruption import Interruption
from kraftcheck.explorer.reachability import Goals
from kraftcheck.explorer.result import INTERRUPTED, MEMORY, Options, Result, Trap
from kraftcheck.explorer.tables.checker import Checker
from kraftcheck.explorer.tables.checkpoints.search_checkpoint import CheckpointValidator, Snapshot, TablesCheckpoint
from kraftcheck.explorer.tables.expander import Event, Expander
from kraftcheck.explorer.tables.labelled import labelled
from kraftcheck.explorer.tables.laying_out import CLUSTERS_FROM, FLAT_FROM, are_better_flat, better_fields
from kraftcheck.explorer.tables.learning.size import Size, text_of_size
from kraftcheck.explorer.tables.least import LeastStates
from kraftcheck.explorer.tables.level_paths import LevelPaths
from kraftcheck.explorer.tables.state_graph import StateGraph
from kraftcheck.explorer.tables.states.levels import Levels
from kraftcheck.explorer.tables.states.memory import Memory
from kraftcheck.explorer.tables.states.packing import Rows
from kraftcheck.explorer.tables.states.spilling import SpillingSet
from kraftcheck.explorer.tables.states.successors import Found
from kraftcheck.explorer.tables.threads import default_workers
from kraftcheck.explorer.tables.traps import note_of, without_way_out
from kraftcheck.explorer.tables.worker import BATCH
from kraftcheck.explorer.temporal.room import Room
from kraftcheck.explorer.temporal.search import check_temporal, strict_bounds, without_symmetry
from kraftcheck.spec.errors import RaisedError
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Transition
from kraftcheck.spec.language.state import State

ANOTHER = (
    "of several shortest counterexamples this is the first that was found: another run, or another number of workers, "
    "may show another"
)


class BreadthFirst:
    """A search level by level."""

    def __init__(self, protocol: Protocol, options: Options, workers: int, batch: int = BATCH) -> None:
        folder, self.memory = folder_of(options), Memory(options.memory)
        self.options = options
        self.batch = batch
        self.expander = Expander.of(protocol, options, workers)
        self.visited = SpillingSet(self.memory.budget, self.expander.threads, self.expander.packed, folder)
        self.checker = Checker(protocol, options, self.expander, lambda: self.visited.count)
        self.books = self.checker.books
        self.checkpoint: TablesCheckpoint | None = None
        if folder is not None:
            learner, starts = self.expander.learner, self.checker.starts
            self.checkpoint = TablesCheckpoint(folder, protocol, options, learner, starts)
        file = None if self.checkpoint is None else self.checkpoint.states
        self.levels = Levels(self.memory.budget.rows, file, folder)
        self._size = Size(self.expander.learner)
        self._least = LeastStates(self.expander, self.levels, batch)
        self._paths = LevelPaths(self.expander, self.levels, self.checker, self._least, options)
        if self.checker.python is not None:
            self.checker.python.least = self._least_to
            for worker in self.expander.pool if self.checker.python.checks_pruned else ():
                worker.watch()
        self._interruption = Interruption()
        self._position = 0  # how many states of the last level but one are expanded into the last
        self._between = False  # whether nothing is half done: the search stands between two batches
        self._asked_for = FLAT_FROM  # states from which it is asked again how they are best laid out
        self._clusters_from = CLUSTERS_FROM  # the same of the columns that are packed together
        self._early: list[Rows] = []  # new states that wait to be taken, while more is learned
        self._over = False  # whether a state was found that ends the search, once what is under way is at its end

    def run(self) -> Result:
        """Search, and return what was found."""
        try:
            with self._interruption:
                return self.checker.result_of(self._search_and_settle)
        finally:
            self.close()

    def close(self) -> None:
        """Close every file."""
        self.visited.close()
        self.levels.close()
        if self.checkpoint is not None:
            self.checkpoint.close()

    def _search_and_settle(self) -> None:
        """Search until the end, and write the last checkpoint."""
        try:
            self._search()
        except Stop:
            self._settle_up()
            raise
        except KeyboardInterrupt:
            self.books.note_limit(INTERRUPTED)
            if self._between:
                self._settle_up()
            raise
        except RaisedError as error:
            raise self.checker.traced_in_level(error, self.levels, self._position, self._trace_to) from None
        else:
            self._settle_up()
        finally:
            self.books.result.depth = sum(1 for count in self.levels.counts if count)
            if self._least.gave_up:
                self.books.result.notes.append(ANOTHER)

    def _settle_up(self) -> None:
        """Bring what is under way to its end."""
        self._take(self.visited.settle())
        if self.checkpoint is not None:
            if self._between:
                self.checkpoint.save(self._snapshot(), finished=self.books.result.limit is None)
            elif self.books.result.limit is None:
                self.checkpoint.finish()

    def _search(self) -> None:
        """Search level by level."""
        if self.options.resume is None:
            self._start()
        else:
            self._resume()
        levels = self.levels
        while True:
            while self._position < levels.count(levels.depth - 1):
                self._expand_batch()
                self._pause()
            self._settle()
            if not levels.count(levels.depth):
                break
            self.books.result.depth = levels.depth
            if self.options.max_depth is not None and levels.depth >= self.options.max_depth:
                self._between = True
                self.books.stop_at("max_depth")
            levels.begin()
            self._position = 0
        self._between = True
        if self.options.over_behaviours:
            if self.checkpoint is not None:
                self.checkpoint.save(self._snapshot())
            self._follow_behaviours()

    def _start(self) -> None:
        found = self.expander.load(self.checker.starting_rows())
        self.levels.begin()
        for rows in self.visited.add(found):
            self.levels.append(rows)
        self.checker.check_starts()
        if self.checkpoint is not None:
            self.checkpoint.save(self._snapshot())
        self.checker.stop_at_max_states()

    # One batch

    def _expand_batch(self) -> None:
        """Expand a piece of the last level but one."""
        expander, workers = self.expander, self.expander.workers
        batch = self.memory.budget.batch(self.batch, expander.width, workers, is_flat=expander.is_flat)
        size = min(workers * batch, self.checker.batch_size(BATCH * max(1, workers // 2)))
        rows = self.levels.read(self.levels.depth - 1, self._position, size)
        count, which = len(rows), self.expander.order_of(rows)
        while len(which):
            rows, which = expander.expand(rows, which, self._add_early)
            pruned, events = [worker.take_pruned() for worker in expander.pool], expander.events()
            early, self._early = self._early, []
            self._take(chain(early, self.visited.add(expander.found())))
            if expander.is_outgrown:
                rows = expander.unflattened(rows)
                pruned = [np.hstack((one[:, :1], expander.unflattened(one[:, 1:]))) for one in pruned if len(one)]
                self._lay_out(flat=False)
                events = self._least.events_out_of(rows, self.books.violated)
            self._note(events, partial(self._trace_to, rows))
            for found in pruned:
                if len(found) and self.checker.python is not None:
                    self.checker.python.check_ruled_out(found, partial(self._trace_to, rows))
            self._stop_if_over()
        self._position += count

    def _add_early(self, found: Found) -> None:
        """Take what was found by now, and write what was taken before, while more is learned."""
        self._early += self.visited.add_early(found)
        self.levels.flush_early()

    def _note(self, events: list[Event], trace_to: Callable[[int], Behaviour]) -> None:
        """Note what is violated out of the states of a level: of the least one, and of others where it goes on."""
        level = self.levels.depth - 1
        while events:
            self.books.tally()
            self._least.allow(self.books.result.seconds)
            row = self._least.of_level(level, lambda found: self._least.showing(found, self.books.violated))
            if row is None:
                if self._least.gave_up:
                    self.checker.take(events, trace_to)
                break
            trace = self._paths.to_orbit(row, level) or self._paths.to_row(row, level)
            for kind, mask in self._least.events_of(row, self.books.violated):
                self.checker.note(kind, mask, trace)

    def _least_to(self, name: str) -> Behaviour | None:
        """Return the behaviour through the least state with a step that breaks a property; None without the time."""
        self.books.tally()
        self._least.allow(self.books.result.seconds)
        semantics, decode, level = self.checker.semantics, self.expander.learner.decode_state, self.levels.depth - 1
        (prop,) = (one for one in self.options.properties if one.name == name)

        def breaking(state: State) -> list[Transition]:
            try:
                return [taken for taken in semantics.transitions(state) if not semantics.holds(prop, taken.target)]
            except RaisedError:  # the search comes to it by itself
                return []

        row = self._least.of_level(level, lambda rows: self._least.first(rows, lambda one: bool(breaking(decode(one)))))
        for path in () if row is None else (self._paths.to_orbit, self._paths.to_row):
            trace = path(row, level)
            steps = breaking(trace[-1].state) if trace else []
            if trace and steps:
                return (*trace, step_of(least(steps)))
        return None

    def _take(self, found: Iterable[Rows]) -> None:
        """Take new states into the level that is being built, after checking what Python must check."""
        python, depth = self.checker.python, self.levels.depth
        if python is not None:  # a counterexample is looked for with the same buffers
            found = [rows.copy() for rows in found]
        elif self.expander.is_flat:
            found = list(found)
        for rows in found:
            kept = rows
            if python is not None and not self._over:
                try:
                    kept = rows[python.admit(rows, lambda row: self._paths.to(row, depth))]
                except Stop:
                    self._over = True
            self.levels.append(kept)
        judged = self.expander.is_flat and (self.options.keep_going or not self.books.violated)
        for rows in found if judged else ():
            self._note(self.expander.judge(rows), partial(self._trace_before, rows))

    def _settle(self) -> None:
        self._take(self.visited.settle())
        self._stop_if_over()

    def _stop_if_over(self) -> None:
        if self._over:
            raise Stop

    def _pause(self) -> None:
        """Do what is to be done between two batches."""
        levels = self.levels
        if self.checker.has_max_states():
            self._settle()
        self._between = True
        self.checker.stop_at_max_states()
        self._divide_memory()
        states, python = self.visited.count, self.checker.python
        if states >= self._asked_for and are_better_flat(self.options, self.expander, python, self.visited):
            self._asked_for = 2 * states
            self._lay_out(flat=True)
        elif self.expander.is_flat and not self.expander.is_outgrown and states >= self._clusters_from:
            self._clusters_from = 4 * states
            fields = better_fields(self.expander, self.visited, self.levels)
            if fields is not None:
                self._load_anew(partial(self.expander.pack_together, fields))
        left = levels.count(levels.depth - 1) - self._position
        self._look_around(left + levels.count(levels.depth) + self.visited.pending)
        self._between = False
        if self.checkpoint is not None and self.checkpoint.is_due():
            self._settle()
            self.checkpoint.save(self._snapshot())

    def _divide_memory(self) -> None:
        """Leave to the states what is learned does not take; end the search where that alone takes too much."""
        memory, kinds = self.memory, self._size.kinds()
        learned = sum(one.nbytes for one in kinds)
        if learned > memory.most_learned:
            self.books.result.notes.append(self._size.excess(kinds, memory.most_learned))
            self.books.stop_at(MEMORY)
        if memory.divide(learned):
            self.visited.allow(memory.budget)
            self.levels.budget = memory.budget.rows
            self.expander.give_back()

    def _look_around(self, frontier: int) -> None:
        """Report, and end the search at the time limit or where the user asks for it."""
        self.books.look_at_the_clock(frontier)
        if self._interruption.asked:
            raise KeyboardInterrupt

    # How states are laid out

    def _lay_out(self, *, flat: bool) -> None:
        """Make all states flat, or give them control rows again."""
        expander = self.expander
        self._take(self.visited.settle())
        self.levels.rewrite(expander.flattened if flat else expander.unflattened, self.batch)
        self._load_anew(partial(expander.lay_out, flat=flat))
        self._least.forget()
        self._clusters_from = max(CLUSTERS_FROM, self.visited.count)

    def _load_anew(self, change: Callable[[], None]) -> None:
        """Change how states are packed; the levels are as they shall be."""
        expander = self.expander
        change()
        self.visited.empty(expander.packing, sum(self.levels.counts))
        for level in range(1, self.levels.depth + 1):
            for rows in self.levels.chunks(level, self.batch):
                self.visited.restore(expander.load(rows))
        self.visited.restored()

    # What follows for ever

    def _follow_behaviours(self) -> None:
        """Check what should stay reachable, and temporal properties, once every state is visited."""
        self.expander.fit_packing()
        taken = sum(one.nbytes for one in self._size.kinds()) + self.levels.nbytes + self.visited.in_memory.nbytes
        room = Room(max(self.memory.total - taken, 0), folder_of(self.options))
        visited = self.visited.hand_over(self.expander.packing, room.array)
        try:
            pause = partial(self._look_around, 0)
            self._check_behaviours(StateGraph(self.expander, visited, self.levels, room, pause, self._paths.to))
        finally:
            if room.on_disk:
                self.books.result.notes.append(f"{text_of_size(room.on_disk)} of the state graph went to disk")

    def _check_behaviours(self, graph: StateGraph) -> None:
        books, semantics, learner = self.books, self.checker.semantics, self.expander.learner
        goals = Goals(semantics, self.options, learner.most_spent)
        for prop in self.options.reachable:
            found = without_way_out(graph, prop, goals)
            books.followed.add(prop.name)
            books.result.notes += note_of(prop, graph.count)
            if len(found):
                level, row = graph.level_of(int(found[0]))
                books.violation(prop.name, self._paths.to(row, level), Trap(len(found), graph.count))
        if self.options.temporal:
            books.tally()
            strict, decode = strict_bounds(semantics.protocol, self.options), learner.decode_state
            with_labels = labelled(graph, goals, books.result.notes, books.result.generated_states, strict)
            graph.forget_where_steps_lead()
            check_temporal(with_labels, semantics, self.options, books, lambda n: decode(graph.level_of(n)[1]))

    # Checkpoints

    def _snapshot(self) -> Snapshot:
        """Return the search as it stands, without candidates."""
        self.books.tally()
        self.levels.flush()
        result = self.books.result
        kept = [one for one in result.violations if not one.is_of_behaviours() and one.failed is None]  # found anew
        return Snapshot(self.levels.extents, self._position, result.actions, result.seconds, kept)

    def _resume(self) -> None:
        """Go on from a checkpoint; the visited set is made anew from the levels."""
        assert self.checkpoint is not None
        snapshot = self.checkpoint.restore()
        self.levels.restore(snapshot.levels)
        self._position = snapshot.position
        self.books.restore(snapshot.violations, snapshot.seconds)
        self.books.result.depth = max(self.levels.depth - 1, 1)
        self.expander.fit_packing()
        self.visited.reserve(sum(self.levels.counts), self.expander.packing)
        again = CheckpointValidator(self.expander, self.levels, snapshot, self.checker.python)
        with self.checkpoint.judging():
            for level in range(1, self.levels.depth + 1):
                for rows in self.levels.chunks(level, self.batch):
                    again.require_known_parts(rows)
                    self.visited.restore(self.expander.load(rows))
                    self._look_around(0)
            self.visited.restored()
            again.require_same(self.checker.starting_rows(), self.visited)
        self.checker.restored = self.checker.distinct
        self.expander.restart(self.books.violated)
        self.expander.note_fired(np.array([snapshot.actions[name] for name in self.expander.learner.action_names]))

    # Behaviours

    def _trace_to(self, rows: Rows, index: int) -> Behaviour:
        """Return a shortest behaviour to a state that is being expanded."""
        return self._paths.to(rows[index], self.levels.depth - 1)

    def _trace_before(self, rows: Rows, index: int) -> Behaviour:
        """Return a shortest behaviour to the state before one that is new."""
        return self._paths.to(rows[index], self.levels.depth)[:-1]


def search(protocol: Protocol, options: Options) -> Result:
    """Search breadth first, by default with a thread for every processor."""
    options, notes = without_symmetry(options)
    found = BreadthFirst(protocol, options, options.workers or default_workers()).run()
    found.notes += notes
    return found
