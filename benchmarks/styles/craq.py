"""CRAQ, chain replication whose nodes all answer reads: clean and dirty versions, and a recorded history."""
from dataclasses import replace

from kraftcheck import *


class Node(Record):
    id: int
    versions: tuple[tuple[int, int], ...] = ((0, 0),)  # (version, value), the oldest is clean
    waiting: frozenset[tuple[str, int]] = frozenset()


class Client(Record):
    id: str
    reads: int = 0
    busy: bool = False
    last: int = 0


class Write(Record):
    version: int
    value: int
    source: int
    dest: int


class WriteAck(Record):
    version: int
    source: int
    dest: int


class Read(Record):
    rid: int
    source: str
    dest: int


class VersionQuery(Record):
    client: str
    rid: int
    source: int
    dest: int


class VersionReply(Record):
    client: str
    rid: int
    version: int
    source: int
    dest: int


class ReadReply(Record):
    rid: int
    version: int
    value: int
    source: int
    dest: str


class History(Record):
    committed: tuple[int, ...] = (0,)
    reads: tuple[tuple[str, int, int], ...] = ()
    floor: Map[str, int] = Map()


class Craq(Protocol):
    n: int = constant("N", default=3)
    most_reads: int = constant("Reads", default=1)
    writes: int = bound("MaxWrites", default=2)
    network = Channels()

    def initial(self):
        yield self.start([*map(Node, range(1, self.n + 1)), Client("c1"), Client("c2")], History())

    @internal
    def write(self, me: Node):
        if me.id == 1:
            version = me.versions[-1][0] + 1
            yield become(replace(me, versions=(*me.versions, (version, 10 + version)))).send(
                Write(version, 10 + version, me.id, 2)).spend("writes")

    @on(Write)
    def on_write(self, me: Node, message: Write, shared: History):
        if me.id == self.n:
            yield consume(replace(me, versions=((message.version, message.value),))).send(
                WriteAck(message.version, me.id, me.id - 1)).put(committed=(*shared.committed, message.version))
        else:
            yield consume(replace(me, versions=(*me.versions, (message.version, message.value)))).send(
                Write(message.version, message.value, me.id, me.id + 1))

    @on(WriteAck)
    def on_ack(self, me: Node, message: WriteAck):
        keep = tuple(v for v in me.versions if v[0] >= message.version)
        step = consume(replace(me, versions=keep))
        yield step.send(WriteAck(message.version, me.id, me.id - 1)) if me.id > 1 else step

    @internal
    def read(self, me: Client, shared: History):
        if not me.busy and me.reads < self.most_reads:
            for node in range(1, self.n + 1):
                yield become(replace(me, busy=True, reads=me.reads + 1)).send(Read(me.reads + 1, me.id, node)).put(
                    floor=shared.floor.put(me.id, shared.committed[-1]))

    @on(Read)
    def on_read(self, me: Node, message: Read):
        if len(me.versions) == 1 or me.id == self.n:
            version, value = me.versions[-1]
            yield consume(me).send(ReadReply(message.rid, version, value, me.id, message.source))
        else:
            yield consume(replace(me, waiting=me.waiting | {(message.source, message.rid)})).send(
                VersionQuery(message.source, message.rid, me.id, self.n))

    @on(VersionQuery)
    def on_version_query(self, me: Node, message: VersionQuery):
        yield consume(me).send(VersionReply(message.client, message.rid, me.versions[-1][0], me.id, message.source))

    @on(VersionReply)
    def on_version_reply(self, me: Node, message: VersionReply):
        found = [v for v in me.versions if v[0] >= message.version]
        version, value = found[0]
        yield consume(replace(me, waiting=me.waiting - {(message.client, message.rid)})).send(
            ReadReply(message.rid, version, value, me.id, message.client))

    @on(ReadReply)
    def on_read_reply(self, me: Client, message: ReadReply, shared: History):
        yield consume(replace(me, busy=False, last=message.version)).put(
            reads=(*shared.reads, (me.id, shared.floor[me.id], message.version)))

    @invariant
    def reads_are_fresh(self, state: State):
        """A read returns at least what was committed when it began, and only what is committed."""
        return all(low <= got and got in state.shared.committed for _, low, got in state.shared.reads)

    @invariant
    def one_writer_order(self, me: Node, peer: Node):
        mine, theirs = dict(me.versions), dict(peer.versions)
        return all(theirs.get(k, v) == v for k, v in mine.items())
