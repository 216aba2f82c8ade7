"""Successor generation for flat states: rows of ids without a control row.

A *flat* row has the columns of the control row themselves, then one inbox content for each slot. This layout pays
where control rows hardly repeat: interning them would cost memory and save no lookup. Steps are looked up by the
acting replica and written into a copy of the row. Invariants are evaluated once for each new state; facts about one
or two replicas are memoized by their local states.

Threads only record that a state met a cache miss. Python then runs `expand_flat_state` and `violated` on it in one
thread with `serial`, which fills the tables or files requests to Python. Only the ids of clusters are assigned by
threads.
"""
