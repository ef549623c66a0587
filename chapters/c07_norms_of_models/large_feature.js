// A row of a model's stream with one feature that a slider makes large: the row after a norm, and both sizes over all values.

const CHART = { left: 56, right: 14, top: 48, height: 230, bottom: 46, gap: 20 };

/** Each entry after the norm. */
function normedRow(row, norm, usual) {
  if (norm === "constant") return row.map((value) => value / usual);
  const mean = norm === "layer" ? row.reduce((sum, value) => sum + value, 0) / row.length : 0;
  const square = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
  return row.map((value) => (value - mean) / Math.sqrt(square));
}

/** The large entry, and the size (RMS) of all others. */
function sizesOf(row, feature) {
  const squares = row.reduce((sum, value, i) => sum + (i === feature ? 0 : value ** 2), 0);
  return { large: row[feature], others: Math.sqrt(squares / (row.length - 1)) };
}

/** Everything the picture shows. */
function largeFigure(state, data) {
  const rowWith = (value) => data.rows[state.token].map((own, i) => (i === data.feature ? value : own));
  const after = (value) => normedRow(rowWith(value), state.norm, data.usual);
  const normed = after(state.value);
  return {
    normed,
    before: sizesOf(rowWith(state.value), data.feature),
    after: sizesOf(normed, data.feature),
    overValues: data.stops.value.map((value) => sizesOf(after(value), data.feature)),
  };
}

const LARGE = { colour: STYLE.palette[1], width: 2.5 };
const OTHERS = { colour: STYLE.palette[0], width: 2.5, dash: [7, 4] };

function panels(width) {
  const stacked = width < 580;
  const each = stacked ? width : (width - CHART.gap) / 2;
  const full = CHART.top + CHART.height + CHART.bottom;
  const box = (x, y) => ({ left: x + CHART.left, right: x + each - CHART.right, top: y + CHART.top, bottom: y + CHART.top + CHART.height });
  return { row: box(0, 0), sizes: stacked ? box(0, full) : box(each + CHART.gap, 0), height: stacked ? 2 * full : full };
}

function drawRow(context, box, { normed, after }, data) {
  const limit = axisLimit(Math.max(4, ...normed.map(Math.abs)));
  const y = scaleOf([-limit, limit], [box.bottom, box.top]);
  const x = scaleOf([0, normed.length - 1], [box.left + 4, box.right - 4]);
  const name = "the row after the norm";
  drawVerticalAxis(context, { scale: y, ticks: ticksBetween(-limit, limit, 5), left: box.left, right: box.right, top: box.top - 28, name });
  normed.forEach((value, i) => {
    const look = i === data.feature ? LARGE : { colour: STYLE.palette[0] };
    drawLine(context, [[x(i), y(0)], [x(i), y(value)]], look);
  });
  for (const tick of [0, 200, 400]) drawText(context, String(tick), x(tick), box.bottom + 14, { px: 12, align: "center" });
  drawText(context, "feature", (box.left + box.right) / 2, box.bottom + 32, { align: "center" });
  const words = `507: ${formatNumber(after.large)}`;
  drawText(context, words, x(data.feature) - 8, Math.max(box.top + 8, Math.min(box.bottom - 8, y(after.large) + 4)), { align: "right", weight: "bold" });
}

function drawSizes(context, box, state, { overValues }, data) {
  const values = data.stops.value;
  const x = scaleOf([0, Math.log10(values.at(-1))], [box.left + 6, box.right - 6]);
  const y = scaleOf([-3, 5], [box.bottom, box.top]);
  drawVerticalAxis(context, {
    scale: y, ticks: [-2, 0, 2, 4], left: box.left, right: box.right, top: box.top - 36, name: "size after the norm",
    text: (power) => formatNumber(10 ** power),
  });
  for (const power of [0, 1, 2, 3, 4, 5]) drawText(context, tickText(10 ** power), x(power), box.bottom + 14, { px: 11, align: "center" });
  drawText(context, "feature 507 before it", (box.left + box.right) / 2, box.bottom + 32, { align: "center" });
  const top = y(Math.log10(Math.sqrt(data.rows[state.token].length)));
  drawLine(context, [[box.left, top], [box.right, top]], { colour: STYLE.muted, dash: [2, 3] });
  drawText(context, "√576 = 24", box.left + 6, top - 9, { px: 12, colour: STYLE.muted });
  [["large", LARGE, "feature 507"], ["others", OTHERS, "the others, RMS"]].forEach(([name, look, words], line) => {
    const points = overValues.map((sizes, i) => [x(Math.log10(values[i])), y(Math.log10(Math.max(Math.abs(sizes[name]), 1e-3)))]);
    drawLine(context, points, look);
    const here = points[values.indexOf(state.value)];
    context.beginPath();
    context.arc(...here, 5.5, 0, 2 * Math.PI);
    context.fillStyle = look.colour;
    context.fill();
    drawKey(context, words, box.right, box.top - 36 + 18 * line, look);
  });
  const here = x(Math.log10(state.value));
  drawLine(context, [[here, box.top], [here, box.bottom]], { colour: STYLE.muted, dash: [3, 3] });
}

function facts(state, data) {
  const { before, after } = largeFigure(state, data);
  const share = before.large ** 2 / (before.large ** 2 + 575 * before.others ** 2);
  return [
    ["feature 507", `${formatNumber(before.large)} before, ${formatNumber(after.large)} after`],
    ["the other 575, RMS", `${formatNumber(before.others)} before, ${formatNumber(after.others)} after`],
    ["its share of the squares", `${formatNumber(100 * share)} %`],
  ];
}

function summary(state, data) {
  const { before, after } = largeFigure(state, data);
  return `${formatNumber(before.large)} becomes ${formatNumber(after.large)}; the others go from ${formatNumber(before.others)} to ${formatNumber(after.others)}.`;
}

export default widgetOf((data) => ({
  name: "large_feature",
  title: "A row of 576 features after a norm, and the size of one feature and of the others over that feature's value.",
  hint: "The right panel is logarithmic on both axes. The norms have no weight and no ε; the constant is 5.5.",
  specs: [
    { name: "value", label: "feature 507" },
    { name: "token", label: "row of", kind: "select", options: choicesIn(data, "tokens") },
    { name: "norm", label: "norm", kind: "select", options: choicesIn(data, "norms") },
  ],
  size: (state, width) => panels(width).height,
  draw: (context, state, width, data) => {
    const figure = largeFigure(state, data);
    drawRow(context, panels(width).row, figure, data);
    drawSizes(context, panels(width).sizes, state, figure, data);
  },
  summary,
  facts,
}));

export { largeFigure };
