"""The search orders, a module each, found by file name: `best_first.py` becomes `--search best-first`.

A module has a function `search(protocol, options)`, which returns a `Result`. Code that several search orders share
stands outside this folder, or in a module whose name begins with `_`. The function makes an `Expander`
(`Expander.of`), a store of visited states (`SearchStates` in `level_states.py`, or `VisitedSet` in `visited.py`) and a
`ViolationChecker`. It returns `checker.result_of(...)` of the search proper.

The search proper takes the initial states from `checker.starting_rows()`, and calls `checker.check_starts()` once
they are stored. To expand a batch, it repeats `rows, which = expander.expand(rows, which)` until `which` is empty, and
takes the new states from the store each time. It passes new states to `checker.python`, and the expander's events to
`checker.report_events`, or to a `WitnessSearch` (`witness.py`) that finds shortest counterexamples. After each batch it
calls `checker.stop_at_max_states()` and `checker.monitor.check_time_limit(...)`.

The search order keeps the predecessors that a counterexample needs. It honours
`max_depth`, and sets the result's `depth`. The options `--memory`, `--checkpoint`, `@reachable` and `@temporal`
need an entry in `explorer/request.py`. A pattern to copy is `BreadthFirstSearch._expand_batch` in `bfs.py`.
"""
