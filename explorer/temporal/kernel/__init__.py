"""Compiled code of the temporal checks: the product of a state graph with an automaton. It knows no protocol."""
