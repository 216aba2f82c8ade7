"""Jars of our own Java sources, compiled at first use and kept in the cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from zipfile import ZipFile

from kraftcheck.files import replacing
from kraftcheck.lockstep.jars import PATIENCE, Artifact, cache, fetched, jdk, require_new_enough
from kraftcheck.processes import run_to_end
from kraftcheck.spec.errors import InputError

BYTE_BUDDY = Artifact("net.bytebuddy", "byte-buddy", "1.18.14")
CODE = ("net/bytebuddy/", "META-INF/LICENSE", "META-INF/NOTICE")
"""The entries of Byte Buddy's jar that an agent needs; others are for newer versions of Java."""


def agent_jar(source: Path, jars: Sequence[Path] = ()) -> Path:
    """Return the jar of a Java agent, with Byte Buddy in it: one file that fits every version of Kafka."""
    manifest = f"Manifest-Version: 1.0\nPremain-Class: {source.stem}\n"
    return compiled([source], [*fetched([BYTE_BUDDY], "byte-buddy"), *jars], manifest)


def compiled(sources: Sequence[Path], jars: Sequence[Path], manifest: str = "") -> Path:
    """Return a jar of sources compiled against other jars; with a manifest the code of the first jar is in it."""
    digest = blake2b(manifest.encode(), digest_size=8)
    for text in [*(source.read_bytes() for source in sources), *(str(jar).encode() for jar in jars)]:
        digest.update(text)
    target = cache() / "built" / f"{sources[0].stem}-{digest.hexdigest()}.jar"
    if not target.is_file():
        target.parent.mkdir(exist_ok=True)
        classes = target.with_name(f"{target.name}.{os.getpid()}.classes")
        compiler = jdk("javac")
        require_new_enough(compiler)
        command = [str(compiler), "-nowarn", "-cp", os.pathsep.join(map(str, jars)), "-d", str(classes)]
        try:
            done = run_to_end([*command, *map(str, sources)], PATIENCE)
            if done.returncode != 0:
                first = next((line for line in done.stderr.splitlines() if "error:" in line), "javac says nothing")
                raise InputError(f"{sources[0].name}: cannot be compiled: {first.rpartition('/')[2]}")
            with replacing(target) as new, ZipFile(new, "w") as jar:
                if manifest:
                    _pack(jar, manifest, jars[0])
                for path in sorted(classes.rglob("*.class")):
                    jar.write(path, str(path.relative_to(classes)))
        finally:
            shutil.rmtree(classes, ignore_errors=True)
    return target


def _pack(jar: ZipFile, manifest: str, path: Path) -> None:
    jar.writestr("META-INF/MANIFEST.MF", manifest)
    with ZipFile(path) as other:
        for entry in other.infolist():
            if entry.filename.startswith(CODE) and not entry.is_dir():
                jar.writestr(entry, other.read(entry))
