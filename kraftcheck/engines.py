"""The registry of search engines and their options."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from inspect import unwrap
from math import exp2, factorial, inf, log, prod
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from kraftcheck.explorer.request import CAPABILITIES, OPTIONS, Progress, SearchRequest, lacking_features_with_texts
from kraftcheck.explorer.result import SEARCH_CLOCK, Interrupted, Result, Verdict
from kraftcheck.explorer.tables import search_orders
from kraftcheck.processes import EndlessCallWatchdog
from kraftcheck.spec.errors import InputError, NoBytecodeError, RaisedError, unknown_name_message
from kraftcheck.spec.language.semantics import Semantics, initial_states, methods_by_init_name
from kraftcheck.spec.language.state import State
from kraftcheck.spec.language.views import HiddenReadError

if TYPE_CHECKING:
    from kraftcheck.spec.language.protocol import Protocol

ERROR_PATH_SECONDS = 60.0
"""Time limit of the table engine's search for the path to an error that another engine met."""

TRIAL_SECONDS = 3.0
"""Time limit of the reference engine's trial before the kernel is compiled."""

SMALL_SEARCH_STATES, SMALL_SEARCH_SECONDS = 500, 0.06
"""Limits of the reference engine's trial before Numba is imported; the second one is of processor time."""

BYTECODE_TRIAL_STATES, GROWING_SEARCH_STATES = 1 << 14, 1 << 10
"""Number of states that the bytecode engine searches before the table engine learns.

From the second number on it gives up while half of the states wait to be expanded: then there are many more.
"""

BYTECODE_TRIAL_SECONDS, BYTECODE_SECONDS_FOR_INITIAL_STATE = 1.5, 1e-4
"""Processor time that the bytecode engine has for its trial, and more for each initial state.

It executes expensive handlers again in each state.
"""

CALL_SECONDS, STEP_SECONDS, LEAST_MEASURED_SECONDS = 1e-4, 2e-5, 2.0
"""Seconds that a call of the table engine and a step of the bytecode engine take, and seconds before its speed counts.
Where its steps take longer than this and those calls, handlers are expensive, and the table engine begins again."""

LEAST_BYTECODE_STATES = 1 << 15
"""Number of states from which it pays to compile the bytecode engine first."""
ENGINE_CALL_THRESHOLDS = {"bytecode": ((1 << 10, 0.2), (1 << 12, 0.05)), "reference": ((1 << 11, 1.0),)}
"""Calls for each step from which another engine takes less time, by the number of states from which they count."""
MOST_BYTECODE_BYTES = 8 << 30
"""Memory that is enough for the bytecode engine. It gives up at 2 GiB of words, and copies them while they grow."""
TABLE_CALL_COST = 4
"""Calls of the reference engine, or its steps, that take half as long as a call of the table engine.

Only half, since the table engine's calls become rarer in most searches, and the reference engine's do not.
"""
OPTIONS_OF_TABLES_UNSET: dict[str, Any] = {
    "workers": None, "memory": None, "checkpoint": None, "resume": None,
    "checkpoint_every": SearchRequest.checkpoint_every,
}  # fmt: skip
"""Options of the table engine that other engines lack, with the values that they have where they are not given."""
FIRST_SAMPLE_STATES = 1 << 6
"""Number of states from which calls are counted, at each doubling."""
FALLING_CALLS_RATIO, LONG_SEARCH_STATES = 0.75, 1 << 19
"""The part of the calls for each step that remains after a doubling of the states where the table engine is learning.
Then it is faster than the bytecode engine where calls will be rare, but only beyond the second number of states."""


STEADY_CALLS_RATIO, LEAST_FALLING_STATES = 0.9, 1 << 13
"""The part of the calls for each step that remains after a doubling where they hardly become rarer. Where they do, the
reference engine begins from the second number of states on."""


class Engine(NamedTuple):
    """A search engine."""

    target: str  # `module:function` with `(Protocol, SearchRequest) -> Result`, imported on use
    searches: tuple[str, ...]  # the search orders; the first is the default
    options: tuple[str, ...] = ()  # options of the command line that not every engine has

    @property
    def words(self) -> set[str]:
        """The engine's own options and its search orders, as on the command line."""
        return {*self.options, *(f"--search {order}" for order in self.searches)}

    @property
    def run(self) -> Callable[[Protocol, SearchRequest], Result]:
        """The function that runs a search with this engine."""
        module, _, name = self.target.partition(":")
        function: Callable[[Protocol, SearchRequest], Result] = getattr(import_module(module), name)
        return function


def _make_engine(name: str, *more: str) -> Engine:
    searches = search_orders() if name == "tables" else tuple(CAPABILITIES[name])
    own = (option.word for option in OPTIONS.values() if option.engines and name in option.engines)
    module = "reference" if name == "reference" else f"{name}.engine"
    return Engine(f"kraftcheck.explorer.{module}:explore", searches, (*own, *more))


ENGINES = {
    "tables": _make_engine("tables"),
    "reference": _make_engine("reference", "--graph"),
    "symbolic": _make_engine("symbolic"),
    "spark": _make_engine("spark"),
    "bytecode": _make_engine("bytecode"),
}
"""Engines by name, in order of preference."""


def choose_engine(name: str | None, search: str, options: Iterable[str] = ()) -> str:
    """Return the named engine, or the first that supports a search order and options. Raise InputError if none does."""
    if name is not None and name not in ENGINES:
        raise InputError(unknown_name_message("engine", name, ENGINES))
    wanted = (f"--search {search}", *options)
    able = {option: [known for known, engine in ENGINES.items() if option in engine.words] for option in wanted}
    fitting = [known for known in ENGINES if all(known in those for those in able.values())]
    if fitting and name in (None, *fitting):
        return name or fitting[0]
    raise InputError(_refusal_message(name, able))


def _refusal_message(name: str | None, able: dict[str, list[str]]) -> str:
    for option, those in able.items():
        if not those:
            return f"{option}: no engine supports it; engines are {', '.join(ENGINES)}"
        if name is not None and name not in those:
            return f"{option}: not supported by the engine {name}; use --engine {' or '.join(sorted(those))}"
    return f"{', '.join(able)}: no engine supports all of them together; leave one out"


def search_order_names() -> list[str]:
    """Return the names of all engines' search orders."""
    return sorted({name for engine in ENGINES.values() for name in engine.searches})


def engine_specific_options_of_request(options: SearchRequest) -> list[str]:
    """Return the options set in a request that only some engines support, as words of the command line."""
    asked = ((name, option) for name, option in OPTIONS.items() if option.engines)
    return [option.word for name, option in asked if getattr(options, name) != getattr(SearchRequest, name)]


def search(
    engine: str,
    protocol: Protocol,
    options: SearchRequest,
    *,
    is_named: bool = True,
    compiles: Callable[[], object] | None = None,
) -> Result:
    """Run a search; the result names its engine.

    If the user named no engine, the reference engine tries first, with the same counts. Some hundred states take it
    less time than the import of Numba. The first use of the table engine on a machine compiles its kernel, for about
    ten seconds. Before that the reference engine tries for some seconds. Then the bytecode engine tries, for some
    thousand states.
    """
    run = _search_with_engine if engine != "tables" or is_named else _search_with_trials
    return run_within_time_limit(protocol, options, partial(run, engine, protocol, options, compiles))


def run_within_time_limit(protocol: Protocol, options: SearchRequest, run: Callable[[], Result]) -> Result:
    """Run a search, and end a call of the model's code that goes on after the time limit."""
    limit, began = options.time_limit, SEARCH_CLOCK.now()
    calls = EndlessCallWatchdog(
        limit, partial(_protocol_source_files, protocol), lambda: SEARCH_CLOCK.now() - began > (limit or 0)
    )
    try:
        with calls:
            return run()
    except KeyboardInterrupt as end:
        if calls.note is None:
            raise
        found = end.result if isinstance(end, Interrupted) else Result(Verdict.INCOMPLETE, complete=False)
        return replace(found, limit="time_limit", notes=[*found.notes, calls.note])


def _protocol_source_files(protocol: Protocol) -> frozenset[str]:
    """Return the files with the actions and properties of a protocol, and with its initial states."""
    owners = {name: getattr(protocol, method) for name, method in methods_by_init_name(protocol).items()}
    handlers: list[Any] = [*protocol.actions.values(), *protocol.properties.values()]
    functions = [*(one.function for one in handlers), *owners.values()]
    codes = [getattr(unwrap(function), "__code__", None) for function in functions]
    return frozenset(code.co_filename for code in codes if code is not None)


def _search_with_trials(
    engine: str, protocol: Protocol, options: SearchRequest, compiles: Callable[[], object] | None
) -> Result:
    protocol.kept_initial = {}  # there may be many, which each engine would make and check again
    try:
        tried = _try_reference(protocol, options) or _try_bytecode(protocol, options)
        return tried or _search_and_choose_engine(protocol, options, compiles)
    finally:
        protocol.kept_initial = None


def _search_with_engine(
    engine: str,
    protocol: Protocol,
    options: SearchRequest,
    compiles: Callable[[], object] | None,
    watched: SearchRequest | None = None,
) -> Result:
    run = partial(_run_engine, engine, protocol, watched or options)
    try:
        return replace(run() if engine == "reference" else run_with_compile_timing(run, compiles), engine=engine)
    except HiddenReadError:
        found = (
            _search_by_reference_in_tlc_order(protocol, options)
            if engine == "tables" and options.search == "bfs"
            else None
        )
        if found is None:
            raise
        return found


def _search_and_choose_engine(
    protocol: Protocol, options: SearchRequest, compiles: Callable[[], object] | None
) -> Result:
    """Return the table engine's result, or another engine's if the inputs of handlers hardly repeat."""
    choice = EngineChooser(protocol, options)
    while True:
        try:
            if choice.engine == "reference":
                found = _search_by_reference_if_supported(protocol, choice.watched(), whole_levels=True)
                assert found is not None, "only engines that support the search are chosen"
            else:
                found = _search_with_engine(choice.engine, protocol, options, compiles, choice.watched())
            choice.finish(found)
            return found
        except NoBytecodeError as error:
            choice.problem = f"; {str(error).partition('; expected')[0]}"
        except EngineChangeSignal:
            pass
        choice.change()
        gc.collect()  # frees the tables


class EngineChangeSignal(Exception):  # noqa: N818 - a way out of a search, not an error
    """Raised to end a search that another engine does in less time."""


class EngineChooser:
    """The choice of an engine by how often the table engine calls handlers in Python.

    The other engines write no checkpoints. With `--checkpoint` they must end before the next one is due, and within
    half of the time limit. Else the table engine goes on from its own checkpoint.
    """

    def __init__(self, protocol: Protocol, options: SearchRequest) -> None:
        self._protocol, self._options, self._began = protocol, options, time.monotonic()
        others = [one for one in ENGINE_CALL_THRESHOLDS if _engine_supports(protocol, self._alone(one), one)]
        self._others = others if options.resume is None or _holds_finished_search(options.resume) else []
        self.engine, self._following, self._most, self._until = "tables", "tables", inf, inf
        self._left = inf  # calls for each step where the table engine gave up
        self._spent = [("tables", 0.0)]  # the engines in turn, with the seconds of each
        self._note: Callable[[str, str], str] = lambda engine, problem: ""
        self.problem = ""  # why another engine is not chosen
        self._restart()

    @cached_property
    def _starts(self) -> list[State]:
        return initial_states(Semantics(self._protocol), self._options.init)

    @cached_property
    def _handlers(self) -> int:
        """The number of calls that the reference engine makes in a state, if each replica has one message of a type."""
        kinds = [action.kind for action in self._protocol.actions.values()]
        return sum(1 if kind == "environment" else len(self._starts[0].replicas) for kind in kinds)

    @cached_property
    def _permutations(self) -> int:
        """The number of images of each state that the reference engine makes for the SYMMETRY."""
        sets = self._protocol.symmetry_sets(self._options.symmetry) if self._options.symmetry else ()
        return prod(factorial(len(values)) for values in sets)

    def _restart(self) -> None:
        self._last, self._last_size, self._calls = Progress(0, len(self._starts), 0, 0, 0.0), 0, (inf, inf)

    def watched(self) -> SearchRequest:
        """Return the request with a report that raises `EngineChangeSignal`, if there is another engine."""
        return replace(self.rest(), report=self._see) if self._others else self.rest()

    def finish(self, found: Result) -> None:
        """Add notes and seconds to a result; mark the checkpoint as finished if another engine has ended the search."""
        found.notes += self.notes
        found.seconds += sum(seconds for _, seconds in self._spent[:-1])
        if self.engine != "tables" and self._has_checkpoint and found.limit is None:
            _engine_module("tables").mark_checkpoint_finished(self._protocol, self._options)

    @property
    def notes(self) -> list[str]:
        """The note that another engine searches."""
        return [] if self._following == "tables" else [self._note(self._following, self.problem)]

    @property
    def _has_checkpoint(self) -> bool:
        return self._options.checkpoint is not None or self._options.resume is not None

    def rest(self) -> SearchRequest:
        """Return the request, without the time that the search has taken."""
        limit, spent = self._options.time_limit, time.monotonic() - self._began
        asked = self._options if self.engine == "tables" else self._alone(self.engine)
        return replace(asked, time_limit=None if limit is None else max(0.001, limit - spent))

    def _alone(self, engine: str) -> SearchRequest:
        """Return the request without threads and checkpoints, and without a limit of memory that cannot be reached."""
        memory = self._options.memory
        is_met = engine == "bytecode" and memory is not None and memory >= MOST_BYTECODE_BYTES
        return replace(self._options, **OPTIONS_OF_TABLES_UNSET | ({} if is_met else {"memory": memory}))

    def change(self) -> None:
        """Change over to the next engine; after another one this is the table engine, unless a third one is better."""
        if self._following == self.engine:
            self._following = "tables"
        if self.engine == "tables":
            self._leave_tables()
        elif self._following == "tables":
            self._return_to_tables()
        self.engine = self._following
        self._spent.append((self.engine, 0.0))
        self._restart()

    def _leave_tables(self) -> None:
        if self._has_checkpoint:
            from kraftcheck.explorer.checkpoint import request_resuming_if_saved

            self._until = time.monotonic() + min(self._options.checkpoint_every, (self.rest().time_limit or inf) / 2)
            self._options = request_resuming_if_saved(self._options)

    def _return_to_tables(self) -> None:
        self._others = [one for one in self._others if one != self.engine and time.monotonic() <= self._until]
        if self._options.resume is not None:  # the checkpoint holds the seconds of the tables
            self._spent = [one for one in self._spent if one[0] != "tables"]

    def _see(self, progress: Progress) -> None:
        self._spent[-1] = self.engine, progress.seconds
        if self._options.report is not None:
            self._options.report(progress)
        if self.engine == "tables":
            self._count_calls(progress)
            return
        if progress.distinct_states > self._most:
            self._others = []  # calls are rare now, so the tables are faster than every other engine
            raise EngineChangeSignal
        if time.monotonic() > self._until or self._is_slower(progress):
            raise EngineChangeSignal
        if self.engine == "reference" and self._is_translatable(progress.distinct_states):
            self._follow("bytecode")

    def _is_slower(self, progress: Progress) -> bool:
        """Return whether the bytecode engine takes longer for a step than the table engine would for its calls."""
        seconds = progress.seconds - LEAST_MEASURED_SECONDS
        usual = max(STEP_SECONDS, CALL_SECONDS * self._left) * progress.generated_states
        return self.engine == "bytecode" and seconds > usual

    def _count_calls(self, progress: Progress) -> None:
        """Choose another engine by the calls since the number of states was half as large.

        Initial states count as steps are taken, since there may be many.
        """
        size, last = min(progress.distinct_states, progress.generated_states - len(self._starts)), self._last
        if size < max(FIRST_SAMPLE_STATES, 2 * self._last_size):
            return
        calls, before = _calls_per_step_between_samples(last, progress), min(self._calls)  # levels may differ by turns
        for engine in [*self._others]:
            if self._is_faster(engine, size, last, progress):
                steps, workers = progress.generated_states - len(self._starts), self._options.workers or 1
                self._note, self._left = partial(_engine_change_note, progress, steps, workers), calls
                self._most = _states_until_calls_are_rare(engine, size, before, calls)
                self._follow(engine)
        self._last, self._last_size, self._calls = progress, size, (self._calls[1], calls)

    def _follow(self, engine: str) -> NoReturn:
        self._following = engine
        raise EngineChangeSignal

    def _is_faster(self, engine: str, size: int, before: Progress, progress: Progress) -> bool:
        """Return whether another engine takes less time, by the calls since a sample."""
        least = [number for first, number in ENGINE_CALL_THRESHOLDS[engine] if size >= first]
        calls = _calls_per_step_between_samples(before, progress)
        is_often = bool(least) and calls >= least[-1]
        if engine != "reference":
            return is_often and self._is_translatable(size)
        is_falling = size < LEAST_FALLING_STATES and calls < STEADY_CALLS_RATIO * self._calls[1]
        is_often &= self._permutations == 1
        return bool(least) and not is_falling and (is_often or self._calls_take_longer(before, progress))

    def _calls_take_longer(self, before: Progress, progress: Progress) -> bool:
        """Return whether the table engine's calls take longer than all calls and steps of the reference engine."""
        states = progress.distinct_states - before.distinct_states
        steps = progress.generated_states - before.generated_states
        calls = progress.calls.total() - before.calls.total()
        return TABLE_CALL_COST * calls > states * (2 + self._handlers) + steps * self._permutations

    def _is_translatable(self, states: int) -> bool:
        """Return whether the bytecode engine supports the protocol; it is not asked again if not."""
        if "bytecode" not in self._others:
            return False
        if states < LEAST_BYTECODE_STATES and not _engine_module("bytecode").is_interpreter_compiled():
            return False
        problem = _engine_module("bytecode").untranslatable_reason(self._protocol, self._alone("bytecode"))
        if problem is not None:
            self._others.remove("bytecode")
            self.problem = f"; {problem}"
        return problem is None


def _states_until_calls_are_rare(engine: str, states: int, before: float, calls: float) -> float:
    """Return the number of states beyond which the table engine is faster, infinite if calls hardly become rarer.

    At each doubling of the states, the calls for each step are taken to fall again as they did at the last one.
    """
    if calls >= FALLING_CALLS_RATIO * before:
        return inf
    rare = ENGINE_CALL_THRESHOLDS[engine][-1][1]
    doublings = log(rare / calls) / log(calls / before) if before < inf else 0.0
    return max(LONG_SEARCH_STATES, states * exp2(doublings))


def _holds_finished_search(folder: Any) -> bool:
    from kraftcheck.explorer.checkpoint import holds_finished_search  # few searches have a checkpoint

    return holds_finished_search(folder)


def _engine_change_note(progress: Progress, steps: int, workers: int, engine: str, problem: str) -> str:
    calls = progress.calls
    most = sorted(name for name, times in calls.items() if 2 * times > max(calls.values()))
    return (
        f"the inputs of {', '.join(most)} hardly repeat ({calls.total():,} calls for {steps:,} steps): "
        f"the {engine} engine searched{' in one thread' * (workers > 1)}{problem}; see docs/fast.md"
    )


def _calls_per_step_between_samples(before: Progress, after: Progress) -> float:
    """Return the number of calls for each step between two samples."""
    calls = after.calls.total() - before.calls.total()
    return calls / max(1, after.generated_states - before.generated_states)


def _try_reference(protocol: Protocol, options: SearchRequest) -> Result | None:
    """Return the reference engine's result: of a small search, before the compiler has run, or where a VIEW renames."""
    if protocol.renames(options.view) is not None:
        note = f"VIEW {options.view} renames states: the reference engine searched"
        return _search_by_reference_if_supported(protocol, options, note, whole_levels=True)
    tried = _small_search_by_reference(protocol, options) if "numba" not in sys.modules else None
    return _search_by_reference_in_time(protocol, options) if tried is None and not _are_kernels_compiled() else tried


class _TooLarge(Exception):  # noqa: N818 - a way out of a trial, not an error
    """Raised to end the reference engine's trial of a search that is not small."""


def _small_search_by_reference(protocol: Protocol, options: SearchRequest) -> Result | None:
    """Return the reference engine's result of a small complete search without a violation, else None."""
    run = partial(_search_by_reference_if_supported, protocol)
    return _result_if_small_and_without_violation(run, options, SMALL_SEARCH_STATES, SMALL_SEARCH_SECONDS)


def _try_bytecode(protocol: Protocol, options: SearchRequest) -> Result | None:
    """Return the bytecode engine's result of a complete search of some thousand states without a violation."""
    if not _engine_supports(protocol, options, "bytecode") or not _engine_module("bytecode").is_interpreter_compiled():
        return None
    starts = len(initial_states(Semantics(protocol), options.init))
    if (
        starts > BYTECODE_TRIAL_STATES
        and _engine_module("bytecode").untranslatable_reason(protocol, options) is not None
    ):
        return None  # the search itself finds this after the encoding of all initial states
    seconds = BYTECODE_TRIAL_SECONDS + BYTECODE_SECONDS_FOR_INITIAL_STATE * starts
    return _result_if_small_and_without_violation(
        lambda request: _search_with_engine("bytecode", protocol, request, None),
        options,
        max(BYTECODE_TRIAL_STATES, 4 * starts),
        seconds,
        max(GROWING_SEARCH_STATES, 2 * starts),
    )


def _engine_module(name: str) -> Any:
    return import_module(ENGINES[name].target.partition(":")[0])


def _result_if_small_and_without_violation(
    run: Callable[[SearchRequest], Result | None],
    options: SearchRequest,
    most: int,
    seconds: float,
    growing_from: int = GROWING_SEARCH_STATES,
) -> Result | None:
    """Return the result of a search without a violation, unless it has too many states or takes too long.

    `seconds` are of processor time from the first report on: the next engine uses the initial states too.
    """
    until = inf

    def stop_late(progress: Progress) -> None:
        nonlocal until
        until = min(until, time.process_time() + seconds)
        states = progress.distinct_states
        is_growing = states >= growing_from and 2 * progress.frontier > states
        if states > most or is_growing or time.process_time() > until:
            raise _TooLarge

    with suppress(_TooLarge, InputError):
        found = run(replace(options, report=stop_late))
        return found if found is not None and found.verdict is Verdict.OK else None
    return None


def _search_by_reference_in_time(protocol: Protocol, options: SearchRequest) -> Result | None:
    soon = replace(options, time_limit=min(TRIAL_SECONDS, options.time_limit or TRIAL_SECONDS))
    note = "the table engine is not compiled here yet: the reference engine searched"
    found = _search_by_reference_if_supported(protocol, soon, note, whole_levels=True)
    too_late = found is not None and found.limit == "time_limit" and soon.time_limit != options.time_limit
    return None if too_late else found


def _search_by_reference_in_tlc_order(protocol: Protocol, options: SearchRequest) -> Result | None:
    """Search with the reference engine in TLC's order, for a property that reads variables outside the VIEW."""
    note = "a property reads variables outside the VIEW: the reference engine searched, in TLC's order"
    return _search_by_reference_if_supported(
        protocol, replace(options, workers=None) if options.workers == 1 else options, note
    )


def _search_by_reference_if_supported(
    protocol: Protocol, options: SearchRequest, *notes: str, whole_levels: bool = False
) -> Result | None:
    """Return the reference engine's result with notes; None if the engine lacks one of the given options."""
    from kraftcheck.explorer.reference import explore

    if not _engine_supports(protocol, options):
        return None
    result = explore(protocol, options, whole_levels=whole_levels)
    result.notes += notes
    return replace(result, engine="reference")


def _engine_supports(protocol: Protocol, options: SearchRequest, engine: str = "reference") -> bool:
    """Return whether an engine supports a request's search order, options and features; one worker is no option."""
    has, one = ENGINES[engine], replace(options, workers=None if options.workers == 1 else options.workers)
    if options.search not in has.searches or not set(engine_specific_options_of_request(one)) <= set(has.options):
        return False
    return not any(lacking_features_with_texts(engine, protocol, options))


def _run_engine(engine: str, protocol: Protocol, options: SearchRequest) -> Result:
    try:
        return ENGINES[engine].run(protocol, options)
    except RaisedError as error:
        if error.trace is not None:
            raise
        return _search_error_path_with_other_engine(error, engine, protocol, options)


def run_with_compile_timing(run: Callable[[], Result], compiles: Callable[[], object] | None = None) -> Result:
    """Run a search that uses a kernel; its result has the compile time apart from the search time."""
    from kraftcheck.explorer.kernel_compilation import replace_unusable_cache_folder, timed_compilation

    problem = replace_unusable_cache_folder()
    with timed_compilation(compiles) as noting:
        result = run()
    warnings = [*result.warnings, *([problem] if problem and noting.seconds else [])]
    return replace(result, compile_seconds=noting.seconds, warnings=warnings)


def _are_kernels_compiled() -> bool:
    from kraftcheck.explorer.kernel_compilation import are_kernels_compiled

    return are_kernels_compiled()


def _search_error_path_with_other_engine(
    error: RaisedError, engine: str, protocol: Protocol, options: SearchRequest
) -> Result:
    """Return another engine's result for an error to which an engine has no path."""
    if engine == "tables":  # it evaluates projections and properties for values that no reachable state may have
        note = f"{error.name} raised an error, but not yet in a state that was reached: the reference engine searched"
        order = options.search if options.search in ENGINES["reference"].searches else ENGINES["reference"].searches[0]
        asked = replace(options, **OPTIONS_OF_TABLES_UNSET, search=order)
        found_by_reference = _search_by_reference_if_supported(protocol, asked, note)
        if found_by_reference is None:
            raise error
        return found_by_reference
    known = replace(options, **OPTIONS_OF_TABLES_UNSET, search="bfs", time_limit=ERROR_PATH_SECONDS, report=None)
    found = _run_engine("tables", protocol, replace(known, master=None, conf=()))
    if found.violations:
        again = f"the engine '{found.engine or 'tables'}' searched again"
        found.notes.append(f"{again} for the path to the error; counts refer to it")
        return found
    raise error
