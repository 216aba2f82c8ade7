"""Fuzz readers, guided by coverage: `python -m tests.fuzz [READER ...] [--inputs N] [--seconds N]`.

Needs atheris (the extra `fuzz`). A reader gets 100,000 inputs or two hours. Inputs that do something wrong (an error
other than the reader's own, 20 s, 2 GB) are kept in FOLDER/READER/findings, one for each place where it is raised;
inputs that reach something new are in FOLDER/READER/corpus. `--keep FILE` puts a sample of these and all findings into
an archive, which `test_corpus.py` reads.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
import time
import traceback
from hashlib import blake2b
from pathlib import Path

CORPUS = Path(__file__).parents[1] / "data" / "fuzz.tar.gz"
MOST_KEPT, LONGEST_KEPT = 60, 3_000  # inputs of a reader in the archive, and bytes of each
HANG, MEMORY = 20, 2_048  # seconds, MB
LONGEST = 8_192  # bytes of an input


def fuzz(name: str, folder: Path, inputs: int, seconds: int, seed: int) -> None:
    """Fuzz a reader in this process, which ends with that."""
    import atheris

    with atheris.instrument_imports(include=["kraftcheck"], enable_loader_override=False):
        from tests.support.fuzzing import READERS, outcome

    reader, findings = READERS[name], folder / "findings"

    def one(data: bytes) -> None:
        try:
            outcome(reader, data)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = blake2b("".join(f"{f.filename}:{f.name}" for f in frames[-4:]).encode(), digest_size=4).hexdigest()
            path = findings / f"{type(error).__name__}-{place}"
            if not path.exists():
                path.write_bytes(data)
                path.with_suffix(".txt").write_text(traceback.format_exc())

    corpus = folder / "corpus"
    for data in reader.seeds():
        (corpus / f"seed-{blake2b(data, digest_size=8).hexdigest()}").write_bytes(data)
    limits = [f"-runs={inputs}", f"-max_total_time={seconds}", f"-timeout={HANG}", f"-rss_limit_mb={MEMORY}"]
    more = [f"-seed={seed}", f"-max_len={LONGEST}", f"-artifact_prefix={findings}/", "-len_control=0"]
    atheris.Setup([sys.argv[0], *limits, *more, str(corpus)], one)
    atheris.Fuzz()


def campaign(name: str, folder: Path, inputs: int, seconds: float) -> str:
    """Fuzz a reader in other processes, one after the other where one crashes or hangs; return what came of it."""
    for kind in ("corpus", "findings"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    began, done, seed = time.monotonic(), 0, 1
    while done < inputs and time.monotonic() - began < seconds:
        left = int(seconds - (time.monotonic() - began)) + 1
        command = [sys.executable, "-m", "tests.fuzz", name, "--folder", str(folder), "--seed", str(seed)]
        command += ["--inputs", str(inputs - done), "--seconds", str(left), "--one"]
        with (folder / "log").open("ab") as log:
            subprocess.run(command, stdout=log, stderr=log, check=False)
        done = executed(folder / "log")
        seed += 1
    found = [path.name for path in (folder / "findings").iterdir() if path.suffix != ".txt"]
    kept, took = len(list((folder / "corpus").iterdir())), time.monotonic() - began
    findings = f"{len(found)} findings: {', '.join(found)}" if found else "no findings"
    return f"{name}: {done:,} inputs in {took:,.0f} s, {kept:,} in the corpus, {findings}"


def executed(log: Path) -> int:
    """Return how many inputs the processes of a campaign have taken: of one that crashed, as far as it says."""
    lines = log.read_text("utf-8", "replace").splitlines()
    numbers, last = list[int](), 0
    for line in lines:
        if line.startswith("#") and line[1:].split("\t")[0].split()[0].isdecimal():
            last = int(line[1:].split()[0])
        elif line.startswith("INFO: Seed:") or "INFO: Using" in line:
            numbers.append(last)
            last = 0
    return sum(numbers) + last


def keep(folder: Path, archive: Path) -> None:
    """Put the smallest inputs of each reader, and all findings, into an archive."""
    with tarfile.open(archive, "w:gz") as file:
        for reader in sorted(path for path in folder.iterdir() if path.is_dir()):
            corpus = sorted((reader / "corpus").iterdir(), key=lambda path: (path.stat().st_size, path.name))
            every = max(1, len(corpus) // MOST_KEPT)
            findings = [path for path in (reader / "findings").iterdir() if path.suffix != ".txt"]
            for path in (*findings, *[one for one in corpus[::every] if one.stat().st_size <= LONGEST_KEPT]):
                data = path.read_bytes()
                member = tarfile.TarInfo(f"{reader.name}/{blake2b(data, digest_size=6).hexdigest()}")
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("readers", nargs="*", metavar="READER", help="default: all")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=7_200)
    parser.add_argument("--folder", type=Path, default=Path("fuzzing"))
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        fuzz(given.readers[0], given.folder, given.inputs, int(given.seconds), given.seed)
        return
    from tests.support.fuzzing import READERS

    for name in given.readers or READERS:
        print(campaign(name, given.folder / name, given.inputs, given.seconds), flush=True)
    if given.keep is not None:
        keep(given.folder, given.keep)


if __name__ == "__main__":
    main()
