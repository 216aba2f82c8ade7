"""`kraftcheck pipeline`: many traces replayed on Spark, into tables of Parquet."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

from explorer.tables.agreement import identity_of_search
from kraftcheck.changes import NOTE, PLAIN, WARNING
from kraftcheck.check_command import guarded
from kraftcheck.comparing import bind_leniently
from kraftcheck.counterexample import Line
from kraftcheck.models import Model, find_config, find_model
from kraftcheck.outputs import require_writable, write_json
from spec.config import override, parse_setting
from spec.errors import InputError
from spec.protocol import Protocol
from traces.text import DEFAULT_LIMIT


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        What `kraftcheck.cli` read.

    Returns
    -------
    int
        The exit code: as that of `replay`, over all traces in the output folder.

    Raises
    ------
    InputError
        For bad input other than traces.
    """
    model = find_model(arguments.model, arguments.variant)
    return guarded(model, lambda: _run(model, arguments))
