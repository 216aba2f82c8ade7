// The page of `kraftcheck explore`: the walk so far, the possible next steps, and the chosen step.

const FEW = 8; // the limit on initially shown changes and reasons
const SETTLED = 120; // milliseconds between the choice of a step and the request for its next steps

class Explorer {
  constructor(data, place) {
    this.data = data;
    this.offers = new Map(); // by node
    this.opened = new Set(); // folds that the user opened
    this.wanted = ""; // the filter of the enabled steps
    this.turn = 0;
    this.live = make("p", { class: "unseen", "aria-live": "polite" });
    this.trouble = make("p", { class: "trouble", role: "alert", hidden: true });
    this.note = make("pre", { hidden: true });
    this.verdict = make("span", {});
    this.walk = make("div", { class: "walk" });
    this.next = make("section", { class: "told next", "aria-label": "What can happen next", tabindex: "0" });
    this.told = make("section", { class: "told", "aria-label": "The chosen step", tabindex: "0" });
    this.work = make("div", { class: "work explore" }, this.walk, this.next, this.told);
    place.replaceChildren(make("main", {}, this.header(), this.trouble, this.note, this.work, this.footer()), this.live);
    addEventListener("hashchange", () => this.follow());
    document.addEventListener("keydown", (event) => this.press(event));
    this.follow();
  }

  header() {
    const { model, variant, configuration, starts, forms } = this.data;
    document.title = visible(`${model} – kraftcheck explore`);
    const names = starts.map(({ node, name }) => [String(node), name]);
    this.begin = choice("Begin with ", names, names[0][0], (node) => this.go(Number(node)));
    this.form = choice("Save as ", Object.entries(forms), Object.keys(forms)[0], () => {});
    const save = button("Save", "save the walk", () => this.save(this.form.querySelector("select").value));
    return make("header", {},
      make("p", { class: "model" }, [model, variant && `variant ${variant}`, `configuration ${configuration}`].filter(Boolean).join(" · ")),
      make("h1", {}, this.verdict),
      this.begin, make("span", { class: "choice" }, this.form, " ", save));
  }

  footer() {
    const { constants, warnings, tool, version } = this.data;
    const keys = [
      ["1 to 9", "take an enabled step"], ["u", "undo: the walk without its last step"], ["← → j k", "choose a step of the walk"],
      ["Page Up, Page Down", "ten steps"], ["Home, End", "the first and the last step"], ["the browser's Back", "the walk before this one"],
    ];
    return make("footer", { class: "about" },
      make("div", { class: "columns" },
        pairs("Constants", Object.entries(constants).map(([name, value]) => [name, text(value)])), pairs("Keys", keys)),
      ...warnings.map((one) => make("p", { class: "faint" }, `Warning: ${one}`)),
      make("p", { class: "faint" }, `${tool} ${version}. This page asks the program that printed its address, and nobody else.`));
  }

  /** Send a request to the program. Return null for a response that a newer request has overtaken. */
  async ask(path, sent) {
    clearTimeout(this.waiting);
    this.turn += 1;
    const turn = this.turn;
    const asked = sent === undefined ? {}
      : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(sent) };
    try {
      const answer = await fetch(path, asked);
      const found = answer.ok && path.startsWith("save") ? await answer.blob() : await answer.json();
      if (turn !== this.turn) {
        return null;
      }
      this.say(answer.ok ? "" : found.error);
      return answer.ok ? found : null;
    } catch {
      this.say("There is no answer: kraftcheck explore has ended.");
      return null;
    }
  }

  say(trouble) {
    this.trouble.hidden = trouble === "";
    this.trouble.textContent = visible(trouble);
  }

  tellOf(note) {
    this.note.hidden = note === "";
    this.note.textContent = visible(note);
  }

  /** Show the walk and the step of the address. */
  async follow() {
    const named = /^#walk-(\d{1,9})(?:-step-(\d{1,9}))?$/.exec(location.hash);
    const node = named === null ? this.data.starts[0].node : Number(named[1]);
    if (this.node !== node) {
      const found = await this.ask(`walk?node=${node}`);
      if (found === null) {
        if (this.pane === undefined && named !== null && !this.trouble.hidden) {
          const said = this.trouble.textContent;
          history.replaceState(null, "", "#");
          await this.follow();
          this.tellOf(said);
        }
        return;
      }
      this.show(found);
    }
    if (named?.[2] !== undefined) {
      const index = this.pane.view.trace.steps.findIndex((step) => String(step.number) === named[2]);
      this.pane.choose(index >= 0 ? index : this.pane.view.chosen, false);
    }
  }

  go(node) {
    location.hash = `#walk-${node}`;
  }

  /** Show a walk with its last step chosen. */
  show(data) {
    const [run] = unpack(data).runs;
    const [trace] = run.traces;
    this.node = trace.steps.at(-1).node;
    const isBroken = run.result === "violation";
    this.verdict.replaceChildren(
      ...(isBroken ? [make("span", { class: "verdict violation" }, "VIOLATION"), " "] : []), trace.title,
      isBroken ? `: ${trace.end}` : "");
    const start = this.data.starts.find(({ node }) => node === this.node);
    this.tellOf(start?.note ?? "");
    this.pane = new Pane(trace, {
      prefix: "", link: (step) => this.link(step), name: null, report: (_, push) => this.tell(push), before: this.pane,
    });
    this.walk.replaceChildren(this.pane.element);
    this.pane.diagram.arrange();
    this.pane.choose(trace.steps.length - 1, false);
  }

  link(step) {
    return `#walk-${this.node}-step-${step.number}`;
  }

  /** Show the chosen step and request its next steps. */
  tell(push) {
    const { view } = this.pane;
    const step = view.trace.steps[view.chosen];
    this.told.replaceChildren(...details(view));
    this.told.scrollTop = 0;
    if (push) {
      history.replaceState(null, "", this.link(step));
    }
    this.live.textContent = visible(`Step ${step.number}: ${step.action ?? "initial state"} ${who(step)}, ${many(step.changes.length, "change")}`);
    clearTimeout(this.waiting);
    if (this.offers.has(step.node)) {
      this.list(step.node);
    } else {
      this.next.setAttribute("aria-busy", "true");
      this.waiting = setTimeout(() => this.learn(step.node), view.chosen === view.trace.steps.length - 1 ? 0 : SETTLED);
    }
  }

  async learn(node) {
    const found = await this.ask(`offers?node=${node}`);
    if (found !== null) {
      this.offers.set(node, found);
      this.list(node);
    } else if (!this.trouble.hidden) {
      this.next.replaceChildren(this.bar());
    }
  }

  /** List the next steps, disabled actions and properties of the chosen step. */
  list(node) {
    const { view } = this.pane;
    const offers = this.offers.get(node);
    if (view.trace.steps[view.chosen].node !== node) {
      return;
    }
    const isInside = this.next.contains(document.activeElement);
    this.steps = make("ol", { class: "offers" });
    const behind = view.trace.steps.length - 1 - view.chosen;
    const parts = [
      this.bar(),
      behind > 0 ? make("p", { class: "faint" }, `A step taken here leaves the ${many(behind, "step")} behind it.`) : null,
      offers.deadlock ? make("p", { class: "bad" }, "Deadlock: nothing is enabled.") : null,
      ...offers.properties.filter(isFalse).map(falsity),
      offers.enabled.length > FEW ? this.search(offers) : null,
      this.steps,
      this.part("properties", this.verdicts(offers.properties), () => offers.properties.map(verdict)),
      this.part("disabled", "Not enabled, and why", () => offers.disabled.map((one) => this.disabled(one))),
    ];
    this.next.replaceChildren(...parts.filter((part) => part !== null));
    this.next.removeAttribute("aria-busy");
    this.next.scrollTop = 0;
    this.fill(offers);
    if (isInside) {
      this.next.focus({ preventScroll: true });
    }
    this.live.textContent += `; ${many(offers.enabled.length, "step")} enabled`;
  }

  bar() {
    const { steps } = this.pane.view.trace;
    const undo = button("Undo", "undo: the walk without its last step", () => this.undo());
    undo.disabled = steps.length < 2;
    return make("div", { class: "top" }, make("h2", {}, `Next, after step ${steps[this.pane.view.chosen].number}`), undo);
  }

  search(offers) {
    const field = make("input", { type: "search", placeholder: "such as Fetch n2", autocomplete: "off", spellcheck: "false", value: this.wanted });
    field.addEventListener("input", () => {
      this.wanted = field.value;
      this.fill(offers);
    });
    return make("label", { class: "field" }, `${many(offers.enabled.length, "step")} enabled; show those with `, field);
  }

  /** List the enabled steps that match the filter. */
  fill(offers) {
    const words = offers.enabled.length > FEW ? this.wanted.toLowerCase().split(/\s+/).filter(Boolean) : [];
    const isWanted = (one) => {
      const said = `${one.action} ${who({ ...one, message: one.on })} ${one.breaks.join(" ")}`.toLowerCase();
      return words.every((word) => said.includes(word));
    };
    this.listed = offers.enabled.map((one, choice) => ({ ...one, choice })).filter(isWanted);
    this.steps.replaceChildren(...this.listed.map((one, place) => this.offer(offers.node, one, place)));
  }

  offer(node, one, place) {
    const { view } = this.pane;
    const { steps } = view.trace;
    const isNext = one.node !== null && steps[view.chosen + 1]?.node === one.node;
    const here = steps[view.chosen].number;
    const key = place < 9 ? String(place + 1) : null;
    const take = make("button", { type: "button", class: "offer", "aria-keyshortcuts": key, "data-choice": one.choice },
      make("span", { class: "number" }, key ?? ""), make("span", { class: "what" },
        make("span", { class: "action" }, one.action), make("span", { class: "who" }, who({ ...one, message: one.on }))));
    take.addEventListener("click", () => this.take(node, one.choice));
    const said = [
      ...one.breaks.map((name) => make("p", { class: "bad" }, `violates ${name}`)),
      ...one.outside.map((name) => make("p", { class: "warn" }, `beyond ${name}: a search does not go there`)),
      one.back === null ? null : make("p", { class: "faint" }, one.back === here ? "changes nothing" : `back in the state of step ${one.back}`),
      isNext ? make("p", { class: "faint" }, "the walk goes on so") : null,
    ];
    const rest = one.changes.length - FEW;
    return make("li", {}, take, make("div", { class: "effect" }, ...said.filter((part) => part !== null),
      one.changes.length ? changeTable(one.changes.slice(0, FEW)) : null,
      rest > 0 ? fold(`${many(rest, "change")} more`, "", () => changeTable(one.changes.slice(FEW))) : null,
      ...one.messages.map(([is, message]) => this.message(is === "consumed" ? taken(one, message) : is, message))));
  }

  message(is, message) {
    const { _type: type = text(message), source, dest } = Object(message);
    const end = (value) => (value === undefined ? null : text(value));
    return messageCard(is, { type, source: end(source), dest: end(dest), message }, is, { field: "" });
  }

  async take(node, choice) {
    const found = await this.ask("take", { node, choice });
    if (found !== null) {
      this.offers.delete(node);
      const isInside = this.next.contains(document.activeElement);
      this.show(found);
      history.pushState(null, "", `#walk-${this.node}`);
      if (isInside) {
        this.next.focus({ preventScroll: true });
      }
    }
  }

  undo() {
    const { steps } = this.pane.view.trace;
    if (steps.length > 1) {
      this.go(steps.at(-2).node);
    }
  }

  async save(name) {
    const file = await this.ask(`save?node=${this.node}&name=${encodeURIComponent(name)}`);
    if (file !== null) {
      const link = make("a", { href: URL.createObjectURL(file), download: name });
      link.click();
      URL.revokeObjectURL(link.href);
    }
  }

  /** Return a fold that keeps its state when the page is updated. */
  part(name, title, content) {
    const found = make("details", { class: "card", open: this.opened.has(name) }, make("summary", {}, make("strong", {}, title)));
    found.addEventListener("toggle", () => (found.open ? this.opened.add(name) : this.opened.delete(name)));
    return opening(found, () => make("div", { class: name }, ...content()));
  }

  verdicts(properties) {
    const [bad, good] = [properties.filter(isFalse).length, properties.filter((one) => one.holds && isInvariant(one)).length];
    return `Properties: ${bad ? `${bad} violated, ` : ""}${good} hold${good === 1 ? "s" : ""}`;
  }

  disabled({ action, reasons, others }) {
    const lines = reasons.map(({ text: said, place, who: whom }) => {
      const names = whom.map(([actor, message]) => {
        const { _type: type, source } = Object(message);
        const on = message === null ? "" : ` on ${type ?? text(message)}${source === undefined ? "" : ` from ${text(source)}`}`;
        return `${actor ?? ""}${on}`.trim();
      }).filter(Boolean);
      return make("li", {}, names.length ? make("strong", {}, `${[...new Set(names)].join(", ")}: `) : null, said,
        place ? make("span", { class: "faint" }, `, ${place}`) : null);
    });
    return make("section", {}, make("h4", {}, action, others ? make("span", { class: "faint" }, " is enabled for others") : null),
      make("ul", {}, ...lines.slice(0, FEW)),
      lines.length > FEW ? fold(`${many(lines.length - FEW, "reason")} more`, "", () => make("ul", {}, ...lines.slice(FEW))) : null);
  }

  press(event) {
    const { target, key, altKey, ctrlKey, metaKey, shiftKey } = event;
    const isPlain = !altKey && !ctrlKey && !metaKey && !shiftKey && !target.matches?.("input, select");
    const moved = movedBy(event, this.told, this.next);
    if (this.pane !== undefined && moved !== null) {
      event.preventDefault();
      this.pane.move(moved);
    } else if (isPlain && key === "u" && this.pane !== undefined) {
      this.undo();
    } else if (isPlain && /^[1-9]$/.test(key)) {
      this.next.querySelectorAll(".offer")[Number(key) - 1]?.click();
    }
  }
}

/** Return the fate of a message that a step consumes. */
function taken(step, message) {
  return step.by === "the network" ? "lost" : same(step.on, message) ? "delivered" : "dropped";
}

function isInvariant(property) {
  return property.kind.includes("invariant");
}

function isFalse(property) {
  return property.holds === false && isInvariant(property);
}

function falsity({ name, why, error }) {
  return why ? blame(name, why) : make("p", { class: "bad" }, `${name}: ${error ?? "violated"}`);
}

function verdict(property) {
  const said = {
    true: { reachable: "is so here", constraint: "within" }[property.kind] ?? "holds",
    false: { reachable: "not so here", constraint: "beyond: a search does not go on from here" }[property.kind] ?? "violated",
    null: "is about steps",
  }[property.holds];
  const mark = property.holds === null ? "–" : property.holds ? "✓" : isInvariant(property) ? "✗" : "○";
  return make("p", { class: isFalse(property) ? "bad" : null }, `${mark} ${property.name} `, make("span", { class: "faint" }, property.error ?? said));
}

new Explorer(readData(), document.getElementById("page"));
