"""The language that protocols are written in: actions, steps, networks, properties, and what they mean."""
