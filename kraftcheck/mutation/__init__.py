"""Mutants: a protocol changed by one small slip at a time, to see which of them its properties notice."""
