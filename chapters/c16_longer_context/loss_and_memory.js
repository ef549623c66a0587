// What a model pays beyond a jump of positions: for new text, and for a passage that it has read. Memory is the difference.

const FRAME = { left: 44, right: 16, top: 40, height: 250, bottom: 44 };
const HIGHEST = 7; // nats

const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** The means over the passages at the chosen jump, and what new text costs unscaled without one. */
function memoryFigure(state, data) {
  const at = data.stops.gap.indexOf(state.gap);
  const mean = (setting, kind, place) => meanOf(data.settings[setting][kind].map((passage) => passage[place]));
  return { new: mean(state.setting, "loss", at), copy: mean(state.setting, "copy", at), home: mean("none ×1", "loss", 0) };
}

function scalesOf(width, data) {
  const x = scaleOf([0, data.stops.gap.at(-1)], [FRAME.left + 14, width - FRAME.right - 14]);
  return { x, y: scaleOf([0, HIGHEST], [FRAME.top + FRAME.height, FRAME.top]) };
}

function drawDot(context, x, y, radius, colour) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.fill();
}

function drawMemory(context, state, width, data) {
  const { x, y } = scalesOf(width, data);
  const [left, right, bottom] = [FRAME.left, width - FRAME.right, FRAME.top + FRAME.height];
  drawVerticalAxis(context, { scale: y, ticks: [0, 1, 2, 3, 4, 5, 6], left, right, top: 12, name: "nats a token" });
  data.stops.gap.forEach((gap) => drawText(context, tickText(gap), x(gap), bottom + 14, { px: 12, align: "center" }));
  drawText(context, "positions that are jumped over", (left + right) / 2, bottom + 32, { px: 12, align: "center" });
  const figure = memoryFigure(state, data);
  drawLine(context, [[left, y(figure.home)], [right, y(figure.home)]], { colour: STYLE.muted, dash: [2, 4] });
  data.order.kinds.forEach((kind, series) => {
    const colour = STYLE.palette[series];
    const passages = data.settings[state.setting][kind];
    const look = { colour, width: 1, dash: [2, 4] }; // it only joins the four means
    const means = data.stops.gap.map((gap, i) => [x(gap), y(meanOf(passages.map((own) => own[i])))]);
    drawLine(context, means, look);
    means.forEach(([across, height]) => drawLine(context, [[across - 9, height], [across + 9, height]], { colour, width: 3 }));
    passages.forEach((own) => own.forEach((nats, i) => drawDot(context, x(data.stops.gap[i]), y(nats), 3, colour)));
    drawKey(context, data.kinds[kind], right, 12 + 17 * series, { colour, width: 3 });
  });
  drawText(context, "new text, unscaled, no jump", left + 28, y(figure.home) + 10, { px: 11, onPlate: true });
  const here = x(state.gap);
  drawLine(context, [[here, y(figure.copy)], [here, y(figure.new)]], { width: 6 });
  drawDot(context, here, y(figure.new), 6, STYLE.palette[0]);
  drawDot(context, here, y(figure.copy), 6, STYLE.palette[1]);
}

function gapAt(x, y, state, width, data) {
  const across = scalesOf(width, data).x;
  const nearest = (best, gap) => (Math.abs(across(gap) - x) < Math.abs(across(best) - x) ? gap : best);
  return { ...state, gap: data.stops.gap.reduce(nearest) };
}

function gapByKey(event, state, data) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const at = data.stops.gap.indexOf(state.gap) + step;
  return step && at in data.stops.gap ? { ...state, gap: data.stops.gap[at] } : null;
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

function summary(state, data) {
  const figure = memoryFigure(state, data);
  const share = figure.copy / figure.new;
  const verdict = share < 0.3 ? "it copies" : share < 0.8 ? "it copies in part" : "the passage is forgotten";
  return `${state.setting}, over ${tickText(state.gap)}: new text ${signed(figure.new - figure.home)} nats, the copy at ${Math.round(100 * share)} % of new text: ${verdict}.`;
}

function facts(state, data) {
  const figure = memoryFigure(state, data);
  return [
    ["new text", `${figure.new.toFixed(2)} nats; unscaled without a jump ${figure.home.toFixed(2)}`],
    ["the passage again", `${figure.copy.toFixed(2)} nats`],
    ["remembered", `${(figure.new - figure.copy).toFixed(2)} nats a token`],
  ];
}

export default widgetOf((data) => ({
  name: "loss_and_memory",
  title: "Nats a token beyond a jump of positions, of new text and of a passage that was read before it, over the jump.",
  hint: "Bars are means, dots three passages; between the four jumps nothing was measured. The upright bar is what is remembered. The dotted line is new text, unscaled, without a jump. Click the picture to choose a jump, or use the arrow keys.",
  specs: [
    { name: "setting", label: "method ×factor", kind: "select", options: data.order.settings },
    { name: "gap", label: "jump" },
  ],
  size: () => FRAME.top + FRAME.height + FRAME.bottom,
  draw: drawMemory,
  summary,
  facts,
  pick: { at: gapAt, key: gapByKey },
}));

export { gapAt, gapByKey, memoryFigure };
