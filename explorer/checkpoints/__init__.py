"""What every checkpoint and output folder has in common: the identity of its search, and counterexamples as text."""
