"""The search orders, a module each, found by its file: `best_first.py` is `--search best-first`.

A module must have a function `search(protocol, options)`, which returns a `Result`. What several search orders share
stands outside this folder, or in a module whose name begins with `_`. The function makes an `Expander` (`Expander.of`),
a store of visited states (of `states/`) and a `Checker`, and returns `checker.result_of(...)` of a function that

- takes the initial states from `checker.starting_rows()`, and calls `checker.check_starts()` once they are stored;
- expands states in batches: `rows, which = expander.expand(rows, which)` and then the store's `add(expander.found())`,
  again and again until nothing is left of `which`; it hands the expander's events to `checker.take`, the new states to
  `checker.python`;
- calls `checker.stop_at_max_states()` and `checker.books.look_at_the_clock(...)` after each batch.

The order itself keeps what leads back to a state (`checker.take` wants it for a counterexample), honours `max_depth`
and sets the result's `depth`. `--memory`, `--checkpoint`, `@reachable` and `@temporal` are refused unless
`explorer/capabilities.py` names the order. Copy from `bfs.py`, `_expand_batch`; `dfs.py` has a loop of its own in the
kernel.
"""
