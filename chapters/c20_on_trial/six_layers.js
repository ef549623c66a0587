// One row at a scale and an offset, and what five layer norms make of it in float32, operation by operation; the right one in float64.

const sumOf = (values, to) => values.reduce((total, value) => to(total + value), 0);

/** What a layer makes of a row. */
function outputsOf({ formula, eps, isRight }, row) {
  const exactly = (x) => x;
  const to = isRight ? exactly : Math.fround;
  const mean = to(sumOf(row, to) / row.length);
  const centred = row.map((x) => to(x - mean));
  const meanSquare = (values) => to(sumOf(values.map((x) => to(x * x)), to) / row.length);
  // torch's variance and deviation on a CPU: summed in float64, and rounded at the end
  const wide = sumOf(row, exactly) / row.length;
  const square = sumOf(row.map((x) => (x - wide) * (x - wide)), exactly) / row.length;
  const variance = {
    "√(σ² + ε)": to(square),
    "√(mean (x − μ)² + ε)": meanSquare(centred),
    "√(mean x² − μ² + ε)": to(meanSquare(row) - to(mean * mean)),
  }[formula];
  const divisor = to(formula === "σ + ε" ? to(Math.sqrt(square)) + to(eps) : Math.sqrt(to(variance + to(eps))));
  return centred.map((x) => to(x / divisor));
}

const isNear = (a, b) => (Number.isNaN(a) && Number.isNaN(b)) || Math.abs(a - b) < 0.05;

/** Everything the picture shows; `alike` are the layers that agree, in groups. */
function sixFigure(state, data) {
  const row = data.row.map((value) => Math.fround(Math.fround(Math.fround(state.scale) * Math.fround(value)) + Math.fround(state.offset)));
  const outputs = Object.fromEntries(data.order.layers.map((name) => [name, outputsOf(data.layers[name], row)]));
  const alike = [];
  for (const name of data.order.layers.filter((name) => !data.layers[name].isRight)) {
    const same = (group) => outputs[group[0]].every((y, i) => isNear(y, outputs[name][i]));
    const group = alike.find(same);
    if (group) group.push(name);
    else alike.push([name]);
  }
  return { outputs, alike };
}

// --- the picture ---

const STRIP = { top: 20, pitch: 34, bottom: 40, left: 96, right: 96 };
const LIMIT = 2.5;

function drawSix(context, state, width, data) {
  const { outputs } = sixFigure(state, data);
  const right = outputs[data.order.layers.find((name) => data.layers[name].isRight)];
  const x = scaleOf([-LIMIT, LIMIT], [STRIP.left, width - STRIP.right]);
  const bottom = STRIP.top + STRIP.pitch * data.order.layers.length;
  for (const tick of [-2, -1, 0, 1, 2]) {
    drawLine(context, [[x(tick), STRIP.top - 8], [x(tick), bottom]], { colour: STYLE.rule });
    drawText(context, tickText(tick), x(tick), bottom + 10, { px: 12, align: "center" });
  }
  drawText(context, "the eight outputs", x(0), bottom + 28, { px: 12, align: "center" });
  data.order.layers.forEach((name, i) => {
    const y = STRIP.top + STRIP.pitch * (i + 0.5) - 8;
    drawText(context, name, STRIP.left - 10, y, { px: 12, align: "right" });
    const dots = (values, radius, draw) => {
      for (const value of values.filter((value) => !Number.isNaN(value))) {
        context.beginPath();
        context.arc(x(Math.max(-LIMIT, Math.min(LIMIT, value))), y, radius, 0, 2 * Math.PI);
        draw();
      }
    };
    context.strokeStyle = STYLE.palette[1];
    context.lineWidth = 2;
    dots(right, 7, () => context.stroke());
    if (data.layers[name].isRight) return;
    context.fillStyle = STYLE.palette[0];
    dots(outputs[name], 4, () => context.fill());
    drawText(context, offBy(outputs[name], right), width - STRIP.right + 8, y, { px: 12, align: "left" });
  });
}

const errorOf = (values, right) => Math.max(...values.map((value, i) => Math.abs(value - right[i])));

/** The largest error in words: NaN where one is NaN. */
function offBy(values, right) {
  const error = errorOf(values, right);
  return Number.isNaN(error) ? "NaN" : error < 0.05 ? "right" : `off by ${formatNumber(Number(error.toPrecision(2)))}`;
}

function summary(state, data) {
  const { alike } = sixFigure(state, data);
  const groups = alike.filter((group) => group.length > 1).map((group) => group.join(", "));
  if (alike.length === 1) return "All five write-ups agree here, within 0.05.";
  return groups.length ? `Within 0.05 of each other: ${groups.join("; and ")}.` : "No two of the five agree on this row.";
}

export default widgetOf((data) => ({
  name: "six_layers",
  title: "The eight outputs of five layer norms, as dots over rings that are right, a strip each.",
  hint: "The orange rings are right: PyTorch's formula in float64. What lies beyond 2.5 is drawn at the edge.",
  specs: [
    { name: "scale", label: "spread", format: formatNumber },
    { name: "offset", label: "offset", format: formatNumber },
  ],
  size: () => STRIP.top + STRIP.pitch * data.order.layers.length + STRIP.bottom,
  draw: drawSix,
  summary,
  facts: (state) => {
    const { outputs } = sixFigure(state, data);
    const isRight = (name) => data.layers[name].isRight;
    const right = outputs[data.order.layers.find(isRight)];
    return data.order.layers.filter((name) => !isRight(name)).map((name) => [name, offBy(outputs[name], right)]);
  },
}));

export { sixFigure };
