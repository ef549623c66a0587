// The rounds of a scan: which steps are joined in each, and for how many inputs each step stands by then.

/** The first input that each step stands for: one row for the start, and one for each round that is over. */
function scanFigure(state, data) {
  const rounds = data.joins[state.method][state.length];
  const first = [Array.from({ length: state.length }, (_, step) => step)];
  for (const joined of rounds.slice(0, state.done)) {
    const before = first.at(-1);
    const after = [...before];
    for (const [earlier, later] of joined) after[later] = before[earlier];
    first.push(after);
  }
  const count = (list) => list.reduce((total, joined) => total + joined.length, 0);
  const complete = first.at(-1).filter((input) => input === 0).length;
  return { rounds, first, joins: count(rounds.slice(0, state.done)), allJoins: count(rounds), complete };
}

/** The state after one control has moved; no more rounds are over than there are. */
function change(state, control, value, data) {
  const next = { ...state, [control]: value };
  return { ...next, done: Math.min(next.done, data.joins[next.method][next.length].length) };
}

/** The state a round later; after the last round, where it began. */
function nextRound(state, data) {
  const rounds = data.joins[state.method][state.length].length;
  return { ...state, done: state.done < rounds ? state.done + 1 : 0 };
}

// --- the picture ---

const places = (state, width) => {
  const left = width < 500 ? 22 : 64;
  const pitch = (width - left - 8) / state.length;
  return { left, radius: Math.min(12, pitch / 2 - 1), x: (step) => left + (step + 0.5) * pitch };
};
const rowY = (round) => 34 + 40 * round;
const heightOf = (state, width, data) => rowY(scanFigure(state, data).rounds.length) + 20;

function drawScan(context, state, width, data) {
  const { rounds, first } = scanFigure(state, data);
  const { left, radius, x } = places(state, width);
  const named = (round) => (left < 60 ? String(round) : round ? `round ${round}` : "input");
  for (let step = 0; step < state.length; step++) drawText(context, String(step + 1), x(step), 10, { px: 11, align: "center", colour: STYLE.muted });
  for (let round = 0; round <= rounds.length; round++) {
    drawText(context, named(round), left - 8, rowY(round), { px: 12, align: "right", colour: round <= state.done ? STYLE.ink : STYLE.muted });
    if (!round || round > state.done) continue;
    const [above, below] = [rowY(round - 1), rowY(round)];
    for (let step = 0; step < state.length; step++) drawLine(context, [[x(step), above], [x(step), below]], { colour: STYLE.rule });
    for (const [earlier, later] of rounds[round - 1]) drawLine(context, [[x(earlier), above], [x(later), below]], { colour: STYLE.palette[1], width: 1.6 });
  }
  first.forEach((row, round) =>
    row.forEach((input, step) => {
      context.beginPath();
      context.arc(x(step), rowY(round), radius, 0, 2 * Math.PI);
      context.fillStyle = input === 0 ? STYLE.palette[0] : STYLE.paper;
      context.fill();
      context.strokeStyle = STYLE.ink;
      context.lineWidth = 1;
      context.stroke();
      drawText(context, String(step + 1 - input), x(step), rowY(round), { px: 11, align: "center", colour: input === 0 ? STYLE.paper : STYLE.ink });
    }),
  );
}

// --- the words ---

function facts(state, data) {
  const { rounds, joins, allJoins } = scanFigure(state, data);
  return [
    ["rounds", `${state.done} of ${rounds.length}`],
    ["joins", `${joins} of ${allJoins}; a loop makes ${state.length - 1}`],
    ["at once", state.done ? `${rounds[state.done - 1].length} in the last round` : ""],
  ];
}

function summary(state, data) {
  const { complete } = scanFigure(state, data);
  return `${complete} of ${state.length} steps stand for all inputs up to their own.`;
}

export default widgetOf((data) => ({
  name: "scan_rounds",
  title: "Steps in a row, joined round by round.",
  hint: "The number in a circle: for how many inputs the step stands. Filled: for all up to its own.",
  specs: [
    { name: "method", label: "joined", kind: "select", options: choicesIn(data, "methods") },
    { name: "length", label: "steps T", stops: data.lengths },
    { name: "done", label: "rounds", min: 0, max: Math.max(...data.lengths) - 1 },
  ],
  change,
  size: heightOf,
  draw: drawScan,
  summary,
  facts,
  play: { tick: nextRound, every: 1000 },
}));

export { scanFigure };
