package org.apache.kafka.common.record.internal;

/** Creates a package that 4.1 and 4.2 do not have, so that imports on demand from it compile. */
final class InternalRecords {
    private InternalRecords() { }
}
