"""The compiled code of the bytecode engine: a heap of values and an interpreter, without knowledge of protocols."""
