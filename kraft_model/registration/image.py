"""Rules of `registration` about metadata records: what they add up to, and who can read them."""

from __future__ import annotations

from kraftcheck.kraft_model.registration.records import (
    UNREGISTRATION_LEVEL,
    FeatureLevelRecord,
    Image,
    LogRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    Registered,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from kraftcheck.spec import ModelValue


def replayed(image: Image, record: LogRecord) -> Image:
    """Return the image after a record."""
    if isinstance(record, RegisterControllerRecord):
        registered = Registered(record.incarnation, record.supports)
        return image.but(controllers=image.controllers.put(record.controller, registered))
    if isinstance(record, UnregisterControllerRecord):
        return image.but(controllers=image.controllers.without(record.controller))
    if isinstance(record, RegisterBrokerRecord):
        registered = Registered(record.incarnation, record.supports)
        return image.but(brokers=image.brokers.put(record.broker, registered))
    if isinstance(record, UnregisterBrokerRecord):
        return image.but(brokers=image.brokers.without(record.broker))
    if isinstance(record, FeatureLevelRecord):
        return image.but(level=record.level)
    return image.but(voters=record.voters)


def image_of(snapshot: Image, log: tuple[LogRecord, ...]) -> Image:
    """Return what a log adds up to after a snapshot."""
    for record in log:
        snapshot = replayed(snapshot, record)
    return snapshot


def needed_level(record: LogRecord) -> int:
    """Return the metadata.version that a node's software must know to read a record."""
    if isinstance(record, FeatureLevelRecord):
        return record.level
    return UNREGISTRATION_LEVEL if isinstance(record, UnregisterControllerRecord) else 1


def is_majority(some: frozenset[ModelValue], voters: frozenset[ModelValue]) -> bool:
    """Return whether some nodes are more than half of the voters."""
    return 2 * len(some & voters) > len(voters)
