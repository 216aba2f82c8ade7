"""The KRaft protocols, one module each, with their bounded configurations beside them."""

if __name__ != "kraftcheck.kraft_model":
    raise ImportError("this package is kraftcheck.kraft_model: import that", name=__name__)
