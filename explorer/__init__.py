"""Engines that search protocols: the reference engine, and the engines that must agree with it."""

if __name__ != "kraftcheck.explorer":
    raise ImportError("this package is kraftcheck.explorer: import that", name=__name__)
