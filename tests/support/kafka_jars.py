"""Jars of a whole Kafka server from Maven Central, and our own Java sources compiled against them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from zipfile import ZipFile

from kraftcheck.files import replacing
from kraftcheck.lockstep.jars import Artifact, cache, fetched
from kraftcheck.processes import run_to_end

SOURCES = Path(__file__).with_name("kafka")
VERSIONS = ("4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.2.2", "4.3.0", "4.3.1", "4.4.0")
LOG4J = "2.25.1"
KAFKA, LOGGING = "org.apache.kafka", "org.apache.logging.log4j"


def server_jars(version: str) -> list[Path]:
    """Return the jars of a Kafka server with its tools and log4j."""
    wanted = (
        Artifact(KAFKA, "kafka_2.13", version),
        Artifact(KAFKA, "kafka-tools", version),
        Artifact(LOGGING, "log4j-core", LOG4J),
        Artifact(LOGGING, "log4j-slf4j-impl", LOG4J),
    )
    return fetched(wanted, f"{version}-server")


def program(name: str) -> Path:
    """Return the path of a program of the JDK."""
    found = shutil.which(name)
    assert found is not None, f"{name}: not on the PATH; install a JDK"
    return Path(found)


def compiled(sources: Sequence[Path], jars: Sequence[Path], manifest: str = "") -> Path:
    """Return a jar of Java sources compiled against other jars; the cache keeps it."""
    digest = blake2b(manifest.encode(), digest_size=8)
    for text in [*(source.read_bytes() for source in sources), *(str(jar).encode() for jar in jars)]:
        digest.update(text)
    target = cache() / "support" / f"{digest.hexdigest()}.jar"
    if not target.is_file():
        target.parent.mkdir(exist_ok=True)
        classes = target.with_name(f"{target.name}.{os.getpid()}.classes")
        command = [str(program("javac")), "-nowarn", "-cp", os.pathsep.join(map(str, jars)), "-d", str(classes)]
        try:
            done = run_to_end([*command, *map(str, sources)], 300)
            assert done.returncode == 0, done.stderr
            with replacing(target) as new, ZipFile(new, "w") as jar:
                if manifest:
                    jar.writestr("META-INF/MANIFEST.MF", manifest)
                for path in sorted(classes.rglob("*.class")):
                    jar.write(path, str(path.relative_to(classes)))
        finally:
            shutil.rmtree(classes, ignore_errors=True)
    return target
