package org.apache.kafka.common.utils.internals;

/** Creates a package that older versions of Kafka lack, so that imports on demand from it compile. */
final class InUtils {
    private InUtils() { }
}
