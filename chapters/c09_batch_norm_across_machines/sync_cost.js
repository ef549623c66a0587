// The time of synchronised batch norm's two exchanges against the number of ranks, both axes logarithmic.

const CHART = { left: 68, top: 62, right: 16, height: 260, bottom: 46 };
const ITEM_BYTES = 4; // float32

function traffic(channels, ranks, route) {
  const hops = route === "ring" ? ranks - 1 : Math.ceil(Math.log2(ranks) - 1e-9);
  return {
    forward: { messages: hops, bytes: (ranks - 1) * (2 * channels + 1) * ITEM_BYTES },
    backward: { messages: 2 * hops, bytes: ((2 * (ranks - 1)) / ranks) * 2 * channels * ITEM_BYTES },
  };
}

/** What the widget shows. */
function costFigure(state, data) {
  const waitMs = ({ messages }) => (messages * state.latency) / 1e3;
  const time = (sent) => state.layers * (waitMs(sent) + sent.bytes / state.bandwidth / 1e6);
  const overRanks = data.stops.ranks.map((ranks) => traffic(state.channels, ranks, state.route));
  const { forward, backward } = traffic(state.channels, state.ranks, state.route);
  const stepMs = time(forward) + time(backward);
  return {
    forwardMs: overRanks.map((one) => time(one.forward)),
    backwardMs: overRanks.map((one) => time(one.backward)),
    bothMs: overRanks.map((one) => time(one.forward) + time(one.backward)),
    forward,
    backward,
    stepMs,
    waiting: (state.layers * (waitMs(forward) + waitMs(backward))) / stepMs,
  };
}

const LOOKS = [
  { name: "forward: gather", colour: STYLE.palette[0], width: 2.5 },
  { name: "backward: reduce", colour: STYLE.palette[1], width: 2.5, dash: [7, 4] },
  { name: "both", colour: STYLE.palette[2], width: 2.5, dash: [2, 3] },
];

function drawCosts(context, state, width, data) {
  const figure = costFigure(state, data);
  const box = { left: CHART.left, right: width - CHART.right, top: CHART.top, bottom: CHART.top + CHART.height };
  const all = [...figure.forwardMs, ...figure.backwardMs, ...figure.bothMs, data.arithmetic, data.published].map(Math.log10);
  const [low, high] = [Math.floor(Math.min(...all)), Math.ceil(Math.max(...all) + 1e-9)];
  const ranks = data.stops.ranks;
  const across = scaleOf([0, ranks.length - 1], [box.left + 14, box.right - 14]);
  const upward = scaleOf([low, high], [box.bottom, box.top]);
  const decades = Array.from({ length: high - low + 1 }, (_, i) => low + i);

  const chosen = ranks.indexOf(state.ranks);
  context.fillStyle = STYLE.rule;
  context.fillRect(across(chosen) - 14, box.top, 28, box.bottom - box.top);
  drawVerticalAxis(context, {
    scale: upward,
    ticks: decades,
    left: box.left,
    right: box.right,
    top: box.top - 26,
    name: "ms a step",
    text: (power) => formatNumber(10 ** power),
  });
  ranks.forEach((count, i) => {
    if (width < 500 && i % 2 && i !== chosen) return; // no room for all
    const weight = i === chosen ? "bold" : "normal";
    drawText(context, String(count), across(i), box.bottom + 14, { px: 12, align: "center", weight });
  });
  drawText(context, "ranks that share a batch", (box.left + box.right) / 2, box.bottom + 34, { align: "center" });

  const levels = [
    [upward(Math.log10(data.arithmetic)), "32 images of a ResNet-50 in arithmetic"],
    [upward(Math.log10(data.published)), "32 images at the published rate"],
  ];
  for (const [level] of levels) {
    drawLine(context, [[box.left, level], [box.right, level]], { colour: STYLE.muted, width: 1.5 });
  }

  [figure.forwardMs, figure.backwardMs, figure.bothMs].forEach((times, line) => {
    const points = times.map((ms, i) => [across(i), upward(Math.log10(ms))]);
    drawLine(context, points, LOOKS[line]);
    context.beginPath();
    context.arc(...points[chosen], 5, 0, 2 * Math.PI);
    context.fillStyle = LOOKS[line].colour;
    context.fill();
    drawKey(context, LOOKS[line].name, box.right, box.top - 50 + 18 * line, LOOKS[line]);
  });
  for (const [level, name] of levels) drawText(context, name, box.right - 4, level + 10, { px: 12, align: "right", onPlate: true });
}

const sizeText = (bytes) =>
  bytes < 1e3 ? `${formatNumber(bytes)} bytes` : bytes < 1e6 ? `${formatNumber(bytes / 1e3)} kB` : `${formatNumber(bytes / 1e6)} MB`;

function facts(state, data) {
  const figure = costFigure(state, data);
  const line = ({ messages, bytes }) => `${messages} message${messages > 1 ? "s" : ""}, ${sizeText(bytes)} a rank`;
  return [
    ["forward, a layer", line(figure.forward)],
    ["backward, a layer", line(figure.backward)],
    ["a step, all layers", `${formatNumber(figure.stepMs)} ms`],
    ["of it waiting for messages", `${Math.round(100 * figure.waiting)} %`],
  ];
}

function summary(state, data) {
  const { stepMs, waiting } = costFigure(state, data);
  const share = Math.round(100 * waiting);
  return `Among ${state.ranks} ranks a step waits ${formatNumber(stepMs)} ms for its exchanges, ${share} % of it for messages to start.`;
}

export default widgetOf((data) => ({
  name: "sync_cost",
  title: "The time of a training step's exchanges against the number of ranks that share a batch.",
  hint:
    "Both axes are logarithmic. The model: messages times latency plus bytes over bandwidth, for every layer. The " +
    "level lines: what the arithmetic of a step of 32 images takes at least, on an H100 in bfloat16, and " +
    "32 images at the rate that NVIDIA publishes for ResNet-50 on an A100.",
  specs: [
    ...["ranks", "channels", "layers"].map((name) => ({ name, label: name })),
    { name: "latency", label: "latency", format: (us) => `${us} µs` },
    { name: "bandwidth", label: "bandwidth", format: (gbps) => `${grouped(gbps)} GB/s` },
    { name: "route", label: "messages", kind: "select", options: choicesIn(data, "routes") },
  ],
  size: () => CHART.top + CHART.height + CHART.bottom,
  draw: drawCosts,
  summary,
  facts,
}));

export { costFigure };
