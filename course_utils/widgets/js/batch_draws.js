// One sample in batches whose other samples are drawn anew: its outputs, and the running statistics left behind.

/** mulberry32 (Tommy Ettinger, public domain), a counter and a hash: uniform numbers in [0, 1). */
function uniforms(seed) {
  let counter = seed | 0;
  return () => {
    counter = (counter + 0x6d2b79f5) | 0;
    let mixed = Math.imul(counter ^ (counter >>> 15), counter | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Standard normal numbers by Box and Muller's method. */
function normals(seed, count) {
  const uniform = uniforms(seed);
  const drawn = new Float64Array(count + (count % 2));
  for (let i = 0; i < drawn.length; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - uniform()));
    const angle = 2 * Math.PI * uniform();
    drawn[i] = radius * Math.cos(angle);
    drawn[i + 1] = radius * Math.sin(angle);
  }
  return drawn.subarray(0, count);
}

/** How the sample's pixels differ from its first: the same in each of its channels. */
const ownPixels = (pixels) => [0, ...normals(OWN_SEED, pixels - 1)];
const OWN_SEED = 77;

const sumUp = (values) => values.reduce((a, b) => a + b, 0);
const sumSquares = (values) => sumUp(values.map((value) => value * value));

/** For each batch the sum of its neighbours' numbers before loudness, and of their squares. */
function neighbourSums(seed, batch, pixels, batches) {
  const count = (batch - 1) * pixels;
  const drawn = normals(1000 * seed + batch, batches * count);
  const [sums, squares] = [new Float64Array(batches), new Float64Array(batches)];
  for (let b = 0, at = 0; b < batches; b++)
    for (let i = 0; i < count; i++, at++) {
      sums[b] += drawn[at];
      squares[b] += drawn[at] * drawn[at];
    }
  return { sums, squares };
}

let drawnAlready = { key: "", sums: {} }; // of all moves only another draw and other pixels draw anew

function sumsOf({ seed, pixels }, batch, batches) {
  const key = [seed, pixels, batches].join();
  if (drawnAlready.key !== key) drawnAlready = { key, sums: {} };
  drawnAlready.sums[batch] ??= neighbourSums(seed, batch, pixels, batches);
  return drawnAlready.sums[batch];
}

/** Mean and biased variance of each batch: the sample and its neighbours, all their pixels. */
function batchStatistics(state, batch, data) {
  const { sums, squares } = sumsOf(state, batch, data.batches);
  const own = ownPixels(state.pixels).map((aside) => data.sample[0] + aside);
  const [size, others] = [batch * state.pixels, (batch - 1) * state.pixels];
  const result = { mean: [], variance: [] };
  for (let b = 0; b < data.batches; b++) {
    const [sum, square] = [state.loudness * sums[b], state.loudness ** 2 * squares[b]];
    const mean = (sumUp(own) + sum) / size;
    const apart = sumSquares(own.map((value) => value - mean)) + square - 2 * mean * sum + others * mean * mean;
    result.mean.push(mean);
    result.variance.push(apart / size);
  }
  return result;
}

/** Running statistics after 0, 1, ... steps; a single number cannot be trained on and leaves them as they were. */
function runningStatistics(state, batch, { mean, variance }) {
  const running = { mean: [0], variance: [1] };
  const m = state.momentum;
  const size = batch * state.pixels;
  mean.forEach((mu, i) => {
    const [lastMean, lastVariance] = [running.mean[i], running.variance[i]];
    const unbiased = size === 1 ? lastVariance : (variance[i] * size) / (size - 1);
    running.mean.push((1 - m) * lastMean + m * (size === 1 ? lastMean : mu));
    running.variance.push((1 - m) * lastVariance + m * unbiased);
  });
  return running;
}

/** Keep the last result: picture, sentence and facts ask for the same state one after the other. */
function rememberLast(compute) {
  let [lastState, result] = [null, null];
  return (state, data) => {
    if (state !== lastState) [lastState, result] = [state, compute(state, data)];
    return result;
  };
}

/** Everything the picture shows. */
const neighbourFigure = rememberLast((state, data) => {
  const x = data.sample[0];
  const outputs = {};
  let running = null;
  for (const batch of data.stops.batch) {
    const statistics = batchStatistics(state, batch, data);
    const after = runningStatistics(state, batch, statistics);
    if (batch === state.batch) running = after;
    const [mu, v] = [after.mean[state.steps], after.variance[state.steps]];
    outputs[batch] = statistics.mean.map((mean, i) =>
      state.mode === "eval"
        ? (x - mu) / Math.sqrt(v + data.eps)
        : (x - mean) / Math.sqrt(statistics.variance[i] + data.eps),
    );
    if (batch * state.pixels === 1 && state.mode === "train") outputs[batch] = [];
  }
  const asides = ownPixels(state.pixels);
  const whole = data.sample.flatMap((value) => asides.map((aside) => value + aside)); // every channel, every pixel
  const average = sumUp(whole) / whole.length;
  const variance = sumSquares(whole.map((value) => value - average)) / whole.length;
  const own = asides.map((aside) => x + aside);
  const [size, others] = [state.batch * state.pixels, (state.batch - 1) * state.pixels];
  // of the unbiased variance: what is drawn counts by its own variance
  const squares = sumSquares(own) + others * state.loudness ** 2;
  const expectedSquare = (sumUp(own) ** 2 + others * state.loudness ** 2) / size; // of the sum, over the size
  return {
    outputs,
    running,
    // nothing is trained on a single number
    expectedMean: size === 1 ? null : sumUp(own) / size,
    expectedVariance: size === 1 ? null : (squares - expectedSquare) / (size - 1),
    layerNorm: (x - average) / Math.sqrt(variance + data.eps),
  };
});
