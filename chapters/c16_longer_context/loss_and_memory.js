// How much of a passage a model remembers over each jump of positions, beside a bar: how much is enough. Below it, what
// new text costs over the same jumps.

const LOWEST = -0.35; // share that the upper panel shows: a first copy can harm
const FRAME = { left: 44, right: 14, key: 20, share: 164, between: 44, loss: 72, bottom: 22 };
// a colour for each method, as in the chapter's figures
const LOOKS = {
  none: { colour: 6, dash: [2, 3] },
  PI: { colour: 0 },
  NTK: { colour: 1, dash: [7, 4] },
  YaRN: { colour: 2, dash: [9, 3, 2, 3] },
  "by parts": { colour: 3, dash: [2, 2] },
  "YaRN to 3 turns": { colour: 5 },
};
const lookOf = (method, width) => ({ ...LOOKS[method], colour: STYLE.palette[LOOKS[method].colour], width });
const percent = (share) => `${Math.round(100 * share)} %`;
const setting = (method, state) => `${method} ×${method === "none" ? 1 : state.factor}`;
const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Each method that is ticked and recorded at this factor: its passages, the least of them, and how far it reaches. */
function memoryFigure(state, data) {
  const recorded = state.methods.filter((method) => data.settings[setting(method, state)]);
  return recorded.map((method) => {
    const { gap, share, added } = data.settings[setting(method, state)];
    const least = gap.map((_, i) => Math.min(...share.map((passage) => passage[i])));
    const fails = least.findIndex((value) => value <= state.enough);
    const kept = fails < 0 ? gap.length : fails; // this many gaps, from the first on
    const last = least.findLastIndex((value) => value > state.enough);
    const mean = gap.map((_, i) => meanOf(added.map((passage) => passage[i])));
    return { method, gap, share, added, mean, least, reach: kept ? gap[kept - 1] : -1, last: last < 0 ? -1 : gap[last] };
  });
}

/** Where the names of the methods stand: [method, x, y], on as many lines as the width needs. */
function keyOf(figure, width) {
  const places = [];
  let [x, y] = [FRAME.left, 10];
  for (const { method } of figure) {
    const wide = 34 + 7 * method.length;
    if (x > FRAME.left && x + wide > width - FRAME.right) [x, y] = [FRAME.left, y + FRAME.key];
    places.push([method, x, y]);
    x += wide + 8;
  }
  return places;
}

function boxOf(state, width, data) {
  const figure = memoryFigure(state, data);
  const keys = keyOf(figure, width);
  const most = Math.max(0.6, ...figure.flatMap(({ added }) => added.flat()));
  const top = (keys.at(-1)?.[2] ?? 10) + 40;
  const bottom = top + FRAME.share;
  const below = bottom + FRAME.between;
  const promised = data.window * state.factor;
  return {
    keys,
    top,
    bottom,
    below,
    promised,
    x: scaleOf([0, promised], [FRAME.left + 4, width - FRAME.right]),
    share: scaleOf([LOWEST, 1], [bottom, top]),
    loss: scaleOf([-0.1 * most, 1.05 * most], [below + FRAME.loss, below]),
    most,
  };
}

function drawDot(context, x, y, radius, colour) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.fill();
}

/** Draw `drawIt` with nothing outside a panel: a jump can harm more than the panel shows. */
function inside(context, [top, height], width, drawIt) {
  context.save();
  context.beginPath();
  context.rect(FRAME.left, top - 8, width - FRAME.left, height + 8);
  context.clip();
  drawIt();
  context.restore();
}

function drawMemory(context, state, width, data) {
  const figure = memoryFigure(state, data);
  const box = boxOf(state, width, data);
  const [left, right] = [FRAME.left, width - FRAME.right];
  box.keys.forEach(([method, x, y]) => {
    drawLine(context, [[x, y], [x + 24, y]], lookOf(method, 2.5));
    drawText(context, method, x + 29, y, { px: 12 });
  });
  const sides = { left, right };
  const shares = { scale: box.share, ticks: [0, 0.25, 0.5, 0.75, 1], top: box.top - 16, name: "share remembered (thick: the least)" };
  drawVerticalAxis(context, { ...shares, ...sides, text: percent });
  const losses = { scale: box.loss, ticks: box.most > 2 ? [0, 2, 4] : box.most > 1 ? [0, 1, 2] : [0, 0.25, 0.5], top: box.below - 12, name: "new text: nats more (thick: the mean)" };
  drawVerticalAxis(context, { ...losses, ...sides });
  for (const gap of ticksBetween(0, box.promised, 4)) {
    drawText(context, tickText(gap), box.x(gap), box.bottom + 11, { px: 12, align: "center" });
    drawText(context, tickText(gap), box.x(gap), box.below + FRAME.loss + 12, { px: 12, align: "center" });
  }
  const panels = [
    [box.top, FRAME.share, box.share, "share", "least"],
    [box.below, FRAME.loss, box.loss, "added", "mean"],
  ];
  for (const [top, height, scale, passages, thick] of panels)
    inside(context, [top, height], width, () => {
      for (const own of figure) {
        const points = (values) => values.map((value, i) => [box.x(own.gap[i]), scale(value)]);
        const thin = { colour: tint(STYLE.palette[LOOKS[own.method].colour], 0.5), width: 0.8 };
        own[passages].forEach((passage) => drawLine(context, points(passage), thin));
        drawLine(context, points(own[thick]), lookOf(own.method, 2.5));
      }
    });
  const bar = box.share(state.enough);
  drawLine(context, [[left, bar], [right, bar]], { width: 1.5 });
  drawText(context, "enough", right - 4, bar - 9, { px: 12, align: "right", onPlate: true });
  figure.forEach(({ method, gap, least, reach }, series) => {
    const { colour } = lookOf(method);
    if (reach >= 0) {
      const beside = figure.slice(0, series).filter((own) => own.reach === reach).length; // marks that are there
      const x = box.x(reach) + 6 * beside;
      drawLine(context, [[x, bar - 7], [x, bar + 7]], { colour, width: 5 });
      drawDot(context, box.x(reach), box.share(least[gap.indexOf(reach)]), 5, colour);
    }
  });
}

const nearest = (stops, value) => stops.reduce((a, b) => (Math.abs(b - value) < Math.abs(a - value) ? b : a));

function barAt(x, y, state, width, data) {
  const { share, top, bottom } = boxOf(state, width, data);
  const value = 1 - ((1 - LOWEST) * (y - top)) / (bottom - top);
  return y > share(LOWEST) ? null : { ...state, enough: nearest(data.stops.enough, value) };
}

function barByKey(event, state, data) {
  const step = { ArrowDown: -1, ArrowUp: 1 }[event.key];
  const at = data.stops.enough.indexOf(state.enough) + step;
  return step && at in data.stops.enough ? { ...state, enough: data.stops.enough[at] } : null;
}

const farOf = (gap) => (gap < 0 ? "nowhere" : tickText(gap));

function summary(state, data) {
  const figure = memoryFigure(state, data);
  if (!figure.length) return "Tick a method.";
  const windows = figure.map(({ method, reach }) => `${method} ${farOf(reach)}`).join(", ");
  return `×${state.factor}, ${percent(state.enough)} of each passage remembered up to: ${windows}; promised ${tickText(data.window * state.factor)}.`;
}

function facts(state, data) {
  const figure = memoryFigure(state, data);
  const over = ({ gap, mean }) => mean[gap.indexOf(14_000)];
  const listed = (text) => figure.map((own) => `${own.method} ${text(own)}`).join(", ");
  return [
    ["that much once more, last at", listed(({ last }) => farOf(last))],
    ["new text over 14,000", `${listed((own) => `+${over(own).toFixed(2)}`)} nats`],
  ];
}

/** A toggle for each method; the factor and the bar are fields of their own. */
function change(state, control, value, data) {
  if (!(control in data.methods)) return { ...state, [control]: value };
  const chosen = data.order.methods.filter((name) => (name === control ? value : state.methods.includes(name)));
  return { ...state, methods: chosen };
}

export default widgetOf((data) => ({
  name: "loss_and_memory",
  title: "Share of a passage that SmolLM2 remembers, over the jump of positions, for several methods; below, what the jump adds to the loss of new text.",
  hint: "Against the jump, in positions. Thin: three passages; thick: the least of them. A dot marks how far all three stay above the bar, which a click or an arrow key moves. Below: three passages and their mean, above unscaled text without a jump.",
  specs: [
    { name: "enough", label: "how much is enough", format: percent },
    { name: "factor", label: "factor", kind: "select", options: data.stops.factor.map((factor) => [factor, `×${factor}`]) },
    ...data.order.methods.map((name) => ({
      name,
      label: name,
      kind: "toggle",
      read: (state) => state.methods.includes(name),
      enabled: (state) => setting(name, state) in data.settings,
    })),
  ],
  change,
  size: (state, width) => boxOf(state, width, data).below + FRAME.loss + FRAME.bottom,
  draw: drawMemory,
  summary,
  facts,
  factClasses: { "that much once more, last at": "wide", "new text over 14,000": "wide" },
  pick: { at: barAt, key: barByKey },
}));

export { barAt, barByKey, memoryFigure };
