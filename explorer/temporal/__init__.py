"""Temporal properties: fair behaviours that a formula forbids, found in the state graph (`docs/temporal.md`)."""
