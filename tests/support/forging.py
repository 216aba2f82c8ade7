"""Forged checkpoints: one number changed, digests made anew; and what becomes of a search that goes on from one."""

from __future__ import annotations

import io
import json
import multiprocessing
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from kraftcheck.persistence.folder import MANIFEST_FILE, manifest_bytes
from kraftcheck.spec.errors import InputError

PATIENCE = 60.0  # seconds for one search
NUMBERS = (0, 1, 2, 3, 1000, (1 << 31) - 1, 1 << 31, 1 << 40, 1 << 62, 1 << 64, 10**30)
Place = tuple[Any, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield the place of everything in a JSON value."""
    if at:
        yield at
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(one, (*at, key))


def forge(folder: Path, random: Random) -> str:
    """Change something in a checkpoint, and every digest that would show it; return what was changed."""
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".bin", ".npz", ".parquet"))
    if random.random() < 0.4:
        what = _forge_json(manifest, random)
    else:
        path = random.choice([path for path in files if path.stat().st_size])
        change = {".npz": _forge_arrays, ".bin": _forge_bytes, ".parquet": _forge_table}[path.suffix]
        data, what = change(path.name, path.read_bytes(), random)
        path.write_bytes(data)
    digests_made_anew(folder, manifest)
    return what


def digests_made_anew(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest with the digests that the files of a checkpoint have, and its own."""
    for path in (*folder.glob("*.bin"), *folder.glob("*.npz")):
        digest = blake2b(path.read_bytes(), digest_size=16).hexdigest()
        if path.suffix == ".npz" and isinstance(manifest.get("search"), dict):
            manifest["search"]["digest"] = digest
        elif path.stem in manifest.get("files", ()) and isinstance(manifest["files"][path.stem], dict):
            manifest["files"][path.stem]["digest"] = digest
    (folder / MANIFEST_FILE).write_bytes(manifest_bytes(manifest))


def _forge_json(manifest: dict[str, Any], random: Random) -> str:
    """Change a number, exchange two parts, leave one out or put one in twice; mostly in what is noted of the search."""
    whole = random.random() < 0.1
    by_depth: dict[Place, list[Place]] = {}
    for place in places(manifest if whole else manifest["search"], () if whole else ("search",)):
        by_depth.setdefault(tuple("*" if isinstance(part, int) else part for part in place), []).append(place)
    place = random.choice(random.choice(list(by_depth.values())))
    holder = manifest
    for part in place[:-1]:
        holder = holder[part]
    key, old = place[-1], holder[place[-1]]
    if isinstance(old, int | float) and random.random() < 0.8:
        holder[key] = random.choice([old + 1, old - 1, -old, old * 2, *NUMBERS])
    elif isinstance(old, str) and random.random() < 0.5:
        holder[key] = _changed(old.encode() or b"x", random)[0].decode("utf-8", "replace")
    elif random.random() < 0.5:
        holder[key] = random.choice([None, True, [], {}, "", 0, [old], {"x": old}, float("nan"), -1])
    elif isinstance(holder, list) and random.random() < 0.5:
        holder.insert(key, random.choice(holder))
    else:
        del holder[key]
    return f"{'.'.join(map(str, place))}: {str(old)[:60]}"


def _forge_bytes(name: str, data: bytes, random: Random) -> tuple[bytes, str]:
    if name.startswith("values") or random.random() < 0.1:
        changed, place = _changed(data, random)
        return changed, f"{name}: byte {place}"
    array = np.frombuffer(data, np.int32).copy()
    place = random.randrange(len(array))
    old = int(array[place])
    new = random.choice([old + 1, old - 1, -1, 0, int(random.choice(array)), (1 << 31) - 1, -(1 << 31)])
    array[place] = min(max(new, -(1 << 31)), (1 << 31) - 1)
    return array.tobytes(), f"{name}[{place}]: {old} became {new}"


def _changed(data: bytes, random: Random) -> tuple[bytes, int]:
    place = random.randrange(len(data))
    new = random.choice([data[place] ^ 1 << random.randrange(8), 0, 255, data[place] - 1 & 255, data[place] + 1 & 255])
    kept = random.choice([data[place + 1 :]] * 8 + [b"", data[place:]])
    return data[:place] + bytes([new]) + kept, place


def _forge_arrays(_: str, data: bytes, random: Random) -> tuple[bytes, str]:
    arrays = dict(np.load(io.BytesIO(data)))
    name = random.choice(sorted(arrays))
    array = arrays[name] = arrays[name].copy()
    if name == "values" or not array.size:
        changed, place = _changed(array.tobytes() or b"x", random)
        arrays[name] = np.frombuffer(changed, np.uint8)
        what = f"values: byte {place}"
    elif random.random() < 0.1:
        arrays[name] = random.choice([array[:-1], array.astype(np.float64), array.astype(np.int32), array.reshape(-1)])
        what = f"{name}: another shape"
    else:
        words = array.reshape(-1)
        place = random.randrange(len(words))
        old = int(words[place])
        new = random.choice([old + 1, old - 1, old ^ 1 << random.randrange(63), -1, 0, int(random.choice(words))])
        words[place] = min(max(new, -(1 << 63)), (1 << 63) - 1)
        what = f"{name}[{place}]: {old >> 32},{old & 0xFFFFFFFF} became {new >> 32},{new & 0xFFFFFFFF}"
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue(), what


def _forge_table(name: str, data: bytes, random: Random) -> tuple[bytes, str]:
    """Change a cell of a Parquet file, leave a row out or put one in twice."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(data))
    rows = table.to_pylist()
    place, column = random.randrange(len(rows)), random.choice(table.column_names)
    old = rows[place][column]
    if random.random() < 0.1:
        rows[place : place + 1] = random.choice([[], [rows[place]] * 2])
    elif isinstance(old, bytes):
        rows[place] = {**rows[place], column: _changed(old or b"x", random)[0]}
    elif isinstance(old, list):
        numbers = [one + random.choice((0, 0, 0, 1, -1, 1000)) for one in old]
        rows[place] = {**rows[place], column: random.choice([numbers, numbers[:-1], [*numbers, 1]])}
    else:
        rows[place] = {**rows[place], column: random.choice([old + 1, old - 1, -1, 0, 1000])}
    file = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file, write_page_checksum=True)
    return file.getvalue().to_pybytes(), f"{name}, row {place}: {column} was {old}"


def outcomes(
    original: Path, scratch: Path, seeds: Iterable[int], resume: Callable[[Path], Any], right: Any
) -> Counter[str]:
    """Forge a checkpoint once for each seed, go on from it, and count what came of that.

    Parameters
    ----------
    original
        The checkpoint, which is copied.
    scratch
        A folder that is not there.
    seeds
        Of the changes.
    resume
        Goes on from a folder; returns what was found. It is called in another process.
    right
        What must be found, unless the checkpoint is refused.

    Raises
    ------
    AssertionError
        Where something else came of it: naming the seed and the change.
    """
    context = multiprocessing.get_context("fork")
    found, wrong, left = Counter[str](), [], list(seeds)
    while left:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_go_on, args=(original, scratch, left, resume, right, theirs))
        process.start()
        theirs.close()
        while left:
            came = "hang"
            if ours.poll(PATIENCE):
                try:
                    came = ours.recv()
                except EOFError:
                    came = "crash"
            seed, kind = left.pop(0), came.split(":")[0]
            found[kind] += 1
            if kind not in ("right", "refused"):
                wrong.append(f"seed {seed}, {came}")
            if kind in ("hang", "crash"):
                process.kill()
                process.join()
                wrong[-1] += f": {_forged(original, scratch, seed)}"
                break
        process.join()
    assert not wrong, "\n".join(wrong)
    return found


def _forged(original: Path, scratch: Path, seed: int) -> str:
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(original, scratch)
    return forge(scratch, Random(seed))


def _go_on(
    original: Path, scratch: Path, seeds: list[int], resume: Callable[[Path], Any], right: Any, pipe: Any
) -> None:
    for seed in seeds:
        what = _forged(original, scratch, seed)
        try:
            found = resume(scratch)
            came = "right:" if found == right else f"wrong: {found}"
        except InputError as error:
            came = f"refused: {error}" if str(error).startswith("--resume") else f"another message: {error}"
        except Exception as error:
            came = f"error: {type(error).__name__}: {error}"
        pipe.send(f"{came} ({what})")
