// What an encoding tells attention about a distance, as a curve. ALiBi's slopes and T5's buckets come from Python.

const AREA = { left: 70, right: 22, top: 48, bottom: 52, height: 250 };

/** What is shown at distances 0 … reach. */
function distanceValues(state, data) {
  const distances = Array.from({ length: state.reach + 1 }, (_, d) => d);
  if (state.encoding === "sinusoidal") {
    const count = state.dim / 2;
    const frequencies = Array.from({ length: count }, (_, i) => state.base ** ((-2 * i) / state.dim));
    return distances.map((d) => frequencies.reduce((sum, w) => sum + Math.cos(d * w), 0) / count);
  }
  if (state.encoding === "alibi") return distances.map((d) => -slope(state, data) * d);
  if (state.encoding === "t5") return bucketsOf(state, data).slice(0, state.reach + 1);
  return distances.map(() => 0);
}

const slopesOf = (state, data) => data.slopes[data.stops.heads.indexOf(state.heads)];
const slope = (state, data) => slopesOf(state, data)[state.head - 1];
const bucketsOf = (state, data) => data.buckets[data.stops.max_distance.indexOf(state.max_distance)];

const NAMES = {
  none: "added to the score",
  sinusoidal: "product of two codes, as a share of the largest",
  t5: "bucket, each with an addition of its own to learn",
  alibi: "added to the score",
};

/** The vertical range: fixed for each encoding, so that a curve is seen to move when a control does. */
const RANGES = { none: [-16, 0], sinusoidal: [-1, 1], t5: [0, 32], alibi: [-16, 0] };
/** The colours of the experiment's curves. */
const SERIES = { none: 6, sinusoidal: 0, t5: 2, alibi: 3 };

function panel(width) {
  return { left: AREA.left, right: width - AREA.right, top: AREA.top, bottom: AREA.top + AREA.height };
}

function draw(context, state, width, data) {
  const area = panel(width);
  const [low, high] = RANGES[state.encoding];
  const y = scaleOf([low, high], [area.bottom, area.top]);
  const x = scaleOf([0, state.reach], [area.left, area.right]);
  const axis = { left: area.left, right: area.right, top: 20, name: NAMES[state.encoding] };
  drawVerticalAxis(context, { ...axis, scale: y, ticks: ticksBetween(low, high, 5) });
  for (const tick of ticksBetween(0, state.reach, 8))
    drawText(context, tickText(tick), x(tick), area.bottom + 14, { px: 12, align: "center" });
  drawText(context, "distance (tokens)", area.right, area.bottom + 34, { px: 12, align: "right" });
  if (state.encoding === "alibi") drawHeads(context, state, data, { x, y, low, area });
  const look = { colour: STYLE.palette[SERIES[state.encoding]], width: 2.5 };
  const values = distanceValues(state, data);
  drawLine(
    context,
    values.flatMap((value, d) => (value < low ? [] : [[x(d), y(value)]])),
    look,
  );
  if (state.reach <= 32)
    values.forEach((value, d) => {
      if (value < low) return;
      context.beginPath();
      context.arc(x(d), y(value), 3.5, 0, 2 * Math.PI);
      context.fillStyle = look.colour;
      context.fill();
    });
}

/** Every head's line, faint, with its number where it leaves the picture: at the right, or below. */
function drawHeads(context, state, data, { x, y, low, area }) {
  slopesOf(state, data).forEach((m, head) => {
    const end = Math.min(state.reach, -low / m);
    const isChosen = head + 1 === state.head;
    const ends = [[x(0), y(0)], [x(end), y(-m * end)]];
    drawLine(context, ends, { colour: tint(STYLE.palette[SERIES.alibi], isChosen ? 1 : 0.45), width: isChosen ? 2.5 : 1.2 });
    const [px, weight] = [11, isChosen ? "bold" : "normal"];
    if (end < state.reach) drawText(context, String(head + 1), x(end) + 4, area.bottom - 8, { px, weight });
    else if (isChosen || head % Math.ceil(state.heads / 6) === 0)
      drawText(context, String(head + 1), area.right + 3, y(-m * end), { px, weight });
  });
}

function change(state, control, value) {
  const next = { ...state, [control]: value };
  if (control === "head") next.heads = Math.max(next.heads, next.head); // a head that there is not yet makes room
  return { ...next, head: Math.min(next.head, next.heads) };
}

function facts(state, data) {
  if (state.encoding === "alibi") {
    const m = slope(state, data);
    return [
      ["slope", formatNumber(m)],
      ["the weight halves every", `${formatNumber(Math.LN2 / m)} tokens`],
    ];
  }
  if (state.encoding === "sinusoidal") {
    const slowest = state.base ** (-(state.dim - 2) / state.dim);
    return [
      ["shortest wave", `${formatNumber(2 * Math.PI)} tokens`],
      ["longest wave", `${whole(Number(((2 * Math.PI) / slowest).toPrecision(3)))} tokens`],
    ];
  }
  if (state.encoding === "t5") {
    const all = bucketsOf(state, data);
    return [
      ["a bucket each", `distances 0 to ${all.findIndex((bucket, d) => bucket === all[d + 1]) - 1}`],
      ["one bucket for all", `from distance ${all.indexOf(31)}`],
    ];
  }
  return [];
}

function summary(state, data) {
  const values = distanceValues(state, data);
  const different = new Set(values.map((value) => value.toFixed(9))).size;
  if (different === 1) return `Distances 0 to ${state.reach}: one number for all, so they all look alike.`;
  return `Distances 0 to ${state.reach}: ${different} different numbers for ${state.reach + 1} distances.`;
}

const whole = (value) => value.toLocaleString("en-US");

export default widgetOf((data) => {
  const only = (encoding) => (state) => state.encoding === encoding;
  return {
    name: "encoding_by_distance",
    title: "What the chosen encoding tells attention about a distance, as a curve.",
    hint: "Choose an encoding, then move what it has to set. The vertical axis stays; a curve that leaves it is cut. Of ALiBi, every head's line is there with its number.",
    specs: [
      { name: "encoding", label: "encoding", kind: "select", options: choicesIn(data, "encodings") },
      {
        name: "reach",
        label: "axis up to",
        kind: "select",
        options: data.stops.reach.map((reach) => [reach, `${reach} tokens`]),
      },
      { name: "heads", label: "heads", visible: only("alibi") },
      { name: "head", label: "head", min: 1, max: data.stops.heads.at(-1), last: (state) => state.heads, visible: only("alibi") },
      { name: "dim", label: "columns", visible: only("sinusoidal") },
      { name: "base", label: "base", visible: only("sinusoidal") },
      { name: "max_distance", label: "buckets up to", visible: only("t5") },
    ],
    change,
    size: () => AREA.top + AREA.height + AREA.bottom,
    draw,
    summary,
    facts,
  };
});

export { distanceValues, facts, summary };
