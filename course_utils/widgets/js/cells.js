// Tensors as cards of cells, as many side by side as there is room for, and the rule by which PyTorch broadcasts.

/**
 * Cards of rows × columns in `width`: cells from 28 to 56 pixels wide, and where one card fills it as narrow as 16.
 * A line of cards breaks after a multiple of `inner`, where it can.
 */
function cardsOf(count, rows, columns, width, { cellHeight = 26, left = 0, top = 24, gap = 14, inner = 1 } = {}) {
  const fit = (side) => Math.floor((width - 4 - side * (left + gap)) / (side * columns));
  let side = count;
  while (side > 1 && fit(side) < 28) side--;
  if (side > inner) side -= side % inner;
  const cell = { width: Math.max(16, Math.min(56, fit(side))), height: cellHeight };
  const pitch = { x: left + columns * cell.width + gap, y: top + rows * cellHeight + gap };
  const corner = (card) => [4 + (card % side) * pitch.x + left, Math.floor(card / side) * pitch.y + top];
  const at = (x, y) => {
    for (let card = 0; card < count; card++) {
      const [column, row] = [(x - corner(card)[0]) / cell.width, (y - corner(card)[1]) / cell.height].map(Math.floor);
      if (row >= 0 && row < rows && column >= 0 && column < columns) return { card, row, column };
    }
    return null;
  };
  return { rows, columns, cell, corner, at, left, height: Math.ceil(count / side) * pitch.y };
}

/** One card. `look(row, column)` is { fill, lines, strong?: bold and outlined, crossed?: something is wrong here }. */
function drawCard(context, cards, card, title, look, rowName = () => "") {
  const [x0, y0] = cards.corner(card);
  const { width, height } = cards.cell;
  drawText(context, title, x0 - cards.left, y0 - 11, { px: 12 });
  const outlines = [];
  for (let row = 0; row < cards.rows; row++) {
    drawText(context, rowName(row), x0 - 6, y0 + (row + 0.5) * height, { px: 12, align: "right" });
    for (let column = 0; column < cards.columns; column++) {
      const [x, y] = [x0 + column * width, y0 + row * height];
      const { fill, lines, strong, crossed } = look(row, column);
      context.fillStyle = fill;
      context.fillRect(x, y, width - 1, height - 1);
      if (crossed) drawLine(context, [[x, y + height - 1], [x + width - 1, y]], { colour: STYLE.palette[1], width: 1.5 });
      lines.forEach((line, i) => {
        const middle = y + ((i + 0.5) * (height - 1)) / lines.length;
        drawText(context, line, x + (width - 1) / 2, middle, { px: 11, align: "center", weight: strong ? "bold" : "normal" });
      });
      if (strong) outlines.push([x + 1, y + 1, width - 3, height - 3]);
    }
  }
  context.strokeStyle = STYLE.ink;
  context.lineWidth = 2;
  for (const outline of outlines) context.strokeRect(...outline);
}

/** Move in a list of tensor indices by the arrow keys: along the last axis, and up and down along the one before. */
function stepByKey(event, picked, shape) {
  const columns = shape.at(-1);
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  if (!step) return null;
  return Math.max(0, Math.min(shape.reduce((a, b) => a * b, 1) - 1, picked + step));
}

/** The options of a list of shapes, each its axes' letters. */
const choicesOf = (lists, none) =>
  lists.map((letters) => [letters, letters ? `(${letters.split(",").join(", ")}${letters.includes(",") ? "" : ","})` : none]);

/** A slider for the size of one axis. */
const sizeSlider = (axis, limits) => ({
  name: axis,
  label: axis,
  min: 1,
  max: limits[axis],
  read: (state) => state.sizes[axis],
});

const sizeOf = (shape) => shape.reduce((a, b) => a * b, 1);
const shapeText = (shape) => (shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`);
const several = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** What `a * b` has for a shape, or what PyTorch says where it has none. */
function broadcast(a, b) {
  const axes = Math.max(a.length, b.length);
  const [left, right] = [a, b].map((shape) => [...Array(axes - shape.length).fill(1), ...shape]);
  for (let axis = axes - 1; axis >= 0; axis--)
    if (left[axis] !== right[axis] && left[axis] !== 1 && right[axis] !== 1) {
      const sizes = `size of tensor a (${left[axis]}) must match the size of tensor b (${right[axis]})`;
      return { error: `The ${sizes} at non-singleton dimension ${axis}` };
    }
  return { shape: left.map((size, axis) => (size === 1 ? right[axis] : size)) };
}

/** The index, axis by axis, of the flattened tensor's entry `flat`. */
function indexOf(flat, shape) {
  const index = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index.unshift(flat % shape[axis]);
    flat = Math.floor(flat / shape[axis]);
  }
  return index;
}

/** The entries of a tensor of shape `b` that meet the entry `index` of one of shape `a`, flattened: the first, the last. */
function meets(index, a, b) {
  let [first, last] = [0, 0];
  b.forEach((size, axis) => {
    const own = axis + a.length - b.length;
    const grows = own < 0 || a[own] === 1; // the entry of `a` is repeated for every one of `b`
    first = first * size + (grows || size === 1 ? 0 : index[own]);
    last = last * size + (grows ? size - 1 : size === 1 ? 0 : index[own]);
  });
  return [first, last];
}

/** The height of what PyTorch says, in a box below the cards. */
const refusalHeight = (width) => (width < 500 ? 104 : 80);

/** What the box adds to the height of a picture. */
const heightOfRefusal = (message, width) => (message ? refusalHeight(width) : 0);

function drawRefusalBelow(context, message, top, width) {
  if (message) drawRefusal(context, message, { left: 4, top, width: width - 8, height: refusalHeight(width) - 8 });
}

const spanText = ([first, last]) => (first === last ? String(first) : `${first}…${last}`);
