"""Single changes in the logs of a conforming cluster, and the verdicts of `kraftcheck validate` on them.

    python -m tests.support.log_tampering --count 1000 --seed 1 [FOLDER...]

A change edits the text of one line that is an event, or loses, doubles or moves the line. Of two ends of a message only
one is changed.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from itertools import chain
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kraftcheck.cli import main as command
from kraftcheck.validation.events import Event, EventKind
from kraftcheck.validation.log4j import events_of_lines

DATA = Path(__file__).parents[1] / "data" / "cluster"
SAMPLES = (DATA, DATA / "caught-up")

MESSAGES = (EventKind.REQUEST, EventKind.RESPONSE, EventKind.SEND, EventKind.ANSWER)
RESPONSES = (EventKind.RESPONSE, EventKind.ANSWER)
STATES = (EventKind.TRANSITION,)
VOTERS = (*STATES, EventKind.VOTERS, EventKind.STARTING_VOTERS)
MODES = ("Unattached", "Prospective", "Candidate", "Leader", "Follower", "Resigned")
OFFSET_LINES = (EventKind.LEADER_HIGH_WATERMARK, EventKind.FOLLOWER_HIGH_WATERMARK)


class Field(NamedTuple):
    """A field of lines: the kinds of the lines, and a pattern that ends in the field's value."""

    kinds: tuple[EventKind, ...]
    pattern: str


FIELDS = {
    "epoch of a transition": Field(STATES, r"(?<=[( ]epoch=)\d+"),
    "leader of a transition": Field(STATES, r"(?<=leaderId=OptionalInt\[)\d+|(?<=leader=)\d+"),
    "voted key of a transition": Field(STATES, r"(?<=votedKey=Optional\[ReplicaKey\(id=)\d+"),
    "mode of a transition": Field(STATES, r"(?<= to )[A-Z][a-z]+(?=State\(|\()"),
    "votes of an election": Field(STATES, r"(?<=state=)[A-Z]+(?=\))"),
    "voter set": Field(VOTERS, r"(?<=[{\[])\d+(?==VoterNode|=VoterState|=ReplicaState|[,\]])"),
    "vote granted": Field(RESPONSES, r"(?<=voteGranted=)\w+"),
    "error code": Field(RESPONSES, r"(?<=errorCode=)\d+"),
    "high watermark of a fetch": Field(MESSAGES, r"(?<=highWatermark=)-?\d+"),
    "leader epoch": Field(RESPONSES, r"(?<=leaderEpoch=)-?\d+"),
    "leader id": Field(RESPONSES, r"(?<=leaderId=)-?\d+"),
    "fetch offset": Field((EventKind.SEND, EventKind.REQUEST), r"(?<=fetchOffset=)\d+"),
    "last fetched epoch": Field((EventKind.SEND, EventKind.REQUEST), r"(?<=lastFetchedEpoch=)\d+"),
    "end of stored records": Field((EventKind.STORED,), r"(?<=offset=)\d+|(?<=, epoch=)\d+"),
    "offsets of an append": Field((EventKind.APPEND,), r"(?<=base offset )\d+|(?<=offset=)\d+|(?<=, epoch=)\d+"),
    "high watermark": Field(OFFSET_LINES, r"(?<=updated to )\d+|(?<=\(offset=)\d+"),
    "snapshot id": Field(RESPONSES, r"(?<=SnapshotId\(endOffset=)-?\d+|(?<=SnapshotId\(endOffset=-1, epoch=)-?\d+"),
    "diverging epoch": Field(RESPONSES, r"(?<=EndOffset\(epoch=)-?\d+|(?<=EndOffset\(epoch=-1, endOffset=)-?\d+"),
    "directory id": Field(tuple(EventKind), r"(?<=irectoryId=)[\w-]{22}"),
    "node": Field(MESSAGES, r"(?<=\[RaftManager id=)\d+|(?<=destination=)[\d.]+:\d+"),
}  # fmt: skip
MOVES = ("line lost", "line doubled", "lines swapped")
KINDS = (*FIELDS, *MOVES)


class Change(NamedTuple):
    """One change of a line: the node of its log, its number, and the lines in its place (of two, for a swap)."""

    kind: str
    node: int
    line: int
    event: Event
    lines: tuple[str, ...]
    taken: int  # lines that are replaced
    what: str


class Logs:
    """The lines of a cluster's logs; an event is parsed again only where its line is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: dict[int, list[str]] = {}
        self.events: dict[int, list[Event]] = {}
        for path in sorted(folder.glob("node*.trace.log*")):
            node = int(path.name[4 : path.name.index(".")])
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            self.lines[node] = content.decode().splitlines()
            self.events[node] = list(events_of_lines(self.lines[node], path.name))
        self.nodes = sorted(self.lines)
        text = "\n".join(chain(*self.lines.values()))
        self.directories = sorted(set(re.findall(r"irectoryId=([\w-]{22})", text)))
        self.addresses = sorted(set(re.findall(r"destination=([\d.]+:\d+)", text)))

    def write(self, folder: Path, change: Change | None = None) -> None:
        """Write the logs of all nodes, or that of the changed node alone."""
        for node in self.nodes if change is None else [change.node]:
            lines = list(self.lines[node])
            if change is not None:
                lines[change.line - 1 : change.line - 1 + change.taken] = change.lines
            (folder / f"node{node}.trace.log").write_text("\n".join([*lines, ""]))


def changes(logs: Logs, random: Random) -> Iterator[Change]:
    """Yield changes without end, of each kind in turn; kinds that find no place in the logs are left out."""
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for node, events in logs.events.items():
        for at, event in enumerate(events):
            text = before_request(logs.lines[node][event.line - 1], event)
            for name, field in FIELDS.items():
                if event.kind in field.kinds and re.search(field.pattern, text):
                    places[name].append((node, at))
            places["line lost"].append((node, at))
            places["line doubled"].append((node, at))
            if at + 1 < len(events):
                places["lines swapped"].append((node, at))
    by_type = {name: _by_type(logs, found) for name, found in places.items()}
    while by_type:
        for name, types in by_type.items():
            node, at = random.choice(random.choice(types))
            change = _change(logs, name, node, at, random)
            if change is not None:
                yield change


def _by_type(logs: Logs, places: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return places by the kind and API of their events, so that rare lines are changed as often as frequent ones."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for node, at in places:
        event = logs.events[node][at]
        found[event.kind, getattr(event.body, "api", "")].append((node, at))
    return list(found.values())


def before_request(line: str, event: Event) -> str:
    """Return a line without the request that an answer repeats."""
    return line.partition(" to inbound request ")[0] if event.kind is EventKind.ANSWER else line


def _change(logs: Logs, name: str, node: int, at: int, random: Random) -> Change | None:
    event = logs.events[node][at]
    text = logs.lines[node][event.line - 1]
    if name == "line lost":
        return Change(name, node, event.line, event, (), 1, "")
    if name == "line doubled":
        return Change(name, node, event.line, event, (text, text), 1, "")
    if name == "lines swapped":
        other = logs.events[node][at + 1]
        swapped = logs.lines[node][other.line - 1]
        if other.kind is event.kind and other.body == event.body:
            return None
        return Change(name, node, event.line, event, (swapped, text), 2, f"with {other.kind} :{other.line}")
    found = random.choice(list(re.finditer(FIELDS[name].pattern, before_request(text, event))))
    new = _other(logs, name, found[0], random)
    if new is None:
        return None
    made = text[: found.start()] + new + text[found.end() :]
    if name == "voter set":
        made = _without(text, found)
        new = "left out"
    shown = f"{text[max(0, found.start() - 24) : found.end()]} -> {new}"
    return Change(name, node, event.line, event, (made,), 1, shown)


def _without(text: str, found: re.Match[str]) -> str:
    """Return a line without the voter whose id was found: an item of a list or map."""
    depth, end = 0, found.end()
    while depth or text[end] not in ",]}":
        depth += (text[end] in "([{") - (text[end] in ")]}")
        end += 1
    return text[: found.start()] + text[end + 2 if text[end] == "," else end :]


def _other(logs: Logs, name: str, value: str, random: Random) -> str | None:
    nodes = [str(node) for node in logs.nodes]
    pools = {
        "mode of a transition": list(MODES),
        "votes of an election": ["GRANTED", "REJECTED", "UNRECORDED"],
        "leader of a transition": nodes,
        "voted key of a transition": nodes,
        "leader id": nodes,
        "directory id": logs.directories,
        "vote granted": ["true", "false"],
        "error code": ["0", "6", "74", "76"],
        "node": nodes if value.isdigit() else logs.addresses,
    }
    pool = pools.get(name)
    if pool is None:
        number = int(value)
        pool = [str(one) for one in (number + 1, number - 1, 0, number + 7) if one >= 0]
    pool = [one for one in pool if one != value]
    return random.choice(pool) if pool else None


class Outcome(NamedTuple):
    """The verdict on a change, and the line of the divergence or the reason of an open verdict."""

    result: str
    where: str

    @property
    def is_caught(self) -> bool:
        """Whether the command does not accept the logs."""
        return self.result != "conforms"


def outcome(folder: Path) -> Outcome:
    """Return the verdict of the command on the logs in a folder."""
    path = folder / "found.out"
    with redirect_stdout(StringIO()):
        code = command(["validate", "quorum", str(folder), "--quiet", "--json", str(path)])
    found = json.loads(path.read_text())
    path.unlink()
    assert code == found["exit_code"], (code, found["exit_code"])
    at = found["divergence"]
    return Outcome(found["result"], f"{at['file']}:{at['line']} {at['what']}" if at else " ".join(found["open"]))


def run(folders: Sequence[Path], count: int, seed: int, kinds: Sequence[str] = KINDS) -> list[tuple[Change, Outcome]]:
    """Return a number of changes, in turn in each cluster, with their outcomes."""
    random = Random(seed)
    clusters = [Logs(folder) for folder in folders]
    sources = [(logs, changes(logs, random)) for logs in clusters]
    found: list[tuple[Change, Outcome]] = []
    with TemporaryDirectory() as root:
        for number, logs in enumerate(clusters):
            (Path(root) / str(number)).mkdir()
            logs.write(Path(root) / str(number))
        while len(found) < count:
            number = len(found) % len(clusters)
            logs, source = sources[number]
            change = next(one for one in source if one.kind in kinds)
            folder = Path(root) / str(number)
            logs.write(folder, change)
            found.append((change, outcome(folder)))
            (folder / f"node{change.node}.trace.log").write_text("\n".join([*logs.lines[change.node], ""]))
    return found


def table(found: Sequence[tuple[Change, Outcome]]) -> Iterator[str]:
    """Yield the lines of a table of caught changes by kind, then the survivors."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for change, result in found:
        rows[change.kind][result.result] += 1
    columns = ("diverges", "violates", "inconclusive", "conforms")
    yield f"{'':28}" + "".join(f"{name:>22}" for name in columns)
    for kind in sorted(rows):
        yield f"{kind:28}" + "".join(f"{rows[kind][name]:>22}" for name in columns)
    total = sum(rows.values(), Counter())
    yield f"{'all ' + str(len(found)):28}" + "".join(f"{total[name]:>22}" for name in columns)
    yield f"caught: {100 * (1 - total['conforms'] / max(len(found), 1)):.1f} %"
    for change, result in found:
        if not result.is_caught:
            api = getattr(change.event.body, "api", "")
            yield f"survives: {change.event.place} {change.event.kind} {api}: {change.kind} {change.what}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of a number of changes."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("folders", nargs="*", type=Path, default=list(SAMPLES))
    options = parser.parse_args(arguments)
    for line in table(run(options.folders, options.count, options.seed, options.kind or KINDS)):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
