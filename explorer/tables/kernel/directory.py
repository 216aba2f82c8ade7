"""The tables as the kernel sees them: for each a compiled function that finds it, given the directory's address."""

from __future__ import annotations

from typing import Any

import numpy as np

from kraftcheck.explorer.tables.kernel.layout import COLUMNS, Tables
from kraftcheck.explorer.tables.kernel.native import table


def _table(name: str) -> Any:
    kind = np.int64 if "Longs" in str(Tables.__annotations__[name]) else np.int32
    return table(Tables._fields.index(name), kind, COLUMNS[name])


meta_of = _table("meta")
nodes_of = _table("nodes")
branches_of = _table("branches")
roots_of = _table("roots")
lists_of = _table("lists")
list_nodes_of = _table("list_nodes")
outcomes_of = _table("outcomes")
outcome_operations_of = _table("outcome_operations")
deltas_of = _table("deltas")
assignments_of = _table("assignments")
spendings_of = _table("spendings")
limits_of = _table("limits")
operations_of = _table("operations")
messages_of = _table("messages")
operated_of = _table("operated")
contents_of = _table("contents")
content_items_of = _table("content_items")
content_table_of = _table("content_table")
slot_contents_of = _table("slot_contents")
views_of = _table("views")
inbox_views_of = _table("inbox_views")
rows_of = _table("rows")
row_table_of = _table("row_table")
row_info_of = _table("row_info")
row_items_of = _table("row_items")
hidden_of = _table("hidden")
changed_of = _table("changed")
bundles_of = _table("bundles")
bundle_items_of = _table("bundle_items")
properties_of = _table("properties")
step_properties_of = _table("step_properties")
network_steps_of = _table("network_steps")
network_operations_of = _table("network_operations")
permuted_rows_of = _table("permuted_rows")
permuted_contents_of = _table("permuted_contents")
permuted_slots_of = _table("permuted_slots")
permuted_locals_of = _table("permuted_locals")
permuted_messages_of = _table("permuted_messages")
permuted_shared_of = _table("permuted_shared")
misses_of = _table("misses")
