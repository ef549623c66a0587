// The same sample's batch-norm output amid neighbours drawn 200 times, for every batch size at once, as a strip of dots
// beside the running statistics.

const CHART = { left: 56, top: 40, height: 240, bottom: 44, between: 30 };

function charts(width) {
  const stacked = width < 580;
  const wide = stacked ? width : width * 0.58;
  const full = CHART.top + CHART.height + CHART.bottom;
  const left = stacked ? 0 : wide + CHART.between;
  const top = stacked ? full : 0;
  const half = (full - 2 * CHART.top - CHART.bottom - 6) / 2;
  const small = (row) => {
    const above = top + CHART.top + row * (half + CHART.top + 6);
    return { left: left + CHART.left, right: width - 14, top: above, bottom: above + half };
  };
  return {
    strip: { left: CHART.left, right: wide - 14, top: CHART.top, bottom: CHART.top + CHART.height },
    mean: small(0),
    variance: small(1),
    height: stacked ? 2 * full : full,
  };
}

/** Mean and standard deviation, measured from the first value: exactly 0 where all are equal. */
function spreadOf(values) {
  const aside = values.map((value) => value - values[0]);
  const mean = aside.reduce((a, b) => a + b, 0) / values.length;
  const std = Math.sqrt(aside.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length);
  return { mean: values[0] + mean, std };
}

function drawStrip(context, box, state, figure, data) {
  const all = [...Object.values(figure.outputs).flat(), figure.layerNorm];
  const limit = axisLimit(Math.max(2, ...all.map(Math.abs)));
  const scale = scaleOf([-limit, limit], [box.bottom, box.top]);
  const pitch = (box.right - box.left) / data.stops.batch.length;
  const chosen = data.stops.batch.indexOf(state.batch);
  context.fillStyle = STYLE.rule;
  context.fillRect(box.left + chosen * pitch, box.top, pitch, box.bottom - box.top);
  const name = "the sample's output";
  drawVerticalAxis(context, {
    scale,
    ticks: ticksBetween(-limit, limit, 5),
    left: box.left,
    right: box.right,
    top: box.top - 24,
    name,
  });

  data.stops.batch.forEach((batch, column) => {
    const centre = box.left + (column + 0.5) * pitch;
    const values = figure.outputs[batch];
    drawText(context, String(batch), centre, box.bottom + 13, {
      px: 12,
      align: "center",
      weight: column === chosen ? "bold" : "normal",
    });
    if (!values.length)
      return drawText(context, "refused", centre, scale(0) - 12, { px: Math.min(12, pitch / 4), align: "center" });
    context.fillStyle = tint(STYLE.palette[0], column === chosen ? 0.9 : 0.5);
    values.forEach((value, i) => {
      // a fixed scatter sideways, so that equal outputs are seen to be many
      const aside = (((i * 0.618034) % 1) - 0.5) * pitch * 0.55;
      context.fillRect(centre + aside - 1.2, scale(value) - 1.2, 2.4, 2.4);
    });
    const { mean, std } = spreadOf(values);
    const whisker = centre + pitch * 0.38;
    drawLine(
      context,
      [
        [whisker, scale(mean - std)],
        [whisker, scale(mean + std)],
      ],
      { width: 2 },
    );
    drawLine(
      context,
      [
        [whisker - 4, scale(mean)],
        [whisker + 4, scale(mean)],
      ],
      { width: 2 },
    );
  });
  const size = state.pixels > 1 ? `batch size · ${state.pixels} numbers of a channel in each` : "batch size";
  drawText(context, size, (box.left + box.right) / 2, box.bottom + 32, { px: 13, align: "center" });

  const level = scale(figure.layerNorm);
  const look = { colour: STYLE.palette[1], width: 2, dash: [7, 4] };
  drawLine(
    context,
    [
      [box.left, level],
      [box.right, level],
    ],
    look,
  );
  drawKey(context, "layer norm", box.right, box.top - 24, look);
  if (!figure.outputs[state.batch].length) {
    const width = box.right - box.left - 16;
    drawRefusal(context, data.refusal, { left: box.left + 8, top: box.bottom - 92, width, height: 84 });
  }
  drawPresentBatch(context, box.left + (chosen + 0.5) * pitch, scale, figure.outputs[state.batch][0]);
}

/** The present draw: the first of the 200. */
function drawPresentBatch(context, x, scale, value) {
  if (value === undefined) return;
  context.beginPath();
  context.arc(x, scale(value), 7, 0, 2 * Math.PI);
  context.fillStyle = STYLE.paper;
  context.fill();
  context.strokeStyle = STYLE.ink;
  context.lineWidth = 3;
  context.stroke();
}

function drawRunning(context, box, values, { steps, expected, name, colour }) {
  const shown = expected === null ? values : [...values, expected];
  const low = Math.min(0, ...shown);
  const high = Math.max(0, ...shown);
  const pad = 0.08 * (high - low || 1);
  const scale = scaleOf([low - pad, high + pad], [box.bottom, box.top]);
  drawVerticalAxis(context, {
    scale,
    ticks: ticksBetween(low, high, 3),
    left: box.left,
    right: box.right,
    top: box.top - 20,
    name,
  });
  const across = scaleOf([0, values.length - 1], [box.left, box.right]);
  if (expected !== null) {
    drawLine(
      context,
      [
        [box.left, scale(expected)],
        [box.right, scale(expected)],
      ],
      { dash: [2, 3], width: 1.5 },
    );
  }
  drawLine(
    context,
    values.map((value, i) => [across(i), scale(value)]),
    { colour, width: 2 },
  );
  drawLine(
    context,
    [
      [across(steps), box.top],
      [across(steps), box.bottom],
    ],
    { colour: STYLE.muted },
  );
  context.beginPath();
  context.arc(across(steps), scale(values[steps]), 5, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.fill();
}

function drawNeighbours(context, state, width, data, height) {
  const figure = neighbourFigure(state, data);
  const boxes = charts(width);
  drawStrip(context, boxes.strip, state, figure, data);
  const { running, expectedMean, expectedVariance } = figure;
  const { steps } = state;
  drawRunning(context, boxes.mean, running.mean, {
    steps,
    expected: expectedMean,
    name: "running mean",
    colour: STYLE.palette[2],
  });
  drawRunning(context, boxes.variance, running.variance, {
    steps,
    expected: expectedVariance,
    name: "running variance",
    colour: STYLE.palette[3],
  });
  const { left, right, bottom } = boxes.variance;
  drawText(context, "0", left, bottom + 13, { px: 12, align: "center" });
  drawText(context, String(data.batches), right, bottom + 13, { px: 12, align: "center" });
  drawText(context, "step · dotted: average batch", right, bottom + 32, { px: 12, align: "right" });
}

function summary(state, data) {
  const values = neighbourFigure(state, data).outputs[state.batch];
  if (!values.length) return `PyTorch refuses. ${data.refusal}`;
  const { std } = spreadOf(values);
  const by = std === 0 ? "does not scatter at all" : `scatters with standard deviation ${formatNumber(std)}`;
  return `Over ${data.batches} draws of its neighbours, the same sample's output ${by}.`;
}

function facts(state, data) {
  const figure = neighbourFigure(state, data);
  const values = figure.outputs[state.batch];
  const { mean, variance } = figure.running;
  const average = (expected) => (expected === null ? "never trained" : `average batch ${formatNumber(expected)}`);
  const after = (running, expected) => `${formatNumber(running[state.steps])} (${average(expected)})`;
  return [
    ["this batch", values.length ? formatNumber(values[0]) : "refused"],
    ["numbers of a channel", grouped(state.batch * state.pixels)],
    ["layer norm", formatNumber(figure.layerNorm)],
    ["running mean", after(mean, figure.expectedMean)],
    ["running variance", after(variance, figure.expectedVariance)],
  ];
}

/** How many pixels, and how they lie. */
const pixelsText = (pixels) => (pixels === 1 ? "1" : `${pixels}, ${Math.sqrt(pixels)}×${Math.sqrt(pixels)}`);

export default widgetOf((data) => {
  const [min, max] = data.limits.steps;
  const trains = (state) => state.batch * state.pixels > 1 || state.mode === "eval"; // else nothing on the picture depends on them
  return {
    name: "batch_neighbours",
    title: "The batch-norm output of one sample for many draws of its neighbours, and the running statistics.",
    hint: "Each dot is one draw of the neighbours, the ring the present one; bars are one standard deviation each way.",
    specs: [
      { name: "batch", label: "batch size" },
      { name: "pixels", label: "pixels, H·W", format: pixelsText },
      { name: "loudness", label: "loudness" },
      { name: "mode", label: "mode", kind: "select", options: choicesIn(data, "modes") },
      { name: "momentum", label: "momentum", enabled: trains },
      { name: "steps", label: "steps", min, max, enabled: trains },
    ],
    reseed: "new neighbours",
    size: (state, width) => charts(width).height,
    draw: drawNeighbours,
    summary,
    facts,
  };
});

export { neighbourFigure, normals };
