"""Records of `registration`: metadata records, messages, the state of each process.

Source: KIP-1312, "Support unregistering controllers" (KAFKA-20395), "Public Interfaces". KIP-919 for the registration
of controllers, KIP-631 for that of brokers, KIP-853 for voters, KIP-584 for finalized features.
"""

from __future__ import annotations

from kraftcheck.spec import Map, ModelValue, Record, Symbol

UNREGISTRATION_LEVEL = 2
"""The first metadata.version with UnregisterControllerRecord; levels 1 and 3 stand for those before and after it."""


class Nil(Symbol):
    """The null value: no command, or no active controller."""

    NIL = "Nil"


class Name(Symbol):
    """The id of the operator with the command line tools."""

    ADMIN = "admin"


class Error(Symbol):
    """Error codes; DISCONNECTED stands for a stopped node."""

    NONE = "NONE"
    NOT_CONTROLLER = "NOT_CONTROLLER"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    BROKER_ID_NOT_REGISTERED = "BROKER_ID_NOT_REGISTERED"
    VOTER_NOT_FOUND = "VOTER_NOT_FOUND"
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
    INVALID_REQUEST = "INVALID_REQUEST"
    DISCONNECTED = "DISCONNECTED"
    DUPLICATE_BROKER_REGISTRATION = "DUPLICATE_BROKER_REGISTRATION"


class Tool(Symbol):
    """The operator's command line tools."""

    UNREGISTER_CONTROLLER = "UnregisterController"
    UNREGISTER_BROKER = "UnregisterBroker"
    REMOVE_CONTROLLER = "RemoveController"
    REMOVE_AND_UNREGISTER = "RemoveAndUnregister"
    UPGRADE = "Upgrade"


SYMBOL_TYPES = (Nil, Name, Error, Tool)


# The metadata log


class RegisterControllerRecord(Record):
    """Registers a controller with its incarnation, and its supported metadata.version up to `supports`."""

    controller: ModelValue
    incarnation: int
    supports: int


class UnregisterControllerRecord(Record):
    """Unregisters a controller."""

    controller: ModelValue


class RegisterBrokerRecord(Record):
    """Registers a broker with its incarnation, and its supported metadata.version up to `supports`."""

    broker: ModelValue
    incarnation: int
    supports: int


class UnregisterBrokerRecord(Record):
    """Unregisters a broker."""

    broker: ModelValue


class FeatureLevelRecord(Record):
    """Finalizes a level of metadata.version."""

    level: int


class VotersRecord(Record):
    """Sets the voter set (KIP-853)."""

    voters: frozenset[ModelValue]


LogRecord = (
    RegisterControllerRecord
    | UnregisterControllerRecord
    | RegisterBrokerRecord
    | UnregisterBrokerRecord
    | FeatureLevelRecord
    | VotersRecord
)


class Registered(Record):
    incarnation: int
    supports: int


class Image(Record):
    """The image of a metadata log: registrations, finalized level and voter set."""

    controllers: Map[ModelValue, Registered]
    brokers: Map[ModelValue, Registered]
    level: int
    voters: frozenset[ModelValue]


# Messages


class RegistrationRequest(Record):
    """ControllerRegistrationRequest and BrokerRegistrationRequest."""

    incarnation: int
    supports: int
    source: ModelValue
    dest: ModelValue


class RegistrationResponse(Record):
    """Response to ControllerRegistrationRequest or BrokerRegistrationRequest."""

    incarnation: int
    error: Error
    dest: ModelValue


class UnregisterControllerRequest(Record):
    """UnregisterControllerRequest: the controller to unregister; `serial` is the number of the operator's request."""

    controller: ModelValue
    serial: int
    dest: ModelValue


class UnregisterBrokerRequest(Record):
    broker: ModelValue
    serial: int
    dest: ModelValue


class RemoveVoterRequest(Record):
    """RemoveRaftVoterRequest."""

    voter: ModelValue
    serial: int
    dest: ModelValue


class UpdateFeaturesRequest(Record):
    """UpdateFeaturesRequest: finalize metadata.version at a level."""

    level: int
    serial: int
    dest: ModelValue


class AdminResponse(Record):
    error: Error
    serial: int
    dest: Name = Name.ADMIN


AdminRequest = UnregisterControllerRequest | UnregisterBrokerRequest | RemoveVoterRequest | UpdateFeaturesRequest
Request = RegistrationRequest | AdminRequest
Response = RegistrationResponse | AdminResponse


# Processes


class Due(Record):
    """A response that is due when the log is committed up to an offset."""

    offset: int
    response: Response


class Node(Record):
    id: ModelValue
    running: bool  # whether the process is up
    supports: int  # the highest metadata.version that its software supports
    incarnation: int = 1  # the number of starts of the process
    cursor: int = 0  # the number of committed records that it has applied
    registering: bool = False  # whether a registration request is pending


class Controller(Node):
    """A controller: a voter or an observer, possibly the active controller."""

    due: tuple[Due, ...] = ()  # as active controller: the responses due at a commit


class Broker(Node):
    """A broker."""


class Command(Record):
    """A tool that the operator runs, and its target: a node or a level."""

    tool: Tool
    target: ModelValue | int


class Outcome(Record):
    """The result of a tool, with or without the advice to run `kafka-cluster unregister-controller` instead."""

    command: Command
    error: Error
    advice: bool = False


class Admin(Record):
    """The operator, who runs one tool at a time."""

    id: Name = Name.ADMIN
    command: Command | Nil = Nil.NIL  # the running tool
    # for `remove-controller --unregister`: whether the voter is removed, and the second request pending
    unregistering: bool = False
    serial: int = 0  # the number of requests sent
    outcome: Outcome | Nil = Nil.NIL  # the result of the last tool


class Shared(Record):
    """The state that belongs to no process, and history for properties."""

    log: tuple[LogRecord, ...]  # the active controller's metadata log after the common initial snapshot
    committed: int  # the number of its committed records, which nodes may apply
    active: ModelValue | Nil  # the active controller, which is KRaft's leader
    # the voters in `controller.quorum.voters` of every node's configuration (static quorum only)
    voters: frozenset[ModelValue] = frozenset()
    # the nodes that the operator has begun to unregister, and does not intend to start again
    decommissioned: frozenset[ModelValue] = frozenset()
    # history: offsets and records reported to the operator as committed
    told: frozenset[tuple[int, LogRecord]] = frozenset()
