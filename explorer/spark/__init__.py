"""Breadth-first search on Apache Spark: the table engine's kernel, level by level, on several machines."""
