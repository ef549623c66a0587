// What normalized_shape normalizes: which elements of x share a mean, and which entry of the weight multiplies each.

/** Everything that PyTorch would do with these shapes. */
function shapesFigure(state, data) {
  const sizes = (letters) => letters.split(",").map((axis) => (axis === "1" ? 1 : state.sizes[axis]));
  const axes = state.layout.split(",");
  const shape = sizes(state.layout);
  const normalized = sizes(state.shape[state.layout]);
  const weightAxes = state.weight[state.layout];
  const weight = weightAxes ? sizes(weightAxes) : null;
  const list = (sizes) => `[${sizes.join(", ")}]`;
  const sameAs = (a, b) => a.length === b.length && a.every((size, i) => size === b[i]);

  let refusal = "";
  const fits = sameAs(shape.slice(-normalized.length), normalized);
  if (weight && !sameAs(weight, normalized))
    refusal = `Expected weight to be of same shape as normalized_shape, but got weight of shape ${list(weight)} and normalized_shape = ${list(normalized)}`;
  else if (!fits)
    refusal = `Given normalized_shape=${list(normalized)}, expected input with shape [*, ${normalized.join(", ")}], but got input of size${list(shape)}`;

  const members = sizeOf(normalized);
  const byHand = weight ? broadcast(shape, weight) : { shape };
  return {
    axes,
    shape,
    normalized,
    weight,
    refusal,
    byHand,
    members,
    // the mean that each element is given, counted from 0; null where the sizes do not fit
    means: fits ? Array.from({ length: sizeOf(shape) }, (_, flat) => Math.floor(flat / members)) : null,
    meanShape: [...shape.slice(0, -normalized.length), ...normalized.map(() => 1)],
    // the weight's entries that multiply each element: more than one where the result grows
    entries:
      weight && byHand.shape
        ? Array.from({ length: sizeOf(shape) }, (_, flat) => meets(indexOf(flat, shape), shape, weight))
        : null,
    // the axes that are normalized are the last ones, whatever the learner's letters say
    taken: axes.slice(-normalized.length),
    asked: state.shape[state.layout].split(","),
  };
}

// --- the picture ---

function cards(state, width) {
  const shape = state.layout.split(",").map((axis) => state.sizes[axis]);
  const [rows, columns] = shape.slice(-2);
  return cardsOf(sizeOf(shape.slice(0, -2)), rows, columns, width, { cellHeight: 34, inner: shape.at(-3) });
}

function drawShapes(context, state, width, data) {
  const figure = shapesFigure(state, data);
  const grid = cards(state, width);
  const perCard = grid.rows * grid.columns;
  const chosen = figure.means?.[state.picked];
  for (let card = 0; card < sizeOf(figure.shape.slice(0, -2)); card++) {
    const at = indexOf(card, figure.shape.slice(0, -2)).join(", ");
    drawCard(context, grid, card, `x[${at}]`, (row, column) => {
      const flat = card * perCard + row * grid.columns + column;
      const mean = figure.means?.[flat];
      const lines = [mean === undefined ? "μ –" : `μ${mean}`];
      if (figure.weight) lines.push(figure.entries ? `γ${spanText(figure.entries[flat])}` : "γ –");
      const colour = STYLE.palette[(mean ?? 0) % 6];
      const fill = mean === undefined ? STYLE.rule : tint(colour, mean === chosen ? 0.5 : 0.18);
      return { fill, lines, strong: flat === state.picked };
    });
  }
  drawRefusalBelow(context, figure.refusal, grid.height, width);
}

function pickAt(x, y, state, width) {
  const grid = cards(state, width);
  const hit = grid.at(x, y);
  return hit && { ...state, picked: (hit.card * grid.rows + hit.row) * grid.columns + hit.column };
}

function pickByKey(event, state) {
  const picked = stepByKey(event, state.picked, state.layout.split(",").map((axis) => state.sizes[axis]));
  return picked === null ? null : { ...state, picked };
}

/** The state after one control has moved; lists are kept for each layout, and the picked element stays inside. */
function change(state, control, value) {
  const next = { ...state, sizes: { ...state.sizes } };
  const [name, layout] = control.split(" ");
  if (control in next.sizes) next.sizes[control] = value;
  else if (layout) next[name] = { ...state[name], [layout]: value };
  else next[control] = value;
  const shape = next.layout.split(",").map((axis) => next.sizes[axis]);
  return { ...next, picked: Math.min(next.picked, sizeOf(shape) - 1) };
}

// --- the words ---

function remarkOn(figure) {
  const { shape, weight, byHand, normalized, taken, asked } = figure;
  if (figure.means && taken.join() !== asked.join())
    return `A shape is numbers: PyTorch sees ${shapeText(normalized)}, and normalizes ${taken.join(", ")}, not ${asked.join(", ")}.`;
  if (weight && byHand.shape && byHand.shape.join() !== shape.join())
    return `By hand there is no error, and the result has grown to ${shapeText(byHand.shape)}.`;
  if (weight && figure.refusal && byHand.shape)
    return "By hand there is no error: the product broadcasts from the last axis on.";
  return "";
}

function facts(state, data) {
  const figure = shapesFigure(state, data);
  const { axes, shape, normalized, weight, means, byHand } = figure;
  const index = indexOf(state.picked, shape).join(", ");
  const shared = means && `shares its mean with ${several(figure.members - 1, "other")}`;
  const entry = figure.entries && `is multiplied by entry ${spanText(figure.entries[state.picked])} of weight`;
  const product = byHand.shape ? shapeText(byHand.shape) : byHand.error;
  return [
    ["x", `(${axes.join(", ")}) = ${shapeText(shape)}`],
    ["normalized_shape", shapeText(normalized)],
    ["weight", weight ? `${shapeText(weight)}: ${several(sizeOf(weight), "entry", "entries")}` : "none"],
    ["means", means ? `${shapeText(figure.meanShape)}: ${sizeOf(shape) / figure.members}, each over ${several(figure.members, "element")}` : "none"],
    ["in PyTorch", `F.layer_norm(x, ${shapeText(normalized)}${weight ? ", weight" : ""})${figure.refusal ? "  # RuntimeError" : ""}`],
    ["by hand", weight ? `x_hat * weight: ${product}` : ""],
    ["picked", `x[${index}] ${[shared, entry].filter(Boolean).join(", and ") || "has no mean"}`],
    ["remark", remarkOn(figure)],
  ];
}

function summary(state, data) {
  const figure = shapesFigure(state, data);
  if (figure.refusal) return "PyTorch refuses these shapes.";
  const count = sizeOf(figure.shape) / figure.members;
  const axes = `${figure.taken.length === 1 ? "axis" : "axes"} ${figure.taken.join(", ")}`;
  return `${several(count, "mean")}, each over ${several(figure.members, "element")}: the ${axes}.`;
}

function render(view) {
  const data = view.model.get("data");
  const layouts = data.order.shapes;
  const perLayout = (name, label, lists) =>
    layouts.map((layout) => ({
      name: `${name} ${layout}`,
      label,
      kind: "select",
      options: choicesOf(lists[layout], "none"),
      read: (state) => state[name][layout],
      visible: (state) => state.layout === layout,
    }));
  const size = (axis) => ({
    ...sizeSlider(axis, data.limits),
    visible: (state) => state.layout.split(",").includes(axis),
  });
  return mount(view, {
    name: "normalized_shape",
    title: "A tensor, cell by cell: the mean that each element is given, and the weight that multiplies it.",
    hint: "μ: which mean an element is given; γ: which entry of the weight multiplies it. Click one, or use the arrow keys.",
    specs: [
      { name: "layout", label: "x", kind: "select", options: choicesOf(layouts) },
      ...perLayout("shape", "normalized", data.shapes),
      ...perLayout("weight", "weight", data.weights),
      ...data.order.limits.map(size),
    ],
    change,
    size: (state, width) => cards(state, width).height + heightOfRefusal(shapesFigure(state, data).refusal, width),
    draw: drawShapes,
    summary,
    facts,
    factClasses: { "in PyTorch": "wide code", "by hand": "wide", picked: "wide", remark: "wide" },
    pick: { at: pickAt, key: pickByKey },
  });
}

export { change, pickAt, pickByKey, shapesFigure };
export default { render };
