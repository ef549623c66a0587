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

/** Mean and biased variance of each batch: the sample and its neighbours. */
function batchStatistics(state, batch, data) {
  const drawn = normals(1000 * state.seed + batch, data.batches * (batch - 1));
  const result = { mean: [], variance: [] };
  for (let b = 0; b < data.batches; b++) {
    let sum = data.sample[0];
    for (let i = 0; i < batch - 1; i++) sum += state.loudness * drawn[b * (batch - 1) + i];
    const mean = sum / batch;
    let squares = (data.sample[0] - mean) ** 2;
    for (let i = 0; i < batch - 1; i++) squares += (state.loudness * drawn[b * (batch - 1) + i] - mean) ** 2;
    result.mean.push(mean);
    result.variance.push(squares / batch);
  }
  return result;
}

/** Running statistics after 0, 1, ... steps; a batch of one cannot be trained on and leaves them as they were. */
function runningStatistics(state, batch, { mean, variance }) {
  const running = { mean: [0], variance: [1] };
  const m = state.momentum;
  mean.forEach((mu, i) => {
    const [lastMean, lastVariance] = [running.mean[i], running.variance[i]];
    const unbiased = batch === 1 ? lastVariance : (variance[i] * batch) / (batch - 1);
    running.mean.push((1 - m) * lastMean + m * (batch === 1 ? lastMean : mu));
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
    if (batch === 1 && state.mode === "train") outputs[batch] = [];
  }
  const average = data.sample.reduce((a, b) => a + b, 0) / data.sample.length;
  const variance = data.sample.reduce((a, b) => a + (b - average) ** 2, 0) / data.sample.length;
  return {
    outputs,
    running,
    // nothing is trained on a batch of one
    expectedMean: state.batch === 1 ? null : x / state.batch,
    expectedVariance: state.batch === 1 ? null : state.loudness ** 2 + (x ** 2 - state.loudness ** 2) / state.batch,
    layerNorm: (x - average) / Math.sqrt(variance + data.eps),
  };
});
