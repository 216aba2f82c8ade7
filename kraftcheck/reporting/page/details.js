// The details of a step: changes, messages, and the whole state.

const MOST = 60; // the limit on listed messages; those under way come last
const MARKS = { sent: "+", delivered: "−", kept: "*", lost: "✕", dropped: "✕", "under way": " " };

/** Return the elements for the chosen step. */
function details(view) {
  const { trace, chosen } = view;
  const step = trace.steps[chosen];
  const before = chosen === 0 ? null : trace.steps[chosen - 1];
  return [
    make("h2", {},
      make("a", { class: "permalink", href: view.link(step), title: "a link to this step" }, `Step ${step.number}`),
      ` ${step.action ?? "initial state"}`),
    make("p", { class: "by" }, step.action === null ? `${many(step.state.size, "replica")}` : who(step)),
    step.message === null ? null : fold("On", `${text(step.message)}`, () => fieldTable(step.message, undefined, view)),
    chosen === trace.steps.length - 1 ? reason(trace) : null,
    ...changed(step, view),
    ...messagesOf(step, view),
    make("h3", {}, "State"),
    ...[...step.state].filter(([name]) => !view.hidden.has(name)).map(([name, number]) =>
      card(name, trace.values[number], trace.values[before?.state.get(name)], before !== null, view)),
    fieldsOf(trace.values[step.shared]).length === 0 ? null : card("shared", trace.values[step.shared], trace.values[before?.shared], before !== null, view),
    spent(step, before, trace),
  ].filter((part) => part !== null);
}

/** Return the reason of the violation in the last state, or the end of the trace. */
function reason(trace) {
  if (!trace.why) {
    return trace.end ? make("div", { class: "reason" }, make("p", {}, trace.end)) : null;
  }
  return blame(trace.property, trace.why);
}

function blame(property, why) {
  const of = Object.entries(why.false_of).map(([name, value]) => `${name} = ${text(value)}`).join(", ");
  const [first, ...more] = (why.because ?? []).map(asStatement);
  return make("div", { class: "reason" },
    make("strong", {}, property),
    why.says ? make("p", {}, why.says) : null,
    of || first ? make("p", {}, `violated${of ? ` for ${of}` : ""}${first ? `: ${first}` : ""}`) : null,
    ...more.map((part) => make("p", { class: "more" }, part)),
    why.place ? make("p", { class: "faint" }, `${why.place.file}, line ${why.place.line}`) : null);
}

/** Return a part of `because` as a statement about the violating state. */
function asStatement(part) {
  const [, text, values] = /^false: (.*?)(  \(.*)?$/s.exec(part) ?? [];
  return text === undefined ? part.replace(/^true: /, "") : `\`${text}\` is false${values ?? ""}`;
}

function changed(step, view) {
  const found = step.changes.filter(([what]) => matches(view, what) && !isHidden(view, what));
  if (step.action === null) {
    return [];
  }
  return [
    make("h3", {}, "Changes"),
    found.length ? changeTable(found)
      : make("p", { class: "faint" }, step.changes.length ? "hidden by the filter" : "none"),
  ];
}

function changeTable(changes) {
  const rows = changes.map(([what, how]) => make("tr", {}, make("th", { scope: "row" }, what), make("td", {}, ...difference(how))));
  return make("table", { class: "changes" }, make("tbody", {}, ...rows));
}

/** Mark the old and the new part of a change. */
function difference(how) {
  const arrow = how.indexOf(" -> ");
  if (arrow >= 0) {
    return [make("del", {}, how.slice(0, arrow)), " → ", make("ins", {}, how.slice(arrow + 4))];
  }
  return [make(how.startsWith("-") ? "del" : how.startsWith("+") ? "ins" : "span", {}, how)];
}

/** Return the messages that a step consumes and sends, and those still under way after it. */
function messagesOf(step, view) {
  const found = new Map();
  for (const flow of view.trace.flows) {
    const isOver = flow.until !== null && flow.until < step.number;
    if (flow.sent > step.number || isOver || view.types.has(flow.type) || (flow.fate === "kept" && flow.until !== step.number)) {
      continue;
    }
    const is = flow.until === step.number ? flow.fate : flow.sent === step.number && step.action !== null ? "sent" : "under way";
    const key = `${is} ${flow.id}`;
    const known = found.get(key) ?? { flow, is, copies: 0 };
    known.copies += 1;
    found.set(key, known);
  }
  if (found.size === 0) {
    return [];
  }
  const order = ["delivered", "kept", "lost", "dropped", "sent", "under way"];
  const sorted = [...found.values()].sort((one, other) => order.indexOf(one.is) - order.indexOf(other.is));
  const shown = sorted.slice(0, MOST);
  return [
    make("h3", {}, "Messages"),
    ...shown.map(({ flow, is, copies }) => messageCard(is, flow, copies > 1 ? `${is}, ${copies} copies` : is, view)),
    sorted.length > MOST ? make("p", { class: "faint" }, `and ${sorted.length - MOST} more under way`) : null,
  ];
}

function messageCard(is, { type, source, dest, message }, said, view) {
  const summary = make("summary", {},
    make("span", { class: "mark", "aria-hidden": "true" }, MARKS[is]),
    make("span", { class: "type" }, type), ` ${source ?? ""} → ${dest ?? ""} `,
    make("span", { class: "faint" }, said));
  return opening(make("details", { class: `message ${is.replace(" ", "-")}` }, summary), () => fieldTable(message, undefined, view));
}

function card(name, value, before, hasBefore, view) {
  const news = hasBefore ? fieldsOf(value).filter(([field, item]) => !same(item, fieldIn(before, field))) : [];
  const summary = make("summary", {}, make("strong", {}, name), " ",
    make("span", { class: "faint" }, news.length ? many(news.length, "change") : ""));
  const isOpen = view.opened.has(name) ? view.opened.get(name) : news.length > 0 || view.chosen === 0;
  const element = opening(make("details", { class: news.length ? "card new" : "card", open: isOpen }, summary),
    () => fieldTable(value, hasBefore ? before ?? {} : undefined, view));
  summary.addEventListener("click", () => view.opened.set(name, !element.open));
  return element;
}

function fieldIn(record, field) {
  return fieldsOf(record ?? {}).find(([name]) => name === field)?.[1];
}

/** Return a table of a record's fields with changed fields marked. */
function fieldTable(value, before, view) {
  const rows = fieldsOf(value).filter(([field]) => matches(view, field)).map(([field, item]) => {
    const isNew = before !== undefined && !same(item, fieldIn(before, field));
    return make("tr", { class: isNew ? "new" : null }, make("th", { scope: "row" }, field),
      make("td", {}, valueOf(item), isNew ? make("span", { class: "unseen" }, " (changed)") : null));
  });
  return make("table", { class: "fields" }, make("tbody", {}, ...rows));
}

/** Return a value as an element; a list of records, such as a log, has one line per record. */
function valueOf(value) {
  if (Array.isArray(value) && value.some((item) => item !== null && typeof item === "object")) {
    return make("ol", {}, ...value.map((item) => make("li", {}, text(item))));
  }
  return make("span", {}, text(value));
}

function spent(step, before, trace) {
  const names = Object.keys(step.spent);
  if (names.length === 0) {
    return null;
  }
  const rows = names.map((name) => {
    const [shown, limit] = Object.hasOwn(trace.bounds, name) ? trace.bounds[name] : [name, "?"];
    const isNew = before !== null && before.spent[name] !== step.spent[name];
    return make("tr", { class: isNew ? "new" : null }, make("th", { scope: "row" }, shown),
      make("td", {}, `${text(step.spent[name])} of ${limit}`));
  });
  return fold("Bounds", "spent", () => make("table", { class: "fields" }, make("tbody", {}, ...rows)));
}

function fold(title, more, content) {
  return opening(make("details", { class: "card" },
    make("summary", {}, make("strong", {}, title), " ", make("span", { class: "faint cut" }, more))), content);
}

/** Create the content of a fold on opening, since most stay closed. A click is handled at once; the browser's search sends `toggle` later. */
function opening(element, content) {
  let isFull = false;
  const fill = () => {
    if (!isFull) {
      isFull = true;
      element.append(content());
    }
  };
  if (element.open) {
    fill();
  } else {
    element.firstChild.addEventListener("click", fill);
    element.addEventListener("toggle", fill);
  }
  return element;
}

/** Whether a field or the path of a change matches the user's filter. */
function matches(view, name) {
  const wanted = view.field.trim().toLowerCase();
  return wanted === "" || name === "" || wanted.split(/[\s,]+/).some((word) => word !== "" && name.toLowerCase().includes(word));
}

function isHidden(view, path) {
  return [...view.hidden].some((name) => path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`));
}
