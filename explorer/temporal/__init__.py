"""Temporal properties: fair counterexamples to formulas, found in the state graph (`docs/temporal.md`)."""
