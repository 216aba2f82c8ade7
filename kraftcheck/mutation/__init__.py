"""Mutation testing: a protocol with one small change at a time, to see which changes its properties notice."""
