// A clock for each pair of a rotary embedding, with a hand for the key and one for the query, beside the score of the
// two against their distance.

const TURN = 2 * Math.PI;

/** The lengths of the query's pairs and of the key's, each vector of length 1, and the angle from key to query at distance 0. */
function pairsOf({ vectors, reach }, theta, random) {
  const count = theta.length;
  if (vectors === "random") {
    const [query, key, phase] = random.map((values) => values.slice(0, count));
    const unit = (values) => values.map((value) => value / Math.hypot(...values));
    return { query: unit(query), key: unit(key), phase };
  }
  const aim = vectors === "aimed" ? Math.floor(reach / 2) : 0;
  const alike = theta.map(() => count ** -0.5);
  return { query: alike, key: alike, phase: theta.map((speed) => -aim * speed) };
}

let known = { key: "", scores: [] }; // the curve does not depend on where the two tokens stand

function scoresOf(state, theta, pairs) {
  const key = [state.base, state.dim, state.share, state.vectors, state.reach].join();
  if (known.key === key) return known.scores;
  const scores = Array.from({ length: state.reach + 1 }, (_, distance) =>
    theta.reduce((sum, speed, k) => sum + addedBy(pairs, k, distance * speed + pairs.phase[k]), 0),
  );
  known = { key, scores };
  return scores;
}

/** What pair k adds to the score, with this angle from key to query. */
const addedBy = ({ query, key }, k, angle) => query[k] * key[k] * Math.cos(angle);

/** How many of the head's pairs turn: a share of them, and one at least; the others stand still. */
const turningOf = ({ dim, share }) => Math.max(1, Math.floor((dim * share) / 2));

/** The two entries of the head that pair k is made of. */
function entriesOf({ dim, share, layout }, k) {
  const turning = turningOf({ dim, share });
  if (layout === "interleaved" || k >= turning) return [2 * k, 2 * k + 1];
  return [k, k + turning];
}

/** Everything the picture shows. */
function clockFigure(state, data) {
  const turning = turningOf(state);
  const speed = (k) => (k < turning ? state.base ** (-k / turning) : 0);
  const theta = Array.from({ length: state.dim / 2 }, (_, k) => speed(k));
  const pairs = pairsOf(state, theta, data.random);
  const scores = scoresOf(state, theta, pairs);
  const turned = (position, phases) =>
    theta.map((speed, k) => {
      const angle = position * speed + phases * pairs.phase[k];
      return Math.atan2(Math.sin(angle), Math.cos(angle)); // between −π and π
    });
  return {
    theta,
    key: turned(state.position, -1), // the content's angle is the key's
    query: turned(state.position + state.distance, 0),
    between: turned(state.distance, 1),
    lengths: pairs,
    scores,
    score: scores[state.distance],
  };
}

// --- the picture ---

const PANEL = { height: 250, top: 46, bottom: 40, left: 52, gap: 30 };
const HANDS = { key: STYLE.palette[1], query: STYLE.palette[0] };

/** The clocks and the score: side by side where there is room, else one below the other, as far down as the clocks need. */
function panels(width, count) {
  const stacked = width < 560;
  const each = stacked ? width : (width - PANEL.gap) / 2;
  const full = PANEL.top + PANEL.height + PANEL.bottom;
  const clocks = { left: 8, top: PANEL.top, width: each - 16, height: PANEL.height + 20 };
  const { columns, rowPitch } = gridOf(count, clocks);
  const below = PANEL.top + Math.ceil(count / columns) * rowPitch + 20;
  const [x, y] = stacked ? [0, below] : [each + PANEL.gap, 0];
  return {
    clocks,
    score: { left: x + PANEL.left, right: x + each - 12, top: y + PANEL.top, bottom: y + PANEL.top + PANEL.height },
    height: y + full,
  };
}

/** The grid with the largest clocks that has room for `count` of them. */
function gridOf(count, { left, top, width, height }) {
  let best = { size: 0 };
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const label = count > 16 ? 0 : 16;
    const size = Math.min(width / columns, height / rows - label, 130);
    if (size > best.size) best = { size, columns, label };
  }
  const { size, columns, label } = best;
  const pitch = Math.min(width / columns, size * 1.2);
  return {
    radius: size * 0.44,
    pitch,
    rowPitch: size + label,
    columns,
    label,
    centre: (k) => [left + ((k % columns) + 0.5) * pitch, top + Math.floor(k / columns) * (size + label) + size / 2],
  };
}

function drawHand(context, [x, y], angle, length, look) {
  const tip = [x + length * Math.cos(angle), y - length * Math.sin(angle)];
  drawLine(context, [[x, y], tip], look);
  context.beginPath();
  context.arc(...tip, look.width, 0, TURN);
  context.fillStyle = look.colour;
  context.fill();
}

/** A clock, grey where its pair stands still; a hand is as long as its part of the vector. */
function drawClock(context, centre, radius, data, k, isPicked) {
  const [x, y] = centre;
  const disc = () => {
    context.beginPath();
    context.arc(x, y, radius, 0, TURN);
  };
  if (!data.theta[k]) {
    disc();
    context.fillStyle = STYLE.rule;
    context.fill();
  }
  context.beginPath(); // the angle between the hands: it depends on the distance alone
  context.moveTo(x, y);
  context.arc(x, y, radius, -data.key[k], -data.key[k] - data.between[k], data.between[k] > 0);
  context.closePath();
  context.fillStyle = tint(STYLE.palette[5], 0.45);
  context.fill();
  disc();
  context.strokeStyle = isPicked ? STYLE.ink : STYLE.muted;
  context.lineWidth = isPicked ? 3 : 1;
  context.stroke();
  const width = Math.max(1.5, Math.min(3.5, radius / 12));
  const reach = (name) => (radius * data.lengths[name][k]) / Math.max(...data.lengths[name]);
  drawHand(context, centre, data.key[k], 0.62 * reach("key"), { colour: HANDS.key, width, dash: [4, 2] });
  drawHand(context, centre, data.query[k], 0.88 * reach("query"), { colour: HANDS.query, width });
}

function drawClocks(context, state, data, area) {
  const count = data.theta.length;
  const grid = gridOf(count, area);
  for (let k = 0; k < count; k++) {
    const centre = grid.centre(k);
    drawClock(context, centre, grid.radius, data, k, k === state.picked);
    const weight = k === state.picked ? "bold" : "normal";
    if (grid.label)
      drawText(context, `${k}`, centre[0], centre[1] + grid.radius + 12, { px: 12, align: "center", weight });
  }
  const still = data.theta.some((speed) => !speed) ? " (gray: at rest)" : "";
  drawText(context, (count === 1 ? "the pair" : "the pairs") + still, area.left, 18, { weight: "bold" });
  drawKey(context, "key", area.left + area.width - 92, 18, { colour: HANDS.key, width: 2.5, dash: [4, 2] });
  drawKey(context, "query", area.left + area.width, 18, { colour: HANDS.query, width: 2.5 });
}

function drawScores(context, state, data, panel) {
  const y = scaleOf([-1, 1], [panel.bottom, panel.top]);
  const x = scaleOf([0, state.reach], [panel.left, panel.right]);
  const name = "score, as a share of |q||k|";
  drawVerticalAxis(context, { scale: y, ticks: [-1, -0.5, 0, 0.5, 1], left: panel.left, right: panel.right, top: 18 + panel.top - PANEL.top, name });
  for (const tick of ticksBetween(0, state.reach, 4))
    drawText(context, tickText(tick), x(tick), panel.bottom + 13, { px: 12, align: "center" });
  drawText(context, "distance (positions)", panel.right, panel.bottom + 30, { px: 12, align: "right" });
  const points = data.scores.map((score, distance) => [x(distance), y(score)]);
  drawLine(context, points, { colour: STYLE.palette[2], width: state.reach > 64 ? 1.2 : 2 });
  const here = [x(state.distance), y(data.score)];
  drawLine(context, [[here[0], panel.top], [here[0], panel.bottom]], { colour: STYLE.muted, dash: [3, 3] });
  context.beginPath();
  context.arc(...here, 5.5, 0, TURN);
  context.fillStyle = STYLE.ink;
  context.fill();
}

// --- choosing in the picture ---

let grabbed = ""; // the panel in which the mouse went down

function pickAt(x, y, state, width, data, held) {
  const { clocks, score } = panels(width, state.dim / 2);
  const isInScore = x >= score.left - 12 && x <= score.right + 12 && y >= score.top - 10 && y <= score.bottom + 14;
  if (!held) grabbed = isInScore ? "score" : "clocks";
  if (grabbed === "score") {
    const distance = Math.round(scaleOf([score.left, score.right], [0, state.reach])(x));
    return { ...state, distance: Math.max(0, Math.min(state.reach, distance)) };
  }
  const grid = gridOf(state.dim / 2, clocks);
  const column = Math.floor((x - clocks.left) / grid.pitch);
  const picked = Math.floor((y - clocks.top) / grid.rowPitch) * grid.columns + column;
  const isClock = column >= 0 && column < grid.columns && y >= clocks.top && picked < state.dim / 2;
  return isClock ? { ...state, picked } : null;
}

function pickByKey(event, state, { stops }) {
  const clock = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (clock) return { ...state, picked: Math.max(0, Math.min(state.dim / 2 - 1, state.picked + clock)) };
  const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  return step ? { ...state, position: Math.max(0, Math.min(stops.position.at(-1), state.position + step)) } : null;
}

/** A control's value, with what has to follow: the axis reaches the distance, and the picked pair is there. */
function change(state, control, value, { stops }) {
  const next = { ...state, [control]: value };
  if (control === "distance" && next.distance > next.reach) next.reach = stops.reach.find((reach) => reach >= next.distance);
  next.distance = Math.min(next.distance, next.reach);
  return { ...next, picked: Math.min(next.picked, next.dim / 2 - 1) };
}

const whole = (value) => Math.floor(value).toLocaleString("en-US"); // while it plays, a position is on its way

function facts(state, data) {
  const { theta, between, lengths, score } = clockFigure(state, data);
  const speed = theta[state.picked];
  const turns = speed > 0;
  return [
    ["picked pair", `${state.picked}: entries ${entriesOf(state, state.picked).join(" and ")} of 0 … ${state.dim - 1}`],
    ["turns by", turns ? `${formatNumber(speed)} rad a position` : "nothing: it is outside the rotary share"],
    ["a full turn takes", turns ? `${formatNumber(TURN / speed)} positions` : ""],
    ["angle from key to query", `${formatNumber((between[state.picked] * 360) / TURN)}°`],
    ["adds to the score", formatNumber(addedBy(lengths, state.picked, between[state.picked]))],
    ["score", formatNumber(score)],
  ];
}

function summary(state, data) {
  const isMoved = Object.keys(state).some((name) => name !== "picked" && state[name] !== data.first[name]);
  if (!isMoved) return "Move the key or the distance: what becomes of the score?"; // the answer, once it is tried
  const score = formatNumber(clockFigure(state, data).score);
  const [key, query] = [state.position, state.position + state.distance].map(whole);
  return `Key at ${key}, query at ${query}: the score is ${score}, as for any two places ${whole(state.distance)} apart.`;
}

export default widgetOf((data) => ({
  name: "rope_clocks",
  title: "A clock for each pair of a rotary embedding, and the score against the distance.",
  hint:
    "Drag in the score to change the distance, click a clock to read it. With the picture focused, left and right " +
    "choose a clock, up and down move both tokens.",
  specs: [
    { name: "position", label: "key at", format: whole },
    { name: "distance", label: "distance" },
    { name: "base", label: "base" },
    { name: "dim", label: "dimension" },
    { name: "share", label: "rotary share" },
    { name: "layout", label: "layout", kind: "select", options: choicesIn(data, "layouts") },
    { name: "vectors", label: "vectors", kind: "select", options: choicesIn(data, "vectors") },
    { name: "reach", label: "axis up to", kind: "select", options: data.stops.reach.map((reach) => [reach, grouped(reach)]) },
  ],
  change,
  size: (state, width) => panels(width, state.dim / 2).height,
  draw: (context, state, width, data) => {
    const figure = clockFigure(state, data), { clocks, score } = panels(width, state.dim / 2);
    drawClocks(context, state, figure, clocks);
    drawScores(context, state, figure, score);
  },
  summary,
  facts,
  factClasses: { "picked pair": "wide" },
  play: {
    tick: (state, { stops }) => ({ ...state, position: Math.min(state.position + 1 / 8, stops.position.at(-1)) }),
    rest: (state) => ({ ...state, position: Math.round(state.position) }),
  },
  pick: { at: pickAt, key: pickByKey },
}));

export { entriesOf, clockFigure, formatNumber, gridOf, panels, pickAt, pickByKey, summary };
