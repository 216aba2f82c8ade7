package org.apache.kafka.common.record.internal;

/** Makes a package that 4.1 and 4.2 do not have, so that what is imported from it on demand compiles. */
final class InternalRecords {
    private InternalRecords() { }
}
