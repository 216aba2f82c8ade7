// The report page: header, choice of a trace, diagram, and the chosen step.

const COUNTS = [
  ["model", "model"], ["variant", "variant"], ["configuration", "configuration"], ["engine", "engine"], ["search", "search"],
  ["symmetry", "symmetry"], ["view", "view"], ["distinct_states", "distinct states"], ["generated_states", "generated"],
  ["depth", "depth"], ["runs", "walks"], ["steps", "steps"], ["seconds", "seconds"], ["limit", "stopped at"],
];

const SHORT = 8; // steps up to which the details are below the diagram, rather than beside it

class Page {
  constructor(data, place) {
    this.data = data;
    this.traces = data.runs.flatMap((run) => run.traces.map((trace) => ({ run, trace })));
    this.shown = []; // the numbers of the shown traces: one, or two side by side
    this.panes = [];
    this.live = make("p", { class: "unseen", "aria-live": "polite" });
    this.top = make("div", {}); // the part that depends on the trace
    this.bottom = make("div", {}); // the part that depends on the run
    this.body = make("main", {}, this.top, overview(data.runs), this.bottom);
    place.replaceChildren(this.body, this.live);
    addEventListener("hashchange", () => this.follow());
    document.addEventListener("keydown", (event) => this.press(event));
    this.follow();
  }

  /** Show the step of the address. */
  follow() {
    const named = /^#(?:trace-(\d+)-)?step-(\d+)(?:-beside-(\d+))?$/.exec(location.hash);
    const at = (number) => Math.max(0, Math.min(Number(number), this.traces.length) - 1);
    const shown = named === null ? [0] : [at(named[1] ?? 1), ...(named[3] ? [at(named[3])] : [])];
    if (this.shown.join() !== shown.join()) {
      this.open(...shown);
    }
    if (this.panes.length > 0 && named !== null) {
      const index = this.panes[0].view.trace.steps.findIndex((step) => String(step.number) === named[2]);
      this.panes[0].choose(index >= 0 ? index : this.panes[0].view.chosen, false);
    }
  }

  /** Show a trace, and optionally another one beside it. */
  open(at, beside) {
    this.shown = beside === undefined ? [at] : [at, beside];
    const { run, trace } = this.traces[at] ?? { run: this.data.runs[0], trace: null };
    document.title = visible(`${title(run, trace)} – kraftcheck`);
    const numbers = trace === null ? [] : this.shown;
    const parting = numbers.length < 2 ? null : common(...numbers.map((number) => this.traces[number].trace));
    this.panes = numbers.map((number, place) => new Pane(this.traces[number].trace, {
      prefix: place === 0 ? "" : "beside-", parting, link: (step) => this.link(place, step),
      name: numbers.length < 2 ? null : this.name(number), report: (pane, push) => this.tell(pane, push),
    }));
    this.active = this.panes[0];
    this.told = make("section", { class: "told", "aria-label": "The chosen step", tabindex: "0" });
    const isShort = this.panes.every((pane) => pane.view.trace.steps.length <= SHORT);
    const kind = ["work", this.panes.length > 1 ? "two" : "", isShort ? "short" : ""].filter(Boolean).join(" ");
    const work = make("div", { class: kind }, ...this.panes.map((pane) => pane.element), this.told);
    this.top.replaceChildren(this.header(run, trace), ...(trace === null ? [] : [work]));
    if (this.run !== run) {
      this.run = run;
      this.bottom.replaceChildren(about(run, this.data));
    }
    for (const pane of this.panes) {
      pane.diagram.arrange();
    }
    for (const pane of this.panes.toReversed()) {
      pane.choose(parting === null ? pane.view.chosen : Math.min(parting, pane.view.chosen), false);
    }
  }

  link(place, step) {
    const [at, beside] = place === 0 ? this.shown : [...this.shown].reverse();
    return `#${at === 0 ? "" : `trace-${at + 1}-`}step-${step.number}${beside === undefined ? "" : `-beside-${beside + 1}`}`;
  }

  name(at) {
    const { run, trace } = this.traces[at];
    return `${at + 1}: ${[run.label ?? run.variant, title(run, trace)].filter(Boolean).join(", ")}`;
  }

  header(run, trace) {
    const model = [run.model, run.variant && `variant ${run.variant}`, run.configuration && `configuration ${run.configuration}`];
    const header = make("header", {},
      make("p", { class: "model" }, model.filter(Boolean).join(" · ")),
      make("h1", {}, make("span", { class: `verdict ${run.result}` }, String(run.result).toUpperCase()), ` ${title(run, trace)}`),
      trace?.why?.says ? make("p", { class: "says" }, trace.why.says) : null,
      ...(run.reason ? [make("p", { class: "says" }, run.reason)] : []));
    if (this.traces.length > 1) {
      const [at, beside] = this.shown;
      const names = this.traces.map((_, number) => [String(number), this.name(number)]);
      header.append(
        choice("Behaviour ", names, String(at), (value) => this.go(Number(value), beside)),
        choice("Beside it ", [["", "none"], ...names], String(beside ?? ""), (value) => this.go(at, value === "" ? undefined : Number(value))));
    }
    return header;
  }

  go(at, beside) {
    this.open(at, beside);
    this.mention(this.active.view);
  }

  /** Show the chosen step. Up to the step at which two traces diverge, both show the same step. */
  tell(pane, push) {
    this.active = pane;
    const { view } = pane;
    const step = view.trace.steps[view.chosen];
    for (const other of this.panes) {
      if (other !== pane && view.chosen <= view.parting && other.view.chosen !== view.chosen) {
        other.choose(view.chosen, false, false);
      }
      other.element.classList.toggle("active", this.panes.length > 1 && other === pane);
    }
    this.told.replaceChildren(...details(view));
    this.told.scrollTop = 0;
    this.live.textContent = visible(`Step ${step.number}: ${step.action ?? "initial state"} ${who(step)}, ${many(step.changes.length, "change")}`);
    if (push) {
      this.mention(view);
    }
  }

  /** Put the chosen step into the address. */
  mention({ link, trace, chosen }) {
    history.replaceState(null, "", link(trace.steps[chosen]));
  }

  press(event) {
    const moved = movedBy(event, this.told);
    if (this.active && moved !== null) {
      event.preventDefault();
      (this.panes.find((pane) => pane.element.contains(event.target)) ?? this.active).move(moved);
    }
  }
}

/** Return the length of the common prefix of two traces. */
function common(one, other) {
  const key = (step) => JSON.stringify([step.action, step.by, step.on, step.replicas, step.gone, step.shared]);
  const end = Math.min(one.steps.length, other.steps.length);
  let at = 0;
  while (at < end && key(one.steps[at]) === key(other.steps[at])) {
    at += 1;
  }
  return at;
}

function title(run, trace) {
  if (trace?.title) {
    return trace.title;
  }
  if (trace !== null && trace !== undefined) {
    const what = trace.property === "Deadlock" ? "Deadlock" : `Counterexample to ${trace.property}`;
    return `${what}, ${many(trace.steps.length, "state")}`;
  }
  return { ok: "nothing is violated", incomplete: "nothing is violated so far" }[run.result] ?? "no counterexample";
}

/** Return a table of the runs if there are several. */
function overview(runs) {
  if (runs.length < 2) {
    return "";
  }
  const cells = (name, row) => make("tr", {}, ...row.map((cell) => make(name, {}, cell)));
  const rows = runs.map((run) => cells("td", [
    run.label ?? run.traces[0]?.title ?? run.variant ?? run.model, run.configuration, String(run.result), (run.violations ?? []).join(", "),
    run.traces.map((trace) => String(trace.steps.length)).join(", "), run.distinct_states?.toLocaleString("en") ?? ""]));
  return make("section", { class: "overview" }, make("h2", {}, "Runs"), make("table", {},
    make("thead", {}, cells("th", ["", "configuration", "result", "violated", "states of the trace", "distinct states"])),
    make("tbody", {}, ...rows)));
}

/** Return the footer: counts, constants, actions, notes, versions. */
function about(run, data) {
  const counts = COUNTS.filter(([name]) => run[name] !== null && run[name] !== undefined && run[name] !== "")
    .map(([name, shown]) => [shown, typeof run[name] === "number" ? run[name].toLocaleString("en") : run[name]]);
  const said = [...(run.warnings ?? []).map((one) => `Warning: ${one}`), ...(run.notes ?? [])];
  if (run.never_enabled?.length) {
    said.push(`never enabled: ${run.never_enabled.join(", ")}`);
  }
  const actions = Array.isArray(run.actions) ? [] : Object.entries(run.actions ?? {});
  return make("footer", { class: "about" },
    run.details ? make("section", {}, make("h2", {}, "Where it parts"), make("pre", {}, run.details)) : null,
    make("div", { class: "columns" },
      pairs("Run", counts),
      pairs("Checked", (run.checked ?? []).map((name) => [name, (run.violations ?? []).includes(name) ? "violated" : run.complete ? "holds" : "not violated so far"])),
      pairs("Constants", Object.entries(run.constants ?? {}).map(([name, value]) => [name, text(value)])),
      pairs("Actions, how often each fired", actions.map(([name, times]) => [name, Number(times).toLocaleString("en")]))),
    said.length ? make("section", {}, make("h2", {}, "Notes"), make("ul", {}, ...said.map((one) => make("li", {}, one)))) : null,
    make("p", { class: "faint" }, `${data.tool} ${data.version}, schema ${data.schema}. This file asks for nothing else and sends nothing.`));
}

new Page(unpack(readData()), document.getElementById("page"));
