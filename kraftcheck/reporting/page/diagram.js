// The sequence diagram: a row for each step, a line for each replica, an arrow for each message. What is far from
// what one sees is not drawn, so that thousands of steps cost no more than a screen of them.

const COLOURS = 8;
const BLOCK = 8; // rows; what is drawn changes a block at a time
const NARROW = 620;
const CHARACTER = 6.7; // the width of a letter of a label, at most

class Diagram {
  /** `view` says what is shown (see page.js); `choose` is called with the index of a step that is clicked. */
  constructor(view, choose) {
    this.view = view;
    this.heads = make("div", { class: "heads", "aria-hidden": "true" });
    this.lines = draw("svg", { class: "lines", "aria-hidden": "true" });
    this.rows = make("div", { class: "rows", role: "presentation" });
    this.list = make("div", { class: "space", role: "listbox", tabindex: "0", "aria-label": "Steps" }, this.lines, this.rows);
    this.canvas = make("div", { class: "canvas" }, this.heads, this.list);
    this.element = make("div", { class: "scroller" }, this.canvas);
    this.drawn = null;
    this.waiting = false;
    this.element.addEventListener("scroll", () => this.drawSoon(), { passive: true });
    this.rows.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row !== null) {
        choose(Number(row.dataset.step));
      }
    });
    new ResizeObserver(() => this.arrange()).observe(this.element);
  }

  /** Lay out anew: another trace, another filter, another width. */
  arrange() {
    const { trace, steps } = this.view;
    const width = this.element.clientWidth;
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
    this.element.style.setProperty("--gutter", `${this.gutter}px`);
    this.element.style.setProperty("--row", `${this.height}px`);
    this.heads.replaceChildren(...this.names.map((name) => this.head(name)));
    this.sortFlows();
    this.drawn = null;
    this.drawNow();
  }

  head(name) {
    const head = make("span", { class: "head", title: name }, name);
    head.style.left = `${this.x(name)}px`;
    head.style.maxWidth = `${this.column - 4}px`;
    return head;
  }

  /** Note for each block of rows which messages cross it. */
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
    const { steps } = this.view;
    const top = Math.max(0, this.element.scrollTop - this.heads.offsetHeight);
    const first = Math.max(0, Math.floor(top / this.height / BLOCK) * BLOCK - BLOCK);
    const last = Math.min(steps.length, Math.ceil((top + this.element.clientHeight) / this.height / BLOCK) * BLOCK + BLOCK);
    const key = `${first} ${last}`;
    if (this.drawn !== key) {
      this.drawn = key;
      this.rows.replaceChildren(...steps.slice(first, last).map((index, place) => this.row(index, first + place)));
      this.drawLines(first, last);
    }
    this.mark();
  }

  /** Mark the step that is chosen. */
  mark() {
    const chosen = this.id(this.view.chosen);
    for (const row of this.rows.children) {
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

  /** Scroll so that a step is seen. */
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
    row.style.top = `${place * this.height}px`;
    return row;
  }

  drawLines(first, last) {
    const { trace, steps } = this.view;
    const top = first * this.height;
    const height = (last - first) * this.height + 12;
    fill(this.lines, { width: this.width, height, viewBox: `0 ${top} ${this.width} ${height}` }, []);
    this.lines.style.top = `${top}px`;
    const found = this.names.flatMap((name) => this.lifeline(name, first, last));
    const arrows = new Set();
    for (let block = Math.floor(first / BLOCK); block <= Math.floor(Math.max(first, last - 1) / BLOCK); block += 1) {
      for (const arrow of this.blocks[block] ?? []) {
        arrows.add(arrow);
      }
    }
    this.taken = [];
    const drawn = [...arrows].map((arrow) => this.arrow(arrow));
    const boxes = steps.slice(first, last).flatMap((index, place) => this.boxes(trace.steps[index], first + place));
    this.lines.replaceChildren(...found, ...drawn.map((one) => one.line), ...boxes, ...drawn.flatMap((one) => one.label));
  }

  /** Return the line of a replica: dotted where there is no such replica. */
  lifeline(name, first, last) {
    const { trace, steps } = this.view;
    const pieces = [];
    for (let place = first; place < last; place += 1) {
      const there = name === ENVIRONMENT || trace.steps[steps[place]].state.has(name);
      const end = (place + 1) * this.height + (place + 1 === steps.length ? 12 : 0);
      if (pieces.length > 0 && pieces[pieces.length - 1].there === there) {
        pieces[pieces.length - 1].end = end;
      } else {
        pieces.push({ there, start: place * this.height, end });
      }
    }
    const x = this.x(name);
    return pieces.map((piece) =>
      draw("line", { class: piece.there ? "lifeline" : "lifeline absent", x1: x, x2: x, y1: piece.start, y2: piece.end }));
  }

  /** Return who takes a step, and whose state it changes besides. */
  boxes(step, place) {
    const { trace } = this.view;
    const y = this.y(place);
    const blamed = place === this.view.steps.length - 1 ? new Set(Object.values(trace.why?.false_of ?? {}).map(text)) : new Set();
    const actor = step.by === "the environment" ? ENVIRONMENT : step.by;
    const found = [];
    for (const name of this.names) {
      const x = this.x(name);
      if (blamed.has(name)) {
        found.push(draw("circle", { class: "blamed", cx: x, cy: y, r: 14 }));
      }
      if (name === actor && step.action !== null) {
        found.push(draw("rect", { class: "box", x: x - 6, y: y - 9, width: 12, height: 18, rx: 3 }));
      } else if (step.changed.includes(name)) {
        found.push(draw("circle", { class: "changed", cx: x, cy: y, r: 4.5 }));
      }
    }
    return found;
  }

  arrow({ flow, from, to, source, dest }) {
    const colour = `colour-${this.view.trace.types.indexOf(flow.type) % COLOURS}`;
    const y1 = this.y(from);
    const lost = flow.fate === "lost" || flow.fate === "dropped";
    const inner = this.column * 0.45;
    let x2 = dest === null ? this.x(source) + inner : this.x(dest);
    const x1 = source === null ? x2 - inner : this.x(source);
    let y2 = this.y(to);
    if (source === dest) {
      return this.loop({ flow, x: x1, y1, y2, colour });
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
    const line = draw("g", { class: `flow ${colour} ${flow.fate.replace(" ", "-")}${flow.is_copy ? " copy" : ""}` },
      draw("path", { d: `M ${x1 + way * 6} ${y1} L ${x2} ${y2}` }), this.end(flow, x1 + way * 6, y1, x2, y2));
    return { line, label: this.label(flow, x2 - way * 9, flow.until === null ? y2 + 11 : y2 - 6, way, colour) };
  }

  loop({ flow, x, y1, y2, colour }) {
    const bottom = flow.until === null ? y1 + this.height * 0.28 : y2;
    const out = x + Math.min(30, this.column * 0.45);
    const d = `M ${x + 6} ${y1} C ${out} ${y1}, ${out} ${bottom}, ${x + 7} ${bottom}`;
    const line = draw("g", { class: `flow ${colour} ${flow.fate.replace(" ", "-")}` },
      draw("path", { d, fill: "none" }), this.end(flow, out, bottom, x + 7, bottom));
    return { line, label: this.label(flow, out, bottom - 6, -1, colour) };
  }

  /** Return what stands at the end of an arrow: a head, a cross where the message is lost, a ring where it waits. */
  end(flow, x1, y1, x2, y2) {
    if (flow.until === null) {
      return draw("circle", { class: "ring", cx: x2, cy: y2, r: 3.5 });
    }
    if (flow.fate === "lost" || flow.fate === "dropped") {
      return draw("path", { class: "cross", d: `M ${x2 - 5} ${y2 - 5} l 10 10 m 0 -10 l -10 10` });
    }
    const angle = Math.atan2(y2 - y1, x2 - x1);
    const corner = (turn) => `${x2 - 9 * Math.cos(angle + turn)} ${y2 - 9 * Math.sin(angle + turn)}`;
    return draw("path", { class: "tip", d: `M ${x2} ${y2} L ${corner(0.42)} L ${corner(-0.42)} Z` });
  }

  /** Return the name of a message beside the end of its arrow, unless another one stands there. */
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

/** Say who takes a step, and on which message. */
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
