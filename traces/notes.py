"""Notes in a folder of what is done there, as JSON: each appears in one go, so that one that is there is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kraftcheck.files import replacing
from kraftcheck.spec.errors import InputError


def read_note(path: Path) -> Any:
    """Return what a note says.

    Raises
    ------
    InputError
        Where it is none.
    """
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: expected a note of an earlier run: {error}") from None


def write_note(path: Path, content: Any) -> None:
    """Write a note; of two processes that write the same one, the later one's counts."""
    with replacing(path, durable=True) as new:
        new.write_text(json.dumps(content, indent=1))
