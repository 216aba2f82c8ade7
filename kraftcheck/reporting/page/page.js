// The page: what it is about, what one chooses, and the step that is chosen.

const COUNTS = [
  ["model", "model"], ["variant", "variant"], ["configuration", "configuration"], ["engine", "engine"], ["search", "search"],
  ["symmetry", "symmetry"], ["view", "view"], ["distinct_states", "distinct states"], ["generated_states", "generated"],
  ["depth", "depth"], ["runs", "walks"], ["steps", "steps"], ["seconds", "seconds"], ["limit", "stopped at"],
];
const KEYS = { ArrowRight: 1, ArrowDown: 1, j: 1, ArrowLeft: -1, ArrowUp: -1, k: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

class Page {
  constructor(data, place) {
    this.data = data;
    this.traces = data.runs.flatMap((run) => run.traces.map((trace) => ({ run, trace })));
    this.at = 0;
    this.live = make("p", { class: "unseen", "aria-live": "polite" });
    this.body = make("main", {});
    place.replaceChildren(this.body, this.live);
    addEventListener("hashchange", () => this.follow());
    document.addEventListener("keydown", (event) => this.press(event));
    this.follow();
  }

  /** Show the step that the address names. */
  follow() {
    const named = /^#(?:trace-(\d+)-)?step-(\d+)$/.exec(location.hash);
    const at = named && named[1] ? Math.min(Number(named[1]), this.traces.length) - 1 : 0;
    this.show(Math.max(0, at), named === null ? undefined : Number(named[2]));
  }

  show(at, number) {
    if (this.view === undefined || this.at !== at) {
      this.open(at);
    }
    if (this.view !== null) {
      const index = this.view.trace.steps.findIndex((step) => step.number === number);
      this.choose(index >= 0 ? index : this.view.chosen, false);
    }
  }

  /** Show another counterexample. */
  open(at) {
    this.at = at;
    const { run, trace } = this.traces[at] ?? { run: this.data.runs[0], trace: null };
    this.view = trace === null ? null : {
      trace, steps: trace.steps.map((_, index) => index), chosen: trace.steps.length - 1,
      hidden: new Set(), types: new Set(), field: "", opened: new Map(), link: (index) => this.link(index),
    };
    document.title = visible(`${title(run, trace)} – kraftcheck`);
    this.body.replaceChildren(this.header(run, trace), ...(trace === null ? [] : [this.work()]), overview(this.data.runs), about(run, this.data));
    this.diagram?.arrange();
  }

  link(index) {
    const trace = this.at === 0 ? "" : `trace-${this.at + 1}-`;
    return `#${trace}step-${this.view.trace.steps[index].number}`;
  }

  header(run, trace) {
    const model = [run.model, run.variant && `variant ${run.variant}`, run.configuration && `configuration ${run.configuration}`];
    const header = make("header", {},
      make("p", { class: "model" }, model.filter(Boolean).join(" · ")),
      make("h1", {}, make("span", { class: `verdict ${run.result}` }, String(run.result).toUpperCase()), ` ${title(run, trace)}`),
      trace?.why?.says ? make("p", { class: "says" }, trace.why.says) : null,
      ...(run.reason ? [make("p", { class: "says" }, run.reason)] : []));
    if (this.traces.length > 1) {
      const options = this.traces.map(({ run: of, trace: one }, at) =>
        make("option", { value: at, selected: at === this.at }, `${at + 1}: ${[of.label ?? of.variant, title(of, one)].filter(Boolean).join(", ")}`));
      const choice = make("select", {}, ...options);
      choice.addEventListener("change", () => {
        this.open(Number(choice.value));
        this.choose(this.view.chosen);
      });
      header.append(make("label", { class: "choice" }, "Counterexample ", choice));
    }
    return header;
  }

  work() {
    const { trace } = this.view;
    this.diagram = new Diagram(this.view, (index) => this.choose(index));
    this.slider = make("input", { type: "range", min: "0", step: "1", "aria-label": "Step" });
    this.slider.addEventListener("input", () => this.choose(this.view.steps[Number(this.slider.value)]));
    this.counter = make("output", { class: "counter" });
    this.back = button("←", "the step before", () => this.move(-1));
    this.forth = button("→", "the next step", () => this.move(1));
    this.told = make("section", { class: "told", "aria-label": "The chosen step", tabindex: "0" });
    this.setSlider();
    return make("div", { class: "work" },
      make("section", { class: "pane", "aria-label": "Sequence diagram" },
        make("div", { class: "bar" }, this.back, this.slider, this.forth, this.counter), this.filters(trace), this.diagram.element),
      this.told);
  }

  setSlider() {
    this.slider.max = String(Math.max(0, this.view.steps.length - 1));
  }

  filters(trace) {
    const replicas = trace.lifelines.map((name) => tick(name, null, (shown) => this.filter(this.view.hidden, name, shown)));
    const types = trace.types.map((name, at) =>
      tick(name, `colour-${at % COLOURS}`, (shown) => this.filter(this.view.types, name, shown)));
    const field = make("input", { type: "search", placeholder: "such as epoch", autocomplete: "off", spellcheck: "false" });
    field.addEventListener("input", () => {
      this.view.field = field.value;
      this.refilter();
    });
    return make("details", { class: "filters" }, make("summary", {}, "Filters"),
      make("fieldset", {}, make("legend", {}, "Replicas"), ...replicas),
      types.length ? make("fieldset", {}, make("legend", {}, "Messages"), ...types) : null,
      make("label", { class: "field" }, "Fields and steps that change them ", field));
  }

  filter(hidden, name, shown) {
    if (shown) {
      hidden.delete(name);
    } else {
      hidden.add(name);
    }
    this.refilter();
  }

  /** Show the steps that the filters leave, and one of them as chosen. */
  refilter() {
    const { view } = this;
    const last = view.trace.steps.length - 1;
    const isShown = (step, index) => {
      const actor = step.by === "the environment" ? ENVIRONMENT : step.by;
      const isWanted = view.field.trim() === "" || step.changes.some(([what]) => matches(view, what) && !isHidden(view, what));
      return index === 0 || index === last || (isWanted && !view.hidden.has(actor));
    };
    view.steps = view.trace.steps.map((_, index) => index).filter((index) => isShown(view.trace.steps[index], index));
    this.setSlider();
    this.diagram.arrange();
    this.choose(view.steps.findLast((index) => index <= view.chosen) ?? 0);
  }

  choose(index, push = true) {
    const { view } = this;
    view.chosen = view.steps.findLast((shown) => shown <= index) ?? 0;
    const at = view.steps.indexOf(view.chosen);
    const step = view.trace.steps[view.chosen];
    this.slider.value = String(at);
    this.slider.setAttribute("aria-valuetext", `step ${step.number}: ${step.action ?? "initial state"}`);
    this.counter.textContent = `${step.number} of ${view.trace.steps.length}`;
    this.back.disabled = at === 0;
    this.forth.disabled = at === view.steps.length - 1;
    this.told.replaceChildren(...details(view));
    this.told.scrollTop = 0;
    this.diagram.reveal(view.chosen);
    this.live.textContent = visible(`Step ${step.number}: ${step.action ?? "initial state"} ${who(step)}, ${many(step.changes.length, "change")}`);
    if (push) {
      history.replaceState(null, "", this.link(view.chosen));
    }
  }

  move(by) {
    const { steps, chosen } = this.view;
    const at = Math.max(0, Math.min(steps.length - 1, steps.indexOf(chosen) + by));
    this.choose(steps[at]);
  }

  /** Left and right go through the steps everywhere; the keys that scroll do where nothing else is scrolled. */
  press(event) {
    const { target, key } = event;
    const scrolls = !["ArrowLeft", "ArrowRight", "j", "k"].includes(key);
    const isElsewhere = this.told?.contains(target) || target.closest?.(".about, .overview") !== null;
    const isPlain = !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (this.view && isPlain && Object.hasOwn(KEYS, key) && !target.matches?.("input, select") && !(scrolls && isElsewhere)) {
      event.preventDefault();
      this.move(KEYS[key]);
    }
  }
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

function button(sign, label, act) {
  const found = make("button", { type: "button", "aria-label": label, title: label }, sign);
  found.addEventListener("click", act);
  return found;
}

function tick(name, colour, change) {
  const box = make("input", { type: "checkbox", checked: true });
  box.addEventListener("change", () => change(box.checked));
  return make("label", { class: "tick" }, box, colour ? make("span", { class: `dot ${colour}` }) : null, name);
}

/** Return a table of the runs, where there are several. */
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

/** Tell what was run: counts, constants, actions, notes, versions. */
function about(run, data) {
  const counts = COUNTS.filter(([name]) => run[name] !== null && run[name] !== undefined && run[name] !== "")
    .map(([name, shown]) => [shown, typeof run[name] === "number" ? run[name].toLocaleString("en") : run[name]]);
  const said = [...(run.warnings ?? []).map((one) => `Warning: ${one}`), ...(run.notes ?? [])];
  if (run.never_enabled?.length) {
    said.push(`never enabled: ${run.never_enabled.join(", ")}`);
  }
  const actions = Array.isArray(run.actions) ? [] : Object.entries(run.actions ?? {});
  return make("footer", { class: "about" },
    make("div", { class: "columns" },
      pairs("Run", counts),
      pairs("Checked", (run.checked ?? []).map((name) => [name, (run.violations ?? []).includes(name) ? "violated" : run.complete ? "holds" : "not violated so far"])),
      pairs("Constants", Object.entries(run.constants ?? {}).map(([name, value]) => [name, text(value)])),
      pairs("Actions, how often each fired", actions.map(([name, times]) => [name, Number(times).toLocaleString("en")]))),
    said.length ? make("section", {}, make("h2", {}, "Notes"), make("ul", {}, ...said.map((one) => make("li", {}, one)))) : null,
    make("p", { class: "faint" }, `${data.tool} ${data.version}, schema ${data.schema}. This file asks for nothing else and sends nothing.`));
}

function pairs(heading, found) {
  if (found.length === 0) {
    return null;
  }
  const rows = found.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, String(value))));
  return make("section", {}, make("h2", {}, heading), make("table", { class: "pairs" }, make("tbody", {}, ...rows)));
}

new Page(readData(), document.getElementById("page"));
