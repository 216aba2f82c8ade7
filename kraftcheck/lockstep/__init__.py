"""Drives the real `KafkaRaftClient` beside the model `quorum`, step for step.

| module | its one job |
|---|---|
| `driver/` | the Java program that holds Kafka's replicas and does one command at a time |
| `jars` | finds Java and Kafka's jars, and compiles the driver once |
| `process` | the running driver: a command in, an answer out |
| `logs` | Kafka's logs as batches of the model; offsets of records as counts of batches |
| `messages` | Kafka's messages as messages of the model |
| `cluster` | Kafka's replicas and messages as the model sees them |
| `comparison` | what differs between a state of the model and Kafka's |
| `steps` | which command makes Kafka take a step of the model |
| `lockstep` | one walk on both sides, and its verdict |
"""
