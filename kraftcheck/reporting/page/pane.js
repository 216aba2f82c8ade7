// A trace: its diagram with a slider and filters.

const KEYS = { ArrowRight: 1, ArrowDown: 1, j: 1, ArrowLeft: -1, ArrowUp: -1, k: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

class Pane {
  /** `settings`: prefix of row ids, link of a step, callback for a chosen step; for two traces name and parting; the pane before it. */
  constructor(trace, { prefix, parting, link, name, report, before }) {
    const { hidden = new Set(), types = new Set(), field = "", opened = new Map() } = before?.view ?? {};
    this.report = report;
    this.view = {
      trace, steps: trace.steps.map((_, index) => index), chosen: trace.steps.length - 1,
      hidden, types, field, opened, prefix, parting: parting ?? -1, link,
    };
    this.diagram = new Diagram(this.view, (index) => this.choose(index));
    this.slider = make("input", { type: "range", min: "0", step: "1", "aria-label": "Step" });
    this.slider.addEventListener("input", () => this.choose(this.view.steps[Number(this.slider.value)]));
    this.counter = make("output", { class: "counter" });
    this.back = button("←", "the step before", () => this.move(-1));
    this.forth = button("→", "the next step", () => this.move(1));
    this.filters = this.makeFilters(trace, before?.filters.open);
    this.view.steps = this.shownSteps();
    this.setSlider();
    this.element = make("section", { class: "pane", "aria-label": name ?? "Sequence diagram" },
      name === null ? null : make("p", { class: "title" }, name),
      make("div", { class: "bar" }, this.back, this.slider, this.forth, this.counter), this.filters, this.diagram.element);
  }

  setSlider() {
    this.slider.max = String(Math.max(0, this.view.steps.length - 1));
  }

  makeFilters(trace, open) {
    const replicas = trace.lifelines.map((name) => this.tick(name, null, this.view.hidden));
    const types = trace.types.map((name, at) => this.tick(name, `colour-${at % COLOURS}`, this.view.types));
    const field = make("input", { type: "search", placeholder: "such as epoch", autocomplete: "off", spellcheck: "false", value: this.view.field });
    field.addEventListener("input", () => {
      this.view.field = field.value;
      this.refilter();
    });
    const filters = make("details", { class: "filters", open }, make("summary", {}, "Filters"),
      make("fieldset", {}, make("legend", {}, "Replicas"), ...replicas),
      types.length ? make("fieldset", {}, make("legend", {}, "Messages"), ...types) : null,
      make("label", { class: "field" }, "Fields and steps that change them ", field));
    filters.addEventListener("toggle", () => requestAnimationFrame(() => this.diagram.reveal(this.view.chosen)));
    return filters;
  }

  tick(name, colour, hidden) {
    const box = make("input", { type: "checkbox", checked: !hidden.has(name) });
    box.addEventListener("change", () => {
      if (box.checked) {
        hidden.delete(name);
      } else {
        hidden.add(name);
      }
      this.refilter();
    });
    return make("label", { class: "tick" }, box, colour ? make("span", { class: `dot ${colour}` }) : null, name);
  }

  /** Return the steps that match the filters, always with the first and the last. */
  shownSteps() {
    const { view } = this;
    const last = view.trace.steps.length - 1;
    const isShown = (step, index) => {
      const actor = step.by === "the environment" ? ENVIRONMENT : step.by;
      const isWanted = view.field.trim() === "" || step.changes.some(([what]) => matches(view, what) && !isHidden(view, what));
      return index === 0 || index === last || (isWanted && !view.hidden.has(actor));
    };
    return view.trace.steps.map((_, index) => index).filter((index) => isShown(view.trace.steps[index], index));
  }

  /** Apply the filters and choose a shown step. */
  refilter() {
    this.view.steps = this.shownSteps();
    this.setSlider();
    this.diagram.arrange();
    this.choose(this.view.chosen);
  }

  /** Choose a step, or the last shown step before it. */
  choose(index, push = true, report = true) {
    const { view } = this;
    view.chosen = view.steps.findLast((shown) => shown <= index) ?? 0;
    const at = view.steps.indexOf(view.chosen);
    const step = view.trace.steps[view.chosen];
    this.slider.value = String(at);
    this.slider.setAttribute("aria-valuetext", visible(`step ${step.number}: ${step.action ?? "initial state"}`));
    this.counter.textContent = `${step.number} of ${view.trace.steps.length}`;
    this.back.disabled = at === 0;
    this.forth.disabled = at === view.steps.length - 1;
    this.diagram.reveal(view.chosen);
    if (report) {
      this.report(this, push);
    }
  }

  move(by) {
    const { steps, chosen } = this.view;
    this.choose(steps[Math.max(0, Math.min(steps.length - 1, steps.indexOf(chosen) + by))]);
  }
}

function button(sign, label, act) {
  const found = make("button", { type: "button", "aria-label": label, title: label }, sign);
  found.addEventListener("click", act);
  return found;
}

function choice(label, names, value, change) {
  const found = make("select", {}, ...names.map(([key, name]) => make("option", { value: key, selected: key === value }, name)));
  found.addEventListener("change", () => change(found.value));
  return make("label", { class: "choice" }, label, found);
}

/** Return the number of steps that a key moves by, or null. Left and right work everywhere, scrolling keys only outside of scrolled parts. */
function movedBy({ target, key, altKey, ctrlKey, metaKey, shiftKey }, ...scrolled) {
  const scrolls = !["ArrowLeft", "ArrowRight", "j", "k"].includes(key);
  const isElsewhere = scrolled.some((part) => part?.contains(target)) || target.closest?.(".about, .overview") !== null;
  const isPlain = !altKey && !ctrlKey && !metaKey && !shiftKey;
  return isPlain && Object.hasOwn(KEYS, key) && !target.matches?.("input, select") && !(scrolls && isElsewhere) ? KEYS[key] : null;
}

function pairs(heading, found) {
  if (found.length === 0) {
    return null;
  }
  const rows = found.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, String(value))));
  return make("section", {}, make("h2", {}, heading), make("table", { class: "pairs" }, make("tbody", {}, ...rows)));
}
