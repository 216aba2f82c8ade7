"""Jars of a whole Kafka server from Maven Central."""

from __future__ import annotations

from pathlib import Path

from kraftcheck.lockstep.jars import MavenArtifact, fetch_jars

SOURCES = Path(__file__).with_name("kafka")
VERSIONS = ("4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.2.2", "4.3.0", "4.3.1", "4.4.0")
LOG4J = "2.25.1"
KAFKA, LOGGING = "org.apache.kafka", "org.apache.logging.log4j"


def server_jars(version: str) -> list[Path]:
    """Return the jars of a Kafka server with its tools and log4j."""
    wanted = (
        MavenArtifact(KAFKA, "kafka_2.13", version),
        MavenArtifact(KAFKA, "kafka-tools", version),
        MavenArtifact(LOGGING, "log4j-core", LOG4J),
        MavenArtifact(LOGGING, "log4j-slf4j-impl", LOG4J),
    )
    return fetch_jars(wanted, f"{version}-server")
