// The axis explorer: a tensor as stacked slices, coloured and numbered by which elements share a statistic.

// Which axis is drawn where: shelves from top to bottom, cards side by side on a shelf, rows and columns on a card.
const PLACES = {
  "B,C,H,W": { shelf: "B", card: "C", row: "H", column: "W" },
  "B,T,C": { shelf: null, card: "B", row: "T", column: "C" },
};
const SLOPE = 0.24; // how far a card's columns climb: it stands at an angle, so that every cell of a stack is seen
const EDGE = { left: 74, top: 34, gap: 14, shelfGap: 12, bottom: 36 };
const REFUSAL_HEIGHT = 84;

/** Many channels stand closer together, and narrower; the numbers go where they have no room. */
const gapOf = (cards) => (cards > 8 ? 5 : EDGE.gap);
const narrowest = (cards, columns) => (cards * columns > 32 || cards > 8 ? 9 : 15);
const hasRoom = (number, width) => String(number).length * 6.2 + 2 <= width; // in letters of 11 pixels

function geometry(state, width) {
  const places = PLACES[state.layout];
  const size = (axis) => (axis ? state.sizes[axis] : 1);
  const [shelves, cards, rows, columns] = ["shelf", "card", "row", "column"].map((place) => size(places[place]));
  const gap = gapOf(cards);
  const room = (width - EDGE.left - 8) / cards - gap;
  const cell = {
    width: Math.max(narrowest(cards, columns), Math.min(30, Math.floor(room / columns))),
    height: Math.max(16, Math.min(36, Math.floor(72 / (rows * shelves)))),
  };
  const climb = SLOPE * cell.width * columns;
  const card = { pitch: cell.width * columns + gap, height: rows * cell.height + climb };
  const shelf = card.height + EDGE.shelfGap;
  const height = EDGE.top + shelves * shelf + EDGE.bottom;
  const corner = (s, c) => [EDGE.left + c * card.pitch, EDGE.top + s * shelf + climb];
  return { places, shelves, cards, rows, columns, cell, shelf, height, corner };
}

const minimumWidth = (state) => {
  const { cards, columns } = geometry(state, 0);
  return EDGE.left + 8 + cards * (narrowest(cards, columns) * columns + gapOf(cards));
};

function drawExplorer(context, state, width, data) {
  const g = geometry(state, width);
  const shared = sharing(state, data);
  const picked = pickedIndex(state, data);
  const chosen = shared ? shared.groupOf[picked.flat] : null;
  const fills = STYLE.palette.slice(0, 6).map((colour) => ({ chosen: tint(colour, 0.62), other: tint(colour, 0.2) }));
  const density = context.getTransform().a;

  for (let s = 0; s < g.shelves; s++) {
    if (g.places.shelf)
      drawText(context, `sample ${s}`, 8, g.corner(s, 0)[1] + (g.rows * g.cell.height) / 2, { px: 12 });
    for (let c = 0; c < g.cards; c++) {
      const [x0, y0] = g.corner(s, c);
      if (s === 0) {
        const name = c ? String(c) : g.places.shelf ? (g.cards > 8 ? "0" : "channel 0") : "sample 0";
        if (hasRoom(name.slice(-2), g.cell.width * g.columns + 5)) drawText(context, name, x0 + (g.columns * g.cell.width) / 2, 22, { px: 12, align: "center" });
      }
      // one unit right on the slice climbs SLOPE; letters lean with it
      context.setTransform(density, -density * SLOPE, 0, density, density * x0, density * y0);
      // the flattened index counts shelf, card, row, column: the order of B,C,H,W and of B,T,C
      const first = (s * g.cards + c) * g.rows * g.columns;
      const groups = shared?.groupOf.slice(first, first + g.rows * g.columns);
      drawSlice(context, g, groups, chosen, fills, shared && hasRoom(shared.count - 1, g.cell.width));
      if (isPickedCard(state, g, s, c)) drawPick(context, g, state);
      context.setTransform(density, 0, 0, density, 0, 0);
    }
  }
  drawAxisNames(context, g);
  drawStatistics(context, shared, chosen, fills, width, g.height - 22);
  const below = { left: 8, top: g.height, width: width - 16, height: REFUSAL_HEIGHT - 10 };
  const refusal = refusalOf(state, data);
  if (refusal) drawRefusal(context, refusal, below);
}

/** One slice, rows × columns. What has the same look goes into one path: 500 elements are redrawn with every move. */
function drawSlice(context, g, groups, chosen, fills, isNumbered) {
  const [width, height] = [g.columns * g.cell.width, g.rows * g.cell.height];
  context.fillStyle = STYLE.rule;
  if (!groups) context.fillRect(0, 0, width, height);
  const hatching = new Path2D();
  groups?.forEach((group, i) => {
    const [x, y] = [(i % g.columns) * g.cell.width, Math.floor(i / g.columns) * g.cell.height];
    context.fillStyle = fills[group % fills.length][group === chosen ? "chosen" : "other"];
    context.fillRect(x, y, g.cell.width, g.cell.height);
    if (group !== chosen) return;
    // hatched as well as darker: the chosen group does not rest on colour
    for (let d = 4; d < g.cell.height; d += 6) hatching.rect(x, y + d, g.cell.width, 0.7);
  });
  context.fillStyle = STYLE.paper;
  context.fill(hatching);

  const grid = new Path2D();
  for (let k = 1; k < g.columns; k++) grid.rect(k * g.cell.width - 0.5, 0, 1, height);
  for (let r = 1; r < g.rows; r++) grid.rect(0, r * g.cell.height - 0.5, width, 1);
  context.fill(grid);
  context.strokeStyle = STYLE.ink;
  context.lineWidth = 1.2;
  context.strokeRect(0, 0, width, height);

  context.font = fontOf(11);
  context.textAlign = "center";
  context.fillStyle = STYLE.ink;
  if (!isNumbered) return;
  groups.forEach((group, i) => {
    const [column, row] = [i % g.columns, Math.floor(i / g.columns)];
    context.fillText(group, (column + 0.5) * g.cell.width, (row + 0.5) * g.cell.height);
  });
}

function drawPick(context, g, state) {
  const [column, row] = [state.picked[g.places.column], state.picked[g.places.row]];
  context.strokeStyle = STYLE.ink;
  context.lineWidth = 3;
  context.strokeRect(column * g.cell.width + 1, row * g.cell.height + 1, g.cell.width - 2, g.cell.height - 2);
}

const isPickedCard = (state, g, shelf, card) =>
  state.picked[g.places.card] === card && (!g.places.shelf || state.picked[g.places.shelf] === shelf);

function drawAxisNames(context, g) {
  const [x, y] = g.corner(g.shelves - 1, 0);
  drawText(context, `${g.places.row} ↓`, x, y + g.rows * g.cell.height + 10, { px: 12, weight: "bold" });
  drawText(context, `${g.places.column} →`, x + 34, y + g.rows * g.cell.height + 10, { px: 12, weight: "bold" });
}

/** One tile per statistic: so many numbers are computed. */
function drawStatistics(context, shared, chosen, fills, width, y) {
  drawText(context, "statistics", 8, y, { px: 12 });
  if (!shared) return;
  const pitch = Math.min(26, (width - EDGE.left - 12) / shared.count);
  for (let group = 0; group < shared.count; group++) {
    const x = EDGE.left + group * pitch;
    context.fillStyle = fills[group % fills.length][group === chosen ? "chosen" : "other"];
    context.fillRect(x, y - 10, pitch - Math.min(2, pitch / 4), 20);
    if (group === chosen) {
      context.strokeStyle = STYLE.ink;
      context.lineWidth = 2;
      context.strokeRect(x, y - 10, pitch - 2, 20);
    }
    if (hasRoom(shared.count - 1, pitch)) drawText(context, String(group), x + pitch / 2 - 1, y, { px: 11, align: "center" });
  }
}

// --- picking ---

function elementAt(x, y, state, width) {
  const g = geometry(state, width);
  for (let s = 0; s < g.shelves; s++) {
    for (let c = 0; c < g.cards; c++) {
      const [x0, y0] = g.corner(s, c);
      const column = Math.floor((x - x0) / g.cell.width);
      const row = Math.floor((y - y0 + SLOPE * (x - x0)) / g.cell.height);
      if (column < 0 || column >= g.columns || row < 0 || row >= g.rows) continue;
      const picked = { ...state.picked, [g.places.card]: c, [g.places.row]: row, [g.places.column]: column };
      if (g.places.shelf) picked[g.places.shelf] = s;
      return { ...state, picked };
    }
  }
  return null;
}

// Arrow keys move along a slice's columns and rows and on into the next slice; with Shift they jump to it.
const KEYS = {
  ArrowLeft: { step: -1, along: "column", across: "card" },
  ArrowRight: { step: 1, along: "column", across: "card" },
  ArrowUp: { step: -1, along: "row", across: "shelf" },
  ArrowDown: { step: 1, along: "row", across: "shelf" },
};

function elementByKey(event, state) {
  const key = KEYS[event.key];
  if (!key) return null;
  const [along, across] = [PLACES[state.layout][key.along], PLACES[state.layout][key.across]];
  const picked = { ...state.picked };
  const move = (axis, step) => (picked[axis] = Math.max(0, Math.min(state.sizes[axis] - 1, picked[axis] + step)));
  const end = key.step > 0 ? state.sizes[along] - 1 : 0;
  if (!event.shiftKey && picked[along] !== end) move(along, key.step);
  else if (across && move(across, key.step) !== state.picked[across] && !event.shiftKey) {
    picked[along] = key.step > 0 ? 0 : state.sizes[along] - 1;
  }
  return { ...state, picked };
}

function summary(state, data) {
  const { index, flat } = pickedIndex(state, data);
  const shared = sharing(state, data);
  if (!shared) return `${state.sizes.C} channels cannot be split into ${state.groups} equal groups.`;
  const others = shared.members - 1;
  const company = others === 0 ? "nobody" : `${others} other element${others === 1 ? "" : "s"}`;
  return `x[${index.join(", ")}] uses statistic ${shared.groupOf[flat]} and shares it with ${company}.`;
}

export default widgetOf((data) => {
  const inLayout = (axis) => (state) => data.layouts[state.layout].includes(axis);
  const many = (most) => data.channels.filter((count) => count <= most);
  const sizeSlider = (axis, name) => ({
    name: axis,
    label: `${axis}, ${name}`,
    ...(axis === "C" ? { stops: many(data.limits.C) } : { min: 1, max: data.limits[axis] }),
    read: (state) => state.sizes[axis],
    visible: inLayout(axis),
  });
  return {
    name: "axis_explorer",
    title: "The tensor as stacked slices; elements that share a statistic have the same number and colour.",
    hint: "Click an element, or use the arrow keys in the picture, with Shift from slice to slice.",
    specs: [
      { name: "norm", label: "norm", kind: "select", options: choicesIn(data, "norms") },
      { name: "layout", label: "layout", kind: "select", options: data.order.layouts.map((l) => [l, `(${l})`]) },
      sizeSlider("B", "samples"),
      sizeSlider("T", "positions"),
      sizeSlider("C", "channels"),
      sizeSlider("H", "rows"),
      sizeSlider("W", "columns"),
      { name: "groups", label: "groups", stops: many(data.limits.C), enabled: (state) => state.norm === "group" },
    ],
    change,
    minimumWidth,
    size: (state, width) => geometry(state, width).height + (refusalOf(state, data) ? REFUSAL_HEIGHT : 0),
    draw: drawExplorer,
    summary,
    facts,
    factClasses: { "running buffers": "wide", "in PyTorch": "wide code", note: "wide", picked: "wide", remark: "wide" },
    pick: { at: elementAt, key: elementByKey },
  };
});

export { SLOPE, elementAt, elementByKey, facts, geometry, pickedValues, refusalOf, sharing };
