// Decoding of the page's JSON, and creation of elements from text, never from markup.

const SVG = "http://www.w3.org/2000/svg";
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/gu;
const ENVIRONMENT = "environment";

/** Create an element with attributes and children (elements or text). */
function make(name, attributes = {}, ...content) {
  return fill(document.createElement(name), attributes, content);
}

function draw(name, attributes = {}, ...content) {
  return fill(document.createElementNS(SVG, name), attributes, content);
}

function fill(element, attributes, content) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(key, value === true ? "" : visible(String(value)));
    }
  }
  const parts = content.filter((part) => part !== null && part !== undefined);
  element.append(...parts.map((part) => (typeof part === "string" ? visible(part) : part)));
  return element;
}

/** Escape invisible and bidirectional characters. */
function visible(part) {
  return part.replace(UNSEEN, (character) => `\\u${character.codePointAt(0).toString(16).padStart(4, "0")}`);
}

function readData() {
  return JSON.parse(document.getElementById("data").textContent);
}

/** Resolve the numbers of deduplicated values in every trace of every run. */
function unpack(data) {
  for (const run of data.runs) {
    run.traces = run.traces.map((trace) => readTrace(trace, data.values));
  }
  return data;
}

/** Reconstruct the whole state of each step and the message of each flow, and find the lifelines. */
function readTrace(trace, values) {
  const replicas = new Map();
  const names = [];
  let state = new Map();
  for (const [index, step] of trace.steps.entries()) {
    state = new Map(state);
    for (const name of step.gone) {
      state.delete(name);
    }
    for (const [name, number] of Object.entries(step.replicas)) {
      state.set(name, number);
      if (!replicas.has(name)) {
        replicas.set(name, index);
        names.push(name);
      }
    }
    step.changed = index === 0 ? [] : Object.keys(step.replicas);
    step.state = state;
    step.message = step.on === null ? null : values[step.on];
  }
  const flows = trace.flows.map((flow) => ({ ...flow, id: flow.message, message: values[flow.message] }));
  const ends = new Set(flows.flatMap((flow) => [flow.source, flow.dest]).filter((end) => end !== null));
  const outside = trace.steps.some((step) => step.by === "the environment" && step.action !== null);
  if (outside || [...ends].some((end) => !replicas.has(end))) {
    names.push(ENVIRONMENT);
  }
  const types = [...new Set(flows.map((flow) => flow.type))].sort();
  return { ...trace, flows, values, lifelines: names, types, isReplica: (name) => replicas.has(name) };
}

/** Return the lifeline of a message's sender or receiver. */
function lifeline(trace, end) {
  return end === null || trace.isReplica(end) ? end : ENVIRONMENT;
}

/** Return a value as text, as in reports on a terminal. */
function text(value) {
  if (value === true || value === false) {
    return value ? "TRUE" : "FALSE";
  }
  if (value === null || typeof value !== "object") {
    return String(value);
  }
  if (Array.isArray(value)) {
    return `[${value.map(text).join(", ")}]`;
  }
  const fields = Object.entries(value).filter(([name]) => name !== "_type");
  if ("_type" in value) {
    return `${value._type}(${fields.map(([name, item]) => `${name}=${text(item)}`).join(", ")})`;
  }
  return `{${fields.map(([name, item]) => `${name}: ${text(item)}`).join(", ")}}`;
}

/** Return the fields of a record; another value is one field without a name. */
function fieldsOf(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return [["", value]];
  }
  return Object.entries(value).filter(([name]) => name !== "_type");
}

function same(one, other) {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

function many(number, word) {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}
