// A row of values as bars, beside its normalized row. The arithmetic is done here, in float64 or rounded to float32
// after every operation with Math.fround, as numpy rounds it.

function mean(row, to) {
  let total = 0;
  for (const x of row) total = to(total + x);
  return to(total / row.length);
}

/** Mean, variance and the normalized row, every operation rounded by `to`. */
function normalize(row, eps, to, onePass) {
  const mu = mean(row, to);
  let variance;
  if (onePass) {
    variance = to(
      mean(
        row.map((x) => to(x * x)),
        to,
      ) - to(mu * mu),
    );
  } else {
    const centred = row.map((x) => to(x - mu));
    variance = mean(
      centred.map((x) => to(x * x)),
      to,
    );
  }
  const std = to(Math.sqrt(to(variance + to(eps)))); // NaN where one pass has made the variance negative
  return { mean: mu, variance, outputs: row.map((x) => to(to(x - mu) / std)) };
}

/** How far apart the numbers stand that the arithmetic has at the largest input: half of it is lost in rounding. */
function spacing(inputs, isFloat32) {
  const largest = Math.max(...inputs.map(Math.abs));
  const [digits, smallest] = isFloat32 ? [23, 2 ** -149] : [52, 2 ** -1074];
  let exponent = Math.floor(Math.log2(largest));
  if (2 ** exponent > largest) exponent -= 1; // log2 may have rounded up
  return Math.max(2 ** (exponent - digits), smallest);
}

/** Everything the picture shows. */
function rowFigure(state) {
  const to = state.arithmetic === "float64" ? (x) => x : Math.fround;
  const row = state.values.slice(0, state.features);
  const inputs = row.map((value) => to(to(to(state.scale) * to(value)) + to(state.offset)));
  const result = normalize(inputs, state.eps, to, state.arithmetic === "one-pass");
  const unmoved = normalize(row, state.eps, (x) => x, false).outputs;
  const sum = result.outputs.reduce((a, b) => a + b, 0);
  const outputMean = sum / row.length;
  return {
    inputs,
    spacing: spacing(inputs, state.arithmetic !== "float64"),
    ...result,
    outputSum: sum,
    outputVariance: result.outputs.reduce((a, y) => a + (y - outputMean) ** 2, 0) / row.length,
    predictedVariance: result.variance / (result.variance + state.eps),
    unmoved,
    moved: Math.max(...result.outputs.map((y, i) => Math.abs(y - unmoved[i]))),
  };
}

// --- the picture ---

const PANEL = { left: 64, top: 44, height: 190, bottom: 34, between: 26 };
const OUTPUT_LIMIT = 4; // no output of 16 features exceeds √15: an axis that never moves shows what stays in place

/** The two panels: side by side where there is room, else one above the other. */
function panels(width) {
  const stacked = width < 560;
  const each = stacked ? width : (width - PANEL.between) / 2;
  const full = PANEL.top + PANEL.height + PANEL.bottom;
  const at = (column, row) => ({
    left: column * (each + PANEL.between) + PANEL.left,
    right: column * (each + PANEL.between) + each - 12,
    top: row * full + PANEL.top,
    bottom: row * full + PANEL.top + PANEL.height,
  });
  return { input: at(0, 0), output: stacked ? at(0, 1) : at(1, 0), height: stacked ? 2 * full : full };
}

/** What the input axis shows: values, or, far from zero where differences would not be seen, values minus offset. */
function inputAxis(state, data) {
  const base = Math.abs(state.offset) > 50 ? state.offset : 0;
  const limit = axisLimit(Math.max(1e-3, ...data.inputs.map((x) => Math.abs(x - base))));
  return { base, limit, name: base ? `input, minus ${tickText(base)}` : "input" };
}

const barPitch = (panel, count) => (panel.right - panel.left) / count;

function drawBars(context, panel, values, { limit, name, colour, picked = null, ghosts = null }) {
  const scale = scaleOf([-limit, limit], [panel.bottom, panel.top]);
  const ticks = ticksBetween(-limit, limit, 4);
  drawVerticalAxis(context, { scale, ticks, left: panel.left, right: panel.right, top: panel.top - 24, name });
  const pitch = barPitch(panel, values.length);
  const thickness = Math.max(4, Math.min(34, pitch * 0.7));
  values.forEach((value, i) => {
    const x = panel.left + (i + 0.5) * pitch;
    if (Number.isFinite(value)) {
      const end = scale(Math.max(-limit, Math.min(limit, value)));
      context.fillStyle = colour;
      context.fillRect(x - thickness / 2, Math.min(end, scale(0)), thickness, Math.max(1, Math.abs(end - scale(0))));
    } else {
      const px = Math.min(13, pitch * 0.42);
      drawText(context, formatNumber(value), x, panel.bottom - 10, { px, weight: "bold", align: "center" });
    }
    if (ghosts) drawGhost(context, x, scale(ghosts[i]), thickness);
    drawText(context, String(i + 1), x, panel.bottom + 12, {
      px: 12,
      align: "center",
      weight: i === picked ? "bold" : "normal",
    });
    if (i === picked)
      drawLine(
        context,
        [
          [x - 8, panel.bottom + 21],
          [x + 8, panel.bottom + 21],
        ],
        { width: 2 },
      );
  });
}

/** A line where the output stands at offset 0 and scale 1. */
function drawGhost(context, x, y, thickness) {
  const half = thickness / 2 + 3;
  drawLine(
    context,
    [
      [x - half, y],
      [x + half, y],
    ],
    { width: 2 },
  );
}

function drawRow(context, state, width) {
  const data = rowFigure(state);
  const { input, output } = panels(width);
  const axis = inputAxis(state, data);
  drawBars(
    context,
    input,
    data.inputs.map((x) => x - axis.base),
    {
      limit: axis.limit,
      name: axis.name,
      colour: STYLE.palette[0],
      picked: state.picked,
    },
  );
  drawBars(context, output, data.outputs, {
    limit: OUTPUT_LIMIT,
    name: "normalized",
    colour: STYLE.palette[1],
    ghosts: data.unmoved,
  });
  drawKey(context, "at offset 0, scale 1", output.right, output.top - 24, { width: 2 });
}

// --- changing a value in the picture ---

const roundTo = (value, step) => Math.round(value / step) * step;

function withValue(state, index, value) {
  const values = [...state.values];
  values[index] = Number(Math.max(-5, Math.min(5, roundTo(value, 0.1))).toFixed(1));
  return { ...state, values, picked: index };
}

/** Take hold of a bar, and while it is held, follow the height alone: its neighbours are not swept along. */
function valueAt(x, y, state, width, held) {
  const { input } = panels(width);
  const index = held ? state.picked : Math.floor((x - input.left) / barPitch(input, state.features));
  const isOutside = index < 0 || index >= state.features || y < input.top - 10 || y > input.bottom + 26;
  if (isOutside && !held) return null;
  if (state.scale === 0 || (y > input.bottom && !held)) return { ...state, picked: index };
  const axis = inputAxis(state, rowFigure(state));
  const height = Math.max(input.top, Math.min(input.bottom, y));
  const value = scaleOf([input.bottom, input.top], [-axis.limit, axis.limit])(height) + axis.base;
  return withValue(state, index, (value - state.offset) / state.scale);
}

function valueByKey(event, state) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) return { ...state, picked: Math.max(0, Math.min(state.features - 1, state.picked + step)) };
  const rise = { ArrowUp: 0.1, ArrowDown: -0.1 }[event.key];
  return rise ? withValue(state, state.picked, state.values[state.picked] + rise) : null;
}

function change(state, control, value) {
  const next = { ...state, [control]: value };
  return { ...next, picked: Math.min(next.picked, next.features - 1) };
}

function summary(state) {
  const { moved } = rowFigure(state);
  if (Number.isNaN(moved)) return "The variance came out negative or zero: the output is not a number.";
  if (moved < 1e-12) return "The normalized row is where offset 0 and scale 1 put it.";
  return `The normalized row has moved by at most ${formatNumber(moved)} from where offset 0 and scale 1 put it.`;
}

function facts(state) {
  const data = rowFigure(state);
  const digits = (value) => (Number.isFinite(value) ? tickText(value) : formatNumber(value));
  return [
    ["mean", digits(data.mean)],
    ["variance", digits(data.variance)],
    ["sum of the outputs", formatNumber(data.outputSum)],
    ["their variance", digits(data.outputVariance)],
    ["variance / (variance + ε)", digits(data.predictedVariance)],
    ["gap between numbers", formatNumber(data.spacing)],
  ];
}

const epsText = (eps) => (eps === 0 || eps >= 1e-3 ? tickText(eps) : eps.toExponential(0).replace("-", "−"));

function render(view) {
  const data = view.model.get("data");
  const most = view.model.get("state").values.length;
  const all = [
    { name: "offset", label: "offset", kind: "slider", stops: data.stops.offset, format: (v) => tickText(v) },
    { name: "scale", label: "scale", kind: "slider", stops: data.stops.scale, format: (v) => `×${tickText(v)}` },
    { name: "eps", label: "ε", kind: "slider", stops: data.stops.eps, format: epsText },
    { name: "features", label: "features", kind: "slider", min: 2, max: most },
    { name: "arithmetic", label: "arithmetic", kind: "select", options: Object.entries(data.arithmetics) },
  ];
  return mount(view, {
    name: "normalize_row",
    title: "A row of values as bars, and the same row normalized.",
    hint: "Change a value: drag its bar on the left, or focus the picture: left and right choose, up and down move it.",
    specs: all.filter((spec) => data.controls.includes(spec.name)),
    change,
    size: (state, width) => panels(width).height,
    draw: drawRow,
    summary,
    facts,
    pick: { at: valueAt, key: valueByKey },
  });
}

export { panels, rowFigure, valueAt };
export default { render };
