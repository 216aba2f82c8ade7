"""What runs protocols: the reference engine and the others that must agree with it."""

if __name__ != "kraftcheck.explorer":
    raise ImportError("this package is kraftcheck.explorer: import that", name=__name__)
