"""The KRaft protocols: a package for each model, with its bounded configurations in `configurations.toml`.

The docstring of each package says which module has which action. The command line finds every package with such a
folder by its name.
"""

if __name__ != "kraftcheck.kraft_model":
    raise ImportError("this package is kraftcheck.kraft_model: import that", name=__name__)
