"""Crash-safe files and folders of checkpoints and corpora. Their content is validated when it is read."""

from functools import cache


@cache
def program_version() -> str:
    """Return the installed version of kraftcheck; "unknown" without an installation."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version("kraftcheck")
    except PackageNotFoundError:
        return "unknown"
