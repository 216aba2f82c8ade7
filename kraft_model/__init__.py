"""The KRaft protocols: a package for each model, with its bounded configurations in `configurations.toml`.

The docstring of each package lists its modules and their actions. The command line finds every package with a
`configurations.toml` by its name.
"""

if __name__ != "kraftcheck.kraft_model":
    raise ImportError("this package is kraftcheck.kraft_model: import that", name=__name__)
