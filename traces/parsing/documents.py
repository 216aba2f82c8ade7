"""JSON, read as a whole, with an error for everything that is not what it should be."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NoReturn

from kraftcheck.spec.tla.parsing import DEEPEST, shortened
from kraftcheck.traces.parsing.lines import Source

Json = Any  # what the json module makes of JSON: dict, list, str, int, float, bool, None


def read_json(source: Source) -> Json:
    """Read the JSON that a file consists of.

    Parameters
    ----------
    source
        The file.

    Returns
    -------
    dict or list or str or int or bool
        As the `json` module has it. There are no fractions and no null: no format of ours has them.

    Raises
    ------
    TraceError
        The file is not JSON, or nested deeper than `kraftcheck.spec.tla.parsing.DEEPEST`.
    """
    text = source.document()
    too_deep = ("values nested deeper", f"JSON of at most {DEEPEST} levels")
    try:
        result = json.loads(
            text, parse_float=_refuse, parse_constant=_refuse, parse_int=_integer, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        rest = text[error.pos : error.pos + 100].split("\n")[0]
        expected = error.msg.removeprefix("Expecting ")
        found = shortened(rest) if rest else "the end of the file"
        raise source.error(found, f"JSON ({expected})", line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise source.error(*too_deep, line=1) from None
    except _JsonError as error:
        raise source.error(str(error.args[0]), str(error.args[1]), line=1) from None
    if _is_deep(result):
        raise source.error(*too_deep, line=1)
    return result


class _JsonError(Exception):
    """JSON that no trace consists of: what was found, what was expected."""


def _refuse(number: str) -> NoReturn:
    raise _JsonError(f"the number {shortened(number)}", "whole numbers of a sensible length")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _JsonError(f"the name {shortened(twice)} twice in one object", "each name once")
    return result


def _integer(number: str) -> int:
    if len(number) > 1_000:
        _refuse(number)
    return int(number)


def _is_deep(document: Json) -> bool:
    level = [document]
    for _ in range(DEEPEST):
        level = [
            item
            for parent in level
            if isinstance(parent, list | dict)
            for item in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return False
    return True
