// What normalized_shape normalizes: which elements of x share a mean, and which entry of the weight multiplies each.

/** A shape as it was typed, (2, 3) or [2, 3] or 2, 3; null where it is none. */
function typedShape(text) {
  if (!/^\s*[([]?\s*(-?\d+\s*(,\s*-?\d+\s*)*,?)?\s*[)\]]?\s*$/.test(text)) return null;
  return (text.match(/-?\d+/g) ?? []).map(Number);
}

/** The three shapes of a state, and the letters of x's axes and of those to be normalized. */
function shapesOf(state) {
  if (state.layout === "own") {
    const { x, shape, weight } = state.typed;
    const [sizes, normalized] = [typedShape(x), typedShape(shape)];
    const word = weight.trim();
    const gain = word === "same" ? normalized : word === "none" ? null : typedShape(weight);
    const axes = sizes?.map((_, axis) => String(axis));
    const unread = sizes === null ? "x" : normalized === null ? "normalized_shape" : gain === null && word !== "none" ? "weight" : "";
    return { axes, shape: sizes, normalized, weight: gain, asked: null, unread };
  }
  const sizes = (letters) => letters.split(",").map((axis) => (axis === "1" ? 1 : state.sizes[axis]));
  const asked = state.shape[state.layout].split(",");
  const weight = state.weight[state.layout];
  const gain = weight === "same" ? sizes(asked.join()) : weight ? sizes(weight) : null;
  const axes = state.layout.split(",");
  return { axes, shape: sizes(state.layout), normalized: sizes(asked.join()), weight: gain, asked, unread: "" };
}

const listText = (sizes) => `[${sizes.join(", ")}]`;
const sameAs = (a, b) => a.length === b.length && a.every((size, i) => size === b[i]);

const isNegative = (shape) => shape !== null && shape.some((size) => size < 0);

/** What PyTorch says to F.layer_norm(torch.zeros(shape), normalized, torch.zeros(weight)). */
function refusalOf(shape, normalized, weight, data) {
  if (isNegative(shape) || isNegative(weight)) return data.negative;
  const list = listText(normalized);
  if (!normalized.length)
    return `Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = ${list}`;
  if (weight && !sameAs(weight, normalized))
    return `Expected weight to be of same shape as normalized_shape, but got weight of shape ${listText(weight)} and normalized_shape = ${list}`;
  if (shape.length < normalized.length || !sameAs(shape.slice(-normalized.length), normalized))
    return `Given normalized_shape=${list}, expected input with shape [*, ${normalized.join(", ")}], but got input of size${listText(shape)}`;
  return "";
}

/** Everything that PyTorch would do with these shapes; `problem` is what is no shape, or has no place in the picture. */
function shapesFigure(state, data) {
  const { axes, shape, normalized, weight, asked, unread } = shapesOf(state);
  const nothing = { refusal: "", means: null, entries: null, drawn: null };
  if (unread) return { ...nothing, problem: `${unread} is no shape: write whole numbers with commas, as (2, 3, 4).` };
  const refusal = refusalOf(shape, normalized, weight, data);
  if (isNegative(shape) || isNegative(weight) || !normalized.length)
    return { ...nothing, shape, normalized, weight, refusal, problem: "" };
  const [rows, columns] = [1, 1, ...shape].slice(-2);
  const entriesMost = Math.max(sizeOf(shape), sizeOf(weight ?? []));
  if (!sizeOf(shape) || rows > data.room.rows || columns > data.room.columns || entriesMost > data.room.elements)
    return { ...nothing, shape, normalized, weight, refusal, problem: `x has ${sizeOf(shape).toLocaleString("en-US")} elements: no picture is drawn of none, or of so many.` };

  const fits = shape.length >= normalized.length && sameAs(shape.slice(-normalized.length), normalized);
  const members = sizeOf(normalized);
  const byHand = weight ? broadcast(shape, weight) : { shape };
  const taken = axes.slice(-normalized.length);
  return {
    problem: "",
    drawn: { rows, columns, inner: shape.at(-3), cards: sizeOf(shape.slice(0, -2)) },
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
    taken,
    asked: asked ?? taken,
  };
}

// --- the picture ---

function cards({ drawn }, width) {
  if (!drawn) return { height: 0, at: () => null };
  return cardsOf(drawn.cards, drawn.rows, drawn.columns, width, { cellHeight: 34, inner: drawn.inner });
}

function drawShapes(context, state, width, data) {
  const figure = shapesFigure(state, data);
  const grid = cards(figure, width);
  const perCard = grid.rows * grid.columns;
  const chosen = figure.means?.[state.picked];
  for (let card = 0; card < (figure.drawn?.cards ?? 0); card++) {
    const at = indexOf(card, figure.shape.slice(0, -2)).join(", ");
    drawCard(context, grid, card, at ? `x[${at}]` : "x", (row, column) => {
      const flat = card * perCard + row * grid.columns + column;
      const mean = figure.means?.[flat];
      const lines = [mean === undefined ? "μ –" : `μ${mean}`];
      if (figure.weight) lines.push(figure.entries ? `γ${spanText(figure.entries[flat])}` : "γ –");
      const colour = STYLE.palette[(mean ?? 0) % 6];
      const fill = mean === undefined ? STYLE.rule : tint(colour, mean === chosen ? 0.5 : 0.18);
      return { fill, lines, strong: flat === state.picked };
    });
  }
  if (figure.refusal) drawRefusalBelow(context, figure.refusal, grid.height, width);
  else if (figure.problem)
    drawRefusal(context, figure.problem, { left: 4, top: 4, width: width - 8, height: refusalHeight(width) - 8 }, "No picture");
}

function pickAt(x, y, state, width, data) {
  const grid = cards(shapesFigure(state, data), width);
  const hit = grid.at(x, y);
  return hit && { ...state, picked: (hit.card * grid.rows + hit.row) * grid.columns + hit.column };
}

function pickByKey(event, state, data) {
  const { drawn, shape } = shapesFigure(state, data);
  const picked = drawn && shape.length ? stepByKey(event, state.picked, shape) : null;
  return picked === null ? null : { ...state, picked };
}

/** The state after one control has moved; lists are kept for each layout, and the picked element stays inside. */
function change(state, control, value) {
  const next = { ...state, sizes: { ...state.sizes } };
  const [name, layout] = control.split(" ");
  if (control in next.sizes) next.sizes[control] = value;
  else if (layout === "own") next.typed = { ...state.typed, [name]: value };
  else if (layout) next[name] = { ...state[name], [layout]: value };
  else next[control] = value;
  if (control === "layout" && value === "own") next.typed = typedAs(state); // to go on from
  const most = sizeOf(shapesOf(next).shape ?? []);
  return { ...next, picked: Math.max(0, Math.min(next.picked, most - 1)) };
}

/** A state's shapes as text. */
function typedAs(state) {
  if (state.layout === "own") return state.typed;
  const { shape, normalized, weight } = shapesOf(state);
  const chosen = state.weight[state.layout];
  const words = chosen === "same" ? "same" : weight ? shapeText(weight) : "none";
  return { x: shapeText(shape), shape: shapeText(normalized), weight: words };
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

const callText = ({ normalized, weight, refusal }) =>
  `F.layer_norm(x, ${shapeText(normalized)}${weight ? ", weight" : ""})${refusal ? "  # RuntimeError" : ""}`;

function facts(state, data) {
  const figure = shapesFigure(state, data);
  const { axes, shape, normalized, weight, means, byHand } = figure;
  if (!figure.drawn) return figure.shape ? [["in PyTorch", callText(figure)]] : [];
  const index = indexOf(state.picked, shape).join(", ");
  const shared = means && `shares its mean with ${several(figure.members - 1, "other")}`;
  const entry = figure.entries && `is multiplied by entry ${spanText(figure.entries[state.picked])} of weight`;
  const product = byHand.shape ? shapeText(byHand.shape) : byHand.error;
  return [
    ["x", state.layout === "own" ? shapeText(shape) : `(${axes.join(", ")}) = ${shapeText(shape)}`],
    ["normalized_shape", shapeText(normalized)],
    ["weight", weight ? `${shapeText(weight)}: ${several(sizeOf(weight), "entry", "entries")}` : "none"],
    ["means", means ? `${shapeText(figure.meanShape)}: ${sizeOf(shape) / figure.members}, each over ${several(figure.members, "element")}` : "none"],
    ["in PyTorch", callText(figure)],
    ["by hand", weight ? `x_hat * weight: ${product}` : ""],
    ["picked", `x[${index}] ${[shared, entry].filter(Boolean).join(", and ") || "has no mean"}`],
    ["remark", remarkOn(figure)],
  ];
}

function summary(state, data) {
  const figure = shapesFigure(state, data);
  if (figure.refusal) return "PyTorch refuses these shapes.";
  if (figure.problem) return figure.problem;
  const count = sizeOf(figure.shape) / figure.members;
  const axes = `${figure.taken.length === 1 ? "axis" : "axes"} ${figure.taken.join(", ")}`;
  return `${several(count, "mean")}, each over ${several(figure.members, "element")}: the ${axes}.`;
}

export default widgetOf((data) => {
  const layouts = data.order.shapes;
  const isOwn = (state) => state.layout === "own";
  const line = (name, label, placeholder) => ({
    name: `${name} own`,
    label,
    kind: "line",
    placeholder,
    read: (state) => state.typed[name],
    visible: isOwn,
  });
  const perLayout = (name, label, lists) =>
    layouts.map((layout) => ({
      name: `${name} ${layout}`,
      label,
      kind: "select",
      options: choicesOf(lists[layout], "none").map(([value, text]) => [value, value === "same" ? "same as normalized" : text]),
      read: (state) => state[name][layout],
      visible: (state) => state.layout === layout,
    }));
  const size = (axis) => ({
    ...sizeSlider(axis, data.limits),
    visible: (state) => state.layout.split(",").includes(axis),
  });
  return {
    name: "normalized_shape",
    title: "A tensor, cell by cell: the mean that each element is given, and the weight that multiplies it.",
    hint: "μ: which mean an element is given; γ: which entry of the weight multiplies it. Click one, or use the arrow keys.",
    specs: [
      { name: "layout", label: "x", kind: "select", options: [...choicesOf(layouts), ["own", "shapes of your own"]] },
      ...perLayout("shape", "normalized", data.shapes),
      ...perLayout("weight", "weight", data.weights),
      line("x", "x's shape", "(2, 3, 4)"),
      line("shape", "normalized", "(3, 4)"),
      line("weight", "weight", "same, none or (4,)"),
      ...data.order.limits.map(size),
    ],
    change,
    size: (state, width, data) => {
      const figure = shapesFigure(state, data);
      return cards(figure, width).height + heightOfRefusal(figure.refusal || figure.problem, width);
    },
    draw: drawShapes,
    summary,
    facts,
    factClasses: { "in PyTorch": "wide code", "by hand": "wide", picked: "wide", remark: "wide" },
    pick: { at: pickAt, key: pickByKey },
  };
});

export { facts, pickAt, pickByKey, shapesFigure, summary };
