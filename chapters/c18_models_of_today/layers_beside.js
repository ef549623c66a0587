// Two models, a bar for each layer, and which tokens of a text the last one sees in one layer of each.

const STRIP = { left: 8, right: 8, top: 30, height: 40, row: 70 };
const SIGHT = { top: 182, height: 24, row: 74 };
const KEY = 20; // a line of the legend
const legendColumns = (width) => (width < 500 ? 1 : 2);

const lastOf = (name, data) => data.rows[name].length - 1;

const layersOf = (state, data) =>
  [state.model, state.other].map((name) => data.rows[name][Math.min(state.layer, lastOf(name, data))]);

/** Which layer is shown, as far as one of the models has so many. */
const layerShown = (state, data) =>
  Math.min(state.layer, Math.max(...[state.model, state.other].map((name) => lastOf(name, data))));

/** Of a model that has fewer layers: which of its own is shown. */
const itsLast = (name, state, data) => (state.layer > lastOf(name, data) ? `layer ${lastOf(name, data)}, its last` : "");

/** How many tokens the chosen ones, or the chosen blocks, are at most. */
function mostChosen(words) {
  const size = words.at(-1) === "chosen" ? 1 : Number(words.at(-1));
  return Number(words[words.indexOf("chosen") - 1]) * size;
}

/** The parts of a text that its last token sees, [from, to, how, count]: how is 1 as it is, 0.5 in blocks, 0.25 where
 * some are chosen; count is how many, at most. */
function partsSeen(sees, tokens) {
  const words = sees.replaceAll(",", "").split(" ");
  const part = (from, to, how, most = tokens) => (to > from ? [[from, to, how, Math.min(to - from, most)]] : []);
  if (!words[0]) return [];
  if (words[0] === "all") return part(0, tokens, 1);
  const most = words.includes("chosen") ? mostChosen(words) : tokens;
  if (words.at(-1) === "chosen") return part(0, tokens, tokens > most ? 0.25 : 1, most);
  const last = words[0] === "chunks" ? ((tokens - 1) % Number(words.at(-1))) + 1 : Number(words[0]);
  const start = Math.max(0, tokens - last);
  const rest = words.includes("+") ? part(0, start, start > most ? 0.25 : 0.5, most) : [];
  return [...rest, ...part(start, tokens, 1)];
}

const countOf = (parts) => parts.reduce((sum, [, , , count]) => sum + count, 0);

const someChosen = (parts) => parts.some(([, , how]) => how === 0.25);

/** Of all keys of all layers, the share that the last token sees, at most. */
const shareSeen = (layers, tokens) =>
  layers.reduce((sum, one) => sum + countOf(partsSeen(one.sees, tokens)), 0) / (layers.length * tokens);

/** How many tokens have a part in the last one's answer in this layer, through it and those below. */
function reachThrough(layers, layer, tokens) {
  let first = tokens - 1;
  layers.slice(0, layer + 1).reverse().forEach(({ sees }) => {
    const parts = partsSeen(sees, first + 1);
    first = parts.length ? parts[0][0] : 0; // a state passes everything on
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
  const most = data.rows[name].some((one) => someChosen(partsSeen(one.sees, state.tokens))) ? "at most " : "";
  drawText(context, `${most}${share} % of all keys`, width - STRIP.right, top, { px: 12, align: "right" });
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
    bar(countOf(parts) / state.tokens, 0.5); // paler: in blocks, or chosen
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
  drawText(context, `seen by the last of ${tickText(state.tokens)} tokens, layer ${layerShown(state, data)}`, STRIP.left, SIGHT.top - 22, { weight: "bold" });
  seenFigure(state, data).forEach((parts, row) => {
    const top = SIGHT.top + SIGHT.row * row;
    const one = layersOf(state, data)[row];
    const name = [state.model, state.other][row];
    const colour = data.looks[one.kind]?.[1] ?? STYLE.muted;
    context.fillStyle = STYLE.rule;
    context.fillRect(STRIP.left, top + 10, width - STRIP.left - STRIP.right, SIGHT.height);
    parts.forEach(([from, to, how]) => {
      const wide = Math.max(4, tokens(to) - tokens(from)); // one of many is seen too
      context.fillStyle = tint(colour, { 1: 1, 0.5: 0.45, 0.25: 0.2 }[how]);
      context.fillRect(tokens(to) - wide, top + 10, wide, SIGHT.height);
      if (how === 0.25) hatch(context, tokens(to) - wide, top + 10, wide, SIGHT.height, colour);
    });
    const reached = reachThrough(data.rows[name], state.layer, state.tokens);
    context.fillStyle = STYLE.ink;
    const wide = Math.max(4, tokens(reached) - STRIP.left);
    context.fillRect(tokens(state.tokens) - wide, top + 10 + SIGHT.height, wide, 3);
    const under = top + 10 + SIGHT.height + 13;
    drawText(context, name, STRIP.left, top, { px: 12, weight: "bold" });
    drawText(context, countText(one, state.tokens), width - STRIP.right, top, { px: 12, align: "right" });
    drawText(context, [itsLast(name, state, data), wordsOf(one)].filter(Boolean).join(": "), STRIP.left, under, { px: 12 });
    drawText(context, `reached: ${tickText(reached)}`, width - STRIP.right, under, { px: 12, align: "right" });
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

function wordsOf({ sees, besides }) {
  if (!sees) return besides === "a state" ? "no attention" : besides || "mixes no tokens";
  const window = /^[\d,]+$/.test(sees) ? `the last ${sees}` : sees;
  return `sees ${window.replace("chunks of", "its chunk of")}`;
}

/** How many tokens are seen in a layer, in words. */
function countText({ sees, besides }, tokens) {
  if (!sees && besides === "a state") return "carries a state: passes on all";
  const parts = partsSeen(sees, tokens);
  const whole = parts.filter(([, , how]) => how === 1);
  if (parts.some(([, , how]) => how === 0.5)) return `${tickText(countOf(whole))} tokens, the rest in blocks`;
  return `${someChosen(parts) ? "at most " : ""}${tickText(countOf(parts))} of ${tickText(tokens)} tokens`;
}

/** Slanted lines over a bar from which some tokens are chosen. */
function hatch(context, left, top, wide, height, colour) {
  context.save();
  context.beginPath();
  context.rect(left, top, wide, height);
  context.clip();
  for (let x = left - height; x < left + wide; x += 8) drawLine(context, [[x, top + height], [x + height, top]], { colour });
  context.restore();
}

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
  const said = layersOf(state, data).map((one, i) => {
    const name = [state.model, state.other][i];
    const reached = tickText(reachThrough(data.rows[name], state.layer, state.tokens));
    const own = [itsLast(name, state, data), countText(one, state.tokens)].filter(Boolean).join(": ");
    return `${name}, ${own} (reached: ${reached})`;
  });
  return `What the last token sees in layer ${layerShown(state, data)}: ${said.join("; ")}.`;
}

function facts(state, data) {
  return layersOf(state, data).map((layer, i) => {
    const turn = layer.turn ? `${layer.turn} of ${layer.dim} dimensions turn, base ${layer.base}` : "nothing turns";
    const name = [state.model, state.other][i];
    return [[name, itsLast(name, state, data)].filter(Boolean).join(", "), [turn, layer.besides].filter(Boolean).join("; ")];
  });
}

export default widgetOf((data) => ({
  name: "layers_beside",
  title: "Two models, a bar for each layer, as high as the share of a text that its last token sees there; below, which tokens.",
  hint: "Click a bar to choose the layer, or use the arrow keys. Paler: seen in blocks. Hatched: some of these are chosen, and the count says how many at most.",
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

export { layerAt, layerByKey, reachThrough, seenFigure, shareSeen, summary };
