"""Expansion of states: it runs the handlers, applies their steps, and checks the properties of new states."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.bytecode.kernel.codes import (
    BEYOND,
    BOUNDS,
    CONSUMES,
    EMPTY,
    ENTRIES,
    ERROR,
    FALSE,
    FIELDS,
    GENERATED,
    HEAD,
    HEIGHT,
    ID,
    IS_LOGGING,
    KINDS,
    LEAF,
    LIMIT,
    LOGGED,
    LOW,
    MAP,
    ME,
    MOST_STATES,
    NEEDS,
    OF_ME,
    OF_MUTABLE,
    OF_PROJECTION,
    OF_RECORD,
    OF_SHARED,
    OF_STATE,
    PROJECTIONS,
    PROPERTIES,
    PUTS,
    REPLICAS,
    ROOM,
    SENDS,
    SHARED_KIND,
    SPENDS,
    STATE,
    STATE_KIND,
    STATES,
    STEP,
    STUCK,
    TOP,
    TRUE,
    UNSUPPORTED,
    WRITES,
    jit,
)
from kraftcheck.explorer.bytecode.kernel.heap import (
    allocate,
    fail,
    fits,
    item,
    keep,
    kind_of,
    same,
    size_of,
    unique,
)
from kraftcheck.explorer.bytecode.kernel.interpreter import collect, push, run

INPUTS = 7  # column of `Machine.inputs`


@jit
def passes(m: Any, test: Any, value: Any) -> Any:
    """Return whether the kind of a value passes a test."""
    return m.tests[test * m.at[KINDS] + kind_of(m, value)] != 0


@jit
def columns(m: Any) -> Any:
    """Return the number of columns of a state."""
    return m.shape[REPLICAS] + m.shape[FIELDS] + m.shape[BOUNDS]


@jit
def given(m: Any) -> Any:
    """Return the number of values that are made of a state: its shared record, itself, and its projections."""
    return OF_PROJECTION - OF_SHARED + m.shape[PROJECTIONS]


@jit
def call(m: Any, function: Any, which: Any, side: Any, me: Any, peer: Any) -> Any:
    """Run a function with the parameters of an entry or a property, in the state of one side."""
    for place in range(m.parameters.shape[1]):
        source = m.parameters[which, place]
        if source < 0:
            break
        value = me if source == OF_ME else peer
        if source >= OF_SHARED:
            value = m.environment[side * given(m) + source - OF_SHARED]
        m.registers[place] = value
    return run(m, function)


@jit
def whole(m: Any, first: Any, shared: Any) -> Any:
    """Return the state in a row as a record."""
    mark, replicas, fields = m.at[HEIGHT], m.shape[REPLICAS], m.shape[FIELDS]
    for place in range(replicas):
        if m.row[first + place] != 0:
            push(m, m.columns[place])
            push(m, m.row[first + place])
    by_id = collect(m, MAP, mark)
    for place in range(m.shape[BOUNDS]):
        push(m, m.names[fields + place])
        push(m, m.row[first + replicas + fields + place])
    spent = collect(m, MAP, mark)
    inboxes = collect(m, MAP, mark)
    for value in (by_id, inboxes, shared, spent):
        push(m, value)
    return collect(m, m.shape[STATE_KIND], mark)


@jit
def prepare(m: Any, side: Any) -> Any:
    """Make the shared record and the projections of the state in the row of one side, and the state if it is needed."""
    first, replicas, fields = side * columns(m), m.shape[REPLICAS], m.shape[FIELDS]
    own = side * given(m)
    address = allocate(m, m.shape[SHARED_KIND], fields)
    if address == 0:
        return 0
    for place in range(fields):
        m.words[address + HEAD + place] = m.row[first + replicas + place]
    m.environment[own] = address << 1
    if m.shape[STATE_KIND] != 0:
        m.environment[own + OF_STATE - OF_SHARED] = whole(m, first, address << 1)
    for which in range(m.shape[PROJECTIONS]):
        mark = m.at[HEIGHT]
        for place in range(replicas):
            replica = m.row[first + place]
            if replica != 0 and passes(m, m.projections[which, 1], replica):
                m.registers[0] = replica
                found = run(m, m.projections[which, 0])
                if m.at[ERROR] != 0 or m.groups[kind_of(m, found)] >= OF_MUTABLE:
                    return fail(m, UNSUPPORTED)
                push(m, m.columns[place])
                push(m, found)
        m.environment[own + OF_PROJECTION - OF_SHARED + which] = collect(m, MAP, mark)
    return 0


@jit
def place_in(names: Any, first: Any, count: Any, value: Any) -> Any:
    """Return the place of a value in a part of an array; -1 if it is not there."""
    for place in range(count):
        if names[first + place] == value:
            return place
    return -1


@jit
def spend(m: Any, names: Any, uses: Any) -> Any:
    """Test that no bound of a tuple is exhausted in the target's row, and use each if wanted."""
    first = columns(m) + m.shape[REPLICAS] + m.shape[FIELDS]
    for place in range(size_of(m, names)):
        which = place_in(m.names, m.shape[FIELDS], m.shape[BOUNDS], item(m, names, place))
        if which < 0:
            fail(m, UNSUPPORTED)
            return False
        if m.row[first + which] >> 1 >= m.limits[which]:
            return False
        m.row[first + which] += 2 * uses
    return True


@jit
def write(m: Any, replica: Any, only: Any) -> Any:
    """Write a replica's next state to the target's row; return its place. With `only`, it must be that replica."""
    kind = kind_of(m, replica)
    which = np.int32(-1)
    if m.groups[kind] == OF_RECORD:
        which = m.offsets[m.shape[ID] * m.at[KINDS] + kind]
    if which < 0:
        return fail(m, UNSUPPORTED)
    kept = keep(m, replica)
    if m.at[ERROR] != 0:
        return 0
    place = place_in(m.columns, 0, m.shape[REPLICAS], item(m, kept, which))
    if place < 0 or (only >= 0 and place != only):
        return fail(m, UNSUPPORTED)
    m.row[columns(m) + place] = kept
    return place


@jit
def apply(m: Any, actor: Any, step: Any) -> Any:
    """Write the next state of a step to the target's row; return whether the step is enabled."""
    width = columns(m)
    for place in range(width):
        m.row[width + place] = m.row[place]
    if item(m, step, CONSUMES) != FALSE or item(m, step, SENDS) != EMPTY:
        fail(m, UNSUPPORTED)
    if not spend(m, item(m, step, NEEDS), 0) or not spend(m, item(m, step, SPENDS), 1) or m.at[ERROR] != 0:
        return False
    me, writes, puts = item(m, step, ME), item(m, step, WRITES), item(m, step, PUTS)
    if me != EMPTY:
        if actor < 0 or kind_of(m, me) != kind_of(m, m.row[actor]):
            fail(m, UNSUPPORTED)
            return False
        write(m, me, actor)
    for one in range(size_of(m, writes)):
        place = write(m, item(m, writes, one), -1)
        is_repeated = me != EMPTY and place == actor
        for other in range(one):
            if m.stack[m.at[HEIGHT] + other] == place:
                is_repeated = True
        m.stack[m.at[HEIGHT] + one] = place
        if is_repeated:
            fail(m, UNSUPPORTED)
    for one in range(size_of(m, puts)):
        name, value = item(m, item(m, puts, one), 0), keep(m, item(m, item(m, puts, one), 1))
        place = place_in(m.names, 0, m.shape[FIELDS], name)
        if place < 0 or m.at[ERROR] != 0 or not fits(m, m.shared_types[place], value):
            fail(m, UNSUPPORTED)
            return False
        m.row[width + m.shape[REPLICAS] + place] = value
    return m.at[ERROR] == 0


@jit
def note_input(m: Any, which: Any, me: Any, peer: Any) -> Any:
    """Count an input of a property that differs from the first one."""
    differs = m.inputs[which, INPUTS] == 0
    for place in range(m.parameters.shape[1]):
        source = m.parameters[m.shape[ENTRIES] + which, place]
        if source < 0:
            break
        value = np.int64(me if source == OF_ME else peer)
        if source == OF_STATE:
            value = np.int64(-1)
            differs = True  # each state is another
        elif source >= OF_SHARED:
            value = keep(m, m.environment[given(m) + source - OF_SHARED])
        if m.inputs[which, INPUTS] == 0:
            m.inputs[which, place] = value
        elif m.inputs[which, place] != value:
            differs = True
    m.inputs[which, INPUTS] += differs
    return 0


@jit
def holds(m: Any, which: Any) -> Any:
    """Return whether a property holds in the target, for all replicas that it ranges over."""
    first, replicas, is_of_me, is_of_peer = columns(m), m.shape[REPLICAS], False, False
    function, test, peers = m.properties[which, 0], m.properties[which, 1], m.properties[which, 2]
    is_of_me, is_of_peer = test >= 0, peers >= 0
    for place in range(replicas if is_of_me else 1):
        me = m.row[first + place] if is_of_me else 0
        if is_of_me and (me == 0 or not passes(m, test, me)):
            continue
        for other in range(replicas if is_of_peer else 1):
            peer = m.row[first + other] if is_of_peer else 0
            if is_of_peer and (other == place or peer == 0 or not passes(m, peers, peer)):
                continue
            low, height = m.at[LOW], m.at[HEIGHT]
            if m.inputs[which, INPUTS] < 2:
                note_input(m, which, me, peer)
            found = call(m, function, m.shape[ENTRIES] + which, 1, me, peer)
            m.at[LOW], m.at[HEIGHT] = low, height
            if m.at[ERROR] != 0 or (found != TRUE and found != FALSE):
                fail(m, UNSUPPORTED)
                return True
            if (found == TRUE) == (m.properties[which, 4] != 0):
                return False
    return True


@jit
def judge(m: Any, source: Any, address: Any) -> Any:
    """Check constraints and invariants in the target; return whether it is within the constraints."""
    is_inside = True
    prepare(m, 1)
    for which in range(m.shape[PROPERTIES]):
        is_constraint = m.properties[which, 3] != 0
        if m.at[ERROR] != 0 or (is_constraint and not is_inside) or m.violations[which, 0] != 0:
            continue
        if not holds(m, which):
            if is_constraint:
                is_inside = False
            else:
                m.violations[which, 0], m.violations[which, 1] = source + 2, address
    return is_inside


@jit
def admit(m: Any, source: Any) -> Any:
    """Add the state in the target's row; return its address. A new one is checked."""
    width = columns(m)
    low, height = m.at[LOW], m.at[HEIGHT]
    if m.at[STATES] == m.states.shape[0]:
        return fail(m, ROOM)  # before the state is known: a state is expanded again after an error
    made = allocate(m, STATE, width + 1)
    if made == 0:
        return 0
    for place in range(width):
        m.words[made + HEAD + place] = m.row[width + place]
    m.words[made + HEAD + width] = BEYOND
    top = m.at[TOP]
    address = unique(m, made)
    if m.at[ERROR] == 0 and address == top:
        is_inside = judge(m, source, address)
        if m.at[ERROR] == 0 and is_inside:
            number = m.at[STATES]
            m.words[address + HEAD + width] = number
            m.states[number], m.sources[number] = address, source
            m.at[STATES] = number + 1
            if number + 1 == m.shape[MOST_STATES]:
                fail(m, LIMIT)
    m.at[LOW], m.at[HEIGHT] = low, height
    return address


@jit
def take(m: Any, source: Any, entry: Any) -> Any:
    """Run the handler of an entry in the source, and add the target of each enabled step; return their number."""
    actor, me = m.entries[entry, 2], np.int64(0)
    if actor >= 0:
        me = m.row[actor]
        if me == 0 or not passes(m, m.entries[entry, 3], me):
            return 0
    call(m, m.entries[entry, 1], entry, 0, me, 0)
    count, taken = m.at[HEIGHT], 0
    for place in range(count):
        if m.at[ERROR] != 0:
            break
        step, is_known = m.stack[place], False
        if kind_of(m, step) != STEP:
            return fail(m, UNSUPPORTED)
        for before in range(place):
            if same(m, m.stack[before], step):
                is_known = True
        if is_known or not apply(m, actor, step):
            continue
        address = admit(m, source)
        taken += 1
        if m.at[ERROR] == 0 and m.shape[IS_LOGGING] != 0:
            m.log[m.at[LOGGED], 0], m.log[m.at[LOGGED], 1] = entry, address
            m.at[LOGGED] += 1
            if m.at[LOGGED] == m.log.shape[0]:
                fail(m, ROOM)
    return taken


@jit
def expand(m: Any, first: Any, last: Any) -> Any:
    """Expand the states from a number on; return the number of the first one that was not expanded."""
    width = columns(m)
    for number in range(first, last):
        for place in range(width):
            m.row[place] = item(m, np.int64(m.states[number]) << 1, place)
        m.at[LOW], m.at[HEIGHT] = LEAF, 0
        prepare(m, 0)
        low, generated = m.at[LOW], 0
        for entry in range(m.shape[ENTRIES]):
            m.at[LOW], m.at[HEIGHT] = low, 0
            m.taken[entry] = take(m, number, entry) if m.at[ERROR] == 0 else 0
            generated += m.taken[entry]
        if m.at[ERROR] != 0 and m.at[ERROR] != LIMIT:
            return number
        m.at[GENERATED] += generated
        for entry in range(m.shape[ENTRIES]):
            m.fired[entry] += m.taken[entry]
        if m.at[ERROR] == LIMIT:
            return number + 1
        if generated == 0 and m.at[STUCK] == 0:
            m.at[STUCK] = number + 1
    return last
