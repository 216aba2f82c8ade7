"""The specification language: actions, steps, networks, properties, and their semantics."""
