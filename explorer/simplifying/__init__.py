"""Makes counterexamples easier to read: what makes one hard, and the passes that make it less so."""
