"""A page with the life of a cluster: a sequence diagram in which fetches are folded, with epochs as bands."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from kraftcheck.reporting.lines import plain
from kraftcheck.reporting.validation import clock, subject, validation_lines
from kraftcheck.spec.values import cut, visible
from kraftcheck.validation.events import Event, Kind
from kraftcheck.validation.verdict import Validation

MOST_ROWS = 4000
"""Maximum number of rows; of more, the last ones are shown."""

HEIGHT, WIDTH, LEFT, TOP = 20, 190, 150, 40
"""Pixels of a row and of a column; the room beside and above them."""

PAGE = Path(__file__).with_name("page")

_FOLDED = ("Fetch", "ApiVersions")


class Row(NamedTuple):
    """A row of the diagram: a message between two nodes, or a text at one node."""

    node: int
    text: str
    epoch: int
    place: str
    time: int
    source: int | None = None  # of a message
    style: str = ""


class Life:
    """Collects the rows of the diagram from events in causal order."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.left_out = 0
        self._epoch = 0
        self._folded: Counter[tuple[int, int]] = Counter()
        self._last: dict[tuple[int, int], Event] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Add the events of a unit."""
        for event in events:
            if event.kind is Kind.REQUEST and event.body.api in _FOLDED:
                if event.peer is not None:
                    self._folded[event.peer, event.node] += 1
                    self._last[event.peer, event.node] = event
            elif (text := _text(event)) is not None:
                self.end()
                if event.kind is Kind.TRANSITION:
                    self._epoch = max(self._epoch, event.body[0]["epoch"])
                source = event.peer if event.kind is Kind.REQUEST else None
                style = "state" if event.kind is Kind.TRANSITION else ""
                self._row(event, text, source, style)

    def end(self) -> None:
        """Add the fetches since the last other row, one arrow for each pair of nodes."""
        for (source, node), count in self._folded.items():
            event = self._last[source, node]
            self._row(event, f"Fetch x {count:,}" if count > 1 else "Fetch", source, "faint")
        self._folded.clear()

    def diverges(self, event: Event, what: str) -> None:
        """Add the divergence."""
        self.end()
        self._row(event, f"{subject(event)}: {what}", None, "bad")

    def _row(self, event: Event, text: str, source: int | None, style: str) -> None:
        self.rows.append(Row(event.node, text, self._epoch, event.place, event.time, source, style))
        if len(self.rows) > 2 * MOST_ROWS:
            self.left_out += MOST_ROWS
            del self.rows[:MOST_ROWS]


def _text(event: Event) -> str | None:
    """Return the text of an event's row; None for an event without one."""
    body = event.body
    if event.kind is Kind.REQUEST:
        epoch = next((body.number(name) for name in ("replicaEpoch", "leaderEpoch") if body.number(name) >= 0), None)
        return str(body.api) if epoch is None else f"{body.api}, epoch {epoch}"
    if event.kind is Kind.TRANSITION:
        return f"{body[0]['mode']}, epoch {body[0]['epoch']}"
    if event.kind is Kind.VOTERS:
        return f"voters {', '.join(str(voter[0]) for voter in body[0])} at {body[1]}"
    if event.kind is Kind.BOOT:
        return "starts"
    if event.kind in (Kind.TRUNCATED, Kind.REPLACED):
        return f"{event.kind} to {body}"
    return None


def life_of(found: Validation) -> Life:
    """Return the life that logs without messages show, in order of time."""
    life = Life()
    every = [event for events in found.sources.every.values() for event in events]
    life.add(sorted(every, key=lambda event: event.time))
    life.end()
    return life


def write_cluster_page(found: Validation, life: Life, path: Path) -> None:
    """Write the page."""
    path.write_text("".join(_page(found, life)), encoding="utf-8", errors="backslashreplace")


def _shown(text: str, most: int = 400) -> str:
    return escape(visible(cut(text, most)))


def _page(found: Validation, life: Life) -> Iterator[str]:
    style, script = ((PAGE / f"cluster.{kind}").read_text("utf-8") for kind in ("css", "js"))
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_digest(script)}'"
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f"<title>kraftcheck validate: {found.result}</title><style>{style}</style></head><body>"
    yield f"<h1>{_shown(found.result)}</h1>"
    yield f"<pre>{escape(visible(plain(validation_lines(found)), keep=chr(10)))}</pre>"
    rows = life.rows[-MOST_ROWS:]
    if rows:
        left_out = life.left_out + len(life.rows) - len(rows)
        yield from _diagram(rows, left_out, is_causal=found.replay is not None)
    yield f"<script>{script}</script></body></html>\n"


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _diagram(rows: Sequence[Row], left_out: int, *, is_causal: bool) -> Iterator[str]:
    nodes = sorted({row.node for row in rows} | {row.source for row in rows if row.source is not None})
    columns = {node: LEFT + WIDTH * place + WIDTH // 2 for place, node in enumerate(nodes)}
    width, height = LEFT + WIDTH * len(nodes) + 260, TOP + HEIGHT * (len(rows) + 1)
    order = "in causal order" if is_causal else "in order of time"
    note = f"; {left_out:,} earlier rows are left out" if left_out else ""
    yield f"<h2>The life of the cluster</h2><p>{len(rows):,} rows {order}{note}. Fetches are folded.</p>"
    yield '<p class="range">Rows <input id="from" type="range"> to <input id="to" type="range"> <span id="of"></span>'
    bands = list(_bands(rows))
    for start, end in bands:
        yield f' <button data-from="{start}" data-to="{end}">epoch {rows[start].epoch}</button>'
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    yield f'</p><svg id="life" {size} data-rows="{len(rows)}" data-row="{HEIGHT}" data-top="{TOP}">'
    yield '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    yield '<path d="M0 0L8 4L0 8z"/></marker></defs>'
    for number, (start, end) in enumerate(bands):
        y, tall = TOP + HEIGHT * start, HEIGHT * (end - start)
        yield f'<rect class="band{number % 2}" x="0" y="{y}" width="{width}" height="{tall}"/>'
        yield f'<text class="epoch" x="6" y="{y + 14}">epoch {rows[start].epoch}</text>'
    for node, x in columns.items():
        yield f'<text class="head" x="{x}" y="{TOP - 14}">node {node}</text>'
        yield f'<line class="life" x1="{x}" y1="{TOP - 6}" x2="{x}" y2="{height}"/>'
    yield from (_row(row, TOP + HEIGHT * place + 14, columns) for place, row in enumerate(rows))
    yield "</svg>"


def _bands(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Yield the first row of each epoch, and the row behind its last one."""
    place = 0
    for _, band in groupby(rows, key=lambda row: row.epoch):
        count = sum(1 for _ in band)
        yield place, place + count
        place += count


def _row(row: Row, y: int, columns: dict[int, int]) -> str:
    x = columns[row.node]
    title = f"<title>{_shown(f'{row.place}, {clock(row.time)}')}</title>"
    if row.source is None or row.source == row.node:
        return f'<g class="{row.style}">{title}<circle cx="{x}" cy="{y - 4}" r="4"/>' + (
            f'<text x="{x + 8}" y="{y}">{_shown(row.text, 120)}</text></g>'
        )
    source = columns[row.source]
    middle = (source + x) // 2
    return (
        f'<g class="{row.style}">{title}<line class="message" x1="{source}" y1="{y - 2}" x2="{x}" y2="{y - 2}"/>'
        f'<text class="label" x="{middle}" y="{y - 5}">{_shown(row.text, 60)}</text></g>'
    )
