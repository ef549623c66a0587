// Labelled controls from a list of specifications. Native inputs, so keyboard and screen reader work as everywhere.
//
// A specification: { name, label, kind, ... } with kind
//   "slider"  where none is given: whole numbers from min to max, or `stops`, the values that it steps through, which
//             are data.stops[name] where none are given
//   "select"  options: [[value, text], ...], or values that are their own text
//   "toggle"  a checkbox
//   "line"    one line to type into, with `placeholder`
//   "text"    several lines to type or paste into, with `placeholder`
// and, where needed: format(value) -> text, read(state) -> value, visible(state), enabled(state), last(state) -> where a
// slider of whole numbers ends in this state.
//
// Every stop of a slider can be reached by hand: one with many has a line of its own where two share one, and one with
// more than the narrowest line has room for (4 px a stop) has a field to type the number into.

const SHORT_STEPS = 35; // steps that half a phone's line has room for
const LINE_STEPS = 62; // that a column beside the picture, or a phone's whole line, has room for

/** Create an element: attributes by name, children as nodes or text. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** The choices that Python sends as `name`, as [value, text], in Python's order: a saved notebook has lost that of keys. */
const choicesIn = (data, name) => data.order[name].map((value) => [value, data[name][value]]);

/** JupyterLab takes arrow keys for its own commands unless the focused element itself says otherwise. */
const KEEP_KEYS = { "data-lm-suppress-shortcuts": "true" };

// Two views of one widget, or two widgets on a page, must not share an id; nothing here is saved, so chance will do.
const uniqueId = () => `course-${Math.random().toString(36).slice(2, 10)}`;

/** Write text only where it changed: an untouched text node costs the browser no layout. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function makeControl(spec, data, onChange) {
  const id = uniqueId();
  const label = element("label", { for: id }, spec.label);

  if (spec.kind === "select") {
    const choices = spec.options.map((choice) => (Array.isArray(choice) ? choice : [choice, choice]));
    const options = choices.map(([value, text]) => element("option", { value }, text));
    const input = element("select", { id, ...KEEP_KEYS }, ...options);
    input.addEventListener("change", () => onChange(spec.name, choices[input.selectedIndex][0])); // a number stays one
    return { parts: [label, input], input, show: (value) => (input.value = value) };
  }

  if (spec.kind === "toggle") {
    const input = element("input", { id, type: "checkbox", ...KEEP_KEYS });
    input.addEventListener("change", () => onChange(spec.name, input.checked));
    return { parts: [label, input], input, show: (value) => (input.checked = value) };
  }

  if (spec.kind === "line" || spec.kind === "text") {
    const look = { spellcheck: "false", autocomplete: "off", placeholder: spec.placeholder ?? "" };
    const isLine = spec.kind === "line";
    const input = element(isLine ? "input" : "textarea", { id, ...(isLine ? { type: "text" } : { rows: 4 }), ...look, ...KEEP_KEYS });
    input.addEventListener("input", () => onChange(spec.name, input.value));
    const show = (value) => {
      if (input.value !== value) input.value = value; // an untouched text keeps its caret
    };
    if (isLine) return { parts: [label, input], input, show };
    input.setAttribute("aria-label", spec.label); // a label in the summary would keep clicks to itself
    return { parts: [element("details", {}, element("summary", {}, spec.label), input)], input, show };
  }

  const { format = grouped } = spec;
  const stops = spec.stops ?? (spec.max === undefined ? data.stops[spec.name] : null);
  const min = stops ? 0 : spec.min;
  const max = stops ? stops.length - 1 : spec.max;
  const input = element("input", { id, type: "range", min, max, step: 1, ...KEEP_KEYS });
  const valueAt = (position) => (stops ? stops[position] : position);
  input.addEventListener("input", () => onChange(spec.name, valueAt(Number(input.value))));
  const isTyped = max - min > LINE_STEPS;
  const values = stops ?? [min, max];
  const shown = isTyped ? numberField(spec, stops, values, onChange) : element("output", { for: id });
  shown.style.minWidth = `${Math.max(...values.map((value) => format(value).length))}ch`; // a slider keeps its length
  let latest;
  const show = (value) => {
    latest = value;
    input.value = stops ? nearestStop(stops, value) : value;
    input.setAttribute("aria-valuetext", format(value));
    if (!isTyped) setText(shown, format(value));
    else if (!shown.matches(":focus")) shown.value = value; // what is being typed stays
    if (isTyped) shown.disabled = input.disabled;
  };
  if (isTyped) shown.addEventListener("blur", () => (shown.value = latest));
  return { parts: [label, input, shown], input, show, isLong: max - min > SHORT_STEPS };
}

/** A field for a slider's number: what is typed inside its ends is taken at once, at the nearest stop. */
function numberField(spec, stops, values, onChange) {
  const [min, max] = [values[0], values.at(-1)];
  const field = element("input", { type: "number", min, max, "aria-label": `${spec.label}, typed`, ...KEEP_KEYS });
  field.addEventListener("input", () => {
    const typed = field.valueAsNumber;
    if (!(typed >= min && typed <= max)) return; // empty, or on the way to a longer number
    onChange(spec.name, stops ? stops[nearestStop(stops, typed)] : Math.round(typed));
  });
  return field;
}

function nearestStop(stops, value) {
  let best = 0;
  stops.forEach((stop, i) => {
    if (Math.abs(stop - value) < Math.abs(stops[best] - value)) best = i;
  });
  return best;
}

/** Build the panel; `show(state)` brings every control to the state, whoever changed it. */
function controlPanel(specs, data, onChange) {
  const panel = element("div", { class: "course-controls" });
  const controls = specs.map((spec) => {
    const control = makeControl(spec, data, onChange);
    const row = element(
      "div",
      { class: `course-control course-${spec.kind ?? "slider"}${control.isLong ? " course-long" : ""}`, "data-control": spec.name },
      ...control.parts,
    );
    if (spec.kind !== "toggle") panel.append(row);
    else if (panel.lastChild?.className === "course-toggles") panel.lastChild.append(row);
    else panel.append(element("div", { class: "course-toggles" }, row));
    return { spec, row, ...control };
  });
  const show = (state) => {
    for (const { spec, row, input, show: showValue } of controls) {
      row.hidden = spec.visible ? !spec.visible(state) : false;
      input.disabled = spec.enabled ? !spec.enabled(state) : false;
      if (spec.last) input.max = spec.last(state);
      showValue(spec.read ? spec.read(state) : state[spec.name]);
    }
  };
  return { panel, show };
}
