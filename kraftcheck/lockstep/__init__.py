"""Lockstep of the real `KafkaRaftClient` and the model `quorum`: both take the same steps, and are compared.

The Java program in `driver/` holds Kafka's replicas; `jars` compiles it, and `driver_process` runs it. Kafka's side of
a walk is in `messages`, `kafka_cluster` and `driver_commands`; `lockstep` compares both sides. The modules `walks`,
`scripts` and `cover` choose steps. `campaign` makes many walks and classifies their findings; `code_coverage` measures
how much of Kafka they cover.
"""
