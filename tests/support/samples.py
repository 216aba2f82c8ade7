"""Where the samples are, and short ways to make files of text."""

import gzip
from pathlib import Path

from kraftcheck.traces import Trace, ValueCache, read_traces

DATA = Path(__file__).parents[1] / "data"
TLC = DATA / "tlc"
TOY = DATA / "toy"


def text_of(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def traces_of(folder: Path, text: str | bytes, name: str = "sample", cache: ValueCache | None = None) -> list[Trace]:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_traces(path, cache=cache))


def variables(trace: Trace) -> list[dict[str, object]]:
    return [dict(state.variables) for state in trace.states]
