// A gradient as bars, what a norm takes off it, and what comes through.

const sumOf = (values) => values.reduce((a, b) => a + b, 0);
const meanProduct = (a, b) => sumOf(a.map((value, i) => value * b[i])) / a.length;

/** x̂ of the row brought to the chosen deviation, and ε / (σ² + ε). */
function normalized(state, data) {
  let row = data.row.slice(0, state.features);
  if (state.norm === "layer") {
    const mean = sumOf(row) / row.length;
    row = row.map((value) => value - mean);
  }
  const variance = state.deviation * state.deviation;
  const scale = state.deviation / Math.sqrt(meanProduct(row, row)) / Math.sqrt(variance + data.eps);
  return { xHat: row.map((value) => value * scale), share: data.eps / (variance + data.eps) };
}

/** g: as it was dragged, or set to what the norm stops. */
function shaped(state, xHat) {
  if (state.shape === "free") return state.gradient.slice(0, state.features);
  if (state.shape === "constant") return xHat.map(() => 1.5);
  const largest = Math.max(...xHat.map(Math.abs));
  return xHat.map((value) => (state.shape === "x_hat" ? 0 : 1) + (1.5 * value) / largest);
}

/** Everything the picture shows. */
function gradientFigure(state, data) {
  const { xHat, share } = normalized(state, data);
  const gradient = shaped(state, xHat);
  const constant = state.norm === "layer" ? sumOf(gradient) / gradient.length : 0;
  const component = meanProduct(gradient, xHat);
  const along = xHat.map((value) => component * value);
  const left = gradient.map((g, i) => g - constant - along[i]);
  const lengthOf = (values) => Math.sqrt(sumOf(values.map((value) => value * value)));
  return {
    gradient,
    xHat,
    constant,
    along,
    left,
    gradientLength: lengthOf(gradient),
    leftLength: lengthOf(left),
    leftSum: sumOf(left),
    leftAlong: meanProduct(left, xHat),
    share,
  };
}

// --- the picture ---

const PANEL = { left: 34, top: 48, height: 180, bottom: 30, between: 14 };

const MEAN_LINE = { width: 2, dash: [6, 4] };

/** The three panels: side by side where there is room, else one above the other. */
function panels(width) {
  const isStacked = width < 580;
  const each = isStacked ? width : (width - 2 * PANEL.between) / 3;
  const full = PANEL.top + PANEL.height + PANEL.bottom;
  const [arriving, takenOff, leaving] = [0, 1, 2].map((place) => {
    const [x, y] = isStacked ? [0, place * full] : [place * (each + PANEL.between), 0];
    const top = y + PANEL.top;
    return { left: x + PANEL.left, right: x + each - 8, top, bottom: top + PANEL.height };
  });
  return { arriving, takenOff, leaving, height: isStacked ? 3 * full : full };
}

const axisLimitOf = (figure, data) =>
  axisLimit(
    Math.max(data.limit, ...figure.along.map((value) => Math.abs(value + figure.constant)), ...figure.left.map(Math.abs)),
  );

const pitchOf = (panel, count) => (panel.right - panel.left) / count;

/** Bars that stand on `base`, which is drawn as a line where it is not zero. */
function drawPanel(context, panel, values, { limit, name, colour, base = 0, picked = null }) {
  const scale = scaleOf([-limit, limit], [panel.bottom, panel.top]);
  const ticks = ticksBetween(-limit, limit, 4);
  drawVerticalAxis(context, { scale, ticks, left: panel.left, right: panel.right, top: panel.top - 26, name });
  const pitch = pitchOf(panel, values.length);
  const thickness = Math.max(4, Math.min(26, pitch * 0.7));
  values.forEach((value, i) => {
    const x = panel.left + (i + 0.5) * pitch;
    const [foot, end] = [scale(base), scale(base + value)];
    context.fillStyle = colour;
    context.fillRect(x - thickness / 2, Math.min(foot, end), thickness, Math.max(1, Math.abs(end - foot)));
    const isPicked = i === picked;
    const weight = isPicked ? "bold" : "normal";
    drawText(context, String(i + 1), x, panel.bottom + 12, { px: 12, align: "center", weight });
    const underline = [x - 7, x + 7].map((end) => [end, panel.bottom + 21]);
    if (isPicked) drawLine(context, underline, { width: 2 });
  });
  if (base !== 0) {
    const level = [panel.left, panel.right].map((end) => [end, scale(base)]);
    drawLine(context, level, MEAN_LINE);
  }
}

function drawGradient(context, state, width, data) {
  const figure = gradientFigure(state, data);
  const { arriving, takenOff, leaving } = panels(width);
  const limit = axisLimitOf(figure, data);
  const [blue, orange, green] = STYLE.palette;
  const picked = state.picked;
  drawPanel(context, arriving, figure.gradient, { limit, name: "g arrives", colour: blue, picked });
  const name = takenOff.right - takenOff.left < 170 ? "off: x̂" : "taken off: x̂"; // beside the key
  drawPanel(context, takenOff, figure.along, { limit, name, colour: green, base: figure.constant });
  if (figure.constant !== 0) drawKey(context, "mean", takenOff.right, takenOff.top - 26, MEAN_LINE);
  drawPanel(context, leaving, figure.left, { limit, name: "dx / r leaves", colour: orange });
}

// --- changing a bar ---

/** The state with one bar moved; what was set to a shape becomes the learner's own first. */
function withBar(state, index, value, data) {
  const shown = gradientFigure(state, data).gradient;
  const gradient = state.gradient.map((old, i) => (i < shown.length ? shown[i] : old));
  const step = Number((Math.round(value / 0.1) * 0.1).toFixed(1));
  gradient[index] = Math.max(-data.limit, Math.min(data.limit, step));
  return { ...state, gradient, shape: "free", picked: index };
}

/** Take hold of a bar, and while it is held, follow the height alone. */
function barAt(x, y, state, width, data, isHeld) {
  const { arriving } = panels(width);
  const index = isHeld ? state.picked : Math.floor((x - arriving.left) / pitchOf(arriving, state.features));
  const isOutside = index < 0 || index >= state.features || y < arriving.top - 10 || y > arriving.bottom + 26;
  if (isOutside && !isHeld) return null;
  if (y > arriving.bottom && !isHeld) return { ...state, picked: index };
  const limit = axisLimitOf(gradientFigure(state, data), data);
  const height = Math.max(arriving.top, Math.min(arriving.bottom, y));
  return withBar(state, index, scaleOf([arriving.bottom, arriving.top], [-limit, limit])(height), data);
}

function barByKey(event, state, data) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) return { ...state, picked: Math.max(0, Math.min(state.features - 1, state.picked + step)) };
  const rise = { ArrowUp: 0.1, ArrowDown: -0.1 }[event.key];
  if (!rise) return null;
  return withBar(state, state.picked, gradientFigure(state, data).gradient[state.picked] + rise, data);
}

function change(state, control, value) {
  const next = { ...state, [control]: value };
  return { ...next, picked: Math.min(next.picked, next.features - 1) };
}

function summary(state, data) {
  const { gradientLength, leftLength } = gradientFigure(state, data);
  if (gradientLength === 0) return "No gradient arrives, and none leaves.";
  if (leftLength < 1e-9 * gradientLength) return "Nothing comes through: all of it was taken off.";
  const share = (leftLength / gradientLength) * 100;
  return `Of a gradient of length ${formatNumber(gradientLength)}, ${formatNumber(leftLength)} comes through (${formatNumber(share)} %).`;
}

/** Zero up to rounding is written as zero. */
const tidy = (value) => formatNumber(Math.abs(value) < 1e-12 ? 0 : value);

function facts(state, data) {
  const figure = gradientFigure(state, data);
  return [
    ["sum of g", tidy(sumOf(figure.gradient))],
    ["sum of dx / r", tidy(figure.leftSum)],
    ["mean of g · x̂", tidy(meanProduct(figure.gradient, figure.xHat))],
    ["mean of dx / r · x̂", tidy(figure.leftAlong)],
    ["ε / (σ² + ε)", tidy(figure.share)],
  ];
}

export default widgetOf((data) => ({
  name: "gradient_projection",
  title: "A gradient as bars, the parts that a norm takes off, and what comes through.",
  hint: "Drag a bar on the left, or focus the picture: left and right choose a bar, up and down move it.",
  specs: [
    { name: "norm", label: "norm", kind: "select", options: choicesIn(data, "norms") },
    { name: "shape", label: "g is", kind: "select", options: choicesIn(data, "shapes") },
    { name: "deviation", label: "σ of x" },
    { name: "features", label: "features", min: 2, max: data.row.length },
  ],
  change,
  size: (state, width) => panels(width).height,
  draw: drawGradient,
  summary,
  facts,
  pick: { at: barAt, key: barByKey },
}));

export { barAt, barByKey, gradientFigure, panels };
