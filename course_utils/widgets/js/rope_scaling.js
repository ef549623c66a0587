// Each rotary pair's wavelength against the window, method by method, and below it what becomes of the pair. The
// numbers come from the kernel; here they are drawn.

const VIEW = { left: 64, right: 14, top: 42, height: 260, axis: 46, labels: 138, strip: 24, key: 30 };
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

const lookOf = (name) => {
  const { colour, dash = [], width = 2 } = LOOKS[name];
  return { colour: STYLE.palette[colour], dash, width };
};

const isNarrow = (width) => width < 560;
const keyLines = (width) => (isNarrow(width) ? 3 : 1);
const problemHeight = (width) => (isNarrow(width) ? 190 : 116);

function sizeOf(answer, width) {
  const strips = answer?.methods?.length ?? 3;
  const problem = answer?.problem ? problemHeight(width) : 0;
  return VIEW.top + VIEW.height + VIEW.axis + strips * VIEW.strip + VIEW.key * keyLines(width) + problem + 6;
}

function drawScaling(context, answer, width, height) {
  if (!answer?.methods) return drawText(context, "waiting for the kernel", width / 2, 120, { align: "center" });
  const box = { left: VIEW.left, right: width - VIEW.right, top: VIEW.top, bottom: VIEW.top + VIEW.height };
  drawWavelengths(context, box, answer);
  const below = drawStrips(context, box, width, answer);
  if (answer.problem) {
    const at = { left: 8, top: below + 4, width: width - 16, height: problemHeight(width) - 10 };
    drawRefusal(context, answer.problem, at, "The pasted text cannot be used");
  }
}

/** The scale from positions to pixels: a power of ten below the shortest wavelength, one above the longest. */
function wavelengthScale(box, answer) {
  const all = [...answer.trained, ...answer.methods.flatMap((method) => method.wavelengths), answer.length];
  const [low, high] = [0, Math.ceil(Math.log10(Math.max(...all.filter((value) => value))))];
  const scale = scaleOf([low, high], [box.bottom, box.top]);
  return { ticks: Array.from({ length: high + 1 }, (_, power) => power), of: (value) => scale(Math.log10(value)) };
}

function drawWavelengths(context, box, answer) {
  const scale = wavelengthScale(box, answer);
  const pair = scaleOf([-0.5, answer.pairs - 0.5], [box.left, box.right]);
  context.fillStyle = tint(STYLE.palette[4], 0.16);
  context.fillRect(box.left, box.top, box.right - box.left, scale.of(answer.window) - box.top);
  drawVerticalAxis(context, {
    scale: (power) => scale.of(10 ** power),
    ticks: scale.ticks,
    left: box.left,
    right: box.right,
    top: box.top - 26,
    name: "wavelength (positions)",
    text: (power) => (power < 4 ? String(10 ** power) : `10${superscript(power)}`),
  });
  const across = (y) => [
    [box.left, y],
    [box.right, y],
  ];
  drawLine(context, across(scale.of(answer.window)), { width: 1.5 });
  drawText(context, `trained window, ${grouped(answer.window)}`, box.left + 6, scale.of(answer.window) + 10, { px: 12 });
  if (answer.length > answer.window) {
    drawLine(context, across(scale.of(answer.length)), { dash: [3, 3] });
    drawText(context, `asked for, ${grouped(answer.length)}`, box.left + 6, scale.of(answer.length) - 9, { px: 12 });
  }
  const curve = (wavelengths, look) => {
    const points = wavelengths.flatMap((value, k) => (value ? [[pair(k), scale.of(value)]] : []));
    drawLine(context, points, look);
  };
  curve(answer.trained, { colour: tint(STYLE.muted, 0.45), width: 7 });
  for (const method of answer.methods) curve(method.wavelengths, lookOf(method.name));
  const middle = (box.left + box.right) / 2;
  drawText(context, "pair of dimensions, fast to slow", middle, box.bottom + 30, { px: 13, align: "center" });
  for (const k of ticksBetween(0, answer.pairs - 1, 8).filter(Number.isInteger))
    drawText(context, String(k), pair(k), box.bottom + 12, { px: 12, align: "center" });
  const look = { colour: tint(STYLE.muted, 0.45), width: 7 };
  drawKey(context, "as trained", box.right, box.top - 26, look);
}

/** One strip for each method, with its name; the height of a bar says what has become of the pair. */
function drawStrips(context, box, width, answer) {
  let y = box.bottom + VIEW.axis;
  const pair = scaleOf([0, answer.pairs], [VIEW.labels + 8, box.right]);
  const pitch = pair(1) - pair(0);
  for (const method of answer.methods) {
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
      const tall = Math.max(2, 18 * height);
      context.fillRect(pair(k), y + 18 - tall, Math.max(1, pitch - (pitch > 4 ? 1 : 0)), tall);
    });
    y += VIEW.strip;
  }
  return drawKindsKey(context, answer, width, y + 8);
}

function drawKindsKey(context, answer, width, y) {
  const present = Object.keys(KIND_LOOKS).filter((kind) => answer.methods.some((method) => method.kinds.includes(kind)));
  let x = isNarrow(width) ? 8 : VIEW.labels + 8;
  const start = x;
  for (const kind of present) {
    const { height, colour, amount, text } = KIND_LOOKS[kind];
    context.font = fontOf(12);
    const wide = context.measureText(text).width + 36;
    if (x > start && x + wide > width) [x, y] = [start, y + 22];
    context.fillStyle = tint(STYLE.palette[colour], amount);
    const tall = Math.max(2, 16 * height);
    context.fillRect(x, y + 8 - tall, 12, tall);
    drawText(context, text, x + 17, y, { px: 12 });
    x += wide;
  }
  return y + 14;
}

// --- words ---

const grouped = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
const superscript = (power) => [...String(power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");

function summary(state, answer) {
  if (!answer?.methods) return "";
  const asked = `${grouped(answer.length)} positions`;
  if (!answer.methods.length) return "Tick a method, or paste a configuration.";
  const fits = answer.methods.filter((method) => method.reach === null || method.reach >= answer.length);
  if (!fits.length) return `In ${asked}, every method shown meets angles that training never saw.`;
  if (fits.length === answer.methods.length) return `In ${asked}, no method shown meets an angle that training never saw.`;
  return `No angle in ${asked} that training never saw: ${fits.map((method) => method.label).join("; ")}.`;
}

function facts(answer) {
  if (!answer?.methods) return [];
  const lines = answer.methods.map((method) => [method.name === "config" ? "config" : method.label, method.summary]);
  return [...lines, ["reading the text", answer.problem ? "" : answer.remarks.join("; ")]];
}

/** The state after one control has moved: a toggle for each method, an example puts its text into the box. */
function change(state, control, value, data) {
  if (control in data.methods) {
    const chosen = Object.keys(data.methods).filter((name) => (name === control ? value : state.methods.includes(name)));
    return { ...state, methods: chosen };
  }
  if (control === "example") return { ...state, config: data.examples[value] ?? "" };
  return { ...state, [control]: value };
}

function render(view) {
  const data = view.model.get("data");
  const answer = () => view.model.get("answer");
  const stops = (name, label, format) => ({ name, label, kind: "slider", stops: data.stops[name], format });
  const own = { enabled: (state) => !state.config.trim() }; // a pasted configuration has its own
  const exampleOf = (state) => Object.keys(data.examples).find((name) => data.examples[name] === state.config) ?? "";
  const times = (value) => `× ${value}`;
  const labels = Object.keys(data.methods);
  return mount(view, {
    name: "rope_scaling",
    title: "The wavelength of every rotary pair under the chosen methods, against the trained window.",
    hint: "Shaded: wavelengths longer than the trained window, of which training has seen a part of the circle only.",
    specs: [
      ...labels.map((name) => ({
        name,
        label: data.methods[name],
        kind: "toggle",
        read: (state) => state.methods.includes(name),
      })),
      stops("factor", "factor", times),
      { ...stops("window", "window", grouped), ...own },
      stops("length", "asked for", times),
      { ...stops("base", "base", grouped), ...own },
      { ...stops("new_base", "ABF's base", grouped), enabled: (state) => state.methods.includes("abf") },
      { ...stops("head_dim", "head"), ...own },
      { ...stops("share", "rotary share"), ...own },
      {
        name: "example",
        label: "config of",
        kind: "select",
        options: [["", "none, or pasted"], ...Object.keys(data.examples).map((name) => [name, name])],
        read: exampleOf,
      },
      {
        name: "config",
        label: "config.json",
        kind: "text",
        placeholder: 'Paste a config.json, or its part on RoPE: {"rope_theta": 500000.0, "rope_scaling": {…}}',
      },
    ],
    change: (state, control, value) => change(state, control, value, data),
    size: (state, width) => sizeOf(answer(), width),
    draw: (context, state, width, height) => drawScaling(context, answer(), width, height),
    summary: (state) => summary(state, answer()),
    facts: (state, latest) => facts(latest),
    factClasses: Object.fromEntries(
      [...Object.values(data.methods), "config", "reading the text"].map((label) => [label, "wide live"]),
    ),
    asksKernel: true,
    drawsAnswer: true,
  });
}

export { change, facts };
export default { render };
