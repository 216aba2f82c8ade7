"""Expands states whose control rows would not repeat: none is interned, all is read from the states themselves.

A *flat* state is a row of ids too: first what its control row would hold, column by column, then one inbox content for
each slot. Steps are looked up by the replica that acts, and written straight into the successor. Invariants are judged
once for each new state, and what they say of a replica, or of two, is remembered.

What is missing is only noted by the threads: `expand_flat` and `violated` are then called again, in one thread (with
`serial`), and make it where they meet it, or ask Python for it. What a state is packed as they find out by themselves.
"""
