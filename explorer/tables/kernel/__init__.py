"""The compiled code, and what it rests on.

`arrays.py` lets compiled code read groups of arrays; `compiled.py` tells whether the code is compiled on this machine.
"""
