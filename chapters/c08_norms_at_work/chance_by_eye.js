// Two arms with few seeds: one comparison as dots, and how often each rule calls such a comparison a finding, for
// every number of seeds.

let known = { key: "", runs: null }; // only a new draw and another true difference or share change the runs

/** The runs of both arms: [arm][comparison][seed]. */
function runsOf({ seed, shared, difference }, { comparisons, most }) {
  const key = [seed, shared, difference].join();
  if (known.key === key) return known.runs;
  const size = comparisons * most;
  const drawn = normals(1000 * seed + 8, 3 * size);
  const [common, own] = [Math.sqrt(Math.abs(shared)), Math.sqrt(1 - Math.abs(shared))];
  const signs = [1, shared < 0 ? -1 : 1]; // below zero, what lifts one arm lowers the other
  const arm = (place) => (row) =>
    Array.from({ length: most }, (_, k) => {
      const at = row * most + k;
      return signs[place] * common * drawn[at] + own * drawn[(place + 1) * size + at] + place * difference;
    });
  const rows = Array.from({ length: comparisons }, (_, row) => row);
  known = { key, runs: [rows.map(arm(0)), rows.map(arm(1))] };
  return known.runs;
}

/** Mean and variance (n − 1) of the first n values. */
function momentsOf(values, n) {
  const few = values.slice(0, n);
  const mean = sumUp(few) / n;
  return { mean, variance: sumSquares(few.map((value) => value - mean)) / (n - 1) };
}

/** Which rules call this comparison a finding. */
function verdicts(one, other, n, needed) {
  const [a, b] = [momentsOf(one, n), momentsOf(other, n)];
  const apart = momentsOf(
    one.map((value, k) => other[k] - value),
    n,
  );
  const spread = Math.sqrt((a.variance + b.variance) / 2);
  const difference = Math.abs(apart.mean);
  const [runs, others] = [one.slice(0, n), other.slice(0, n)];
  return {
    eye: difference > spread,
    overlap: Math.min(...runs) > Math.max(...others) || Math.min(...others) > Math.max(...runs),
    unpaired: difference > needed[2 * n - 1] * spread * Math.sqrt(2 / n),
    paired: difference > needed[n] * Math.sqrt(apart.variance / n),
  };
}

/** Everything the picture shows. */
function chanceFigure(state, data) {
  const [one, other] = runsOf(state, data);
  const rules = data.order.rules;
  const shares = Object.fromEntries(rules.map((rule) => [rule, []]));
  for (const n of data.stops.seeds) {
    const found = one.map((runs, row) => verdicts(runs, other[row], n, data.needed));
    for (const rule of rules) shares[rule].push(found.filter((each) => each[rule]).length / found.length);
  }
  const x = [one[0], other[0]].map((runs) => runs.slice(0, state.seeds));
  return { x, shares, verdicts: verdicts(one[0], other[0], state.seeds, data.needed) };
}

// --- the picture ---

const PANEL = { left: 46, top: 46, height: 230, bottom: 42, key: 76, between: 26 };
const RULE_LOOKS = { eye: [0, []], overlap: [3, [10, 3, 2, 3]], unpaired: [1, [7, 4]], paired: [2, [2, 3]] };

/** The dots and the curves: side by side where there is room, else one above the other. */
function panels(width) {
  const isStacked = width < 560;
  const first = isStacked ? width : width * 0.36;
  const full = PANEL.top + PANEL.height + PANEL.bottom;
  const [x, y] = isStacked ? [0, full + 18] : [first + PANEL.between, 0];
  const box = (left, right, top) => ({ left, right, top, bottom: top + PANEL.height });
  return {
    strip: box(PANEL.left, first - 10, PANEL.top),
    curves: box(x + PANEL.left, width - 12, y + PANEL.top),
    height: y + full + PANEL.key,
  };
}

function drawStrip(context, box, runs, isFinding) {
  const scale = scaleOf([-4, 5], [box.bottom, box.top]);
  const name = "one comparison, runs in σ";
  drawVerticalAxis(context, { scale, ticks: [-4, -2, 0, 2, 4], left: box.left, right: box.right, top: box.top - 26, name });
  const placeOf = (arm) => box.left + ((arm + 0.5) * (box.right - box.left)) / 2;
  runs[0].forEach((value, k) => {
    const pair = [[placeOf(0), scale(value)], [placeOf(1), scale(runs[1][k])]];
    drawLine(context, pair, { colour: STYLE.muted }); // two runs with the same seed
  });
  runs.forEach((values, arm) => {
    const x = placeOf(arm);
    const colour = STYLE.palette[arm];
    context.fillStyle = colour;
    for (const value of values) {
      context.beginPath();
      if (arm) context.rect(x - 4, scale(value) - 4, 8, 8);
      else context.arc(x, scale(value), 4.5, 0, 2 * Math.PI);
      context.fill();
    }
    const level = scale(sumUp(values) / values.length);
    drawLine(context, [[x - 22, level], [x + 22, level]], { colour, width: 3 });
    drawText(context, arm ? "arm B" : "arm A", x, box.bottom + 14, { align: "center", colour });
  });
  ["eye", "paired"].forEach((rule, line) => {
    const words = `${rule === "eye" ? "one spread" : "paired"}: ${isFinding[rule] ? "a finding" : "no finding"}`;
    drawText(context, words, box.left, box.bottom + 33 + 16 * line, { px: 12, weight: "bold" });
  });
}

function drawCurves(context, box, state, figure, data) {
  const { seeds } = data.stops;
  const scale = scaleOf([0, 1], [box.bottom, box.top]);
  const across = scaleOf([Math.log(seeds[0]), Math.log(seeds.at(-1))], [box.left + 8, box.right - 8]);
  const name = state.difference ? "share of true findings" : "share of false findings";
  drawVerticalAxis(context, { scale, ticks: [0, 0.25, 0.5, 0.75, 1], left: box.left, right: box.right, top: box.top - 26, name });
  const here = across(Math.log(state.seeds));
  drawLine(context, [[here, box.top], [here, box.bottom]], { colour: STYLE.muted, width: 1.5 });
  for (const n of seeds)
    drawText(context, String(n), across(Math.log(n)), box.bottom + 14, {
      px: 12,
      align: "center",
      weight: n === state.seeds ? "bold" : "normal",
    });
  drawText(context, "seeds of each arm", (box.left + box.right) / 2, box.bottom + 33, { align: "center" });
  data.order.rules.forEach((rule, line) => {
    const [place, dash] = RULE_LOOKS[rule];
    const look = { colour: STYLE.palette[place], width: 2.5, dash };
    const points = seeds.map((n, i) => [across(Math.log(n)), scale(figure.shares[rule][i])]);
    drawLine(context, points, look);
    drawKey(context, data.rules[rule], box.right, box.bottom + 58 + 18 * line, look);
  });
}

function drawChance(context, state, width, data) {
  const figure = chanceFigure(state, data);
  const { strip, curves } = panels(width);
  drawStrip(context, strip, figure.x, figure.verdicts);
  drawCurves(context, curves, state, figure, data);
}

const shareAt = (state, data, rule) => chanceFigure(state, data).shares[rule][data.stops.seeds.indexOf(state.seeds)];
const percent = (share) => `${Math.round(100 * share)} %`.replace("-", "−");

function summary(state, data) {
  const truth = state.difference ? `The arms are ${tickText(state.difference)} σ apart` : "The arms do not differ";
  return `${truth}. One spread apart are ${percent(shareAt(state, data, "eye"))} of such comparisons, and paired standard errors call ${percent(shareAt(state, data, "paired"))} a finding.`;
}

const facts = (state, data) =>
  data.order.rules.map((rule) => [data.rules[rule], percent(shareAt(state, data, rule))]);

export default widgetOf((data) => ({
  name: "chance_by_eye",
  title: "Two arms with few seeds, and how often each rule calls such a comparison a finding.",
  hint: `Dots: the first of ${data.comparisons} comparisons, bars their means, lines join runs with the same seed. σ is the standard deviation of a run; the shared part is what both arms owe to the seed; below zero, what lifts one arm lowers the other.`,
  specs: [
    { name: "seeds", label: "seeds" },
    { name: "difference", label: "true difference, σ" },
    { name: "shared", label: "shared by the seed", format: percent },
  ],
  reseed: "new runs",
  size: (state, width) => panels(width).height,
  draw: drawChance,
  summary,
  facts,
}));

export { chanceFigure };
