"""Slush, of the Avalanche family; one process with a program counter per role, messages in one shared set."""
from itertools import combinations
from kraftcheck import *


class Query(Record):
    src: str
    dst: str
    color: str


class Reply(Record):
    src: str
    dst: str
    color: str


class Done(Record):
    pid: str


class Net(Record):
    pick: Map[str, str]
    message: frozenset[Query | Reply | Done] = frozenset()


class QueryProc(Record):
    id: str
    host: str
    pc: str = "QueryReplyLoop"


class LoopProc(Record):
    id: str
    host: str
    pc: str = "RequireColorAssignment"
    sample: frozenset[str] = frozenset()
    variant: int = 0


class Client(Record):
    id: str = "ClientRequest"
    pc: str = "ClientRequestLoop"


class Slush(Protocol):
    nodes: int = constant("Nodes", default=3)
    iterations: int = constant("Iterations", default=1)
    sample_size: int = constant("SampleSize", default=2)
    threshold: int = constant("Threshold", default=2)

    def initial(self):
        ids = range(1, self.nodes + 1)
        yield self.start(
            [*(QueryProc(f"q{i}", f"n{i}") for i in ids), *(LoopProc(f"l{i}", f"n{i}") for i in ids), Client()],
            Net(Map({f"n{i}": "none" for i in ids})))

    def terminated(self, shared):
        return shared.message == frozenset(Done(f"l{i}") for i in range(1, self.nodes + 1))

    @internal
    def query(self, me: QueryProc, shared: Net) -> Steps:
        match me.pc:
            case "QueryReplyLoop":
                if self.terminated(shared):
                    yield become(me.but(pc="Done"))
                else:
                    yield become(me.but(pc="Wait"))
            case "Wait":
                pending = [m for m in shared.message if isinstance(m, Query) and m.dst == me.id]
                if pending or self.terminated(shared):
                    if self.terminated(shared):
                        yield become(me.but(pc="QueryReplyLoop"))
                    else:
                        yield become(me.but(pc="Respond"))
            case "Respond":
                for m in ordered(shared.message):
                    if isinstance(m, Query) and m.dst == me.id:
                        mine = shared.pick[me.host]
                        color = m.color if mine == "none" else mine
                        yield become(me.but(pc="QueryReplyLoop")).put(
                            pick=shared.pick.put(me.host, color),
                            message=(shared.message - {m}) | {Reply(me.id, m.src, color)})

    @internal
    def loop(self, me: LoopProc, shared: Net) -> Steps:
        if me.pc == "RequireColorAssignment":
            if shared.pick[me.host] != "none":
                yield become(me.but(pc="ExecuteSlushLoop"))
        elif me.pc == "ExecuteSlushLoop":
            yield become(me.but(pc="QuerySampleSet" if me.variant < self.iterations else "Termination"))
        elif me.pc == "QuerySampleSet":
            others = [f"q{i}" for i in range(1, self.nodes + 1) if f"n{i}" != me.host]
            for chosen in combinations(others, self.sample_size):
                yield become(me.but(pc="Tally", sample=frozenset(chosen))).put(
                    message=shared.message | {Query(me.id, pid, shared.pick[me.host]) for pid in chosen})
        elif me.pc == "Tally":
            replies = {m for m in shared.message if isinstance(m, Reply) and m.dst == me.id}
            if all(any(m.src == pid for m in replies) for pid in me.sample):
                counted = [m.color for m in replies if m.src in me.sample]
                red, blue = counted.count("Red"), counted.count("Blue")
                pick = shared.pick
                if red >= self.threshold:
                    pick = pick.put(me.host, "Red")
                elif blue >= self.threshold:
                    pick = pick.put(me.host, "Blue")
                yield become(me.but(pc="ExecuteSlushLoop", sample=frozenset(), variant=me.variant + 1)).put(
                    pick=pick,
                    message=frozenset(m for m in shared.message if not (isinstance(m, Reply) and m.src in me.sample and m.dst == me.id)))
        elif me.pc == "Termination":
            yield become(me.but(pc="Done")).put(message=shared.message | {Done(me.id)})

    @internal
    def client(self, me: Client, shared: Net) -> Steps:
        if me.pc == "ClientRequestLoop":
            more = any(c == "none" for c in shared.pick.values())
            yield become(me.but(pc="Assign" if more else "Done"))
        elif me.pc == "Assign":
            for node in shared.pick:
                for color in ("Red", "Blue"):
                    pick = shared.pick.put(node, color) if shared.pick[node] == "none" else shared.pick
                    yield become(me.but(pc="ClientRequestLoop")).put(pick=pick)

    @invariant
    def types(self, shared: Net) -> bool:
        return all(c in ("none", "Red", "Blue") for c in shared.pick.values())
