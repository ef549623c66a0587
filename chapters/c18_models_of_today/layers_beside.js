// Two models, a bar for each layer, and which tokens of a text the last one sees in one layer of each.

const STRIP = { left: 8, right: 8, top: 30, height: 40, row: 66 };
const SIGHT = { top: 176, height: 26, row: 66 };
const KEY = 20; // a line of the legend
const legendColumns = (width) => (width < 500 ? 1 : 2);

const layersOf = (state, data) =>
  [state.model, state.other].map((name) => data.rows[name][Math.min(state.layer, data.rows[name].length - 1)]);

/** The parts of a text that its last token sees, [from, to, how]: 1 as it is, 0.5 in blocks or among chosen ones. */
function partsSeen(sees, tokens) {
  const words = sees.replaceAll(",", "").split(" ");
  if (!words[0]) return [];
  if (words[0] === "all") return [[0, tokens, 1]];
  if (words.at(-1) === "chosen") return [[0, tokens, 0.5]];
  const last = words[0] === "chunks" ? ((tokens - 1) % Number(words.at(-1))) + 1 : Number(words[0]);
  const start = Math.max(0, tokens - last);
  const parts = [[start, tokens, 1]];
  return words.includes("+") && start > 0 ? [[0, start, 0.5], ...parts] : parts;
}

const countOf = (parts) => parts.reduce((sum, [from, to]) => sum + to - from, 0);

/** Of all keys of all layers, the share that the last token sees. */
const shareSeen = (layers, tokens) =>
  layers.reduce((sum, one) => sum + countOf(partsSeen(one.sees, tokens)), 0) / (layers.length * tokens);

/** How many tokens have a part in the last one's answer in this layer, through it and those below. */
function reachThrough(layers, layer, tokens) {
  let first = tokens - 1;
  layers.slice(0, layer + 1).reverse().forEach(({ sees }) => {
    const parts = partsSeen(sees, first + 1);
    first = parts.length ? parts[0][0] : 0; // a state hands on everything
  });
  return tokens - first;
}

/** The kinds of layers of both models, in the order of the legend. */
const kindsOf = (state, data) =>
  data.order.looks.filter((kind) => [state.model, state.other].some((name) => data.rows[name].some((one) => one.kind === kind)));

/** What is drawn below: the parts seen, of both models. */
const seenFigure = (state, data) => layersOf(state, data).map((one) => partsSeen(one.sees, state.tokens));

const layerScale = (state, width, data) => {
  const most = Math.max(...[state.model, state.other].map((name) => data.rows[name].length));
  return { most, x: scaleOf([0, most], [STRIP.left, width - STRIP.right]) };
};

/** A bar for each layer, as high as the share of the text that its last token sees. */
function drawStrip(context, name, top, state, width, data) {
  drawText(context, name, STRIP.left, top, { weight: "bold" });
  const share = formatNumber(100 * shareSeen(data.rows[name], state.tokens));
  drawText(context, `${share} % of all keys`, width - STRIP.right, top, { px: 12, align: "right" });
  const { x } = layerScale(state, width, data);
  const bottom = top + 14 + STRIP.height;
  data.rows[name].forEach((layer, index) => {
    const colour = data.looks[layer.kind]?.[1] ?? STYLE.muted;
    const bar = (part, how) => {
      const height = Math.max(2, part * STRIP.height);
      context.fillStyle = tint(colour, how === 1 ? 1 : 0.45);
      context.fillRect(x(index) + 1, bottom - height, x(1) - x(0) - 2, height);
    };
    const parts = partsSeen(layer.sees, state.tokens);
    bar(countOf(parts) / state.tokens, 0.5); // paler: in blocks
    bar(countOf(parts.filter((part) => part[2] === 1)) / state.tokens, 1);
  });
  const at = Math.min(state.layer, data.rows[name].length - 1);
  context.strokeStyle = STYLE.ink;
  context.lineWidth = 2;
  context.strokeRect(x(at), top + 13, x(1) - x(0), STRIP.height + 2);
}

function drawLayers(context, state, width, data) {
  [state.model, state.other].forEach((name, row) => drawStrip(context, name, 12 + STRIP.row * row, state, width, data));
  const tokens = scaleOf([0, state.tokens], [STRIP.left, width - STRIP.right]);
  drawText(context, `seen by the last of ${tickText(state.tokens)} tokens, layer ${state.layer}`, STRIP.left, SIGHT.top - 22, { weight: "bold" });
  seenFigure(state, data).forEach((parts, row) => {
    const top = SIGHT.top + SIGHT.row * row;
    const one = layersOf(state, data)[row];
    const colour = data.looks[one.kind]?.[1] ?? STYLE.muted;
    drawText(context, `${[state.model, state.other][row]}: ${wordsOf(one)}`, STRIP.left, top, { px: 12 });
    context.fillStyle = STYLE.rule;
    context.fillRect(STRIP.left, top + 12, width - STRIP.left - STRIP.right, SIGHT.height);
    parts.forEach(([from, to, how]) => {
      const wide = Math.max(4, tokens(to) - tokens(from)); // one of many is seen too
      context.fillStyle = tint(colour, how === 1 ? 1 : 0.45);
      context.fillRect(tokens(to) - wide, top + 12, wide, SIGHT.height);
    });
    const count = `${tickText(countOf(parts))} of ${tickText(state.tokens)} tokens`;
    const reached = reachThrough(data.rows[[state.model, state.other][row]], state.layer, state.tokens);
    context.fillStyle = STYLE.ink;
    const wide = Math.max(4, tokens(reached) - STRIP.left);
    context.fillRect(tokens(state.tokens) - wide, top + 12 + SIGHT.height, wide, 3);
    drawText(context, `reached: ${tickText(reached)}`, STRIP.left, top + 12 + SIGHT.height + 11, { px: 12 });
    drawText(context, count, width - STRIP.right, top + 12 + SIGHT.height + 11, { px: 12, weight: "bold", align: "right" });
  });
  const columns = legendColumns(width);
  kindsOf(state, data).forEach((kind, at) => {
    const y = SIGHT.top + 2 * SIGHT.row + KEY * Math.floor(at / columns);
    const x = STRIP.left + (width / columns) * (at % columns);
    context.fillStyle = data.looks[kind][1];
    context.fillRect(x, y - 7, 14, 14);
    drawText(context, kind, x + 22, y, { px: 12 });
  });
}

/** What a layer is, with the tokens that it sees in place of the kind's own words for them. */
const wordsOf = ({ kind, sees }) => (sees ? `${kind.split(",")[0]}, sees ${sees}` : kind || "mixes no tokens");

/** A click on a strip chooses the layer. */
function layerAt(px, py, state, width, data) {
  if (py > SIGHT.top - 32) return null;
  const { x, most } = layerScale(state, width, data);
  const layer = Math.floor((px - x(0)) / (x(1) - x(0)));
  return { ...state, layer: Math.max(0, Math.min(most - 1, layer)) };
}

function layerByKey(event, state, data) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const layer = state.layer + step;
  return step && data.stops.layer.includes(layer) ? { ...state, layer } : null;
}

function summary(state, data) {
  const counts = seenFigure(state, data).map(countOf);
  const said = [state.model, state.other].map((name, i) => {
    const reached = tickText(reachThrough(data.rows[name], state.layer, state.tokens));
    return `${name} ${counts[i] === 0 ? "none" : tickText(counts[i])} (reached: ${reached})`;
  });
  return `In layer ${state.layer} the last of ${tickText(state.tokens)} tokens sees: ${said.join(", ")}.`;
}

function facts(state, data) {
  return layersOf(state, data).map((layer, i) => {
    const turn = layer.turn ? `${layer.turn} of ${layer.dim} dimensions turn, base ${layer.base}` : "nothing turns";
    return [[state.model, state.other][i], [turn, layer.besides].filter(Boolean).join("; ")];
  });
}

export default widgetOf((data) => ({
  name: "layers_beside",
  title: "Two models, a bar for each layer, as high as the share of a text that its last token sees there; below, which tokens.",
  hint: "Click a bar to choose the layer, or use the arrow keys. Paler: seen in blocks, or among chosen ones.",
  specs: [
    { name: "model", label: "model", kind: "select", options: data.models },
    { name: "other", label: "beside", kind: "select", options: data.models },
    { name: "layer", label: "layer" },
    { name: "tokens", label: "tokens" },
  ],
  size: (state, width, data) => SIGHT.top + 2 * SIGHT.row + KEY * Math.ceil(kindsOf(state, data).length / legendColumns(width)),
  draw: drawLayers,
  summary,
  facts,
  pick: { at: layerAt, key: layerByKey },
}));

export { layerAt, layerByKey, reachThrough, seenFigure, shareSeen };
