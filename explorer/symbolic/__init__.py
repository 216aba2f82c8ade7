"""The symbolic engine: sets of states as decision diagrams, instead of single states (`docs/symbolic.md`)."""
