"""Crash-safe files and folders of checkpoints and corpora. Their content is validated when it is read."""
