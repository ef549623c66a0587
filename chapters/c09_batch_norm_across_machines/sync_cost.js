// The time of synchronised batch norm's exchanges against the number of ranks, both axes logarithmic: by two routes,
// and what the bytes alone would take.

const CHART = { left: 68, top: 112, right: 16, height: 160, bottom: 46 };
const ITEM_BYTES = 4; // float32

/** What a rank sends in one layer's step, forward and backward: messages by route, and the bytes of either. */
const traffic = (channels, ranks) => ({
  ring: 3 * (ranks - 1),
  doubling: 3 * Math.ceil(Math.log2(ranks) - 1e-9),
  bytes: (ranks - 1) * (2 * channels + 1) * ITEM_BYTES + ((2 * (ranks - 1)) / ranks) * 2 * channels * ITEM_BYTES,
});

/** What the widget shows: the times of a step in ms, on each number of ranks. */
function costFigure(state, data) {
  const sent = traffic(state.channels, state.ranks);
  const overRanks = data.stops.ranks.map((ranks) => traffic(state.channels, ranks));
  const bytesMs = overRanks.map(({ bytes }) => (state.layers * bytes) / state.bandwidth / 1e6);
  const withWait = (route) => overRanks.map((one, i) => bytesMs[i] + (state.layers * one[route] * state.latency) / 1e3);
  return { sent, bytesMs, ringMs: withWait("ring"), doublingMs: withWait("doubling"), at: data.stops.ranks.indexOf(state.ranks) };
}

const LOOKS = [
  { name: "around a ring", colour: STYLE.palette[0], width: 2.5 },
  { name: "by doubling", colour: STYLE.palette[1], width: 2.5, dash: [7, 4] },
  { name: "either, if no message had to wait", colour: STYLE.palette[2], width: 2.5, dash: [2, 3] },
];

function drawCosts(context, state, width, data) {
  const figure = costFigure(state, data);
  const box = { left: CHART.left, right: width - CHART.right, top: CHART.top, bottom: CHART.top + CHART.height };
  const lines = [figure.ringMs, figure.doublingMs, figure.bytesMs];
  const all = [...lines.flat(), data.published].map(Math.log10);
  const [low, high] = [Math.floor(Math.min(...all)), Math.ceil(Math.max(...all) + 1e-9)];
  const ranks = data.stops.ranks;
  const across = scaleOf([0, ranks.length - 1], [box.left + 14, box.right - 14]);
  const upward = scaleOf([low, high], [box.bottom, box.top]);
  const decades = Array.from({ length: high - low + 1 }, (_, i) => i);

  const chosen = figure.at;
  context.fillStyle = STYLE.rule;
  context.fillRect(across(chosen) - 14, box.top, 28, box.bottom - box.top);
  drawVerticalAxis(context, {
    scale: (decade) => upward(low + decade), // counted from the lowest, so that none is marked as 0
    ticks: decades,
    left: box.left,
    right: box.right,
    top: box.top - 22,
    name: "ms a step",
    text: (decade) => formatNumber(10 ** (low + decade)),
  });
  ranks.forEach((count, i) => {
    if (width < 500 && i % 2 && i !== chosen) return; // no room for all
    const weight = i === chosen ? "bold" : "normal";
    drawText(context, String(count), across(i), box.bottom + 14, { px: 12, align: "center", weight });
  });
  drawText(context, "ranks that share a batch", (box.left + box.right) / 2, box.bottom + 34, { align: "center" });

  const level = upward(Math.log10(data.published));
  const published = { colour: STYLE.muted, width: 1.5 };
  drawLine(context, [[box.left, level], [box.right, level]], published);
  drawKey(context, "32 images at the published rate", box.right, box.top - 48, published);

  lines.forEach((times, line) => {
    const points = times.map((ms, i) => [across(i), upward(Math.log10(ms))]);
    drawLine(context, points, LOOKS[line]);
    context.beginPath();
    context.arc(...points[chosen], 5, 0, 2 * Math.PI);
    context.fillStyle = LOOKS[line].colour;
    context.fill();
    drawKey(context, LOOKS[line].name, box.right, box.top - 102 + 18 * line, LOOKS[line]);
  });
}

const sizeText = (bytes) =>
  bytes < 1e3 ? `${formatNumber(bytes)} bytes` : bytes < 1e6 ? `${formatNumber(bytes / 1e3)} kB` : `${formatNumber(bytes / 1e6)} MB`;

const chosenMs = ({ at, ringMs, doublingMs, bytesMs }) => [ringMs[at], doublingMs[at], bytesMs[at]];

function facts(state, data) {
  const figure = costFigure(state, data);
  const [ring, doubling, bytes] = chosenMs(figure);
  const line = (messages, ms) =>
    `${formatNumber(ms)} ms, ${Math.round(100 * (1 - bytes / ms))} % of it waiting; a layer has ${grouped(messages)} messages`;
  return [
    ["around a ring", line(figure.sent.ring, ring)],
    ["by doubling", line(figure.sent.doubling, doubling)],
    ["the bytes alone", `${formatNumber(bytes)} ms; a layer has ${sizeText(figure.sent.bytes)} from each rank`],
  ];
}

function summary(state, data) {
  const [ring, doubling, bytes] = chosenMs(costFigure(state, data)).map(formatNumber);
  return (
    `Among ${state.ranks} ranks a step's exchanges take ${ring} ms around a ring and ${doubling} ms by doubling; ` +
    `their bytes alone would take ${bytes} ms.`
  );
}

export default widgetOf((data) => ({
  name: "sync_cost",
  title: "The time of a training step's exchanges against the number of ranks that share a batch, by two routes.",
  hint:
    "Both axes are logarithmic. The model: messages times latency plus bytes over bandwidth, for every layer. The " +
    "level line: 32 images at the rate that NVIDIA publishes for ResNet-50 on an A100.",
  specs: [
    ...["ranks", "channels", "layers"].map((name) => ({ name, label: name })),
    { name: "latency", label: "latency", format: (us) => `${us} µs` },
    { name: "bandwidth", label: "bandwidth", format: (gbps) => `${grouped(gbps)} GB/s` },
  ],
  size: () => CHART.top + CHART.height + CHART.bottom,
  draw: drawCosts,
  summary,
  facts,
}));

export { costFigure };
