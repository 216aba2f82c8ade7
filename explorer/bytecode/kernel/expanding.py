"""Expansion of states: it runs the handlers, applies their steps, and checks the properties of new states."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.bytecode.kernel import codes, heap
from kraftcheck.explorer.bytecode.kernel.codes import jit
from kraftcheck.explorer.bytecode.kernel.interpreter import build_value_from_stack, push_value, run_function

DISTINCT_INPUTS_COLUMN = 7  # column of `InterpreterArrays.inputs`


@jit
def state_column_count(m: Any) -> Any:
    """Return the number of columns of a state."""
    return m.shape[codes.SHAPE_REPLICAS] + m.shape[codes.SHAPE_FIELDS] + m.shape[codes.SHAPE_BOUNDS]


@jit
def state_parameter_count(m: Any) -> Any:
    """Return the number of values that are made of a state: shared record, itself, uses of bounds, projections."""
    return codes.PROJECTION_SOURCE - codes.SHARED_SOURCE + m.shape[codes.SHAPE_PROJECTIONS]


@jit
def fill_parameters_and_run(m: Any, function: Any, which: Any, side: Any, me: Any, peer: Any) -> Any:
    """Run a function with the parameters of an entry or a property, in the state of one side."""
    for place in range(m.parameters.shape[1]):
        source = m.parameters[which, place]
        if source < 0:
            break
        value = me if source == codes.ME_SOURCE else peer
        if source >= codes.SHARED_SOURCE:
            value = m.environment[side * state_parameter_count(m) + source - codes.SHARED_SOURCE]
        m.registers[place] = value
    return run_function(m, function)


@jit
def make_uses_of_bounds(m: Any, first: Any) -> Any:
    """Return the map of the uses of the bounds in a row."""
    mark, fields = m.at[codes.AT_STACK_HEIGHT], m.shape[codes.SHAPE_FIELDS]
    for place in range(m.shape[codes.SHAPE_BOUNDS]):
        push_value(m, m.names[fields + place])
        push_value(m, m.row[first + m.shape[codes.SHAPE_REPLICAS] + fields + place])
    return build_value_from_stack(m, codes.MAP_KIND, mark)


@jit
def make_state_record(m: Any, first: Any, shared: Any) -> Any:
    """Return the state in a row as a record."""
    mark = m.at[codes.AT_STACK_HEIGHT]
    for place in range(m.shape[codes.SHAPE_REPLICAS]):
        if m.row[first + place] != 0:
            push_value(m, m.columns[place])
            push_value(m, m.row[first + place])
    by_id = build_value_from_stack(m, codes.MAP_KIND, mark)
    spent = make_uses_of_bounds(m, first)
    inboxes = build_value_from_stack(m, codes.MAP_KIND, mark)
    for value in (by_id, inboxes, shared, spent):
        push_value(m, value)
    return build_value_from_stack(m, m.shape[codes.SHAPE_STATE_KIND], mark)


@jit
def make_state_parameters(m: Any, side: Any) -> Any:
    """Make the shared record and the projections of the state in the row of one side, and the state if it is needed."""
    first, replicas, fields = side * state_column_count(m), m.shape[codes.SHAPE_REPLICAS], m.shape[codes.SHAPE_FIELDS]
    own = side * state_parameter_count(m)
    projected = own + codes.PROJECTION_SOURCE - codes.SHARED_SOURCE
    address = heap.allocate_node(m, m.shape[codes.SHAPE_SHARED_KIND], fields)
    if address == 0:
        return 0
    for place in range(fields):
        m.words[address + codes.NODE_HEAD_WORDS + place] = m.row[first + replicas + place]
    m.environment[own] = address << 1
    if m.shape[codes.SHAPE_STATE_KIND] != 0:
        m.environment[own + codes.STATE_SOURCE - codes.SHARED_SOURCE] = make_state_record(m, first, address << 1)
    if m.shape[codes.SHAPE_READS_BOUNDS] != 0:
        m.environment[own + codes.SPENT_SOURCE - codes.SHARED_SOURCE] = make_uses_of_bounds(m, first)
    for which in range(m.shape[codes.SHAPE_PROJECTIONS]):
        mark = m.at[codes.AT_STACK_HEIGHT]
        for place in range(replicas):
            replica = m.row[first + place]
            if replica != 0 and heap.passes_kind_test(m, m.projections[which, 1], replica):
                m.registers[0] = replica
                found = run_function(m, m.projections[which, 0])
                if m.at[codes.AT_ERROR] != 0 or m.groups[heap.kind_of(m, found)] >= codes.MUTABLE_GROUP:
                    return heap.record_error(m, codes.UNSUPPORTED_ERROR)
                push_value(m, m.columns[place])
                push_value(m, found)
        m.environment[projected + which] = build_value_from_stack(m, codes.MAP_KIND, mark)
    return 0


@jit
def find_in_span(names: Any, first: Any, count: Any, value: Any) -> Any:
    """Return the place of a value in a part of an array; -1 if it is not there."""
    for place in range(count):
        if names[first + place] == value:
            return place
    return -1


@jit
def test_and_spend_bounds_of_next_state(m: Any, names: Any, uses: Any) -> Any:
    """Test that no bound of a tuple is exhausted in the target's row, and use each if wanted."""
    fields, bounds = m.shape[codes.SHAPE_FIELDS], m.shape[codes.SHAPE_BOUNDS]
    first = state_column_count(m) + m.shape[codes.SHAPE_REPLICAS] + fields
    for place in range(heap.node_size(m, names)):
        which = find_in_span(m.names, fields, bounds, heap.node_item(m, names, place))
        if which < 0:
            heap.record_error(m, codes.UNSUPPORTED_ERROR)
            return False
        if m.row[first + which] >> 1 >= m.limits[which]:
            return False
        m.row[first + which] += 2 * uses
    return True


@jit
def write_replica_of_next_state(m: Any, replica: Any, only: Any) -> Any:
    """Write a replica's next state to the target's row; return its place. With `only`, it must be that replica."""
    kind = heap.kind_of(m, replica)
    which = np.int32(-1)
    if m.groups[kind] == codes.RECORD_GROUP:
        which = m.offsets[m.shape[codes.SHAPE_ID_NAME] * m.at[codes.AT_KINDS] + kind]
    if which < 0:
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    kept = heap.intern_value(m, replica)
    if m.at[codes.AT_ERROR] != 0:
        return 0
    place = find_in_span(m.columns, 0, m.shape[codes.SHAPE_REPLICAS], heap.node_item(m, kept, which))
    if place < 0 or (only >= 0 and place != only):
        return heap.record_error(m, codes.UNSUPPORTED_ERROR)
    m.row[state_column_count(m) + place] = kept
    return place


@jit
def write_next_state_of_step(m: Any, actor: Any, step: Any) -> Any:
    """Write the next state of a step to the target's row; return whether the step is enabled."""
    width = state_column_count(m)
    for place in range(width):
        m.row[width + place] = m.row[place]
    consumes, sends = heap.node_item(m, step, codes.STEP_CONSUMES), heap.node_item(m, step, codes.STEP_SENDS)
    if consumes != codes.FALSE_VALUE or sends != codes.EMPTY_TUPLE:
        heap.record_error(m, codes.UNSUPPORTED_ERROR)
    needs, spends = heap.node_item(m, step, codes.STEP_NEEDS), heap.node_item(m, step, codes.STEP_SPENDS)
    is_enabled = test_and_spend_bounds_of_next_state(m, needs, 0) and test_and_spend_bounds_of_next_state(m, spends, 1)
    if m.at[codes.AT_ERROR] != 0:
        return False
    me, writes = heap.node_item(m, step, codes.STEP_ME), heap.node_item(m, step, codes.STEP_WRITES)
    puts = heap.node_item(m, step, codes.STEP_PUTS)
    if me != codes.EMPTY_TUPLE:
        if actor < 0 or heap.kind_of(m, me) != heap.kind_of(m, m.row[actor]):
            heap.record_error(m, codes.UNSUPPORTED_ERROR)
            return False
        write_replica_of_next_state(m, me, actor)
    for one in range(heap.node_size(m, writes)):
        place = write_replica_of_next_state(m, heap.node_item(m, writes, one), -1)
        is_repeated = me != codes.EMPTY_TUPLE and place == actor
        for other in range(one):
            if m.stack[m.at[codes.AT_STACK_HEIGHT] + other] == place:
                is_repeated = True
        m.stack[m.at[codes.AT_STACK_HEIGHT] + one] = place
        if is_repeated:
            heap.record_error(m, codes.UNSUPPORTED_ERROR)
    for one in range(heap.node_size(m, puts)):
        put = heap.node_item(m, puts, one)
        name, value = heap.node_item(m, put, 0), heap.intern_value(m, heap.node_item(m, put, 1))
        place = find_in_span(m.names, 0, m.shape[codes.SHAPE_FIELDS], name)
        if place < 0 or m.at[codes.AT_ERROR] != 0 or not heap.matches_type(m, m.shared_types[place], value):
            heap.record_error(m, codes.UNSUPPORTED_ERROR)
            return False
        m.row[width + m.shape[codes.SHAPE_REPLICAS] + place] = value
    return is_enabled and m.at[codes.AT_ERROR] == 0  # a disabled step must be valid too


@jit
def count_input_unlike_first(m: Any, which: Any, side: Any, me: Any, peer: Any) -> Any:
    """Count an input of a property that differs from the first one."""
    differs = m.inputs[which, DISTINCT_INPUTS_COLUMN] == 0
    for place in range(m.parameters.shape[1]):
        source = m.parameters[m.shape[codes.SHAPE_ENTRIES] + which, place]
        if source < 0:
            break
        value = np.int64(me if source == codes.ME_SOURCE else peer)
        if source == codes.STATE_SOURCE:
            value = np.int64(-1)
            differs = True  # each state is another
        elif source >= codes.SHARED_SOURCE:
            value = heap.intern_value(m, m.environment[side * state_parameter_count(m) + source - codes.SHARED_SOURCE])
        if m.inputs[which, DISTINCT_INPUTS_COLUMN] == 0:
            m.inputs[which, place] = value
        elif m.inputs[which, place] != value:
            differs = True
    m.inputs[which, DISTINCT_INPUTS_COLUMN] += differs
    return 0


@jit
def property_holds_in_target_row(m: Any, which: Any) -> Any:
    """Return whether a property holds in the target, for all replicas that it ranges over."""
    first, replicas = state_column_count(m), m.shape[codes.SHAPE_REPLICAS]
    test, peers = m.properties[which, 1], m.properties[which, 2]
    is_of_me, is_of_peer = test >= 0, peers >= 0
    for place in range(m.properties[which, 5], m.properties[which, 6]):
        me = m.row[first + place] if is_of_me else 0
        if is_of_me and (me == 0 or not heap.passes_kind_test(m, test, me)):
            continue
        for other in range(replicas if is_of_peer else 1):
            peer = m.row[first + other] if is_of_peer else 0
            if is_of_peer and (other == place or peer == 0 or not heap.passes_kind_test(m, peers, peer)):
                continue
            if not property_holds_for_replicas(m, which, 1, me, peer):
                return False
    return True


@jit
def property_holds_for_replicas(m: Any, which: Any, side: Any, me: Any, peer: Any) -> Any:
    """Return whether a property holds for two replicas, in the state of one side."""
    low, height = m.at[codes.AT_SCRATCH_TOP], m.at[codes.AT_STACK_HEIGHT]
    if m.inputs[which, DISTINCT_INPUTS_COLUMN] < 2:
        count_input_unlike_first(m, which, side, me, peer)
    found = fill_parameters_and_run(m, m.properties[which, 0], m.shape[codes.SHAPE_ENTRIES] + which, side, me, peer)
    m.at[codes.AT_SCRATCH_TOP], m.at[codes.AT_STACK_HEIGHT] = low, height
    if m.at[codes.AT_ERROR] != 0 or (found != codes.TRUE_VALUE and found != codes.FALSE_VALUE):
        heap.record_error(m, codes.UNSUPPORTED_ERROR)
        return True
    return (found == codes.TRUE_VALUE) != (m.properties[which, 4] != 0)


@jit
def record_step_property_violations(m: Any, source: Any, address: Any) -> Any:
    """Record violations of step properties by the replicas that the step from the source to the target changes."""
    width = state_column_count(m)
    for which in range(m.shape[codes.SHAPE_PROPERTIES]):
        if m.properties[which, 3] != codes.STEP_PROPERTY or m.violations[which, 0] != 0:
            continue
        for place in range(m.shape[codes.SHAPE_REPLICAS]):
            before, after = m.row[place], m.row[width + place]
            if before == after or before == 0 or m.at[codes.AT_ERROR] != 0:
                continue
            is_typed = heap.passes_kind_test(m, m.properties[which, 1], before)
            is_typed &= heap.passes_kind_test(m, m.properties[which, 2], after)
            if is_typed and not property_holds_for_replicas(m, which, 0, before, after):
                m.violations[which, 0], m.violations[which, 1] = source + 2, address
                break
    return 0


@jit
def check_invariants_and_constraints(m: Any, source: Any, address: Any) -> Any:
    """Check constraints and invariants in the target; return whether it is within the constraints."""
    is_inside = True
    make_state_parameters(m, 1)
    for which in range(m.shape[codes.SHAPE_PROPERTIES]):
        is_constraint = m.properties[which, 3] == codes.CONSTRAINT
        is_over = m.properties[which, 3] == codes.STEP_PROPERTY or (is_constraint and not is_inside)
        if m.at[codes.AT_ERROR] != 0 or is_over or m.violations[which, 0] != 0:
            continue
        if not property_holds_in_target_row(m, which):
            if is_constraint:
                is_inside = False
            else:
                m.violations[which, 0], m.violations[which, 1] = source + 2, address
    return is_inside


@jit
def evaluate_property_in_states(m: Any, which: Any, first: Any, last: Any, held: Any) -> Any:
    """Write whether a property holds in the states from a number on; return the number after the last one evaluated.

    It stops after a state that executes an instruction for the first time.
    """
    width = state_column_count(m)
    for number in range(first, last):
        for place in range(width):
            m.row[width + place] = heap.node_item(m, np.int64(m.states[number]) << 1, place)
        m.at[codes.AT_SCRATCH_TOP], m.at[codes.AT_STACK_HEIGHT] = codes.ATOM_WORDS, 0
        make_state_parameters(m, 1)
        held[number - first] = property_holds_in_target_row(m, which) if m.at[codes.AT_ERROR] == 0 else False
        if m.at[codes.AT_ERROR] != 0:
            return number
        if m.at[codes.AT_IS_FRESH] != 0:
            return number + 1
    return last


@jit
def permuted_value(m: Any, value: Any, permutation: Any) -> Any:
    """Return a permanent value with its model values permuted, as a permanent one."""
    if value & 1 or (m.groups[m.words[value >> 1]] <= codes.ENUM_GROUP and m.words[value >> 1] != codes.MODEL_KIND):
        return value
    if m.words[value >> 1] == codes.MODEL_KIND:
        place = find_in_span(m.symmetric, 0, m.symmetric.shape[0], value)
        return value if place < 0 else m.images[permutation, place]
    key = (np.int64(value) << 16) | permutation
    slot = (np.uint64(key) * heap.HASH_FACTOR) >> np.uint64(64 - codes.MATCH_MEMO_BITS)
    if m.permuted[slot, 0] == key:
        return m.permuted[slot, 1]
    mark = m.at[codes.AT_STACK_HEIGHT]
    for place in range(heap.node_size(m, value)):
        push_value(m, permuted_value(m, heap.node_item(m, value, place), permutation))
    found = heap.intern_value(m, build_value_from_stack(m, m.words[value >> 1], mark))
    if m.at[codes.AT_ERROR] == 0:
        m.permuted[slot, 0], m.permuted[slot, 1] = key, found
    return found


@jit
def write_least_image_of_next_state(m: Any) -> Any:
    """Write the least image of the target under the SYMMETRY's permutations behind the rows of source and target."""
    width, replicas = state_column_count(m), m.shape[codes.SHAPE_REPLICAS]
    least, image, low = 2 * width, 3 * width, m.at[codes.AT_SCRATCH_TOP]
    for place in range(width):  # the first permutation is the identity
        m.row[least + place] = m.row[width + place]
    for permutation in range(1, m.images.shape[0]):
        for place in range(width):
            value = m.row[width + place]
            target = m.column_images[permutation, place] if place < replicas else place
            m.row[image + target] = permuted_value(m, value, permutation) if value != 0 else 0
        m.at[codes.AT_SCRATCH_TOP] = low  # images are permanent
        place = 0
        while place < width and m.row[image + place] == m.row[least + place]:
            place += 1
        if place < width and m.row[image + place] < m.row[least + place]:
            for later in range(place, width):
                m.row[least + later] = m.row[image + later]
    return 0


@jit
def intern_state_row(m: Any, first: Any) -> Any:
    """Return the address of the state in a part of the row; a new one is not checked yet."""
    width = state_column_count(m)
    made = heap.allocate_node(m, codes.STATE_RECORD_KIND, width + 1)
    if made == 0 or m.at[codes.AT_ERROR] != 0:
        return 0
    for place in range(width):
        m.words[made + codes.NODE_HEAD_WORDS + place] = m.row[first + place]
    m.words[made + codes.NODE_HEAD_WORDS + width] = codes.UNCHECKED_STATE
    return heap.intern_node(m, made)


@jit
def insert_next_state(m: Any, source: Any) -> Any:
    """Add the state in the target's row; return its address. A new one is checked.

    Under a SYMMETRY, its least image has the number too. Of a known orbit only the image is kept, except for the log.
    """
    width = state_column_count(m)
    low, height = m.at[codes.AT_SCRATCH_TOP], m.at[codes.AT_STACK_HEIGHT]
    if m.at[codes.AT_STATES] == m.states.shape[0]:
        # before the state is known: a state is expanded again after an error
        return heap.record_error(m, codes.PERMANENT_FULL_ERROR)
    has_symmetry, number_place = m.images.shape[0] > 1, codes.NODE_HEAD_WORDS + width
    if has_symmetry:
        write_least_image_of_next_state(m)
    key = intern_state_row(m, 2 * width if has_symmetry else width)
    is_new = m.at[codes.AT_ERROR] == 0 and m.words[key + number_place] == codes.UNCHECKED_STATE
    address = key
    if has_symmetry and (is_new or m.shape[codes.SHAPE_IS_LOGGING] != 0):
        address = intern_state_row(m, width)
    if is_new and m.at[codes.AT_ERROR] == 0:
        is_inside = check_invariants_and_constraints(m, source, address)
        if m.at[codes.AT_ERROR] == 0 and not is_inside:
            m.words[key + number_place] = codes.EXCLUDED_STATE
        elif m.at[codes.AT_ERROR] == 0:
            number = m.at[codes.AT_STATES]
            m.words[key + number_place] = number
            m.states[number], m.sources[number] = address, source
            m.at[codes.AT_STATES] = number + 1
            if number + 1 == m.shape[codes.SHAPE_MOST_STATES]:
                heap.record_error(m, codes.STATE_LIMIT_ERROR)
    if address != 0:  # else there was no room
        m.words[address + number_place] = m.words[key + number_place]
    m.at[codes.AT_SCRATCH_TOP], m.at[codes.AT_STACK_HEIGHT] = low, height
    return address


@jit
def expand_state_by_handler(m: Any, source: Any, entry: Any) -> Any:
    """Run the handler of an entry in the source, and add the target of each enabled step; return their number."""
    actor, me = m.entries[entry, 2], np.int64(0)
    if actor >= 0:
        me = m.row[actor]
        if me == 0 or not heap.passes_kind_test(m, m.entries[entry, 3], me):
            return 0
    fill_parameters_and_run(m, m.entries[entry, 1], entry, 0, me, 0)
    count, taken, number_place = m.at[codes.AT_STACK_HEIGHT], 0, codes.NODE_HEAD_WORDS + state_column_count(m)
    for _ in range(count):  # the numbers of the steps' targets are kept above the steps
        push_value(m, 0)
    for place in range(count):
        if m.at[codes.AT_ERROR] != 0:
            break
        step, is_known = m.stack[place], False
        if heap.kind_of(m, step) != codes.STEP_KIND:
            return heap.record_error(m, codes.UNSUPPORTED_ERROR)
        if not write_next_state_of_step(m, actor, step):
            continue
        address = insert_next_state(m, source)
        target = m.stack[count + place] = m.words[address + number_place]
        for before in range(place):
            if m.stack[count + before] == target and heap.are_equal(m, m.stack[before], step):
                is_known = True
        if is_known:
            continue
        if m.shape[codes.SHAPE_HAS_STEP_PROPERTIES] != 0 and m.at[codes.AT_ERROR] == 0:
            record_step_property_violations(m, source, address)
        taken += 1
        if m.at[codes.AT_ERROR] == 0 and m.shape[codes.SHAPE_IS_LOGGING] != 0:
            logged = m.at[codes.AT_LOGGED]
            m.log[logged, 0], m.log[logged, 1], m.log[logged, 2] = entry, address, source
            m.at[codes.AT_LOGGED] += 1
            if m.at[codes.AT_LOGGED] == m.log.shape[0]:
                heap.record_error(m, codes.PERMANENT_FULL_ERROR)
    return taken


@jit
def expand_states(m: Any, first: Any, last: Any) -> Any:
    """Expand the states from a number on; return the number of the first one that was not expanded.

    It stops at a state that executes an instruction for the first time.
    """
    width = state_column_count(m)
    for number in range(first, last):
        for place in range(width):
            m.row[place] = heap.node_item(m, np.int64(m.states[number]) << 1, place)
        m.at[codes.AT_SCRATCH_TOP], m.at[codes.AT_STACK_HEIGHT] = codes.ATOM_WORDS, 0
        make_state_parameters(m, 0)
        low, generated = m.at[codes.AT_SCRATCH_TOP], 0
        for entry in range(m.shape[codes.SHAPE_ENTRIES]):
            m.at[codes.AT_SCRATCH_TOP], m.at[codes.AT_STACK_HEIGHT] = low, 0
            m.taken[entry] = expand_state_by_handler(m, number, entry) if m.at[codes.AT_ERROR] == 0 else 0
            generated += m.taken[entry]
        is_fresh = m.at[codes.AT_IS_FRESH] != 0 and m.shape[codes.SHAPE_IS_LOGGING] == 0
        if m.at[codes.AT_ERROR] != codes.STATE_LIMIT_ERROR and (is_fresh or m.at[codes.AT_ERROR] != 0):
            return number
        m.at[codes.AT_GENERATED] += generated
        for entry in range(m.shape[codes.SHAPE_ENTRIES]):
            m.fired[entry] += m.taken[entry]
        if m.at[codes.AT_ERROR] == codes.STATE_LIMIT_ERROR:
            return number + 1
        if generated == 0 and m.at[codes.AT_DEADLOCKED] == 0:
            m.at[codes.AT_DEADLOCKED] = number + 1
    return last
