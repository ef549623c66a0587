// Kernels that Python launches and a device runs, one after the other, on a line of time; and the same in a graph.

const ROWS = { top: 46, pitch: 62, thick: 30, left: 8, right: 16, bottom: 44, label: 18 };

/** Begin and end of each launch and of each kernel, in µs; a graph launches all at once. */
function queueOf({ launch, kernel }, count, isGraph) {
  const [launches, kernels] = [[], []];
  let [launched, done] = [0, 0];
  for (let i = 0; i < count; i++) {
    if (!isGraph || i === 0) {
      launches.push([launched, launched + launch]);
      launched += launch;
    }
    const begin = Math.max(launched, done);
    done = begin + kernel;
    kernels.push([begin, done]);
  }
  return { launches, kernels, done };
}

/** Everything the picture shows. */
function queueFigure(state, data) {
  const [eager, graph] = [false, true].map((isGraph) => queueOf(state, data.count, isGraph));
  return { eager, graph, busy: (data.count * state.kernel) / eager.done, faster: eager.done / graph.done };
}

function drawQueue(context, state, width, data) {
  const { eager, graph, busy, faster } = queueFigure(state, data);
  const x = scaleOf([0, Math.max(eager.done, graph.done)], [ROWS.left, width - ROWS.right]);
  const rows = [
    ["Python: calls", eager.launches, STYLE.muted],
    [`GPU: kernels, at work ${formatNumber(100 * busy)} % of the time`, eager.kernels, STYLE.palette[1]],
    [`GPU, in a graph: ${gain(faster)}`, graph.kernels, STYLE.palette[2]],
  ];
  const bottom = ROWS.top + ROWS.pitch * rows.length - (ROWS.pitch - ROWS.thick) + 8;
  for (const tick of ticksBetween(0, Math.max(eager.done, graph.done), 6)) {
    drawLine(context, [[x(tick), ROWS.top - 6], [x(tick), bottom]], { colour: STYLE.rule });
    drawText(context, tickText(tick), x(tick), bottom + 12, { px: 12, align: tick ? "center" : "left" });
  }
  drawText(context, `time of ${data.count} kernels (µs)`, width / 2, bottom + 30, { align: "center" });
  rows.forEach(([name, bars, colour], row) => {
    const y = ROWS.top + ROWS.pitch * row;
    drawText(context, name, ROWS.left, y - ROWS.label / 2, { px: 12, weight: "bold" });
    for (const [begin, end] of bars) {
      context.fillStyle = colour;
      context.fillRect(x(begin), y, Math.max(1, x(end) - x(begin) - 1), ROWS.thick);
    }
  });
}

const gain = (faster) => (faster < 1.1 ? "hardly faster" : `${formatNumber(faster)} times faster`);
const times = (us) => (us < 1000 ? `${formatNumber(us)} µs` : `${formatNumber(us / 1e3)} ms`);

function facts(state, data) {
  const { eager, graph, busy, faster } = queueFigure(state, data);
  return [
    [`${data.count} kernels, launched one by one`, times(eager.done)],
    ["in a graph", `${times(graph.done)}, ${gain(faster)}`],
    ["the device works", `${formatNumber(100 * busy)} % of the time`],
    ["a clock around the calls says", times(data.count * state.launch)],
  ];
}

function summary(state, data) {
  const { busy, faster } = queueFigure(state, data);
  if (state.kernel >= state.launch) return `The device is never short of work: a graph makes it ${gain(faster)}.`;
  return `The device waits for Python and works ${formatNumber(100 * busy)} % of the time; a graph makes it ${gain(faster)}.`;
}

const microseconds = (value) => `${value} µs`;

export default widgetOf(() => ({
  name: "launch_queue",
  title: "Calls by Python and kernels on a device, on a line of time, one by one and in a graph.",
  hint: "A model: a kernel begins when its call is over and the one before it is done, without a pause between two. No time here was measured.",
  specs: [
    { name: "launch", label: "a call takes", format: microseconds },
    { name: "kernel", label: "a kernel takes", format: microseconds },
  ],
  size: () => ROWS.top + 3 * ROWS.pitch + ROWS.bottom - 16,
  draw: drawQueue,
  summary,
  facts,
}));

export { queueFigure };
