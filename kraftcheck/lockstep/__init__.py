"""Drives the real `KafkaRaftClient` beside the model `quorum`, step for step.

| module | its one job |
|---|---|
| `driver/` | the Java program that holds Kafka's replicas and does one command at a time |
| `jars` | Kafka's jars, from Maven or a folder, and the driver compiled for them |
| `process` | the running driver: a command in, an answer out |
| `messages` | Kafka's logs and messages as batches and messages of the model |
| `cluster` | Kafka's replicas and messages as the model sees them, and what differs from the model's state |
| `commands` | the command with which Kafka takes a step of the model |
| `lockstep` | one walk on both sides, and its verdict |
| `walks` | the steps that a walk can take, walks drawn at random, walk files |
| `scripts` | walks that follow a scenario or a trace |
| `cover` | walks that take every step of a bounded state graph |
| `survey` | the walks that are asked for, and what came of them: findings by kind, each with a short walk |
| `reach` | the lines of Kafka that walks reached |
"""
