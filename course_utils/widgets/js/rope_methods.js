// RoPE's frequencies under every way of scaling them, as course_utils.rope has them (with formulas and sources there);
// tests hold the two against each other. f_k = base^(-2k/dim) is the trained frequency of pair k.

const frequenciesOf = (dim, base) => Array.from({ length: Math.ceil(dim / 2) }, (_, k) => base ** ((-2 * k) / dim));
const turnsOf = (frequency, length) => (frequency * length) / (2 * Math.PI);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
/** Each pair keeps a share of its frequency; the rest is divided by the factor. */
const blend = (frequencies, kept, factor) => frequencies.map((f, k) => kept[k] * f + ((1 - kept[k]) * f) / factor);

/** The ramp that the YaRN paper prints: straight in the number of turns, a step where alpha is beta. */
const rampByTurns = (frequencies, window, alpha, beta) =>
  frequencies.map((f) => {
    const turns = turnsOf(f, window);
    return alpha === beta ? Number(turns >= alpha) : clamp((turns - alpha) / (beta - alpha), 0, 1);
  });

function yarnTemperature(keys) {
  const m = (weight) => 0.1 * weight * Math.log(keys.factor) + 1;
  const isPair = keys.mscale && keys.mscale_all_dim;
  return keys.attention_factor ?? (isPair ? m(keys.mscale) / m(keys.mscale_all_dim) : m(1));
}

// rope_type -> (dim, base, keys, length) -> [frequencies, attention factor]; the keys are those of config.json
const ROPE_METHODS = {
  default: (dim, base) => [frequenciesOf(dim, base), 1],
  linear: (dim, base, { factor }) => [frequenciesOf(dim, base).map((f) => f / factor), 1],
  ntk(dim, base, { factor }) {
    if (dim <= 2) throw new Error("the rotary dimension must be above 2 for NTK-aware scaling");
    return [frequenciesOf(dim, base * factor ** (dim / (dim - 2))), 1];
  },
  dynamic(dim, base, { factor, max_position_embeddings: window }, length) {
    return ROPE_METHODS.ntk(dim, base, { factor: (factor * Math.max(length, window)) / window - (factor - 1) });
  },
  yarn(dim, base, keys) {
    const { beta_fast: fast = 32, beta_slow: slow = 1, truncate = true, original_max_position_embeddings: window } = keys;
    const pairOf = (turns) => (dim * Math.log(window / (2 * Math.PI * turns))) / (2 * Math.log(base));
    let [low, high] = [pairOf(fast), pairOf(slow)];
    if (truncate) [low, high] = [Math.floor(low), Math.ceil(high)];
    [low, high] = [Math.max(low, 0), Math.min(high, dim - 1)];
    if (low === high) high += 0.001;
    const frequencies = frequenciesOf(dim, base);
    const kept = frequencies.map((_, k) => 1 - clamp((k - low) / (high - low), 0, 1));
    return [blend(frequencies, kept, keys.factor), yarnTemperature(keys)];
  },
  yarn_paper(dim, base, keys) {
    const frequencies = frequenciesOf(dim, base);
    const kept = rampByTurns(frequencies, keys.original_max_position_embeddings, 1, 32);
    return [blend(frequencies, kept, keys.factor), yarnTemperature(keys)];
  },
  llama3(dim, base, keys) {
    const frequencies = frequenciesOf(dim, base);
    const { low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: window } = keys;
    return [blend(frequencies, rampByTurns(frequencies, window, low, high), keys.factor), 1];
  },
  longrope(dim, base, keys, length) {
    const window = keys.original_max_position_embeddings;
    const isLong = length > window;
    const scaled = frequenciesOf(dim, base).map((f, k) => f / (isLong ? keys.long_factor : keys.short_factor)[k]);
    const factor = keys.factor ?? keys.max_position_embeddings / window;
    const own = (isLong ? keys.long_mscale : keys.short_mscale) ?? keys.attention_factor;
    return [scaled, own ?? Math.sqrt(1 + Math.log(factor) / Math.log(window))];
  },
  proportional(dim, base, { factor = 1, partial_rotary_factor: share = 1 }) {
    const turning = Math.floor((share * dim) / 2);
    return [frequenciesOf(dim, base).map((f, k) => (k < turning ? f / factor : 0)), 1];
  },
};

/** The frequencies that a reading { rope_type, dim, base, keys, new_base? } asks for, and its attention factor. */
const frequenciesUnder = ({ rope_type: type, dim, base, keys, new_base: changed }, length) =>
  ROPE_METHODS[type](dim, changed ?? base, keys, length);

/** The frequencies of the same head before it was scaled. */
const trainedFrequencies = ({ rope_type: type, dim, base, keys }) =>
  type === "proportional"
    ? ROPE_METHODS.proportional(dim, base, { partial_rotary_factor: keys.partial_rotary_factor })[0]
    : frequenciesOf(dim, base);

/**
 * What a pasted text says, read without a kernel: today's keys as they are, of the first type of layers. With one,
 * transformers reads it. `required` are the keys that each rope_type cannot do without.
 */
function readPlainly(text, sizes, required) {
  let contents = parsed(text.trim());
  const part = ["thinker_config", "text_config", "llm_config", "language_config"].find((name) => contents[name]);
  if (part) contents = contents[part];
  const remarks = ["read without a kernel: today's keys as they are"];
  const sizeOf = (name) => {
    if (contents[name]) return contents[name];
    remarks.push(`${name}=${sizes[name]}, where the text gives none`);
    return sizes[name];
  };
  const { hidden_size: hidden, num_attention_heads: heads } = contents;
  const headDim = contents.head_dim ?? (hidden && heads ? Math.floor(hidden / heads) : sizeOf("head_dim"));
  let inside = contents.rope_parameters ?? contents.rope_scaling ?? {};
  const layers = Object.entries(inside).filter(([, value]) => value?.constructor === Object);
  if (layers.length) {
    const [name, layer] = layers.find(([type]) => type === "full_attention") ?? layers[0];
    remarks.push(`shown are the layers of type ${name}, of ${layers.map(([type]) => type).join(", ")}`);
    inside = layer;
  }
  const all = { ...contents, ...inside };
  const type = inside.rope_type ?? inside.type ?? "default";
  if (!(type in required)) throw new Error(`rope_type must be one of ${Object.keys(required).join(", ")}: got ${type}`);
  const window = sizeOf("max_position_embeddings");
  const keys = { original_max_position_embeddings: window, ...all, max_position_embeddings: window };
  for (const key of required[type])
    if (keys[key] === undefined) throw new Error(`${key} must be given for rope_type=${type}: got none`);
  const share = all.partial_rotary_factor ?? 1;
  const dim = type === "proportional" ? headDim : Math.trunc(headDim * share);
  const trained = type === "dynamic" || type === "default" ? window : keys.original_max_position_embeddings;
  const factor = all.factor ?? (type === "longrope" ? window / trained : 1);
  return { rope_type: type, dim, head_dim: headDim, base: all.rope_theta ?? 10000, keys, window: trained, factor, remarks };
}

/** The JSON object in a text, which may lack its braces: a few lines out of the middle of a file. */
function parsed(text) {
  let contents;
  try {
    contents = JSON.parse(text);
  } catch (error) {
    if (text.startsWith("{")) throw new Error(`This is not JSON: ${error.message}`);
    return parsed(`{${text.replace(/,$/, "")}}`);
  }
  if (contents?.constructor !== Object) throw new Error(`This must be a JSON object: got ${text.slice(0, 80)}`);
  return contents;
}
