// Two models, a bar for each layer, and which tokens of a text the last one sees in one layer of each.

const STRIP = { left: 8, right: 8, top: 30, height: 40, row: 66 };
const SIGHT = { top: 176, height: 26, row: 62 };

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

/** What is drawn below: the parts seen, of both models. */
const seenFigure = (state, data) => layersOf(state, data).map((one) => partsSeen(one.sees, state.tokens));

const layerScale = (state, width, data) => {
  const most = Math.max(...[state.model, state.other].map((name) => data.rows[name].length));
  return { most, x: scaleOf([0, most], [STRIP.left, width - STRIP.right]) };
};

function drawStrip(context, name, top, state, width, data) {
  drawText(context, name, STRIP.left, top, { weight: "bold" });
  const { x } = layerScale(state, width, data);
  const middle = top + 14 + STRIP.height / 2;
  data.rows[name].forEach((layer, index) => {
    const [height, colour] = data.looks[layer.kind] ?? [0.05, STYLE.muted];
    context.fillStyle = colour;
    context.fillRect(x(index) + 1, middle - (height * STRIP.height) / 2, x(1) - x(0) - 2, height * STRIP.height);
  });
  const at = Math.min(state.layer, data.rows[name].length - 1);
  context.strokeStyle = STYLE.ink;
  context.lineWidth = 2;
  context.strokeRect(x(at), top + 13, x(1) - x(0), STRIP.height + 2);
}

function drawLayers(context, state, width, data) {
  [state.model, state.other].forEach((name, row) => drawStrip(context, name, 12 + STRIP.row * row, state, width, data));
  const tokens = scaleOf([0, state.tokens], [STRIP.left, width - STRIP.right]);
  drawText(context, `what the last of ${tickText(state.tokens)} tokens sees in layer ${state.layer}`, STRIP.left, SIGHT.top - 22, { weight: "bold" });
  seenFigure(state, data).forEach((parts, row) => {
    const top = SIGHT.top + SIGHT.row * row;
    drawText(context, `${[state.model, state.other][row]}: ${wordsOf(layersOf(state, data)[row])}`, STRIP.left, top, { px: 12 });
    context.fillStyle = STYLE.rule;
    context.fillRect(STRIP.left, top + 12, width - STRIP.left - STRIP.right, SIGHT.height);
    parts.forEach(([from, to, how]) => {
      context.fillStyle = tint(STYLE.palette[0], how === 1 ? 1 : 0.45);
      context.fillRect(tokens(from), top + 12, Math.max(2, tokens(to) - tokens(from)), SIGHT.height);
    });
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

const countOf = (parts) => parts.reduce((sum, [from, to]) => sum + to - from, 0);

function summary(state, data) {
  const counts = seenFigure(state, data).map(countOf);
  const said = [state.model, state.other].map((name, i) => `${name} ${counts[i] === 0 ? "none" : tickText(counts[i])}`);
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
  title: "Two models, a bar for each layer; and which tokens of a text the last one sees in one layer of each.",
  hint: "Blue: rotates and sees all. Light blue, low: rotates, sees a window or chunk. Orange: no positions. Green: a state. Pink: rotates, sees near tokens and blocks. Click a bar to choose the layer, or use the arrow keys.",
  specs: [
    { name: "model", label: "model", kind: "select", options: data.models },
    { name: "other", label: "beside", kind: "select", options: data.models },
    { name: "layer", label: "layer" },
    { name: "tokens", label: "tokens" },
  ],
  size: () => SIGHT.top + 2 * SIGHT.row - 6,
  draw: drawLayers,
  summary,
  facts,
  pick: { at: layerAt, key: layerByKey },
}));

export { layerAt, layerByKey, seenFigure };
