"""Expansion of states: it runs the handlers, applies their steps, and checks the properties of new states."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.bytecode.kernel import codes
from kraftcheck.explorer.bytecode.kernel.codes import jit
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
    return m.tests[test * m.at[codes.KINDS] + kind_of(m, value)] != 0


@jit
def columns(m: Any) -> Any:
    """Return the number of columns of a state."""
    return m.shape[codes.REPLICAS] + m.shape[codes.FIELDS] + m.shape[codes.BOUNDS]


@jit
def given(m: Any) -> Any:
    """Return the number of values that are made of a state: its shared record, itself, and its projections."""
    return codes.OF_PROJECTION - codes.OF_SHARED + m.shape[codes.PROJECTIONS]


@jit
def call(m: Any, function: Any, which: Any, side: Any, me: Any, peer: Any) -> Any:
    """Run a function with the parameters of an entry or a property, in the state of one side."""
    for place in range(m.parameters.shape[1]):
        source = m.parameters[which, place]
        if source < 0:
            break
        value = me if source == codes.OF_ME else peer
        if source >= codes.OF_SHARED:
            value = m.environment[side * given(m) + source - codes.OF_SHARED]
        m.registers[place] = value
    return run(m, function)


@jit
def whole(m: Any, first: Any, shared: Any) -> Any:
    """Return the state in a row as a record."""
    mark, replicas, fields = m.at[codes.HEIGHT], m.shape[codes.REPLICAS], m.shape[codes.FIELDS]
    for place in range(replicas):
        if m.row[first + place] != 0:
            push(m, m.columns[place])
            push(m, m.row[first + place])
    by_id = collect(m, codes.MAP, mark)
    for place in range(m.shape[codes.BOUNDS]):
        push(m, m.names[fields + place])
        push(m, m.row[first + replicas + fields + place])
    spent = collect(m, codes.MAP, mark)
    inboxes = collect(m, codes.MAP, mark)
    for value in (by_id, inboxes, shared, spent):
        push(m, value)
    return collect(m, m.shape[codes.STATE_KIND], mark)


@jit
def prepare(m: Any, side: Any) -> Any:
    """Make the shared record and the projections of the state in the row of one side, and the state if it is needed."""
    first, replicas, fields = side * columns(m), m.shape[codes.REPLICAS], m.shape[codes.FIELDS]
    own = side * given(m)
    address = allocate(m, m.shape[codes.SHARED_KIND], fields)
    if address == 0:
        return 0
    for place in range(fields):
        m.words[address + codes.HEAD + place] = m.row[first + replicas + place]
    m.environment[own] = address << 1
    if m.shape[codes.STATE_KIND] != 0:
        m.environment[own + codes.OF_STATE - codes.OF_SHARED] = whole(m, first, address << 1)
    for which in range(m.shape[codes.PROJECTIONS]):
        mark = m.at[codes.HEIGHT]
        for place in range(replicas):
            replica = m.row[first + place]
            if replica != 0 and passes(m, m.projections[which, 1], replica):
                m.registers[0] = replica
                found = run(m, m.projections[which, 0])
                if m.at[codes.ERROR] != 0 or m.groups[kind_of(m, found)] >= codes.OF_MUTABLE:
                    return fail(m, codes.UNSUPPORTED)
                push(m, m.columns[place])
                push(m, found)
        m.environment[own + codes.OF_PROJECTION - codes.OF_SHARED + which] = collect(m, codes.MAP, mark)
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
    first = columns(m) + m.shape[codes.REPLICAS] + m.shape[codes.FIELDS]
    for place in range(size_of(m, names)):
        which = place_in(m.names, m.shape[codes.FIELDS], m.shape[codes.BOUNDS], item(m, names, place))
        if which < 0:
            fail(m, codes.UNSUPPORTED)
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
    if m.groups[kind] == codes.OF_RECORD:
        which = m.offsets[m.shape[codes.ID] * m.at[codes.KINDS] + kind]
    if which < 0:
        return fail(m, codes.UNSUPPORTED)
    kept = keep(m, replica)
    if m.at[codes.ERROR] != 0:
        return 0
    place = place_in(m.columns, 0, m.shape[codes.REPLICAS], item(m, kept, which))
    if place < 0 or (only >= 0 and place != only):
        return fail(m, codes.UNSUPPORTED)
    m.row[columns(m) + place] = kept
    return place


@jit
def apply(m: Any, actor: Any, step: Any) -> Any:
    """Write the next state of a step to the target's row; return whether the step is enabled."""
    width = columns(m)
    for place in range(width):
        m.row[width + place] = m.row[place]
    if item(m, step, codes.CONSUMES) != codes.FALSE or item(m, step, codes.SENDS) != codes.EMPTY:
        fail(m, codes.UNSUPPORTED)
    if (
        not spend(m, item(m, step, codes.NEEDS), 0)
        or not spend(m, item(m, step, codes.SPENDS), 1)
        or m.at[codes.ERROR] != 0
    ):
        return False
    me, writes, puts = item(m, step, codes.ME), item(m, step, codes.WRITES), item(m, step, codes.PUTS)
    if me != codes.EMPTY:
        if actor < 0 or kind_of(m, me) != kind_of(m, m.row[actor]):
            fail(m, codes.UNSUPPORTED)
            return False
        write(m, me, actor)
    for one in range(size_of(m, writes)):
        place = write(m, item(m, writes, one), -1)
        is_repeated = me != codes.EMPTY and place == actor
        for other in range(one):
            if m.stack[m.at[codes.HEIGHT] + other] == place:
                is_repeated = True
        m.stack[m.at[codes.HEIGHT] + one] = place
        if is_repeated:
            fail(m, codes.UNSUPPORTED)
    for one in range(size_of(m, puts)):
        name, value = item(m, item(m, puts, one), 0), keep(m, item(m, item(m, puts, one), 1))
        place = place_in(m.names, 0, m.shape[codes.FIELDS], name)
        if place < 0 or m.at[codes.ERROR] != 0 or not fits(m, m.shared_types[place], value):
            fail(m, codes.UNSUPPORTED)
            return False
        m.row[width + m.shape[codes.REPLICAS] + place] = value
    return m.at[codes.ERROR] == 0


@jit
def note_input(m: Any, which: Any, me: Any, peer: Any) -> Any:
    """Count an input of a property that differs from the first one."""
    differs = m.inputs[which, INPUTS] == 0
    for place in range(m.parameters.shape[1]):
        source = m.parameters[m.shape[codes.ENTRIES] + which, place]
        if source < 0:
            break
        value = np.int64(me if source == codes.OF_ME else peer)
        if source == codes.OF_STATE:
            value = np.int64(-1)
            differs = True  # each state is another
        elif source >= codes.OF_SHARED:
            value = keep(m, m.environment[given(m) + source - codes.OF_SHARED])
        if m.inputs[which, INPUTS] == 0:
            m.inputs[which, place] = value
        elif m.inputs[which, place] != value:
            differs = True
    m.inputs[which, INPUTS] += differs
    return 0


@jit
def holds(m: Any, which: Any) -> Any:
    """Return whether a property holds in the target, for all replicas that it ranges over."""
    first, replicas, is_of_me, is_of_peer = columns(m), m.shape[codes.REPLICAS], False, False
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
            low, height = m.at[codes.LOW], m.at[codes.HEIGHT]
            if m.inputs[which, INPUTS] < 2:
                note_input(m, which, me, peer)
            found = call(m, function, m.shape[codes.ENTRIES] + which, 1, me, peer)
            m.at[codes.LOW], m.at[codes.HEIGHT] = low, height
            if m.at[codes.ERROR] != 0 or (found != codes.TRUE and found != codes.FALSE):
                fail(m, codes.UNSUPPORTED)
                return True
            if (found == codes.TRUE) == (m.properties[which, 4] != 0):
                return False
    return True


@jit
def judge(m: Any, source: Any, address: Any) -> Any:
    """Check constraints and invariants in the target; return whether it is within the constraints."""
    is_inside = True
    prepare(m, 1)
    for which in range(m.shape[codes.PROPERTIES]):
        is_constraint = m.properties[which, 3] != 0
        if m.at[codes.ERROR] != 0 or (is_constraint and not is_inside) or m.violations[which, 0] != 0:
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
    low, height = m.at[codes.LOW], m.at[codes.HEIGHT]
    if m.at[codes.STATES] == m.states.shape[0]:
        return fail(m, codes.ROOM)  # before the state is known: a state is expanded again after an error
    made = allocate(m, codes.STATE, width + 1)
    if made == 0:
        return 0
    for place in range(width):
        m.words[made + codes.HEAD + place] = m.row[width + place]
    m.words[made + codes.HEAD + width] = codes.BEYOND
    top = m.at[codes.TOP]
    address = unique(m, made)
    if m.at[codes.ERROR] == 0 and address == top:
        is_inside = judge(m, source, address)
        if m.at[codes.ERROR] == 0 and is_inside:
            number = m.at[codes.STATES]
            m.words[address + codes.HEAD + width] = number
            m.states[number], m.sources[number] = address, source
            m.at[codes.STATES] = number + 1
            if number + 1 == m.shape[codes.MOST_STATES]:
                fail(m, codes.LIMIT)
    m.at[codes.LOW], m.at[codes.HEIGHT] = low, height
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
    count, taken = m.at[codes.HEIGHT], 0
    for place in range(count):
        if m.at[codes.ERROR] != 0:
            break
        step, is_known = m.stack[place], False
        if kind_of(m, step) != codes.STEP:
            return fail(m, codes.UNSUPPORTED)
        for before in range(place):
            if same(m, m.stack[before], step):
                is_known = True
        if is_known or not apply(m, actor, step):
            continue
        address = admit(m, source)
        taken += 1
        if m.at[codes.ERROR] == 0 and m.shape[codes.IS_LOGGING] != 0:
            m.log[m.at[codes.LOGGED], 0], m.log[m.at[codes.LOGGED], 1] = entry, address
            m.at[codes.LOGGED] += 1
            if m.at[codes.LOGGED] == m.log.shape[0]:
                fail(m, codes.ROOM)
    return taken


@jit
def expand(m: Any, first: Any, last: Any) -> Any:
    """Expand the states from a number on; return the number of the first one that was not expanded.

    It stops at a state that executes an instruction for the first time.
    """
    width = columns(m)
    for number in range(first, last):
        for place in range(width):
            m.row[place] = item(m, np.int64(m.states[number]) << 1, place)
        m.at[codes.LOW], m.at[codes.HEIGHT] = codes.LEAF, 0
        prepare(m, 0)
        low, generated = m.at[codes.LOW], 0
        for entry in range(m.shape[codes.ENTRIES]):
            m.at[codes.LOW], m.at[codes.HEIGHT] = low, 0
            m.taken[entry] = take(m, number, entry) if m.at[codes.ERROR] == 0 else 0
            generated += m.taken[entry]
        is_fresh = m.at[codes.IS_FRESH] != 0 and m.shape[codes.IS_LOGGING] == 0
        if m.at[codes.ERROR] != codes.LIMIT and (is_fresh or m.at[codes.ERROR] != 0):
            return number
        m.at[codes.GENERATED] += generated
        for entry in range(m.shape[codes.ENTRIES]):
            m.fired[entry] += m.taken[entry]
        if m.at[codes.ERROR] == codes.LIMIT:
            return number + 1
        if generated == 0 and m.at[codes.STUCK] == 0:
            m.at[codes.STUCK] = number + 1
    return last
