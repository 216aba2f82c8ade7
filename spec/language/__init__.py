"""The language that protocols are written in: actions, steps, networks and properties, and their semantics."""
