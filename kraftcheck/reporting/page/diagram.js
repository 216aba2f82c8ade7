// The sequence diagram: a row for each step, a line for each replica, an arrow for each message. It is drawn in blocks of
// rows, and only visible blocks exist. So the cost of thousands of steps is that of one screen, and scrolling only draws
// the blocks that come into sight.

const COLOURS = 8;
const BLOCK = 8; // rows
const AHEAD = 120; // pixels to draw beyond the visible part
const NARROW = 620;
const CHARACTER = 6.7; // the maximum width of a letter of a label

class Diagram {
  /** `view` has the trace and the filters (see page.js); `choose` is called with the index of a clicked step. */
  constructor(view, choose) {
    this.view = view;
    this.heads = make("div", { class: "heads", "aria-hidden": "true" });
    this.rows = make("div", { class: "rows", role: "presentation" });
    this.list = make("div", { class: "space", role: "listbox", tabindex: "0", "aria-label": "Steps" }, this.rows);
    this.canvas = make("div", { class: "canvas" }, this.heads, this.list);
    this.element = make("div", { class: "scroller" }, this.canvas);
    this.kept = new Map(); // the existing blocks by number
    this.waiting = false;
    this.element.addEventListener("scroll", () => this.drawSoon(), { passive: true });
    this.rows.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row !== null) {
        choose(Number(row.dataset.step));
      }
    });
    new ResizeObserver(() => (this.element.clientWidth === this.seen ? this.drawNow() : this.arrange())).observe(this.element);
  }

  /** Lay out the diagram after a change of trace, filter or width. */
  arrange() {
    const { trace, steps } = this.view;
    const width = this.element.clientWidth;
    this.seen = width;
    this.narrow = width < NARROW;
    this.height = this.narrow ? 62 : 46;
    this.gutter = this.narrow ? 0 : Math.min(300, width * 0.34);
    this.names = trace.lifelines.filter((name) => !this.view.hidden.has(name));
    const column = this.narrow ? 56 : 92;
    this.width = Math.max(width, this.gutter + this.names.length * column);
    this.column = (this.width - this.gutter) / Math.max(1, this.names.length);
    this.place = [];
    for (let index = 0, at = 0; index < trace.steps.length; index += 1) {
      this.place.push(Math.min(at, steps.length - 1));
      at += steps[at] === index ? 1 : 0;
    }
    this.canvas.style.width = `${this.width}px`;
    this.list.style.height = `${steps.length * this.height + 12}px`;
    this.element.classList.toggle("narrow", this.narrow);
    this.element.classList.toggle("wide", this.width > width);
    this.element.style.setProperty("--gutter", `${this.gutter}px`);
    this.element.style.setProperty("--row", `${this.height}px`);
    this.heads.replaceChildren(...this.names.map((name) => this.head(name)));
    this.sortFlows();
    this.kept.clear();
    this.rows.replaceChildren();
    this.drawNow();
  }

  head(name) {
    const head = make("span", { class: "head", title: name }, name);
    head.style.left = `${this.x(name)}px`;
    head.style.maxWidth = `${this.column - 4}px`;
    return head;
  }

  /** Collect for each block of rows the messages that cross it. */
  sortFlows() {
    this.blocks = [];
    const { trace, types } = this.view;
    for (const flow of trace.flows) {
      const ends = [flow.source, flow.dest].map((end) => lifeline(trace, end));
      if (types.has(flow.type) || ends.every((end) => end === null) || ends.some((end) => end !== null && this.view.hidden.has(end))) {
        continue;
      }
      const from = this.place[Math.max(0, flow.sent - 1)];
      const to = flow.until === null ? from : this.place[flow.until - 1];
      const arrow = { flow, from, to, source: ends[0], dest: ends[1] };
      for (let block = Math.floor(from / BLOCK); block <= Math.floor(to / BLOCK); block += 1) {
        (this.blocks[block] ??= []).push(arrow);
      }
    }
  }

  x(name) {
    return this.gutter + (this.names.indexOf(name) + 0.5) * this.column;
  }

  y(place) {
    return place * this.height + (this.narrow ? 42 : this.height / 2);
  }

  drawSoon() {
    if (!this.waiting) {
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.drawNow();
      });
    }
  }

  drawNow() {
    const size = this.height * BLOCK;
    const top = this.element.scrollTop - this.heads.offsetHeight - AHEAD;
    const bottom = this.element.scrollTop + this.element.clientHeight + AHEAD;
    const last = Math.min(Math.floor(bottom / size), Math.ceil(this.view.steps.length / BLOCK) - 1);
    const wanted = new Map();
    for (let number = Math.max(0, Math.min(Math.floor(top / size), last)); number <= last; number += 1) {
      wanted.set(number, this.kept.get(number) ?? this.block(number));
    }
    for (const [number, block] of this.kept) {
      if (!wanted.has(number)) {
        block.remove();
      }
    }
    let next = null;
    for (const block of [...wanted.values()].reverse()) {
      if (block.parentNode === null) {
        this.rows.insertBefore(block, next);
      }
      next = block;
    }
    this.kept = wanted;
    this.mark();
  }

  /** Return a block of rows with the drawing behind them. */
  block(number) {
    const first = number * BLOCK;
    const steps = this.view.steps.slice(first, first + BLOCK);
    const block = make("div", { class: "block", role: "presentation" }, this.lines(number, first, steps),
      ...steps.map((index, place) => this.row(index, first + place)));
    block.style.top = `${first * this.height}px`;
    block.style.height = `${steps.length * this.height}px`;
    return block;
  }

  /** Mark the chosen step. */
  mark() {
    const chosen = this.id(this.view.chosen);
    for (const row of this.rows.querySelectorAll(".row")) {
      const isChosen = String(row.id === chosen);
      if (row.getAttribute("aria-selected") !== isChosen) {
        row.setAttribute("aria-selected", isChosen);
      }
    }
    this.list.setAttribute("aria-activedescendant", chosen);
  }

  id(index) {
    return `${this.view.prefix}step-${this.view.trace.steps[index].number}`;
  }

  /** Scroll to a step if it is not visible. */
  reveal(index) {
    const top = this.place[index] * this.height;
    const heads = this.heads.offsetHeight;
    const seen = this.element.clientHeight - heads;
    if (top < this.element.scrollTop || top + this.height > this.element.scrollTop + seen) {
      this.element.scrollTop = Math.max(0, top - seen / 2 + this.height / 2);
    }
    this.drawNow();
  }

  row(index, place) {
    const { trace, steps } = this.view;
    const step = trace.steps[index];
    const isLast = index === trace.steps.length - 1 && Boolean(trace.end);
    const parts = index === this.view.parting;
    const broken = !isLast && step.breaks?.length ? `violates ${step.breaks.join(", ")}` : "";
    const said = [parts ? "here they part" : "", isLast ? trace.end : broken, who(step)].filter(Boolean).join(" — ");
    const row = make(
      "div",
      {
        class: `row${isLast || broken ? " last" : ""}${parts ? " parts" : ""}`, role: "option", id: this.id(index), "data-step": index,
        "aria-setsize": steps.length, "aria-posinset": place + 1,
      },
      make("span", { class: "label" },
        make("span", { class: "number" }, String(step.number)),
        make("span", { class: "what" },
          make("span", { class: "action" }, step.action ?? "initial state"),
          make("span", { class: "who" }, said))),
    );
    row.style.top = `${(place % BLOCK) * this.height}px`;
    return row;
  }

  /** Draw lifelines and arrows of a block. Lines are clipped at its edges; the next block continues them. */
  lines(number, first, steps) {
    const top = first * this.height;
    const height = steps.length * this.height + (first + steps.length === this.view.steps.length ? 12 : 0);
    const area = { width: this.width, height, viewBox: `0 ${top} ${this.width} ${height}` };
    const arrows = this.blocks[number] ?? [];
    this.taken = [];
    this.groups = new Map();
    const labels = arrows.flatMap((arrow) => this.arrow(arrow, Math.floor(arrow.to / BLOCK) === number));
    const boxes = { changed: [], box: [], blamed: [] };
    steps.forEach((index, place) => this.boxes(this.view.trace.steps[index], first + place, boxes));
    const plates = this.taken.map(({ left, right, y: at }) => `M ${left - 2} ${at - 9} H ${right + 2} v 11 H ${left - 2} Z`);
    return draw("svg", { class: "lines", "aria-hidden": "true", "data-arrows": arrows.length, ...area },
      draw("svg", { y: top, ...area }, ...this.lifelines(first, steps), ...[...this.groups].map(([name, parts]) => group(name, parts))),
      ...path("plate", plates), ...Object.entries(boxes).flatMap(([name, pieces]) => path(name, pieces)), ...labels);
  }

  /** Return the lifelines, dotted while a replica does not exist. */
  lifelines(first, steps) {
    const { trace } = this.view;
    const pieces = { lifeline: [], "lifeline absent": [] };
    for (const name of this.names) {
      steps.forEach((index, at) => {
        const there = name === ENVIRONMENT || trace.steps[index].state.has(name);
        const end = first + at + 1 === this.view.steps.length ? this.height + 12 : this.height;
        pieces[there ? "lifeline" : "lifeline absent"].push(`M ${this.x(name)} ${(first + at) * this.height} v ${end}`);
      });
    }
    return Object.entries(pieces).flatMap(([name, found]) => path(name, found));
  }

  /** Mark the actor of a step and the other replicas that it changes. */
  boxes(step, place, found) {
    const { trace } = this.view;
    const y = this.y(place);
    const blamed = place === this.view.steps.length - 1 ? new Set(Object.values(trace.why?.false_of ?? {}).map(text)) : new Set();
    const actor = step.by === "the environment" ? ENVIRONMENT : step.by;
    for (const name of this.names) {
      const x = this.x(name);
      if (blamed.has(name)) {
        found.blamed.push(circle(x, y, 14));
      }
      if (name === actor && step.action !== null) {
        found.box.push(`M ${x - 5} ${y - 8} h 10 v 16 h -10 Z`);
      } else if (step.changed.includes(name)) {
        found.changed.push(circle(x, y, 4.5));
      }
    }
  }

  /** Add a message's line to its group of one style; return its label if the line ends in this block. */
  arrow({ flow, from, to, source, dest }, ends) {
    const colour = `colour-${this.view.trace.types.indexOf(flow.type) % COLOURS}`;
    const y1 = this.y(from);
    const lost = flow.fate === "lost" || flow.fate === "dropped";
    const inner = this.column * 0.45;
    let x2 = dest === null ? this.x(source) + inner : this.x(dest);
    const x1 = source === null ? x2 - inner : this.x(source);
    let y2 = this.y(to);
    if (source === dest) {
      return this.loop({ flow, x: x1, y1, y2, colour, ends });
    }
    const way = Math.sign(x2 - x1);
    if (flow.until === null) {
      x2 = x1 + way * Math.min(inner, Math.abs(x2 - x1));
      y2 = y1 + this.height * 0.28;
    } else if (lost) {
      x2 -= way * this.column * 0.3;
    } else {
      x2 -= way * 7;
    }
    this.note(flow, colour, `M ${x1 + way * 6} ${y1} L ${x2} ${y2}`, [x1 + way * 6, y1, x2, y2]);
    return !ends ? [] : this.label(flow, x2 - way * 9, flow.until === null ? y2 + 11 : y2 - 6, way, colour);
  }

  loop({ flow, x, y1, y2, colour, ends }) {
    const bottom = flow.until === null ? y1 + this.height * 0.28 : y2;
    const out = x + Math.min(30, this.column * 0.45);
    this.note(flow, colour, `M ${x + 6} ${y1} C ${out} ${y1}, ${out} ${bottom}, ${x + 7} ${bottom}`, [out, bottom, x + 7, bottom]);
    return !ends ? [] : this.label(flow, out, bottom - 6, -1, colour);
  }

  note(flow, colour, line, end) {
    const name = `flow ${colour} ${flow.fate.replace(" ", "-")}${flow.is_copy ? " copy" : ""}`;
    const parts = this.groups.get(name) ?? { line: [], ring: [], cross: [], tip: [] };
    this.groups.set(name, parts);
    parts.line.push(line);
    const [kind, d] = ending(flow, ...end);
    parts[kind].push(d);
  }

  /** Return the label of a message beside the end of its arrow, unless another label is there. */
  label(flow, x, y, way, colour) {
    const room = (way > 0 ? x - this.gutter : this.width - x) - 4;
    const longest = Math.floor(room / CHARACTER);
    const said = { lost: " lost", dropped: " dropped", kept: " (kept)" }[flow.fate] ?? (flow.is_copy ? " (copy)" : "");
    const whole = flow.type + said;
    const shown = whole.length > longest ? `${whole.slice(0, Math.max(1, longest - 1))}…` : whole;
    const width = shown.length * CHARACTER;
    const left = way > 0 ? x - width : x;
    const isFree = (at) => this.taken.every(
      (other) => other.y + 10 < at || at + 10 < other.y || other.right < left || left + width < other.left);
    const at = [y, y + 17, y - 11].find(isFree);
    if (at === undefined || longest < 3) {
      return [];
    }
    this.taken.push({ left, right: left + width, y: at });
    return [draw("text", { class: `name ${colour}`, x, y: at, "text-anchor": way > 0 ? "end" : "start" }, shown)];
  }
}

/** Return a group of lines of one style: one element for the lines, one for each kind of end. */
function group(name, { line, ring, cross, tip }) {
  return draw("g", { class: name }, ...path("line", line), ...path("ring", ring), ...path("cross", cross), ...path("tip", tip));
}

function path(name, pieces) {
  return pieces.length ? [draw("path", { class: name, d: pieces.join(" ") })] : [];
}

function circle(x, y, radius) {
  return `M ${x - radius} ${y} a ${radius} ${radius} 0 1 0 ${2 * radius} 0 a ${radius} ${radius} 0 1 0 ${-2 * radius} 0 Z`;
}

/** Return the end of an arrow: a head, a cross for a lost message, a ring for one under way. */
function ending(flow, x1, y1, x2, y2) {
  if (flow.until === null) {
    return ["ring", circle(x2, y2, 3.5)];
  }
  if (flow.fate === "lost" || flow.fate === "dropped") {
    return ["cross", `M ${x2 - 5} ${y2 - 5} l 10 10 m 0 -10 l -10 10`];
  }
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const corner = (turn) => `${x2 - 9 * Math.cos(angle + turn)} ${y2 - 9 * Math.sin(angle + turn)}`;
  return ["tip", `M ${x2} ${y2} L ${corner(0.42)} L ${corner(-0.42)} Z`];
}

/** Return the actor of a step and its message as text. */
function who(step) {
  if (step.action === null) {
    return "";
  }
  if (step.message === null) {
    return `by ${step.by}`;
  }
  const { _type: type = text(step.message), source } = Object(step.message);
  return `by ${step.by} on ${type}${source === undefined ? "" : ` from ${text(source)}`}`;
}
