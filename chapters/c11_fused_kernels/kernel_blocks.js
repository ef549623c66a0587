// A program of a Triton kernel: the row in memory that it is to normalize, what its slots hold, and what it makes of it.

/** The slots of program `row`, and the mean and variance that it computes from them. */
function blockFigure(state, data) {
  const { rows, columns, block, row, mask } = state;
  const value = (address) => data.memory[address];
  const slots = Array.from({ length: block }, (_, slot) => {
    const address = row * columns + slot;
    const inside = slot < columns;
    const kind = inside ? "own" : mask !== "none" ? "masked" : address < rows * columns ? "neighbour" : "outside";
    return { slot, address, kind, held: { own: value(address), masked: 0, neighbour: value(address), outside: NaN }[kind] };
  });
  const sum = (values) => values.reduce((total, x) => total + x, 0);
  const mean = sum(slots.map(({ held }) => held)) / columns;
  const centred = slots.map(({ held, slot }) => (mask === "both" && slot >= columns ? 0 : held - mean));
  const own = Array.from({ length: columns }, (_, column) => value(row * columns + column));
  const rightMean = sum(own) / columns;
  return {
    slots: slots.map((slot, i) => ({ ...slot, centred: centred[i] })),
    mean,
    variance: sum(centred.map((x) => x * x)) / columns,
    right: { mean: rightMean, variance: sum(own.map((x) => (x - rightMean) ** 2)) / columns },
    unread: Math.max(0, columns - block), // columns that no slot holds
  };
}

// --- the picture ---

/** The columns that the widest of the two cards needs: what stands below one another has one width. */
const most = ({ columns, block }) => Math.max(columns, block);

function places(state, width) {
  const memory = cardsOf(1, state.rows, most(state), width, { left: 44, cellHeight: 22 });
  const slots = cardsOf(1, 2, most(state), width, { left: 44, cellHeight: 26 });
  return { memory, slots, height: memory.height + slots.height + 8 };
}

const FILLS = { own: [0, 0.45], masked: [5, 0.3], neighbour: [1, 0.45], outside: [1, 0.45] };

function drawBlocks(context, state, width, data) {
  const figure = blockFigure(state, data);
  const { memory, slots } = places(state, width);
  const read = new Map(figure.slots.filter(({ kind }) => kind !== "masked").map((slot) => [slot.address, slot]));
  const fillOf = (kind) => tint(STYLE.palette[FILLS[kind][0]], FILLS[kind][1]);
  const nothing = { fill: STYLE.paper, lines: [] };
  const cell = (row, column) => {
    if (column >= state.columns) return nothing;
    const address = row * state.columns + column;
    const slot = read.get(address);
    const crossed = slot?.kind === "neighbour" || (row === state.row && !slot);
    return { fill: slot ? fillOf(slot.kind) : tint(STYLE.muted, 0.08), lines: [String(data.memory[address])], crossed, strong: slot?.kind === "own" };
  };
  const name = (row) => `row ${row}`;
  drawCard(context, memory, 0, `x in memory, ${state.rows} × ${state.columns}`, cell, name);
  context.save();
  context.translate(0, memory.height);
  const slotCell = (row, column) => {
    const slot = figure.slots[column];
    if (!slot) return nothing;
    const text = row ? slot.centred : slot.held;
    return { fill: fillOf(slot.kind), lines: [Number.isNaN(text) ? "?" : formatNumber(Number(text.toPrecision(2)))], crossed: slot.kind === "neighbour" || slot.kind === "outside" };
  };
  drawCard(context, slots, 0, `program ${state.row}, ${several(state.block, "slot")}`, slotCell, (row) => (row ? "x − μ" : "x"));
  context.restore();
}

function pickAt(x, y, state, width) {
  const hit = places(state, width).memory.at(x, y);
  return hit && { ...state, row: hit.row };
}

function pickByKey(event, state) {
  const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
  return step ? { ...state, row: Math.max(0, Math.min(state.rows - 1, state.row + step)) } : null;
}

function change(state, control, value) {
  const next = { ...state, [control]: value };
  return { ...next, row: Math.min(next.row, next.rows - 1) };
}

// --- the words ---

function verdictOn(state, { slots, unread, mean, variance, right }) {
  const has = (kind) => slots.some((slot) => slot.kind === kind);
  if (unread) return `No error, and wrong: no slot holds the last ${several(unread, "column")}.`;
  if (has("outside")) return "Wrong: slots read behind the end of x, whatever lies there, or the program is stopped.";
  if (has("neighbour")) return `No error, and wrong: ${several(slots.filter(({ kind }) => kind === "neighbour").length, "slot")} read the next row.`;
  const close = (a, b) => Math.abs(a - b) < 1e-9;
  if (!close(variance, right.variance)) return "No error, and wrong: centring turned the masked zeros into −μ, and their squares count.";
  return close(mean, right.mean) ? "Right: every slot beyond the row holds 0 wherever something is summed." : "";
}

function facts(state, data) {
  const figure = blockFigure(state, data);
  const numbers = ({ mean, variance }) => (Number.isNaN(mean) ? "nobody knows" : `mean ${formatNumber(mean)}, variance ${formatNumber(variance)}`);
  const idle = figure.slots.filter(({ kind }) => kind !== "own").length;
  return [
    ["the kernel finds", numbers(figure)],
    ["right is", numbers(figure.right)],
    ["slots beyond the row", `${idle} of ${state.block}`],
    ["a store without a mask", idle ? `writes ${several(idle, "value")} beyond its row` : "changes nothing here"],
  ];
}

export default widgetOf((data) => ({
  name: "kernel_blocks",
  title: "Rows in memory, and the slots of one program of a kernel.",
  hint: "Click a row, or use the arrow keys, to see its program. Crossed: read by mistake, or not read at all.",
  specs: [
    { name: "columns", label: "columns", min: 1, max: data.limits.columns },
    { name: "block", label: "BLOCK_SIZE", stops: data.blocks },
    { name: "rows", label: "rows", min: 1, max: data.limits.rows },
    { name: "mask", label: "masked", kind: "select", options: choicesIn(data, "masks") },
  ],
  change,
  size: (state, width) => places(state, width).height,
  minimumWidth: (state) => 4 + 44 + 14 + 16 * most(state),
  draw: drawBlocks,
  summary: (state, data) => verdictOn(state, blockFigure(state, data)),
  facts,
  pick: { at: pickAt, key: pickByKey },
}));

export { blockFigure, pickAt, pickByKey, verdictOn };
