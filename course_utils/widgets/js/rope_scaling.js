// Each rotary pair's wavelength against the window, method by method, and below it what becomes of the pair. Where a
// kernel runs, it reads a pasted configuration; all numbers are computed here.

const VIEW = { left: 64, right: 14, top: 42, height: 130, axis: 46, labels: 138, strip: 20, key: 26 };
// a colour for each method, dashed where it is the other form of one; the pasted configuration is black and thick
const LOOKS = {
  linear: { colour: 0 },
  abf: { colour: 4 },
  ntk: { colour: 1 },
  dynamic: { colour: 1, dash: [6, 4] },
  yarn: { colour: 2 },
  yarn_paper: { colour: 2, dash: [6, 4] },
  llama3: { colour: 3 },
  proportional: { colour: 5, dash: [2, 3] },
  config: { colour: 6, width: 3 },
};
// what becomes of a pair: how high its bar stands, and its colour
const KIND_LOOKS = {
  kept: { height: 1, colour: 0, amount: 0.75, text: "kept" },
  blended: { height: 0.62, colour: 0, amount: 0.35, text: "slowed by less than the factor" },
  stretched: { height: 0.3, colour: 1, amount: 0.75, text: "by the factor or more" },
  still: { height: 0.08, colour: 6, amount: 0.5, text: "at rest" },
  faster: { height: 1, colour: 3, amount: 0.9, text: "faster" },
};

// --- what the picture shows ---

// frequencies carry float64 rounding, 1e-16 of themselves for each of a few operations
const EXACT = 1e-9;

/** What has become of a pair whose frequency is now `ratio` of what it was. */
function kindOf(ratio, factor) {
  if (ratio === 0) return "still";
  if (Math.abs(ratio - 1) <= EXACT) return "kept";
  if (ratio > 1) return "faster";
  return ratio * factor <= 1 + EXACT ? "stretched" : "blended";
}

/**
 * The first position at which some pair's angle lies outside what training saw; null where it never does. A pair that
 * makes a full turn in the window has seen every angle; of another, training saw those below window · f.
 */
function firstNewPosition(trained, scaled, window) {
  const leaves = trained.flatMap((f, k) => (turnsOf(f, window) < 1 && scaled[k] > 0 ? [(f / scaled[k]) * window] : []));
  return leaves.length ? Math.ceil(Math.min(...leaves) * (1 - EXACT)) : null;
}

const wavelengthsOf = (frequencies) => frequencies.map((f) => (f ? (2 * Math.PI) / f : null));

/** What one method makes of the frequencies. */
function described(name, label, reading, length, window) {
  const trained = trainedFrequencies(reading);
  const [scaled, attentionFactor] = frequenciesUnder(reading, length);
  const isDynamic = reading.rope_type === "dynamic"; // its factor grows with the sequence
  const factor = isDynamic ? (reading.factor * length) / window - (reading.factor - 1) : reading.factor;
  const kinds = scaled.map((f, k) => kindOf(trained[k] ? f / trained[k] : 0, factor));
  const reach = firstNewPosition(trained, scaled, window);
  const count = (kind) => kinds.filter((each) => each === kind).length;
  const bands = Object.keys(KIND_LOOKS).filter(count).map((kind) => `${count(kind)} ${kind}`);
  const until = reach === null ? "no new angle anywhere" : `first new angle at position ${grouped(reach)}`;
  const summary = `${bands.join(", ")}; cosine and sine × ${attentionFactor.toFixed(3)}; ${until}`;
  return { name, label, wavelengths: wavelengthsOf(scaled), kinds, attentionFactor, reach, summary };
}

/** What the configuration in the box says: as the kernel read it, or, where there is none, read here. */
function readingOf(state, data, answer) {
  if (!state.config.trim()) return {};
  if (answer?.config === state.config) return answer;
  if (!data.readings) return {}; // the kernel is reading it
  if (data.readings[state.config]) return data.readings[state.config];
  try {
    const sizes = { head_dim: state.head_dim, max_position_embeddings: state.window };
    const { remarks, ...own } = readPlainly(state.config, sizes, data.required);
    return { own, remarks };
  } catch (error) {
    return { problem: error.message };
  }
}

/** Every line of the picture: the trained frequencies, each method, and the configuration's own last. */
function scalingFigure(state, data, answer) {
  const { own, problem = "", remarks = [] } = readingOf(state, data, answer);
  const window = own?.window ?? state.window;
  const base = own?.base ?? state.base;
  const headDim = own?.head_dim ?? state.head_dim;
  const share = own ? (own.keys.partial_rotary_factor ?? 1) : state.share;
  const length = state.length * window;
  const turning = Math.trunc(headDim * share);
  const original = { original_max_position_embeddings: window, max_position_embeddings: window };
  const keys = { factor: state.factor, ...original, low_freq_factor: 1, high_freq_factor: 4, partial_rotary_factor: share };
  const [methods, notes] = [[], [...remarks]];
  for (const name of state.methods) {
    const reading = { rope_type: name, dim: name === "proportional" ? headDim : turning, base, keys, factor: state.factor };
    const abf = name === "abf" ? { rope_type: "default", new_base: state.new_base } : {};
    try {
      methods.push(described(name, data.methods[name], { ...reading, ...abf }, length, window));
    } catch (error) {
      notes.push(`${data.methods[name]} is left out: ${error.message}`);
    }
  }
  if (own) methods.push(described("config", `config: ${own.rope_type}`, own, length, window));
  const trained = trainedFrequencies(own ?? { rope_type: "default", dim: turning, base, keys });
  const pairs = Math.floor(headDim / 2);
  return { pairs, trained: wavelengthsOf(trained), window, length, methods, problem, remarks: notes };
}

const lookOf = (name) => {
  const { colour, dash = [], width = 2 } = LOOKS[name];
  return { colour: STYLE.palette[colour], dash, width };
};

const isNarrow = (width) => width < 560;
const isBeside = (width) => width >= 760; // the key stands below the strips, not below their names
const kindsOf = (figure) => Object.keys(KIND_LOOKS).filter((kind) => figure.methods.some((method) => method.kinds.includes(kind)));
const keyLines = (figure, width) => (isNarrow(width) ? 3 : kindsOf(figure).length > 4 && !isBeside(width) ? 2 : 1);
const problemHeight = (width) => (isNarrow(width) ? 190 : 116);

function sizeOf(figure, width) {
  const problem = figure.problem ? problemHeight(width) : 0;
  return VIEW.top + VIEW.height + VIEW.axis + figure.methods.length * VIEW.strip + VIEW.key * keyLines(figure, width) + problem + 12;
}

function drawScaling(context, figure, width, height) {
  const box = { left: VIEW.left, right: width - VIEW.right, top: VIEW.top, bottom: VIEW.top + VIEW.height };
  drawWavelengths(context, box, figure);
  const below = drawStrips(context, box, width, figure);
  if (figure.problem) {
    const at = { left: 8, top: below + 4, width: width - 16, height: problemHeight(width) - 10 };
    drawRefusal(context, figure.problem, at, "The pasted text cannot be used");
  }
}

/** The scale from positions to pixels: a power of ten below the shortest wavelength, one above the longest. */
function wavelengthScale(box, figure) {
  const all = [...figure.trained, ...figure.methods.flatMap((method) => method.wavelengths), figure.length];
  const [low, high] = [0, Math.ceil(Math.log10(Math.max(...all.filter((value) => value))))];
  const scale = scaleOf([low, high], [box.bottom, box.top]);
  return { ticks: Array.from({ length: high + 1 }, (_, power) => power), of: (value) => scale(Math.log10(value)) };
}

function drawWavelengths(context, box, figure) {
  const scale = wavelengthScale(box, figure);
  const pair = scaleOf([-0.5, figure.pairs - 0.5], [box.left, box.right]);
  context.fillStyle = tint(STYLE.palette[4], 0.16);
  context.fillRect(box.left, box.top, box.right - box.left, scale.of(figure.window) - box.top);
  drawVerticalAxis(context, {
    scale: (power) => scale.of(10 ** power),
    ticks: scale.ticks,
    left: box.left,
    right: box.right,
    top: box.top - 26,
    name: "wavelength (positions)",
    text: (power) => (power < 4 ? grouped(10 ** power) : `10${superscript(power)}`),
  });
  const across = (y) => [
    [box.left, y],
    [box.right, y],
  ];
  drawLine(context, across(scale.of(figure.window)), { width: 1.5 });
  if (figure.length > figure.window) drawLine(context, across(scale.of(figure.length)), { dash: [3, 3] });
  const curve = (wavelengths, look) => {
    const points = wavelengths.flatMap((value, k) => (value ? [[pair(k), scale.of(value)]] : []));
    drawLine(context, points, look);
  };
  curve(figure.trained, { colour: tint(STYLE.muted, 0.45), width: 7 });
  for (const method of figure.methods) curve(method.wavelengths, lookOf(method.name));
  const words = { px: 12, onPlate: true };
  drawText(context, `trained window, ${grouped(figure.window)}`, box.right - 6, scale.of(figure.window) + 10, { ...words, align: "right" });
  if (figure.length > figure.window)
    drawText(context, `asked for, ${grouped(figure.length)}`, box.left + 6, scale.of(figure.length) - 9, words);
  const middle = (box.left + box.right) / 2;
  drawText(context, "pair of dimensions, fast to slow", middle, box.bottom + 30, { px: 13, align: "center" });
  for (const k of ticksBetween(0, figure.pairs - 1, 8).filter(Number.isInteger))
    drawText(context, String(k), pair(k), box.bottom + 12, { px: 12, align: "center" });
  const look = { colour: tint(STYLE.muted, 0.45), width: 7 };
  drawKey(context, "as trained", box.right, box.top - 26, look);
}

/** One strip for each method, with its name; the height of a bar says what has become of the pair. */
function drawStrips(context, box, width, figure) {
  let y = box.bottom + VIEW.axis;
  const pair = scaleOf([0, figure.pairs], [VIEW.labels + 8, box.right]);
  const pitch = pair(1) - pair(0);
  for (const method of figure.methods) {
    const look = lookOf(method.name);
    drawLine(
      context,
      [
        [8, y + 9],
        [30, y + 9],
      ],
      look,
    );
    drawText(context, method.label, 36, y + 9, { px: 12 });
    method.kinds.forEach((kind, k) => {
      const { height, colour, amount } = KIND_LOOKS[kind];
      context.fillStyle = tint(STYLE.palette[colour], amount);
      const tall = Math.max(2, 15 * height);
      context.fillRect(pair(k), y + 18 - tall, Math.max(1, pitch - (pitch > 4 ? 1 : 0)), tall);
    });
    y += VIEW.strip;
  }
  return drawKindsKey(context, figure, width, y + 14);
}

function drawKindsKey(context, figure, width, y) {
  let x = isBeside(width) ? VIEW.labels + 8 : 8;
  const start = x;
  for (const kind of kindsOf(figure)) {
    const { height, colour, amount, text } = KIND_LOOKS[kind];
    context.font = fontOf(12);
    const wide = context.measureText(text).width + 36;
    if (x > start && x + wide > width) [x, y] = [start, y + 22];
    context.fillStyle = tint(STYLE.palette[colour], amount);
    const tall = Math.max(2, 15 * height);
    context.fillRect(x, y + 8 - tall, 12, tall);
    drawText(context, text, x + 17, y, { px: 12 });
    x += wide;
  }
  return y + 14;
}

// --- words ---

const superscript = (power) => [...String(power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");

function summary(figure) {
  const asked = `${grouped(figure.length)} positions`;
  if (!figure.methods.length) return "Tick a method, or paste a configuration.";
  const fits = figure.methods.filter((method) => method.reach === null || method.reach >= figure.length);
  if (!fits.length) return `In ${asked}, every method shown meets angles that training never saw.`;
  if (fits.length === figure.methods.length) return `In ${asked}, no method shown meets an angle that training never saw.`;
  return `No angle in ${asked} that training never saw: ${fits.map((method) => method.label).join("; ")}.`;
}

function facts(figure) {
  const lines = figure.methods.map((method) => [method.name === "config" ? "config" : method.label, method.summary]);
  return [...lines, ["reading the text", figure.problem ? "" : figure.remarks.join("; ")]];
}

/** The state after one control has moved: a toggle for each method, an example puts its text into the box. */
function change(state, control, value, data) {
  if (control in data.methods) {
    const chosen = data.order.methods.filter((name) => (name === control ? value : state.methods.includes(name)));
    return { ...state, methods: chosen };
  }
  if (control === "example") return { ...state, config: data.examples[value] ?? "" };
  return { ...state, [control]: value };
}

export default widgetOf((data, model) => {
  const figureOf = (state) => scalingFigure(state, data, model.get("answer"));
  const enabled = (state) => !state.config.trim(); // a pasted configuration has its own
  const exampleOf = (state) => data.order.examples.find((name) => data.examples[name] === state.config) ?? "";
  const times = (value) => `× ${value}`;
  return {
    name: "rope_scaling",
    title: "The wavelength of every rotary pair under the chosen methods, against the trained window.",
    hint: "Shaded: wavelengths longer than the window, of which training has seen a part of the circle.",
    specs: [
      ...data.order.methods.map((name) => ({
        name,
        label: data.methods[name],
        kind: "toggle",
        read: (state) => state.methods.includes(name),
      })),
      { name: "factor", label: "factor", format: times, enabled: (state) => state.methods.some((name) => name !== "abf") },
      { name: "window", label: "window", enabled },
      { name: "length", label: "asked for", format: times },
      { name: "base", label: "base", enabled },
      { name: "new_base", label: "ABF's base", enabled: (state) => state.methods.includes("abf") },
      { name: "head_dim", label: "head", enabled },
      { name: "share", label: "rotary share", enabled },
      {
        name: "example",
        label: "config of",
        kind: "select",
        options: [["", "none, or pasted"], ...data.order.examples],
        read: exampleOf,
      },
      {
        name: "config",
        label: "config.json",
        kind: "text",
        placeholder: 'Paste a config.json, or its part on RoPE: {"rope_theta": 500000.0, "rope_scaling": {…}}',
      },
    ],
    change,
    size: (state, width) => sizeOf(figureOf(state), width),
    draw: (context, state, width, _, height) => drawScaling(context, figureOf(state), width, height),
    summary: (state) => summary(figureOf(state)),
    facts: (state) => facts(figureOf(state)),
    factClasses: Object.fromEntries(
      [...Object.values(data.methods), "config", "reading the text"].map((label) => [label, "wide"]),
    ),
    asksKernel: !data.readings,
  };
});

export { readPlainly, scalingFigure };
