package org.apache.kafka.common.record.internal;

/** Creates a package that older versions of Kafka lack, so that imports on demand from it compile. */
final class InRecord {
    private InRecord() { }
}
