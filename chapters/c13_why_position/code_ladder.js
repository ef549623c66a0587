// The numbers that a code gives each position, a line for each, and how long each step is.

const LADDER = { left: 62, right: 58, top: 26, row: 26, single: 120, gap: 62, steps: 86, bottom: 40 };
const DIGITS = 6; // of a binary number; the sinusoid has as many pairs of columns
const SLOWER = 2; // each digit, and each pair, is so much slower than the one before

/** The code of each position 0 … tokens − 1, a list of numbers. */
function codeValues({ code, tokens }) {
  const digits = Array.from({ length: DIGITS }, (_, i) => i);
  const of = {
    integer: (m) => [m],
    share: (m) => [m / tokens],
    binary: (m) => digits.map((i) => (m >> i) & 1),
    sinusoid: (m) => digits.flatMap((i) => [Math.sin(m / SLOWER ** i), Math.cos(m / SLOWER ** i)]),
  }[code];
  return Array.from({ length: tokens }, (_, m) => of(m));
}

/** The length of the step from each position to the next. */
const stepLengths = (codes) => codes.slice(1).map((next, m) => Math.hypot(...next.map((value, i) => value - codes[m][i])));

const RANGES_OF = { integer: [0, 64], share: [0, 1], binary: [0, 1], sinusoid: [-1, 1] }; // the same whatever is set
const rowsOf = (state) => (state.code === "binary" ? DIGITS : state.code === "sinusoid" ? 2 * DIGITS : 1);
const rowHeight = (state) => (rowsOf(state) === 1 ? LADDER.single : LADDER.row);
const heightOf = (state) => LADDER.top + rowsOf(state) * rowHeight(state) + LADDER.gap + LADDER.steps + LADDER.bottom;
const acrossOf = (state, width) => scaleOf([0, state.tokens - 1], [LADDER.left, width - LADDER.right]);

function drawLadder(context, state, width) {
  const codes = codeValues(state);
  const steps = stepLengths(codes);
  const x = acrossOf(state, width);
  const height = rowHeight(state);
  drawText(context, "the code, line by line", LADDER.left, 12, { weight: "bold" });
  drawText(context, "here", width - LADDER.right + 8, 12, { px: 12 });
  const below = LADDER.top + rowsOf(state) * height;
  drawLine(context, [[x(state.m), LADDER.top], [x(state.m), below]], { colour: STYLE.ink, dash: [3, 3] });
  for (let row = 0; row < rowsOf(state); row++) {
    const y = scaleOf(RANGES_OF[state.code], [LADDER.top + (row + 1) * height - 5, LADDER.top + row * height + 5]);
    const colour = STYLE.palette[(state.code === "sinusoid" ? row >> 1 : row) % 6];
    const points = codes.map((code, m) => [x(m), y(code[row])]);
    const stairs = points.flatMap(([px, py], m) => (m ? [[px, points[m - 1][1]], [px, py]] : [[px, py]]));
    drawLine(context, state.code === "binary" ? stairs : points, { colour, width: 2 });
    context.beginPath();
    context.arc(...points[state.m], 4.5, 0, 2 * Math.PI);
    context.fillStyle = colour;
    context.fill();
    drawText(context, formatNumber(codes[state.m][row]), width - LADDER.right + 8, LADDER.top + (row + 0.5) * height, { px: 12 });
  }
  const area = { left: LADDER.left, right: width - LADDER.right, top: below + LADDER.gap - 22 };
  const most = axisLimit(Math.max(...steps));
  const y = scaleOf([0, most], [below + LADDER.gap + LADDER.steps, below + LADDER.gap]);
  drawVerticalAxis(context, { ...area, scale: y, ticks: [0, most], name: "the step to the next position" });
  steps.forEach((step, m) => {
    const look = { colour: m === state.m ? STYLE.palette[1] : STYLE.muted, width: m === state.m ? 5 : 2.5 };
    drawLine(context, [[x(m), y(0)], [x(m), y(step)]], look);
  });
  for (const tick of ticksBetween(0, state.tokens - 1, 8).filter(Number.isInteger))
    drawText(context, String(tick), x(tick), y(0) + 14, { px: 12, align: "center" });
  drawText(context, "position", area.right, y(0) + 30, { px: 12, align: "right" });
}

const inside = (m, tokens) => Math.max(0, Math.min(tokens - 2, m)); // the last position has no step

function change(state, control, value) {
  const next = { ...state, [control]: value };
  return { ...next, m: inside(next.m, next.tokens) };
}

function pickAt(x, y, state, width) {
  const m = Math.round(scaleOf([LADDER.left, width - LADDER.right], [0, state.tokens - 1])(x));
  return { ...state, m: inside(m, state.tokens) };
}

function pickByKey(event, state) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  return by ? { ...state, m: inside(state.m + by, state.tokens) } : null;
}

function summary(state) {
  const steps = stepLengths(codeValues(state));
  const [low, high] = [Math.min(...steps), Math.max(...steps)].map(formatNumber);
  const largest = formatNumber(Math.max(...codeValues(state).flat()));
  const even = low === high ? `every step is ${low} long` : `steps are ${low} to ${high} long`;
  return `In ${state.tokens} positions ${even}, and the largest number is ${largest}.`;
}

function facts(state) {
  const codes = codeValues(state);
  return [
    [`code of ${state.m}`, codes[state.m].map(formatNumber).join(", ")],
    [`code of ${state.m + 1}`, codes[state.m + 1].map(formatNumber).join(", ")],
    ["step between them", formatNumber(stepLengths(codes)[state.m])],
  ];
}

export default widgetOf((data) => ({
  name: "code_ladder",
  title: "The numbers that a code gives each position, as lines, and the length of each step.",
  hint: "Drag across the picture, or use the arrow keys, to move the position. Of a binary number the last digit is on top; of the sinusoid a sine and its cosine have one colour.",
  specs: [
    { name: "code", label: "code", kind: "select", options: choicesIn(data, "codes") },
    { name: "tokens", label: "tokens T" },
    { name: "m", label: "position m", min: 0, max: data.stops.tokens.at(-1) - 2, last: (state) => state.tokens - 2 },
  ],
  change,
  size: heightOf,
  draw: drawLadder,
  summary,
  facts,
  pick: { at: pickAt, key: pickByKey },
}));

export { codeValues, facts, stepLengths, summary };
