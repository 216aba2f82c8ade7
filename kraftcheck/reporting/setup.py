"""Changes to a cluster for each way to observe it."""

SETUP = """\
Ways to observe a cluster, from the cheapest. Each needs the logs of all voters; brokers are observers and optional.

1. Disks: nothing to change
   shows   whether the logs diverged, where and since which epoch, and who was a voter then
   copy    from metadata.log.dir (else the first of log.dirs) of each controller: the folder __cluster_metadata-0
           and the file meta.properties; a running node may be copied
               tar czf disk1.tar.gz -C /var/lib/kafka/data meta.properties __cluster_metadata-0
   cost    none
   then    kraftcheck validate quorum disk1.tar.gz disk2.tar.gz disk3.tar.gz --monitors

2. INFO: nothing to change
   shows   whether a check is broken, such as two leaders in an epoch; no steps
   copy    server.log and its rotated files of each controller
   cost    8 to 20 lines a minute
   then    kraftcheck validate quorum node1/ node2/ node3/ --monitors

3. TRACE: one logger, also at run time
   shows   every step, message and answer: the logs can be replayed
   change  on each controller, until it restarts:
               bin/kafka-configs.sh --bootstrap-controller HOST:PORT --alter --entity-type broker-loggers \\
                 --entity-name ID --add-config org.apache.kafka.raft=TRACE
           or for good in log4j2.yaml, with a file of its own, so that rotation keeps it:
               - name: org.apache.kafka.raft
                 level: TRACE
           back: the same command with org.apache.kafka.raft=INFO
   cost    leader with three fetchers: 2,600 lines and 2 MB a minute; follower: 1,100 lines and 0.5 MB; gzip 26 to 1;
           each further broker 0.65 MB a minute at the leader; a resigning leader may be asked thousands of times a
           second (5 MB/s), so limit the size of the files
           CPU of a leader a request: 0.44 ms at INFO, 0.46 at DEBUG, 0.49 at TRACE; 16 clients that write get 458,
           454 and 415 requests a second (Kafka 4.3.0, three controllers on two processors)
   note    DEBUG (400 to 600 lines a minute) shows high watermarks and end offsets, but no messages
   then    kraftcheck validate quorum node1/ node2/ node3/

4. An agent of the JVM, for staging and CI
   shows   the lines of TRACE at any log level, and the whole state between two steps
   change  build the jar, with a JDK and Maven: python -m kraftcheck.validation.observer
           and start each controller with KAFKA_OPTS=-javaagent:JAR=FILE.ndjson (at most 1 GiB; FILE.ndjson,BYTES)
   cost    as TRACE (leader 1.5 MB a minute, follower 0.6 MB), and 0.54 ms of CPU a request; 407 requests a second
   then    kraftcheck validate quorum node1.ndjson node2.ndjson node3.ndjson

Write at least the first lines of a process: a log that begins when a node starts needs no guess of its state.
"""
"""The text of `--print-setup`."""
