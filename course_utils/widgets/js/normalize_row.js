// A row of values as bars, beside its normalized row. The arithmetic is done here, in float64 or rounded after every
// operation, as numpy and PyTorch round it.

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

// binary digits after the first, the smallest number above 0, and the largest
const FORMATS = {
  float64: [52, 2 ** -1074, Number.MAX_VALUE],
  float32: [23, 2 ** -149, (2 - 2 ** -23) * 2 ** 127],
  bfloat16: [7, 2 ** -133, (2 - 2 ** -7) * 2 ** 127],
  float16: [10, 2 ** -24, 65504],
};

/** The gap between the numbers that a format has at `value`: half of it is lost in rounding. */
function gapAt(value, name) {
  const [digits, smallest] = FORMATS[name];
  let exponent = Math.floor(Math.log2(Math.abs(value)));
  if (2 ** exponent > Math.abs(value)) exponent -= 1; // log2 may have rounded up
  return Math.max(2 ** (exponent - digits), smallest);
}

/** Round to a format of 16 bits, halves to even. An operation in float64, then rounded, is one in 16 bits. */
function roundedTo(value, name) {
  if (!Number.isFinite(value) || value === 0) return value;
  const gap = gapAt(value, name);
  const steps = value / gap; // exact: a gap is a power of two
  const below = Math.floor(steps);
  const up = steps - below > 0.5 || (steps - below === 0.5 && below % 2 !== 0);
  const rounded = (below + (up ? 1 : 0)) * gap;
  return Math.abs(rounded) > FORMATS[name][2] ? Math.sign(rounded) * Infinity : rounded;
}

/** The format in which a state computes, and how a number is rounded to it. */
function formatOf({ arithmetic }) {
  if (arithmetic === "float64") return { name: "float64", to: (x) => x };
  if (arithmetic in FORMATS) return { name: arithmetic, to: (x) => roundedTo(x, arithmetic) };
  return { name: "float32", to: Math.fround };
}

/** Everything the picture shows. */
function rowFigure(state) {
  const { name, to } = formatOf(state);
  const row = state.values.slice(0, state.features);
  const inputs = row.map((value) => to(to(to(state.scale) * to(value)) + to(state.offset)));
  const onePass = state.arithmetic === "one-pass";
  const result = normalize(inputs, state.eps, to, onePass);
  const unmoved = normalize(row, state.eps, (x) => x, false).outputs;
  const sum = result.outputs.reduce((a, b) => a + b, 0);
  const outputMean = sum / row.length;
  const twoPasses = onePass ? normalize(inputs, state.eps, to, false).outputs : null;
  const movedBy = (outputs) => Math.max(...outputs.map((y, i) => Math.abs(y - unmoved[i])));
  return {
    inputs,
    spacing: gapAt(Math.max(...inputs.map(Math.abs)), name),
    ...result,
    outputSum: sum,
    outputVariance: result.outputs.reduce((a, y) => a + (y - outputMean) ** 2, 0) / row.length,
    predictedVariance: result.variance / (result.variance + state.eps),
    unmoved,
    twoPasses,
    moved: movedBy(result.outputs),
    movedInTwo: twoPasses && movedBy(twoPasses),
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
  const sizes = data.inputs.map((x) => Math.abs(x - base)).filter(Number.isFinite); // float16 ends at 65,504
  const limit = axisLimit(Math.max(1e-3, ...sizes));
  return { base, limit, name: base ? `input, minus ${tickText(base)}` : "input" };
}

const barPitch = (panel, count) => (panel.right - panel.left) / count;

function drawBars(context, panel, values, { limit, name, colour, picked = null, ghosts = null, beside = null }) {
  const scale = scaleOf([-limit, limit], [panel.bottom, panel.top]);
  const ticks = ticksBetween(-limit, limit, 4);
  drawVerticalAxis(context, { scale, ticks, left: panel.left, right: panel.right, top: panel.top - 24, name });
  const pitch = barPitch(panel, values.length);
  const thickness = Math.max(4, Math.min(34, pitch * 0.7));
  values.forEach((value, i) => {
    const x = panel.left + (i + 0.5) * pitch;
    const bars = beside ? [[value, colour], beside(i)] : [[value, colour]];
    const each = thickness / bars.length;
    bars.forEach(([height, fill], place) => {
      const left = x - thickness / 2 + place * each;
      if (Number.isFinite(height)) {
        const end = scale(Math.max(-limit, Math.min(limit, height)));
        context.fillStyle = fill;
        context.fillRect(left, Math.min(end, scale(0)), each, Math.max(1, Math.abs(end - scale(0))));
      } else {
        const px = Math.min(13, pitch * 0.36);
        drawText(context, formatNumber(height), x, panel.bottom - 10, { px, weight: "bold", align: "center" });
      }
    });
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
  const [one, two] = STYLE.palette; // the colours of one pass and of two in the figures
  drawBars(context, output, data.outputs, {
    limit: OUTPUT_LIMIT,
    name: "normalized",
    colour: data.twoPasses ? one : two,
    ghosts: data.unmoved,
    beside: data.twoPasses && ((i) => [data.twoPasses[i], two]),
  });
  if (data.twoPasses) {
    const bold = { px: 12, weight: "bold" };
    drawText(context, "one pass", output.left + 6, output.top + 8, { ...bold, colour: one });
    drawText(context, "two passes", output.left + 72, output.top + 8, { ...bold, colour: two });
  }
  drawKey(context, "offset 0, scale 1", output.right, output.top - 24, { width: 2 });
}

// --- changing a value in the picture ---

const roundTo = (value, step) => Math.round(value / step) * step;

function withValue(state, index, value) {
  const values = [...state.values];
  values[index] = Number(Math.max(-5, Math.min(5, roundTo(value, 0.1))).toFixed(1));
  return { ...state, values, picked: index };
}

/** Take hold of a bar, and while it is held, follow the height alone: its neighbours are not swept along. */
function valueAt(x, y, state, width, data, held) {
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

function summary(state, data) {
  const { moved, movedInTwo, inputs, mean } = rowFigure(state);
  const asked = `Move ${data.controls.slice(0, 2).join(" or ")}: what becomes of the normalized row?`;
  if (data.controls.every((control) => state[control] === data.first[control])) return asked; // the answer, once it is tried
  const { name } = formatOf(state);
  if (!inputs.every(Number.isFinite)) return `The row itself is infinite: ${name} ends at 65,504.`;
  if (!Number.isFinite(mean)) return `The sum of the row is infinite, and so is its mean: ${name} ends at 65,504.`;
  const isLost = Number.isNaN(moved);
  const inTwo = movedInTwo === null ? "" : `; in two passes by ${formatNumber(movedInTwo)}`;
  if (isLost && !movedInTwo) return "The variance came out negative or zero: the output is not a number.";
  if (isLost) return `One pass has made the variance negative or zero; two passes have moved the row by at most ${formatNumber(movedInTwo)}.`;
  if (moved < 1e-12) return "The normalized row is where offset 0 and scale 1 put it.";
  return `The normalized row has moved by at most ${formatNumber(moved)} from where offset 0 and scale 1 put it${inTwo}.`;
}

function facts(state, { controls }) {
  const data = rowFigure(state);
  const digits = (value) => (Number.isFinite(value) ? tickText(value) : formatNumber(value));
  const epsilon = [
    ["their variance", digits(data.outputVariance)],
    ["variance / (variance + ε)", digits(data.predictedVariance)],
  ];
  return [
    ["mean", digits(data.mean)],
    ["variance", digits(data.variance)],
    ...(controls.includes("arithmetic") ? [["sum of the outputs", formatNumber(data.outputSum)]] : []),
    ...(controls.includes("eps") ? epsilon : []),
    ...(controls.includes("arithmetic") ? [["gap between numbers", formatNumber(data.spacing)]] : []),
  ]; // what no control here changes would only ask for words that come later
}

const epsText = (eps) => (eps === 0 || eps >= 1e-3 ? tickText(eps) : eps.toExponential(0).replace("-", "−"));

export default widgetOf((data, model) => {
  const all = [
    { name: "offset", label: "offset" },
    { name: "scale", label: "scale", format: (scale) => `×${tickText(scale)}` },
    { name: "eps", label: "ε", format: epsText },
    { name: "features", label: "features", min: 2, max: model.get("state").values.length },
    { name: "arithmetic", label: "arithmetic", kind: "select", options: choicesIn(data, "arithmetics") },
  ];
  return {
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
  };
});

export { facts, panels, roundedTo, rowFigure, summary };
