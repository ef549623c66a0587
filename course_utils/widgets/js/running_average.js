// A running mean that follows a drifting channel, and below it what each past batch weighs. The random numbers come
// from batch_draws.js.

const PLOT = { left: 56, right: 14, top: 40, height: 150, gap: 74, weights: 60, bottom: 44 };

const weightsOf = ({ momentum, convention }) =>
  convention === "torch" ? [1 - momentum, momentum] : [momentum, 1 - momentum];

/** Everything the picture shows. */
const runningFigure = rememberLast((state, data) => {
  const [old, fresh] = weightsOf(state);
  const noise = normals(1000 * state.seed + 7, data.steps);
  const figure = { truth: [], batchMeans: [], estimate: [] };
  let average = 0;
  for (let i = 0; i < data.steps; i++) {
    const truth = data.start + (state.drift / 100) * (i + 1);
    const mean = truth + noise[i] / Math.sqrt(state.batch);
    average = old * average + fresh * mean;
    figure.truth.push(truth);
    figure.batchMeans.push(mean);
    figure.estimate.push(state.corrected ? average / -Math.expm1((i + 1) * Math.log1p(-fresh)) : average);
  }
  return {
    ...figure,
    weights: Array.from({ length: data.ages }, (_, age) => fresh * (1 - fresh) ** age),
    memory: 1 / fresh,
    lag: ((state.drift / 100) * (1 - fresh)) / fresh,
    scatter: Math.sqrt(fresh / (2 - fresh) / state.batch),
    startWeight: state.corrected ? 0 : (1 - fresh) ** data.steps,
  };
});

function drawEstimate(context, box, figure, state, data) {
  const all = [0, ...figure.truth, ...figure.batchMeans, ...figure.estimate];
  const [low, high] = [Math.floor(Math.min(...all)), Math.ceil(Math.max(...all))];
  const scale = scaleOf([low, high], [box.bottom, box.top]);
  const across = scaleOf([0, data.steps], [box.left, box.right]);
  const line = (values) => values.map((value, i) => [across(i + 1), scale(value)]);
  const ticks = ticksBetween(low, high, 5);
  const name = box.right - box.left < 340 ? "mean" : "mean of the channel"; // the keys stand on the same line
  const axis = { scale, ticks, left: box.left, right: box.right, top: box.top - 20, name };
  drawVerticalAxis(context, axis);
  context.fillStyle = tint(STYLE.muted, 0.6);
  for (const [x, y] of line(figure.batchMeans)) context.fillRect(x - 1.5, y - 1.5, 3, 3);
  drawLine(context, line(figure.truth), { dash: [2, 3], width: 2 });
  drawLine(context, [[across(0), scale(0)], ...line(figure.estimate)].slice(state.corrected ? 1 : 0), {
    colour: STYLE.palette[0],
    width: 2.5,
  });
  drawKey(context, "truth", box.right, box.top - 20, { dash: [2, 3], width: 2 });
  drawKey(context, "running mean", box.right - 80, box.top - 20, { colour: STYLE.palette[0], width: 2.5 });
  for (const step of ticksBetween(0, data.steps, 5))
    drawText(context, String(step), across(step), box.bottom + 13, { px: 12, align: "center" });
  drawText(context, "step · a dot is the mean of one batch", (box.left + box.right) / 2, box.bottom + 31, {
    px: 12,
    align: "center",
  });
}

function drawWeights(context, box, figure, data) {
  const limit = axisLimit(Math.max(...figure.weights));
  const scale = scaleOf([0, limit], [box.bottom, box.top]);
  const pitch = (box.right - box.left) / data.ages;
  const axis = { scale, ticks: [0, limit], left: box.left, right: box.right, top: box.top - 18 };
  drawVerticalAxis(context, { ...axis, name: "weight of each past batch" });
  context.fillStyle = STYLE.palette[0];
  figure.weights.forEach((weight, age) => {
    const y = scale(weight);
    context.fillRect(box.left + age * pitch + 1, y, Math.max(1, pitch - 2), box.bottom - y);
  });
  if (figure.memory <= data.ages) {
    const x = box.left + figure.memory * pitch;
    const ends = [
      [x, box.top],
      [x, box.bottom],
    ];
    drawLine(context, ends, { colour: STYLE.palette[1], width: 2, dash: [6, 4] });
  }
  for (const age of ticksBetween(0, data.ages - 1, 6))
    drawText(context, String(age), box.left + (age + 0.5) * pitch, box.bottom + 13, { px: 12, align: "center" });
  drawText(context, "batches ago · dashed: what it remembers", (box.left + box.right) / 2, box.bottom + 31, {
    px: 12,
    align: "center",
  });
}

const pictureHeight = PLOT.top + PLOT.height + PLOT.gap + PLOT.weights + PLOT.bottom;

function drawRunningAverage(context, state, width, data) {
  const figure = runningFigure(state, data);
  const [left, right] = [PLOT.left, width - PLOT.right];
  const middle = PLOT.top + PLOT.height;
  drawEstimate(context, { left, right, top: PLOT.top, bottom: middle }, figure, state, data);
  const top = middle + PLOT.gap;
  drawWeights(context, { left, right, top, bottom: top + PLOT.weights }, figure, data);
}

function summary(state, data) {
  const { memory, estimate, truth } = runningFigure(state, data);
  const [last, right] = [estimate.at(-1), truth.at(-1)].map(formatNumber);
  return `It remembers ${formatNumber(memory)} steps, and ends at ${last} where the truth is ${right}.`;
}

function facts(state, data) {
  const [old, fresh] = weightsOf(state);
  const figure = runningFigure(state, data);
  const other = state.convention === "torch" ? "keras" : "torch";
  return [
    ["each step", `${formatNumber(old)} · average + ${formatNumber(fresh)} · batch`],
    [`in ${other}`, `momentum=${formatNumber(1 - state.momentum)}`],
    ["scatter, in the long run", formatNumber(figure.scatter)],
    ["lag, in the long run", formatNumber(figure.lag)],
    ["the start still weighs", formatNumber(figure.startWeight)],
  ];
}

export default widgetOf((data) => ({
  name: "running_average",
  title: "The running mean of a channel beside its true mean, and the weight of each past batch in it.",
  hint: "The running mean starts at 0. Keep the momentum and change what it weighs to see what a mix-up does.",
  specs: [
    { name: "momentum", label: "momentum" },
    { name: "convention", label: "momentum weighs", kind: "select", options: choicesIn(data, "conventions") },
    { name: "batch", label: "batch size" },
    { name: "drift", label: "drift in 100 steps" },
    { name: "corrected", label: "bias correction", kind: "toggle" },
  ],
  reseed: "new batches",
  size: () => pictureHeight,
  draw: drawRunningAverage,
  summary,
  facts,
}));

export { runningFigure };
