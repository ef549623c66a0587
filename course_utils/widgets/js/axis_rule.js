// Which elements share a statistic, and what follows from it. The rule comes from Python as data; it is worked out here
// too, so that no move waits for a kernel, and a test holds the two against each other.

/** Sizes of the tensor's axes, in order. */
const shapeOf = (state, data) => [...data.layouts[state.layout]].map((axis) => state.sizes[axis]);

const ruleOf = (state, data) => data.rules[state.norm][state.layout];

/** The number of every element's statistic, flattened, and how many there are; null where groups do not divide. */
function sharing(state, data) {
  const shape = shapeOf(state, data);
  const along = [...ruleOf(state, data).along];
  const blocks = along.map((letter, i) => ({ e: shape[i], a: 1, g: state.groups })[letter]);
  if (shape.some((size, i) => size % blocks[i])) return null;
  let groupOf = [0];
  shape.forEach((size, i) => {
    const perBlock = size / blocks[i];
    groupOf = groupOf.flatMap((group) =>
      Array.from({ length: size }, (_, index) => group * blocks[i] + Math.floor(index / perBlock)),
    );
  });
  const count = blocks.reduce((a, b) => a * b, 1);
  const statisticShape = along.flatMap((letter, i) => (letter === "g" ? [blocks[i], 1] : [blocks[i]]));
  return { groupOf, count, members: groupOf.length / count, statisticShape };
}

const tupleText = (shape) => (shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`);

/** The lines under the picture. */
function facts(state, data) {
  const rule = ruleOf(state, data);
  const shape = shapeOf(state, data);
  const sizes = { ...state.sizes, G: state.groups };
  const shared = sharing(state, data);
  const shapeText = (letters) => (letters === null ? "none" : tupleText(letters.split(" ").map((axis) => sizes[axis])));
  let [count, statistic] = ["impossible: the groups do not divide the channels", "–"];
  if (shared) {
    count = `${shared.count}, each over ${shared.members} ${shared.members === 1 ? "element" : "elements"}`;
    statistic = tupleText(shared.statisticShape);
    if (rule.along.includes("g")) {
      const split = shape.flatMap((size, i) => (rule.along[i] === "g" ? [state.groups, size / state.groups] : [size]));
      statistic += `, x seen as ${tupleText(split)}`;
    }
  }
  const centred = state.norm !== "rms";
  const buffer = shapeText(rule.buffers);
  return [
    ["x", `${tupleText(shape)}, ${shape.reduce((a, b) => a * b, 1)} elements`],
    ["statistics", count],
    ["mean", centred ? statistic : "none: RMS norm does not centre"],
    [centred ? "variance" : "mean square", statistic],
    ["weight", shapeText(rule.weight)],
    ["bias", shapeText(rule.bias)],
    ["running buffers", rule.buffers === null ? "none" : `running_mean ${buffer}, running_var ${buffer}`],
    ["in PyTorch", rule.line.replace(/\{(\w)\}/g, (_, letter) => sizes[letter])],
    ["note", rule.note],
  ];
}

/** The picked element's index in the tensor, and in the flattened tensor. */
function pickedIndex(state, data) {
  const index = [...data.layouts[state.layout]].map((axis) => state.picked[axis]);
  return { index, flat: shapeOf(state, data).reduce((flat, size, i) => flat * size + index[i], 0) };
}

/** The state after one control has moved; a picked element that has lost its place moves to the nearest one. */
function change(state, control, value) {
  const next = { ...state, sizes: { ...state.sizes }, picked: { ...state.picked } };
  if (control in next.sizes) next.sizes[control] = value;
  else next[control] = value;
  for (const axis of Object.keys(next.picked)) next.picked[axis] = Math.min(next.picked[axis], next.sizes[axis] - 1);
  return next;
}
