"""Canonical images under symmetry of states with control rows.

The canonical image is the least row among the images of a state under the symmetry group. Images of control rows
and inbox contents are cached by id. The image of a state then takes one lookup for each column, and builds no
value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.native.compiling import inlined, keep_alive, unowned_array
from kraftcheck.explorer.tables.kernel import arrays, codes, jit


@inlined
def write_least_image(t: Any, worker: Any, states: Any, at: Any, column: Any, best: Any, place: Any, image: Any) -> Any:
    """Write the least image of states[at, column:] to best[place]; return False where an image is not cached."""
    permuted_rows, permuted_contents, permuted_slots = t.permuted_rows, t.permuted_contents, t.permuted_slots
    columns = len(image)
    # The least image is known only if all images are cached; record the first one that is missing.
    row = t.row_info[states[at, column], codes.ROW_IDENTITY]
    known = True
    if permuted_rows[row, 0] < 0:
        arrays.record_miss(worker, codes.MISS_ROW_IMAGES, row, 0, 0, 0)
        known = False
    for c in range(1, columns):
        content = np.int64(states[at, column + c])
        if known and content != 0 and permuted_contents[content, 0] < 0:
            arrays.record_miss(worker, codes.MISS_CONTENT_IMAGES, content, 0, 0, 0)
            known = False
    # Compare the control row first: its image rules out most permutations without a look at the inboxes.
    for g in range(t.meta[codes.META_PERMUTATIONS] if known else 0):
        image[0] = permuted_rows[row, g]
        if g > 0 and image[0] > best[place, 0]:
            continue
        for c in range(1, columns):
            content = np.int64(states[at, column + c])
            image[1 + permuted_slots[g, c - 1]] = 0 if content == 0 else permuted_contents[content, g]
        smaller = g == 0 or image[0] < best[place, 0]
        if not smaller:
            for c in range(1, columns):
                if image[c] != best[place, c]:
                    smaller = image[c] < best[place, c]
                    break
        if smaller:
            for c in range(columns):
                best[place, c] = image[c]
    return known


@jit
def write_least_images(t: Any, worker: Any, states: Any, images: Any) -> Any:
    """Write the canonical image of each state; return the number of states with an image that is not cached."""
    states, images = unowned_array(states), unowned_array(images)
    own_image = np.zeros(states.shape[1], np.int32)
    image = unowned_array(own_image)
    unknown = 0
    for i in range(len(states)):
        if not write_least_image(t, worker, states, i, 0, images, i, image):
            unknown += 1
    keep_alive(own_image)
    return unknown


@jit
def write_least_images_by_shared_ids(
    t: Any, rows: Any, controls: Any, contents: Any, slots: Any, classes: Any, image: Any, least: Any
) -> None:
    """Write the least image of each state under the symmetry group, compared by ids that all processes share.

    `rows` and the image tables have the ids of this process; `controls`, `contents` and `slots` translate these. All
    images must be cached. A part without a shared id is negative, and so compares least. Under a VIEW, `classes`
    numbers the visible part of a control row, which is compared first.
    """
    rows, controls, contents = unowned_array(rows), unowned_array(controls), unowned_array(contents)
    slots, least = unowned_array(slots), unowned_array(least)
    classes, image = unowned_array(classes), unowned_array(image)
    permuted_rows, permuted_contents, permuted_slots = t.permuted_rows, t.permuted_contents, t.permuted_slots
    for i in range(len(rows)):
        least_shown = np.int64(0)
        for g in range(permuted_rows.shape[1]):
            control = np.int64(controls[permuted_rows[rows[i, 0], g]])
            # The visible part of the control row comes first: a larger one rules the permutation out.
            shown = np.int64(classes[control]) if control >= 0 else control
            if g > 0 and shown > least_shown:
                continue
            image[:] = 0
            image[0] = control
            for c in range(1, rows.shape[1]):
                content = np.int64(rows[i, c])
                if content != 0:
                    image[1 + slots[permuted_slots[g, c - 1]]] = contents[permuted_contents[content, g]]
            smaller = g == 0 or shown < least_shown
            if not smaller:
                smaller = control < least[i, 0]
                for c in range(1, len(image)):
                    if image[c] != least[i, c]:
                        smaller = image[c] < least[i, c]
                        break
            if smaller:
                least[i, :] = image
                least_shown = shown
