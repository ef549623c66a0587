// Where a published norm leaves PyTorch's: the largest output of both, over the scale of one row.

// --- the arithmetic of float32, bfloat16 and float16, on numbers that are float32 already ---

const HALVES = { bfloat16: { bits: 7, lowest: -126, largest: 2 ** 128 * (1 - 2 ** -8) }, float16: { bits: 10, lowest: -14, largest: 65504 } };

const toEven = (value) => (Math.abs(value % 1) === 0.5 ? 2 * Math.round(value / 2) : Math.round(value));

/** The nearest number of a dtype; every operation on halves is float32's, rounded. */
function rounded(dtype, value) {
  const single = Math.fround(value);
  const half = HALVES[dtype];
  if (!half || !single || !Number.isFinite(single)) return single;
  const step = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(single))), half.lowest) - half.bits);
  const near = toEven(single / step) * step;
  return Math.abs(near) > half.largest ? Math.sign(near) * Infinity : near;
}

/** A sum in float32, one after the other. */
const sumOf = (values) => values.reduce((total, value) => Math.fround(total + value), 0);

/** What a norm makes of a row, each step rounded to the dtype that it computes in. */
function computed(norm, row, dtype) {
  const inner = norm.inner ? dtype : "float32";
  const r = (value) => rounded(inner, value);
  const n = row.length;
  const eps = r(norm.eps);
  const root = (value) => r(Math.sqrt(r(value + eps)));
  const mean = (values) => r(sumOf(values) / n);
  const squares = (values) => values.map((value) => r(value * value));
  let y;
  if (norm.how === "floor") {
    const length = r(Math.fround(Math.sqrt(sumOf(row.map((value) => Math.fround(value * value))))));
    const divisor = Math.max(length, eps);
    y = row.map((value) => r(r(value / divisor) * r(Math.sqrt(n))));
  } else if (norm.how.startsWith("one pass")) {
    const m = mean(row);
    const difference = r(mean(squares(row)) - r(m * m));
    const divisor = root(norm.how.endsWith("clipped") ? Math.max(difference, 0) : difference);
    y = row.map((value) => r(r(value - m) / divisor));
  } else {
    const m = mean(row);
    const centred = norm.how === "squares" ? row : row.map((value) => r(value - m));
    const square = r(sumOf(squares(centred)) / (norm.how.endsWith("n − 1") ? n - 1 : n));
    const divisor = root(square);
    y = (norm.how.startsWith("no mean") ? row : centred).map((value) => r(value / divisor));
  }
  return norm.rounds ? y.map((value) => rounded(dtype, value)) : y;
}

const rowOf = (scale, state, data) => data.row.map((value) => rounded(state.dtype, scale * value + state.offset));

/** The name of PyTorch's layer of the same kind. */
const torchsOf = (state, data) => (data.centred.includes(data.layers[state.layer].how) ? "nn.LayerNorm" : "nn.RMSNorm");

function normsOf(state, data) {
  const layer = data.layers[state.layer];
  return [{ ...layer, eps: state.eps || layer.eps }, data.torchs[torchsOf(state, data)]];
}

const largestOf = (values) => (values.every(Number.isFinite) ? Math.max(...values.map(Math.abs)) : NaN);

/** Everything the picture shows: both outputs at the chosen scale, and the largest of each at every scale. */
function partFigure(state, data) {
  const [mine, torchs] = normsOf(state, data).map((norm) => {
    const at = (scale) => computed(norm, rowOf(scale, state, data), state.dtype);
    return { y: at(state.scale), curve: data.stops.scale.map((scale) => largestOf(at(scale))) };
  });
  const apart = mine.y.map((value, i) => Math.abs(value - torchs.y[i]));
  return { x: rowOf(state.scale, state, data), mine, torchs, apart: apart.every(Number.isFinite) ? Math.max(...apart) : NaN };
}

// --- the picture ---

const PANEL = { left: 52, right: 12, top: 44, height: 230, bottom: 40 };
const LOWEST = -9; // the power of ten below every output but 0, which is drawn there

/** Both axes; outputs reach up to 10 to the power of highest. */
function scalesOf(width, data, highest = 1) {
  const ends = [data.stops.scale[0], data.stops.scale.at(-1)].map(Math.log10);
  const x = scaleOf(ends, [PANEL.left, width - PANEL.right]);
  const y = scaleOf([LOWEST, highest], [PANEL.top + PANEL.height, PANEL.top]);
  return { x: (value) => x(Math.log10(value)), y: (value) => y(Math.max(LOWEST, Math.log10(value))) };
}

const powerText = (power) => (power < -3 || power > 4 ? `1e${power}`.replace("-", "−") : formatNumber(10 ** power));

/** A curve with gaps where the output is no number; those are crosses at the top. */
function drawCurve(context, curve, { x, y }, data, look) {
  let part = [];
  const flush = () => {
    if (part.length) drawLine(context, part.length > 1 ? part : [part[0], [part[0][0] + 2, part[0][1]]], look);
    part = [];
  };
  curve.forEach((value, i) => {
    const across = x(data.stops.scale[i]);
    if (Number.isNaN(value)) {
      flush();
      drawText(context, "×", across, PANEL.top - 8, { px: 13, align: "center", colour: look.colour });
    } else part.push([across, y(value)]);
  });
  flush();
}

function drawParting(context, state, width, data) {
  const figure = partFigure(state, data);
  const largest = Math.max(10, ...[...figure.mine.curve, ...figure.torchs.curve].filter(Number.isFinite));
  const highest = Math.ceil(Math.log10(largest));
  const scales = scalesOf(width, data, highest);
  const bottom = PANEL.top + PANEL.height;
  drawText(context, "largest output", 4, 12, { weight: "bold" });
  for (let power = LOWEST; power <= highest; power += 2) {
    const y = scales.y(10 ** power);
    drawLine(context, [[PANEL.left, y], [width - PANEL.right, y]], { colour: STYLE.rule });
    drawText(context, powerText(power), PANEL.left - 6, y, { px: 12, align: "right" });
  }
  const every = width < 500 ? 4 : 2;
  for (let power = -10; power <= 4; power += every) drawText(context, powerText(power), scales.x(10 ** power), bottom + 14, { px: 12, align: "center" });
  drawText(context, "scale of the row", (PANEL.left + width - PANEL.right) / 2, bottom + 32, { px: 12, align: "center" });
  const here = scales.x(state.scale);
  drawLine(context, [[here, PANEL.top], [here, bottom]], { colour: STYLE.muted, dash: [3, 3] });
  const [blue, orange] = STYLE.palette;
  drawCurve(context, figure.torchs.curve, scales, data, { colour: blue, width: 4 });
  drawCurve(context, figure.mine.curve, scales, data, { colour: orange, width: 2 });
  drawKey(context, torchsOf(state, data), width - PANEL.right, bottom - 14, { colour: blue, width: 4 });
  drawKey(context, state.layer, width - PANEL.right, bottom - 32, { colour: orange, width: 2 });
}

/** A click or an arrow key moves the scale. */
function scaleAt(x, y, state, width, data) {
  const across = scalesOf(width, data).x;
  const distance = (scale) => Math.abs(across(scale) - x);
  return { ...state, scale: data.stops.scale.reduce((best, scale) => (distance(scale) < distance(best) ? scale : best)) };
}

function scaleByKey(event, state, data) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const at = data.stops.scale.indexOf(state.scale) + step;
  return step && at in data.stops.scale ? { ...state, scale: data.stops.scale[at] } : null;
}

// --- the words ---

const listed = (values) => values.slice(0, 3).map(formatNumber).join(", ") + ", …";

function summary(state, data) {
  const { apart, torchs } = partFigure(state, data);
  if (Number.isNaN(apart)) return "Not a number in one of them, at this scale.";
  const share = apart / Math.max(largestOf(torchs.y), 1e-30);
  const words = apart === 0 ? "the same" : `apart by ${formatNumber(apart)}`;
  return `At a scale of ${formatNumber(state.scale)} the two are ${words}${share > 0.01 ? `, ${formatNumber(100 * share)} % of PyTorch's largest` : ""}.`;
}

function facts(state, data) {
  const { x, mine, torchs } = partFigure(state, data);
  const [layer, builtIn] = normsOf(state, data);
  return [
    ["x", listed(x)],
    [state.layer, listed(mine.y)],
    [torchsOf(state, data), listed(torchs.y)],
    ["how", `${layer.how}, ε ${formatNumber(layer.eps)}; PyTorch's: ${builtIn.how}, ε ${formatNumber(builtIn.eps)}`],
  ];
}

export default widgetOf((data) => ({
  name: "where_they_part",
  title: "The largest output of a published norm and of PyTorch's, over the scale of a row.",
  hint: "× is no number, the lower edge is 0. Click the picture to choose the scale, or focus it and use the arrow keys.",
  specs: [
    { name: "layer", label: "layer", kind: "select", options: data.order.layers },
    { name: "scale", label: "scale", format: formatNumber },
    { name: "offset", label: "offset" },
    { name: "eps", label: "ε", format: (eps) => (eps ? formatNumber(eps) : "its own") },
    { name: "dtype", label: "dtype", kind: "select", options: data.order.itemsizes },
  ],
  size: () => PANEL.top + PANEL.height + PANEL.bottom,
  draw: drawParting,
  summary,
  facts,
  factClasses: { how: "wide" },
  pick: { at: scaleAt, key: scaleByKey },
}));

export { partFigure };
