"""The Java agent that writes each step of Kafka's Raft client with its states.

`python -m kraftcheck.validation.observer` builds its jar, and prints the path.
"""

from __future__ import annotations

from pathlib import Path

from kraftcheck.lockstep.jars import compile_agent_jar

AGENT_SOURCE = Path(__file__).with_name("agent") / "ObservingAgent.java"


def build_observing_agent() -> Path:
    """Return the agent's jar: `-javaagent:JAR=FILE[,BYTES]` writes to FILE, at most BYTES."""
    return compile_agent_jar(AGENT_SOURCE)


if __name__ == "__main__":
    print(build_observing_agent())
