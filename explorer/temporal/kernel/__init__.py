"""Compiled code of the temporal checks: the product of a state graph with an automaton, without protocols."""
