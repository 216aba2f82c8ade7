"""Finds protocol classes: in modules, in users' files, among the variants of a protocol."""
