"""Scenarios: stories about a model in text files, read and led through. `tests/scenarios` has them.

| module | its one job |
|---|---|
| `text` | the blocks of a file, and the words of a command |
| `stage` | the model and the present state: which steps a command asks for |
| `asking` | the commands that lead along a walk |
"""
