// One behaviour: its diagram with a slider and filters.

class Pane {
  /** `settings`: prefix of its rows' ids, link of a step, report when a step is chosen; name and parting where two are shown. */
  constructor(trace, { prefix, parting, link, name, report }) {
    this.report = report;
    this.view = {
      trace, steps: trace.steps.map((_, index) => index), chosen: trace.steps.length - 1,
      hidden: new Set(), types: new Set(), field: "", opened: new Map(), prefix, parting: parting ?? -1, link,
    };
    this.diagram = new Diagram(this.view, (index) => this.choose(index));
    this.slider = make("input", { type: "range", min: "0", step: "1", "aria-label": "Step" });
    this.slider.addEventListener("input", () => this.choose(this.view.steps[Number(this.slider.value)]));
    this.counter = make("output", { class: "counter" });
    this.back = button("←", "the step before", () => this.move(-1));
    this.forth = button("→", "the next step", () => this.move(1));
    this.setSlider();
    this.element = make("section", { class: "pane", "aria-label": name ?? "Sequence diagram" },
      name === null ? null : make("p", { class: "title" }, name),
      make("div", { class: "bar" }, this.back, this.slider, this.forth, this.counter), this.filters(trace), this.diagram.element);
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
    const filters = make("details", { class: "filters" }, make("summary", {}, "Filters"),
      make("fieldset", {}, make("legend", {}, "Replicas"), ...replicas),
      types.length ? make("fieldset", {}, make("legend", {}, "Messages"), ...types) : null,
      make("label", { class: "field" }, "Fields and steps that change them ", field));
    filters.addEventListener("toggle", () => requestAnimationFrame(() => this.diagram.reveal(this.view.chosen)));
    return filters;
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
    this.choose(view.chosen);
  }

  /** Choose a step: the last one shown that is not behind it. */
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

function tick(name, colour, change) {
  const box = make("input", { type: "checkbox", checked: true });
  box.addEventListener("change", () => change(box.checked));
  return make("label", { class: "tick" }, box, colour ? make("span", { class: `dot ${colour}` }) : null, name);
}
