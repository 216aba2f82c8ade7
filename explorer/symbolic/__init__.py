"""The symbolic engine: sets of states as decision diagrams instead of states one by one (`docs/symbolic.md`)."""
