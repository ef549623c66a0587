// What SmolLM2 writes with a mistake in it, beside what it writes without, over how far each of its blocks is off.

const TILES = { left: 8, right: 8, title: 18, height: 30, gap: 5, between: 12, narrow: 72 };
const CHART = { left: 56, right: 12, top: 30, height: 136, bottom: 42, floor: 1e-8, highest: 1e3 };

/** Everything the picture shows. */
function brokenFigure(state, data) {
  const text = data.texts[state.mistake][Number(state.start)];
  const errors = data.errors[state.mistake];
  return { own: data.own[Number(state.start)], ...text, errors, differ: errors.filter((error) => error > data.tolerance).length };
}

/** Columns of the tiles, and the height of both texts: four in a row where eight are too narrow. */
function tilesOf(count, width) {
  const columns = (width - TILES.left - TILES.right) / count < TILES.narrow ? Math.ceil(count / 2) : count;
  const text = TILES.title + Math.ceil(count / columns) * (TILES.height + TILES.gap) + TILES.between;
  return { columns, text, pitch: (width - TILES.left - TILES.right) / columns };
}

const shownToken = (token) => token.replaceAll("\n", "⏎").trim() || "␣";

function drawTiles(context, tokens, same, title, top, { columns, pitch }) {
  drawText(context, title, TILES.left, top + 8, { px: 12, weight: "bold" });
  tokens.forEach((token, i) => {
    const x = TILES.left + (i % columns) * pitch;
    const y = top + TILES.title + Math.floor(i / columns) * (TILES.height + TILES.gap);
    context.fillStyle = i < same ? STYLE.paper : i === same ? STYLE.palette[4] : STYLE.rule;
    context.fillRect(x, y, pitch - TILES.gap, TILES.height);
    context.strokeStyle = i === same ? STYLE.ink : STYLE.rule;
    context.strokeRect(x + 0.5, y + 0.5, pitch - TILES.gap - 1, TILES.height - 1);
    const middle = [x + (pitch - TILES.gap) / 2, y + TILES.height / 2];
    const long = shownToken(token);
    drawText(context, long.length > 10 ? `${long.slice(0, 9)}…` : long, ...middle, { px: 12, align: "center" });
  });
}

function drawErrors(context, errors, top, width, { tolerance }) {
  const box = { left: CHART.left, right: width - CHART.right, top: top + CHART.top, bottom: top + CHART.top + CHART.height };
  const log = scaleOf([Math.log10(CHART.floor), Math.log10(CHART.highest)], [box.bottom, box.top]);
  const y = (error) => log(Math.log10(Math.max(error, CHART.floor)));
  const x = scaleOf([0, errors.length - 1], [box.left + 10, box.right - 10]);
  drawText(context, "error after each block, on a prompt", TILES.left, top + 10, { px: 12, weight: "bold" });
  for (const power of [-7, -5, -3, -1, 1, 3]) {
    const level = y(10 ** power);
    drawLine(context, [[box.left, level], [box.right, level]], { colour: STYLE.rule });
    drawText(context, power < -3 ? `1e−${-power}` : formatNumber(10 ** power), box.left - 6, level, { px: 12, align: "right" });
  }
  drawLine(context, [[box.left, y(tolerance)], [box.right, y(tolerance)]], { colour: STYLE.ink, dash: [4, 3] });
  drawText(context, "above: the layer differs", box.right, y(tolerance) - 9, { px: 12, align: "right" });
  errors.forEach((error, block) => {
    context.fillStyle = error > tolerance ? STYLE.palette[1] : STYLE.muted;
    context.beginPath();
    context.arc(x(block), y(error), 4, 0, 2 * Math.PI);
    context.fill();
    if (block % 5 === 0) drawText(context, String(block), x(block), box.bottom + 14, { px: 12, align: "center" });
  });
  drawText(context, "after block", (box.left + box.right) / 2, box.bottom + 31, { px: 12, align: "center" });
}

function drawBroken(context, state, width, data) {
  const { own, tokens, same, errors } = brokenFigure(state, data);
  const tiles = tilesOf(own.length, width);
  drawTiles(context, own, own.length, "as it came", 4, tiles);
  drawTiles(context, tokens, same, `with ${state.mistake}`, 4 + tiles.text, tiles);
  drawErrors(context, errors, 4 + 2 * tiles.text, width, data);
}

const firstOf = (state, data) => data.layers[state.mistake]?.replace("model.layers.", "");

function summary(state, data) {
  const { own, same, differ } = brokenFigure(state, data);
  const words = same === own.length ? `The same ${same} tokens` : `The first ${same} of ${own.length} tokens are the original's`;
  return `${words}; ${differ ? `${differ} of 30 blocks differ` : "no block differs on a prompt"}.`;
}

const facts = (state, data) => [
  ["first layer that differs", firstOf(state, data) ?? "none on a prompt"],
  ["loss of a passage", `${data.loss[state.mistake].toFixed(2)} nats, as it came ${data.loss["right parts"].toFixed(2)}`],
];

export default widgetOf((data) => ({
  name: "broken_llama",
  title: "Tokens that SmolLM2 writes without a mistake and with one, and the error after each of its blocks.",
  hint: "Recorded from the cells of this chapter. Filled: the first token that differs; grey: the tokens after it.",
  specs: [
    { name: "mistake", label: "mistake", kind: "select", options: choicesIn(data, "mistakes") },
    { name: "start", label: "start", kind: "select", options: choicesIn(data, "starts") },
  ],
  size: (state, width) => 4 + 2 * tilesOf(data.own[0].length, width).text + CHART.top + CHART.height + CHART.bottom,
  draw: drawBroken,
  summary,
  facts,
  factClasses: { "first layer that differs": "code" },
}));

export { brokenFigure };
