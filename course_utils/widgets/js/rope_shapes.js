// A tensor of heads through RoPE: which entries turn together, by which angle, and how cos and sin reach them.

/** How many entries of a head turn: a share of them, an even number, two at least. */
const turningOf = ({ sizes, share }) => Math.max(2, 2 * Math.floor((sizes.D * share) / 2));

/** The key head that a query head uses, or null where the heads cannot be shared out evenly. */
const keyHeadOf = ({ sizes, keys }, head) => (sizes.H % keys ? null : Math.floor((head * keys) / sizes.H));

/** What multiplies each element, with the shapes as PyTorch broadcasts them. */
function ropeFigure(state) {
  const axes = state.order.split(",");
  const shape = axes.map((axis) => state.sizes[axis]);
  const { T } = state.sizes;
  const turning = turningOf(state); // the entries of a head that turn; only they meet cos and sin
  const cosShape = state.cos === "T,D" ? [T, turning] : [T, 1, turning];
  const turned = [...shape.slice(0, -1), turning];
  const result = broadcast(turned, cosShape);
  const half = turning / 2;
  const partner = (d) => (state.pairs === "half" ? (d + half) % turning : d ^ 1);
  const pairOf = (d) => (state.pairs === "half" ? d % half : d >> 1);
  const elements = Array.from({ length: sizeOf(shape) }, (_, flat) => {
    const index = indexOf(flat, shape);
    const at = Object.fromEntries(axes.map((axis, i) => [axis, index[i]]));
    if (at.D >= turning) return { index, at, position: null, speed: null, pair: null, partner: null, sign: 0 };
    const met = result.error ? null : meets(index, turned, cosShape).map((entry) => Math.floor(entry / turning));
    return {
      index,
      at,
      position: met, // the rows of cos that meet it, first and last: its position, where all is well
      speed: state.laid === "half" ? at.D % half : at.D >> 1, // the i of the f in this column of cos
      pair: pairOf(at.D),
      partner: partner(at.D),
      sign: (state.pairs === "half" ? at.D < half : at.D % 2 === 0) ? -1 : 1,
    };
  });
  const astray = ({ position, at }) => position !== null && (position[0] !== at.T || position[1] !== at.T);
  return {
    axes,
    shape,
    turned,
    cosShape,
    elements,
    error: result.error ?? "",
    result: result.shape ?? null,
    astray: elements.map(astray),
    mixed: elements.some(({ at, speed, partner }) => at.D < turning && speed !== elements.find((e) => e.at.D === partner).speed),
  };
}

// --- the picture ---

const subscript = (k) => "₀₁₂₃₄₅₆₇₈₉"[k];

const cards = ({ sizes }, width) => cardsOf(sizes.B * sizes.H, sizes.T, sizes.D, width, { left: 34, inner: sizes.H });

/** Where the element of a card, a row and a column stands in the flattened tensor. */
function flatAt({ order, sizes }, card, row, column) {
  const at = { B: Math.floor(card / sizes.H), H: card % sizes.H, T: row, D: column };
  return order.split(",").reduce((flat, axis) => flat * sizes[axis] + at[axis], 0);
}

function drawRope(context, state, width) {
  const figure = ropeFigure(state);
  const grid = cards(state, width);
  const picked = figure.elements[state.picked];
  for (let card = 0; card < state.sizes.B * state.sizes.H; card++) {
    const sample = state.sizes.B > 1 ? `sample ${Math.floor(card / state.sizes.H)}, ` : "";
    const look = (row, column) => {
      const flat = flatAt(state, card, row, column);
      const { at, position, speed, pair } = figure.elements[flat];
      if (pair === null) return { fill: STYLE.rule, lines: ["as is"], strong: flat === state.picked };
      const together = ["B", "H", "T"].every((axis) => at[axis] === picked.at[axis]) && pair === picked.pair;
      return {
        fill: figure.error ? STYLE.rule : tint(STYLE.palette[pair % 6], together ? 0.6 : 0.22),
        lines: [position ? `${spanText(position)}f${subscript(speed)}` : "–"],
        strong: together,
        crossed: figure.astray[flat],
      };
    };
    const head = card % state.sizes.H;
    const keyHead = state.keys < state.sizes.H ? keyHeadOf(state, head) : null;
    const shared = keyHead === null ? "" : `, key ${keyHead}`;
    drawCard(context, grid, card, `${sample}head ${head}${shared}`, look, (row) => `t ${row}`);
  }
  drawRefusalBelow(context, figure.error, grid.height, width);
}

function pickAt(x, y, state, width) {
  const hit = cards(state, width).at(x, y);
  return hit && { ...state, picked: flatAt(state, hit.card, hit.row, hit.column) };
}

function pickByKey(event, state) {
  const { index } = ropeFigure(state).elements[state.picked];
  const at = Object.fromEntries(state.order.split(",").map((axis, i) => [axis, index[i]]));
  const move = { ArrowLeft: ["D", -1], ArrowRight: ["D", 1], ArrowUp: ["T", -1], ArrowDown: ["T", 1] }[event.key];
  if (!move) return null;
  const [axis, step] = move;
  const moved = { ...at, [axis]: Math.max(0, Math.min(state.sizes[axis] - 1, at[axis] + step)) };
  return { ...state, picked: flatAt(state, moved.B * state.sizes.H + moved.H, moved.T, moved.D) };
}

/** The state after one control has moved; the picked element is still inside. */
function change(state, control, value) {
  const next = control in state.sizes ? { ...state, sizes: { ...state.sizes, [control]: value } } : { ...state, [control]: value };
  return { ...next, picked: Math.min(next.picked, sizeOf(Object.values(next.sizes)) - 1) };
}

// --- the words ---

function verdictOn(state, figure) {
  const grown = figure.result && figure.result.join() !== figure.turned.join();
  if (figure.error) return "PyTorch refuses: cos does not reach the axis of positions.";
  if (grown) return `No error, and wrong: the result has grown to ${shapeText(figure.result)}.`;
  if (figure.astray.some(Boolean)) return "No error, because T and H agree, and wrong: each head is turned by its own number, whatever the position.";
  if (figure.mixed) return "No error, and wrong: the two entries of a pair are turned by different angles, so its length changes.";
  return "Right: at position m, pair i of every head turns by mfᵢ.";
}

function formula({ index, position, speed, partner, sign }) {
  const entry = (d) => `x[${[...index.slice(0, -1), d].join(", ")}]`;
  const angle = `${spanText(position)}f${subscript(speed)}`;
  return `${entry(index.at(-1))} cos ${angle} ${sign < 0 ? "−" : "+"} ${entry(partner)} sin ${angle}`;
}

function facts(state) {
  const figure = ropeFigure(state);
  const picked = figure.elements[state.picked];
  const still = picked.pair === null;
  const aligned = [...Array(figure.shape.length - figure.cosShape.length).fill(1), ...figure.cosShape];
  return [
    ["x", `(${figure.axes.join(", ")}) = ${shapeText(figure.shape)}`],
    ["keys", keyHeadOf(state, 0) === null ? `${state.sizes.H} heads cannot share ${state.keys}` : `${shapeText(figure.axes.map((axis) => (axis === "H" ? state.keys : state.sizes[axis])))}, by the same cos and sin`],
    ["cos and sin", `${shapeText(figure.cosShape)}, seen as ${shapeText(aligned)}`],
    [figure.turned.join() === figure.shape.join() ? "x * cos" : `x[..., :${figure.turned.at(-1)}] * cos`, figure.result ? shapeText(figure.result) : "RuntimeError"],
    ["picked pair", still ? "none: it is outside the rotary share" : `${picked.pair}: entries ${[picked.at.D, picked.partner].sort().join(" and ")}`],
    ["picked", still ? "y = x" : figure.error ? "" : `y = ${formula(picked)}`],
  ];
}

export default widgetOf((data) => ({
  name: "rope_shapes",
  title: "A tensor of heads, cell by cell: the angle that RoPE gives each entry, and its partner.",
  hint: "In each cell, the angle: position times the frequency fᵢ. One colour is one pair. Click a cell, or use the arrow keys, to see its sum; a crossed cell has another token's angle.",
  specs: [
    { name: "order", label: "x", kind: "select", options: choicesOf(data.orders) },
    { name: "cos", label: "cos, sin", kind: "select", options: choicesOf(data.cosines) },
    { name: "pairs", label: "pairs", kind: "select", options: choicesIn(data, "layouts") },
    { name: "laid", label: "cos columns", kind: "select", options: choicesIn(data, "layouts") },
    ...["B", "H", "T"].map((axis) => sizeSlider(axis, data.limits)),
    { name: "keys", label: "key heads" },
    { name: "share", label: "rotary share" },
    { name: "D", label: "D", stops: data.dims, read: (state) => state.sizes.D },
  ],
  change,
  size: (state, width) => cards(state, width).height + heightOfRefusal(ropeFigure(state).error, width),
  draw: drawRope,
  summary: (state) => verdictOn(state, ropeFigure(state)),
  facts,
  factClasses: { picked: "wide" },
  pick: { at: pickAt, key: pickByKey },
}));

export { flatAt, keyHeadOf, pickAt, pickByKey, ropeFigure, verdictOn };
