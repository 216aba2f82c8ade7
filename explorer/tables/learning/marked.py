"""Steps that say of other replicas which fields they change, so that one outcome serves whatever else these hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any

from kraftcheck.explorer.tables.learning.filters import filtering
from kraftcheck.explorer.tables.learning.interner import Fields
from kraftcheck.explorer.tables.learning.reads import PeerReader, plain
from kraftcheck.explorer.tables.learning.recording import Recording
from kraftcheck.explorer.tables.learning.shared_sets import SharedSet
from kraftcheck.spec.language.declarations import Action
from kraftcheck.spec.language.state import Step
from kraftcheck.spec.values import Value, field_names


class MarkedStep(Step):
    """A step, all of it plain values."""

    # for each replica, by its id, of which some fields are changed only: these fields. `writes` has it too, as it
    # is after the step in the state that was looked at.
    changes: tuple[tuple[Value, Fields], ...] = ()
    # for each shared set that is changed only, by its field: what is added and removed. In `puts` is what is added.
    sets: tuple[tuple[str, frozenset[Value], frozenset[Value]], ...] = ()


def followed(action: Action, recording: Recording, *, marks: bool, filters: bool) -> Action:
    """Return an action whose steps have no stand-ins that a recording lent it."""
    copied, function_of = copy(action), filtering(action.function) if filters else action.function
    vars(copied)["asks"] = action.asks

    def function(*arguments: Any) -> Any:
        made = function_of(*arguments)
        return _settled(made, recording, marks) if isinstance(made, Iterable) else made

    vars(copied)["function"] = function
    return copied


def _settled(made: Iterable[Any], recording: Recording, marks: bool) -> Iterator[Any]:
    """Yield a handler's steps as they are without stand-ins.

    Steps that may turn out to be equal, depending on what else is in the replicas that they write, are not marked.
    """
    found = list(made)
    if not recording.lent or not all(isinstance(step, Step) for step in found):
        yield from found
        return
    steps, alike = [], defaultdict(set)
    for step in found:
        parts = {name: plain(getattr(step, name)) for name in field_names(Step) if name not in ("writes", "puts")}
        writes = tuple(one._key if _is_changed(one) else plain(one) for one in step.writes)
        puts = tuple((name, None if _is_set(name, value, recording) else plain(value)) for name, value in step.puts)
        rest = Step(**parts, writes=writes, puts=puts)
        steps.append((rest, step))
        alike[rest].add((_changes(step), _sets(step, recording)))
    for rest, step in steps:
        if not marks:
            yield rest.but(writes=plain(step.writes), puts=plain(step.puts))
            continue
        is_sure = len(alike[rest]) == 1
        known = {name: getattr(rest, name) for name in field_names(Step)}
        known["writes"] = tuple(one._unread() if is_sure and _is_changed(one) else plain(one) for one in step.writes)
        sets = _sets(step, recording, is_minimal=not is_sure)
        added = {name: added for name, added, _ in sets}
        known["puts"] = tuple((name, added.get(name, value)) for name, value in rest.puts)
        yield MarkedStep(**known, changes=_changes(step) if is_sure else (), sets=sets)


def _changes(step: Step) -> tuple[tuple[Value, Fields], ...]:
    return tuple((one._key, _fields(one)) for one in step.writes if _is_changed(one))


def _is_set(name: str, value: Any, recording: Recording) -> bool:
    """Whether a shared field gets its own set, with changes."""
    read = recording.set_of(name)
    return type(value) is SharedSet and read is not None and value.is_of(read)


def _sets(step: Step, recording: Recording, *, is_minimal: bool = False) -> tuple[Any, ...]:
    found = [(name, value) for name, value in step.puts if _is_set(name, value, recording)]
    return tuple((name, *(value.minimal() if is_minimal else value).change) for name, value in found)


def _is_changed(replica: Any) -> bool:
    return type(replica) is PeerReader and "id" not in replica._changes


def _fields(replica: Any) -> Fields:
    return tuple((name, type(plain(value)), plain(value)) for name, value in sorted(replica._changes.items()))
