"""The records of `registration`: metadata records, messages, what each process knows.

Source: the KIP "Support unregistering controllers" (KAFKA-20395), "Public Interfaces"; KIP-919 for the registration of
controllers, KIP-631 for that of brokers, KIP-853 for voters, KIP-584 for finalized features.
"""

from __future__ import annotations

from kraftcheck.spec import Map, ModelValue, Record, Symbol

UNREGISTRATION_LEVEL = 2
"""The metadata.version that has UnregisterControllerRecord; levels 1 and 3 stand for those before and after it."""


class Nil(Symbol):
    """No command, nobody."""

    NIL = "Nil"


class Name(Symbol):
    """The id of the operator with the command line tools."""

    ADMIN = "admin"


class Error(Symbol):
    """Error codes; DISCONNECTED: the node is down."""

    NONE = "NONE"
    NOT_CONTROLLER = "NOT_CONTROLLER"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    BROKER_ID_NOT_REGISTERED = "BROKER_ID_NOT_REGISTERED"
    VOTER_NOT_FOUND = "VOTER_NOT_FOUND"
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
    INVALID_REQUEST = "INVALID_REQUEST"
    DISCONNECTED = "DISCONNECTED"


class Tool(Symbol):
    """The tools that the operator can run."""

    UNREGISTER_CONTROLLER = "UnregisterController"
    UNREGISTER_BROKER = "UnregisterBroker"
    REMOVE_CONTROLLER = "RemoveController"
    REMOVE_AND_UNREGISTER = "RemoveAndUnregister"
    UPGRADE = "Upgrade"


SYMBOLS = (Nil, Name, Error, Tool)


# The metadata log


class RegisterControllerRecord(Record):
    """A controller with this incarnation is a member, and supports metadata.version up to `supports`."""

    controller: ModelValue
    incarnation: int
    supports: int


class UnregisterControllerRecord(Record):
    """A controller is no longer a member."""

    controller: ModelValue


class RegisterBrokerRecord(Record):
    """A broker with this incarnation is a member, and supports metadata.version up to `supports`."""

    broker: ModelValue
    incarnation: int
    supports: int


class UnregisterBrokerRecord(Record):
    """A broker is no longer a member."""

    broker: ModelValue


class FeatureLevelRecord(Record):
    """metadata.version is finalized at a level."""

    level: int


class VotersRecord(Record):
    """The voter set from here on (KIP-853)."""

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
    """The state that metadata records add up to."""

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
    """The answer to it."""

    incarnation: int
    error: Error
    dest: ModelValue


class UnregisterControllerRequest(Record):
    """UnregisterControllerRequest: the controller to unregister; `serial` tells the operator's requests apart."""

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
    """A response that is sent when the log is committed up to an offset."""

    offset: int
    response: Response


class Node(Record):
    id: ModelValue
    running: bool  # whether the process is up
    supports: int  # the highest metadata.version that its software knows
    incarnation: int = 1  # the number of the process's start
    cursor: int = 0  # the number of committed records that it has applied
    registering: bool = False  # whether it waits for the answer to a registration request


class Controller(Node):
    """A controller: a voter or an observer, and one of them the active controller."""

    due: tuple[Due, ...] = ()  # as active controller, the responses that wait for their records to be committed


class Broker(Node):
    """A broker."""


class Command(Record):
    """A tool that the operator runs, and the node or level that it is given."""

    tool: Tool
    target: ModelValue | int


class Outcome(Record):
    """The end of a tool, and whether it advises the operator to run `kafka-cluster unregister-controller` instead."""

    command: Command
    error: Error
    advice: bool = False


class Admin(Record):
    """The operator, who runs one tool at a time."""

    id: Name = Name.ADMIN
    command: Command | Nil = Nil.NIL  # the tool that runs
    # for `remove-controller --unregister`: whether the voter is removed, and the second request under way
    unregistering: bool = False
    serial: int = 0  # the number of requests sent
    outcome: Outcome | Nil = Nil.NIL  # the end of the last tool


class Shared(Record):
    """The state that belongs to no process, and history for properties."""

    log: tuple[LogRecord, ...]  # the active controller's metadata log after the snapshot that everyone starts with
    committed: int  # the number of its records that are committed, which others apply
    active: ModelValue | Nil  # the active controller, which is KRaft's leader
    # the voters in `controller.quorum.voters` of every node's configuration (static quorum only)
    voters: frozenset[ModelValue] = frozenset()
    # the nodes that the operator has begun to unregister, and so does not intend to start again
    decommissioned: frozenset[ModelValue] = frozenset()
    # history: offsets and records of which the operator was told that they are committed
    told: frozenset[tuple[int, LogRecord]] = frozenset()
