// Holds what an answer gave against what torch gave when the site was built, as course_utils.check does: the same words.
const AS_BAD = 30; // a rough probe's error may be this many times a known mistake's and still be of it
const CLEARLY_WRONG = 3; // times what is allowed: what a smaller input must show
const AGREEMENT = 2.5; // two ways to write one mistake are off by so many times what is allowed
const FAR_LESS = 10; // times: a wrong result so much nearer to another convention was meant to follow that one
const MOST_ELEMENTS = 16;
const LEAVE_VALUES = ["changes", "dtype"];
const HINTS = {
  NoneType: ". Is a return missing?",
  ellipsis: ": a ... is still to be filled in.",
  generator: ": a yield makes the function a generator.",
};

function numbers(text, Kind = Float64Array) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}
/** What the page's Python gave. */
const given = (text) => new Float64Array(Uint8Array.from(text.match(/../g) ?? [], (byte) => parseInt(byte, 16)).buffer);
/** What is right, or what a mistake gives; what need not be exact is stored in float32. */
const stored = (text, { absolute }) => Float64Array.from(numbers(text, absolute < 1e-7 ? Float64Array : Float32Array));
const rightOf = ({ values, exact }) => Float64Array.from(numbers(values, exact ? Float64Array : Float32Array));
const largestOf = (values) => values.reduce((most, v) => (Number.isFinite(v) ? Math.max(most, Math.abs(v)) : most), 0);
const shapeText = (shape) => (shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`);
const typeText = (name) => (name === "NoneType" ? "None" : `${"aeiou".includes(name[0]) ? "an" : "a"} ${name}`);

/** The largest error in units of what is allowed. */
function errorRatio(values, right, { relative, absolute }) {
  const scale = absolute * Math.max(largestOf(right), 1);
  let worst = 0;
  right.forEach((truth, i) => {
    if (values[i] === truth) return;
    const ratio = Math.abs(values[i] - truth) / (relative * Math.abs(truth) + scale);
    worst = Number.isNaN(ratio) ? Infinity : Math.max(worst, ratio);
  });
  return worst;
}

/** What one call showed: ratios and values by quantity, or a finding in their place, or beside them. */
function observe(exercise, { expected }, call, result) {
  const seen = { ratios: {}, values: {}, finding: null, printed: result.printed ?? [] };
  const find = (kind, what, message, quantity = "", due = "", came = "") => {
    seen.finding = { kind, what, message, quantity, due, came };
    return seen;
  };
  if (result.error) {
    const text = result.message.trim().replace(/\.$/, "");
    const said = text ? `${result.error}: ${text}` : result.error;
    const place = result.line ? ` (line ${result.line})` : "";
    return find("raises", result.error, `It raises ${said}${place}.`, "", "a result", said);
  }
  const isSeveral = ["tuple", "list"].includes(result.kind);
  const names = exercise.returns;
  if (isSeveral ? names.length === 1 || result.parts.length !== names.length : names.length > 1) {
    const came = typeText(result.kind) + (isSeveral && names.length > 1 ? ` of ${result.parts.length}` : "");
    const wanted = names.length > 1 ? `a tuple of ${names.length}: ${names.join(", ")}` : "a tensor";
    const hint = names.length > 1 ? "" : HINTS[result.kind] ?? "";
    return find("type", came, `It returns ${came}; expected ${wanted}${hint || "."}`, "", wanted, came);
  }
  for (const [i, name] of names.entries()) {
    const part = result.parts[i];
    const { shape, compared } = expected[name];
    const wantsNumber = shape.length === 0;
    if (typeof part === "string" || (part[0] === "" && !wantsNumber)) {
      const type = typeof part === "string" ? part : result.kind;
      const what = typeText(type) + (names.length > 1 ? ` for ${name}` : "");
      const wanted = `a ${wantsNumber ? "number" : "tensor"}`;
      return find("type", what, `It returns ${what}; expected ${wanted}${HINTS[type] ?? "."}`, name, wanted, typeText(type));
    }
    const values = given(part[2]);
    if (compared && String(part[1]) !== String(shape)) {
      const [came, due] = [part[1], shape].map(shapeText);
      const right = rightOf(expected[name]), near = 1e-3 * largestOf(right);
      const isRight = values.length === right.length && right.some(Boolean) && right.every((v, at) => Math.abs(values[at] - v) <= near);
      const message = `The ${name} has the shape ${came}; expected ${due}.${isRight ? " Its numbers are right." : ""}`;
      return find("shape", came, message, `shape of ${name}`, due, came);
    }
    seen.values[name] = values;
    if (compared) seen.ratios[name] = errorRatio(values, rightOf(expected[name]), expected[name]);
  }
  for (const [name, after] of Object.entries(result.changed)) {
    const message = `It changes its input ${name} in place; the caller still needs it.`;
    const before = call.arguments[name];
    const isTensor = before[0] === "tensor";
    const both = () => [{ shape: before[2], values: inOrder(before) }, { shape: after[0], values: given(after[1]) }];
    const values = isTensor ? both() : ["as it was", "changed"];
    return find("changes", name, message, `${name} after the call`, ...values);
  }
  for (const [i, name] of names.entries()) {
    const came = result.parts[i][0], due = expected[name].dtype;
    if (due && came && came !== due) return find("dtype", came, `The ${name} is ${came}; expected ${due}, as the input.`, `dtype of ${name}`, due, came);
  }
  return seen;
}

/** The values of an argument as its strides read them. */
function inOrder([, kind, shape, strides, text]) {
  let places = [0];
  shape.forEach((n, dim) => (places = places.flatMap((at) => Array.from({ length: n }, (_, i) => at + i * strides[dim]))));
  const memory = numbers(text, ["float64", "int64"].includes(kind) ? Float64Array : Float32Array);
  return Float64Array.from(places, (at) => memory[at]);
}

const worstOf = (ratios) => {
  const [name, ratio] = Object.entries(ratios).reduce((most, each) => (each[1] > most[1] ? each : most), ["", 0]);
  return ratio > 1 ? name : "";
};
const passed = (seen) => !seen.finding && !worstOf(seen.ratios);
const isLike = (finding, kind, what) => finding.kind === kind && (finding.what === what || kind === "shape");
const asRatio = (text) => (text === "inf" ? Infinity : text);

/** Whether an answer showed what a known mistake shows on the same probe: in its values alone, or also in those that a finding leaves. */
function agrees(seen, known, probe, expected, inValues = false, andValues = false) {
  const leavesValues = LEAVE_VALUES.includes(seen.finding?.kind);
  const finding = inValues && leavesValues ? null : seen.finding;
  if (finding || known.finding) {
    const isSameKind = Boolean(finding && known.finding) && finding.kind === known.finding[0] && finding.what === known.finding[1];
    if (!isSameKind || !andValues || !leavesValues) return isSameKind;
  }
  return Object.keys(expected).every((name) => {
    if (!expected[name].compared) return true;
    const ratio = seen.ratios[name], wrong = known.wrong[name];
    if (ratio === undefined) return false;
    if (ratio <= 1 || !wrong) return ratio <= 1 && !wrong;
    const other = asRatio(wrong[0]);
    if (probe.rough) return ratio <= AS_BAD * other && Number.isFinite(ratio) === Number.isFinite(other);
    return isSame(seen.values[name], wrong, expected[name]);
  });
}

/** Whether values are those of a known mistake, of which some are stored. */
function isSame(values, [, largest, text], { relative, absolute }) {
  const sample = typeof text === "string" ? stored(text, { absolute }) : text;
  return sample.every((other, i) => {
    const value = values[Math.floor((i * values.length) / sample.length)];
    if (value === other || (Number.isNaN(value) && Number.isNaN(other))) return true;
    const finite = Number.isFinite(other) ? Math.abs(other) : 0;
    return Math.abs(value - other) <= AGREEMENT * (relative * finite + absolute * Math.max(largest, 1));
  });
}

/** A sum that values in other places change, or letters of a finding, and how far off two ways to write one mistake may be; no number for an error. */
function sumOf(result, { finding }, { expected }) {
  if (result.error) return { sum: NaN };
  const letters = finding && !LEAVE_VALUES.includes(finding.kind) && Array.from(finding.kind + finding.what, (letter) => [letter.codePointAt(0), 0]);
  const numbersOf = ({ relative, absolute }, values, scale = Math.max(largestOf(values), 1)) => Array.from(values, (v) => [v, AGREEMENT * (relative * Math.abs(v) + absolute * scale)]);
  const both = letters || Object.values(expected).flatMap((each, i) => numbersOf(each, given(result.parts[i][2])));
  const weighted = (which) => both.reduce((sum, each, i) => sum + (i + 1) * each[which], 0);
  return { sum: weighted(0), off: weighted(1) };
}

const bitsOf = (text) => {
  const bytes = numbers(text, Uint8Array);
  return (n) => bytes[n >> 3] & (1 << (n & 7));
};

/** Any two mistakes that are tried and together may have given these results: their sums are the same. */
function alike({ edits, telling, twos, sums }, results, seen, right, isTried) {
  const slips = Object.entries(edits).flatMap(([key, forms]) => forms.map((_, form) => [key, form]));
  const pairs = slips.flatMap((first, i) => slips.slice(i + 1).map((second) => [first, second])).filter(([[a], [b]]) => a !== b);
  const isMade = bitsOf(twos);
  const due = numbers(sums, Float32Array), got = telling.map((i) => sumOf(results[i], seen[i], right[i]));
  const isAlike = ({ sum, off }, other) => (Number.isFinite(sum) ? Math.abs(sum - other) <= off + 1e-6 * Math.abs(sum) : !Number.isFinite(other));
  return pairs.filter((_, n) => isMade(n)).filter((_, n) => isTried(n) && got.every((each, k) => isAlike(each, due[n * got.length + k])));
}

/** The course's function with known mistakes in it. */
function withMistakes({ source, edits }, slips) {
  const spans = slips.flatMap(([key, form]) => edits[key][form]).sort(([a, b, x], [c, d, y]) => c - a || d - b || (x < y ? 1 : -1));
  return spans.reduce((text, [start, end, words]) => text.slice(0, start) + words + text.slice(end), source);
}

/** The known mistakes that explain what an answer showed, first what the first failed probe shows; and words where none does. */
class Diagnosis {
  constructor(exercise, { trial, seen }, words, same) {
    Object.assign(this, { exercise, trial, seen, words });
    this.candidates = [...trial.candidates, ...same];
    this.at = seen.findIndex((each) => !passed(each));
    this.isReached = bitsOf(trial.reached[exercise.probes[this.at].stage]);
    this.everyday = (key) => exercise.mistakes[key].everyday;
    this.order = Object.keys(exercise.mistakes).sort((a, b) => this.everyday(b) - this.everyday(a));
  }

  /** What a candidate shows on a probe: as it was run here, or as it is stored. */
  known({ rows, ran }, i) {
    return ran?.[i] ?? this.trial.tables[i][rows[i]];
  }

  alone(slip) {
    return this.candidates.find(({ slips }) => String(slips) === String([slip]));
  }

  agreesOn(candidate, i, inValues) {
    return agrees(this.seen[i], this.known(candidate, i), this.exercise.probes[i], this.trial.expected[i].expected, inValues, candidate.slips.length > 1);
  }

  /** Take what a candidate gave on a probe when it was run here; what cannot be run here stays as it is stored. */
  keep(candidate, i, result) {
    const { finding, ratios, values } = observe(this.exercise, this.trial.expected[i], this.exercise.probes[i], result);
    const wrong = Object.entries(ratios).filter(([, ratio]) => ratio > 1).map(([name, ratio]) => [name, [ratio, largestOf(values[name]), values[name]]]);
    candidate.ran ??= [];
    candidate.ran[i] = result.error === "NotHere" && candidate.rows ? this.known(candidate, i) : { finding: finding && [finding.kind, finding.what], wrong: Object.fromEntries(wrong) };
  }

  /** The probes on which a candidate agrees in the numbers that are stored, and there are more. */
  unsure(candidate) {
    const { edits, most } = this.exercise;
    if (!candidate?.slips.every(([key, form]) => edits[key][form])) return [];
    const isMore = ({ values }) => Object.values(values).some(({ length }) => length > most);
    return [...this.seen.keys()].filter((i) => !candidate.ran?.[i] && isMore(this.seen[i]) && Object.keys(this.known(candidate, i).wrong ?? {}).length && !this.exercise.probes[i].rough && this.agreesOn(candidate, i));
  }

  explanation() {
    const stages = [...new Set(this.exercise.probes.filter((_, i) => !passed(this.seen[i])).map((probe) => probe.stage))];
    let named = [], words = "", last = null;
    for (const stage of stages) {
      const leavesValues = this.exercise.probes.some((probe, i) => probe.stage === stage && LEAVE_VALUES.includes(this.seen[i].finding?.kind));
      let found = this.ofStage(stage, named, false);
      if (!found) {
        words ||= named.length ? "" : this.withoutCatalogue();
        if (leavesValues) found = this.ofStage(stage, named, true);
      }
      const alike = !found && !named.length && this.raisesAlike();
      if (alike) return { words: "", keys: [alike.slips[0][0]], last: null };
      if (!found) break;
      const before = named.map(([key]) => key);
      const added = found.slips.filter(([key]) => !before.includes(key));
      named = [...named, ...added.filter((slip) => this.isShown(slip)), ...added.filter((slip) => !this.isShown(slip))];
      if (leavesValues && added.some((slip) => this.isShown(slip))) words = "";
      last = found;
    }
    const isClear = last && this.seen.every((_, i) => this.agreesOn(last, i));
    const results = this.exercise.returns.filter((name) => this.seen.some((each) => !passed(each) && each.ratios[name] > 1));
    const plain = results.length < 2 && this.words.plain; // no work of several, nor of one and what is still unknown
    const factor = results.length < 2 && !named.every(([key]) => this.everyday(key)) && this.words.factor;
    const isPlain = !words && (named.length > 1 ? plain || factor : last && !isClear && plain);
    const told = isPlain ? { words: this.withoutCatalogue(), keys: [], last: null } : { words, keys: named.map(([key]) => key), last };
    return { ...told, isDone: isClear || plain };
  }

  /** The known mistake that alone raises where the answer raises the same, and nowhere else. */
  raisesAlike() {
    const errorIn = (finding) => (finding?.[0] === "raises" ? finding[1] : "");
    const all = this.seen.map(({ finding }) => errorIn(finding && [finding.kind, finding.what]));
    const errors = all.map((error) => (error === all[this.at] ? error : ""));
    if (!all[this.at] || errors.every(Boolean)) return undefined;
    return this.trial.candidates.find((each) => each.slips.length === 1 && errors.every((error, i) => error === errorIn(this.known(each, i).finding)));
  }

  /** The first candidate that shows the same in a stage; of single mistakes the one that does on most probes. */
  ofStage(stage, named, inValues) {
    const before = named.map(([key]) => key);
    const news = ({ slips }) => slips.length - before.length;
    const isTried = ({ rows }, n) => before.length || !rows || this.isReached(n);
    const possible = this.candidates.filter((each, n) => isTried(each, n) && before.every((key) => each.slips.some(([other]) => other === key)));
    const ordered = [0, 1, 2, 3].flatMap((count) => possible.filter((each) => news(each) === count));
    const first = ordered.find((each) => this.explains(each, stage, inValues));
    if (!first || news(first) !== 1) return first;
    const agreements = (candidate) => this.seen.filter((_, i) => this.agreesOn(candidate, i, inValues)).length;
    return ordered
      .filter((each) => news(each) === 1 && this.explains(each, stage, inValues))
      .reduce((best, each) => (agreements(each) > agreements(best) ? each : best));
  }

  explains(candidate, stage, inValues) {
    const { probes } = this.exercise;
    const here = probes.map((probe) => probe.stage === stage);
    if (inValues && !probes.some((probe, i) => here[i] && !probe.rough && worstOf(this.seen[i].ratios))) return false;
    const start = here.indexOf(true);
    return this.seen.every((each, i) => !(here[i] || i < start || passed(each)) || this.agreesOn(candidate, i, inValues));
  }

  /** Whether what ends the answer in a stage, if anything does, ends it with one of these slips alone. */
  isStoppedByOne(slips, stage) {
    const singles = slips.map((slip) => this.alone(slip)).filter(Boolean);
    return this.seen.every(({ finding }, i) => {
      const isEnded = this.exercise.probes[i].stage === stage && finding && !LEAVE_VALUES.includes(finding.kind);
      return !isEnded || singles.some((single) => this.agreesOn(single, i));
    });
  }

  /** Whether a mistake alone makes something wrong in the first wrong stage, and nothing in those before. */
  matters(key) {
    const { probes } = this.exercise, { stage } = probes[this.at];
    const firsts = probes.slice(0, this.at).filter((probe, i) => probe.stage !== stage && probe.stage !== probes[i - 1]?.stage);
    const isWrong = (single) => (probe) => {
      const { finding, wrong } = this.known(single, probes.indexOf(probe));
      return finding || Object.keys(wrong).length;
    };
    const singles = this.candidates.filter(({ slips }) => slips.length === 1 && slips[0][0] === key);
    return singles.some((single) => !firsts.some(isWrong(single)) && probes.filter((probe) => probe.stage === stage).some(isWrong(single)));
  }

  /** Any two mistakes that may explain it, those named among them, or one that is named alone, in the order in which course_utils.check tries them. */
  twos(results, named, last) {
    const keys = Object.keys(this.exercise.mistakes);
    const seen = named.length ? this.order : this.order.filter((key) => this.matters(key));
    const place = ([key]) => (seen.includes(key) ? seen.indexOf(key) : 1000 + keys.indexOf(key));
    const rank = ([first, second]) => (place(second) < 1000 ? 1000 * place(second) + place(first) : 1e6 + 1000 * place(first) + place(second));
    const { stage } = this.exercise.probes[this.at];
    // one alone first: this Python may round it otherwise than torch
    const ways = named.length === 1 ? this.exercise.edits[named[0]].map((_, form) => [[named[0], form]]) : [];
    const twos = alike(this.exercise, results, this.seen, this.trial.expected, (n) => named.length || this.isReached(this.trial.candidates.length + n))
      .filter((two) => named.length || this.isStoppedByOne(two, stage))
      .map((two) => two.sort((a, b) => place(a) - place(b)))
      .sort((a, b) => rank(a) - rank(b) || a[0][1] - b[0][1] || a[1][1] - b[1][1])
      .map((two) => [...(last?.slips ?? []).filter(([key]) => !two.some(([other]) => other === key)), ...two])
      .sort((a, b) => a.length - b.length);
    return [...ways, ...twos].map((slips) => ({ slips }));
  }

  /** Whether a mistake alone fails on the first failed probe as the answer does. */
  isShown(slip) {
    const alone = this.alone(slip);
    if (!alone) return false;
    const known = this.known(alone, this.at), { finding, ratios } = this.seen[this.at];
    if (finding || known.finding) return Boolean(finding && known.finding) && isLike(finding, ...known.finding);
    return worstOf(Object.fromEntries(Object.entries(known.wrong).map(([name, [ratio]]) => [name, asRatio(ratio)]))) === worstOf(ratios);
  }

  withoutCatalogue() {
    const { finding, ratios } = this.seen[this.at], { name } = this.exercise.probes[this.at];
    if (finding) return finding.message;
    const worst = worstOf(ratios), subject = worst === "output" ? "The output" : worst;
    const { everywhere, here } = this.words;
    if (everywhere) return `${subject} is wrong: ${everywhere}`;
    return here ? `${subject} is wrong: on the probe “${name}” ${here.replace(", everywhere", "")}` : `${subject} is wrong, by none of the known mistakes. Seen first on: ${name}.`;
  }
}

const hexOf = ({ buffer }) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** What an answer showed, for the page's Python to say what it has to do with what is right (relate.py). */
function toRelate({ probes }, { trial, seen }) {
  return seen.map(({ ratios, values, ...rest }, i) => {
    const { name, stage, rough, arguments: args } = probes[i], { expected } = trial.expected[i];
    const part = (of) => ({ shape: expected[of].shape, tolerance: [expected[of].relative, expected[of].absolute], right: hexOf(rightOf(expected[of])), got: hexOf(values[of]) });
    const isUsed = !rough || passed({ ratios, ...rest });
    const whole = Object.keys(values).filter((of) => isUsed && values[of].length === rightOf(expected[of]).length);
    const parts = Object.fromEntries(whole.map((of) => [of, part(of)]));
    const finite = Object.fromEntries(Object.entries(ratios).map(([of, ratio]) => [of, Math.min(ratio, Number.MAX_VALUE)]));
    return { name, stage, rough, arguments: args, passed: passed({ ratios, ...rest }), worst: worstOf(ratios), ratios: finite, parts };
  });
}

/** A report on an answer: ``run`` gives what a text's function gives for some calls, or ``null`` where that takes too long. */
async function reportOn(exercise, source, run) {
  const { name, required, probes, reference } = exercise;
  const job = (calls) => ({ source, name, required, calls: calls.map((call) => call.arguments) });
  const told = await run(job(probes));
  if (!told || told.error) return told;
  const nearest = nearestTrial(exercise, told.results);
  let words;
  const judged = async (same = []) => {
    const { report, search } = judge(exercise, told.results, nearest, words ?? {}, same);
    const isNamed = report.passed || (report.keys.length === 1 && !report.message && search.isDone); // no words are needed
    if (!words && !isNamed) words = (await run({ relate: toRelate(exercise, nearest) })) ?? {};
    return judge(exercise, told.results, nearest, words ?? {}, same);
  };
  let { report, search } = await judged();
  /** Whether a candidate gives on a probe what the answer gives, when it is run here. */
  const agreesHere = async (candidate, i) => {
    const other = await run({ ...job([probes[i]]), source: withMistakes(exercise, candidate.slips), name: reference });
    search.diagnosis.keep(candidate, i, other?.results?.[0] ?? { error: "NotHere", message: "" });
    return search.diagnosis.agreesOn(candidate, i);
  };
  let order; // of the probes: first where the answer fails, and where the one before differed
  const agreesEverywhere = async (candidate) => {
    order ??= probes.map((_, n) => (report.first + n) % probes.length);
    for (const i of order)
      if (!(await agreesHere(candidate, i))) {
        order = [i, ...order.filter((other) => other !== i)];
        return false;
      }
    return true;
  };
  while (search?.unsure.length) {
    for (const i of search.unsure) await agreesHere(search.last, i);
    ({ report, search } = await judged());
  }
  for (const candidate of search?.twos() ?? [])
    if (await agreesEverywhere(candidate)) {
      ({ report } = await judged([candidate]));
      break;
    }
  if (!report.ask.length) return report;
  const smaller = await run(job(report.ask));
  return smaller && withEvidence(exercise, report, smaller.results);
}

/** The largest error on the first probe that failed. */
function errorOf({ trial, seen, right }) {
  const name = worstOf(seen[right].ratios);
  if (!name) return 0;
  const due = rightOf(trial.expected[right].expected[name]);
  return errorRatio(seen[right].values[name], due, { relative: 0, absolute: 1 / Math.max(largestOf(due), 1) });
}

/** What an answer showed beside the convention that it follows, or comes nearest to. */
function nearestTrial(exercise, results) {
  const trials = exercise.trials.map((trial) => {
    const seen = exercise.probes.map((probe, i) => observe(exercise, trial.expected[i], probe, results[i]));
    const first = seen.findIndex((each) => !passed(each));
    return { trial, seen, right: first < 0 ? seen.length : first };
  });
  const isNearer = (each, best) => each.right > best.right || (each.right === best.right && each.right < each.seen.length && FAR_LESS * errorOf(each) < errorOf(best));
  return trials.reduce((best, each) => (isNearer(each, best) ? each : best));
}

/** What is said of what an answer gave for every probe, and how to search on; ``ask`` are smaller calls that may show what is wrong, ``same`` a candidate that gives the same. */
function judge(exercise, results, { trial, seen, right }, words, same) {
  const report = { name: exercise.name, passed: right === seen.length, probes: seen.length, right: seen.filter(passed).length, message: "", keys: [], remarks: [], printed: seen[0].printed, ask: [] };
  if (report.passed) {
    const remark = ({ remark, beyond }, i) => remark && Object.keys(seen[i].ratios).some((name) => errorRatio(seen[i].values[name], rightOf(trial.expected[i].expected[name]), beyond) > 1);
    report.remarks = [...new Set([trial.convention, ...exercise.probes.filter(remark).map((probe) => probe.remark)].filter(Boolean))];
    return { report };
  }
  const notHere = results.find((result) => result.error === "NotHere");
  if (notHere) return { report: { ...report, notHere: notHere.message + (notHere.line ? ` (line ${notHere.line})` : "") } };
  const diagnosis = new Diagnosis(exercise, { trial, seen }, words, same);
  const { words: message, keys, last, isDone } = diagnosis.explanation();
  const { stage } = exercise.probes[right];
  const stages = [...new Set(exercise.probes.map((probe) => probe.stage))];
  const alone = trial.candidates.find(({ slips }) => slips.length === 1 && slips[0][0] === keys[0]);
  const likely = [last, alone].map((candidate) => trial.smallest[candidate?.smallest]).filter(Boolean);
  const others = trial.smallest.filter((call) => exercise.probes[call.of].stage === stage);
  const ask = [...new Set([...likely, ...others])];
  const failed = { ...exercise.probes[right], ...trial.expected[right], seen: seen[right] };
  const search = { diagnosis, last, unsure: diagnosis.unsure(last), isDone, twos: () => (isDone ? [] : diagnosis.twos(results, last ? keys : [], last)) };
  return { report: { ...report, first: right, message, keys, stage, before: stages.slice(0, stages.indexOf(stage)), ask, failed }, search };
}

/** The report with the smallest of the calls asked for that fails as the answer did, or else the failed probe. */
function withEvidence(exercise, report, results) {
  const { failed } = report, failedRatio = failed.seen.ratios[worstOf(failed.seen.ratios)];
  const isAlike = (seen) => {
    const { finding } = failed.seen;
    if (finding || seen.finding) return Boolean(finding && seen.finding) && isLike(finding, seen.finding.kind, seen.finding.what);
    const ratio = seen.ratios[worstOf(failed.seen.ratios)];
    return ratio >= Math.min(CLEARLY_WRONG, failedRatio) && Number.isFinite(ratio) === Number.isFinite(failedRatio);
  };
  const smaller = report.ask.map((call, i) => ({ ...call, seen: observe(exercise, call, call, results[i]) }));
  const shown = smaller.find(({ seen }) => isAlike(seen)) ?? failed;
  const message = report.message && shown.seen.finding ? shown.seen.finding.message : report.message;
  return { ...report, message, evidence: evidenceLines(shown, worstOf(failed.seen.ratios)), printed: shown.seen.printed };
}

function evidenceLines({ shown, seen, expected }, wrong) {
  const [call, ...inputs] = shown, { finding } = seen;
  let quantity = finding ? finding.quantity : wrong;
  let right = finding ? finding.due : { shape: expected[wrong].shape, values: rightOf(expected[wrong]) };
  let got = finding ? finding.came : { shape: right.shape, values: seen.values[wrong] };
  const lines = [call, ...inputs.map((line) => `  ${line}`)];
  if (typeof right === "object") {
    if (right.values.length > MOST_ELEMENTS) {
      const off = right.values.map((v, i) => Math.abs(got.values[i] - v)).map((v) => (Number.isNaN(v) ? Infinity : v));
      const at = off.indexOf(Math.max(...off));
      quantity += ` at [${placeOf(at, right.shape).join(", ")}]`;
      [right, got] = [right, got].map(({ values }) => ({ shape: [], values: [values[at]] }));
    }
    let digits = 3;
    while (digits < 9 && nested(right, digits) === nested(got, digits)) digits += 1;
    [right, got] = [right, got].map((each) => nested(each, digits));
  }
  if (!got) return lines;
  const head = `expected ${quantity}`.trimEnd();
  return [...lines, `${head}: ${right}`, `${"got".padStart(head.length)}: ${got}`];
}

function placeOf(at, shape) {
  return shape.map((_, dim) => {
    const below = shape.slice(dim + 1).reduce((a, b) => a * b, 1);
    return Math.floor(at / below) % shape[dim];
  });
}

function nested({ shape, values }, digits) {
  if (!shape.length) return numberText(values[0], digits);
  const size = values.length / shape[0];
  return `[${Array.from({ length: shape[0] }, (_, i) => nested({ shape: shape.slice(1), values: values.slice(i * size, (i + 1) * size) }, digits)).join(", ")}]`;
}

/** A number as Python's ``:.3g`` writes it. */
function numberText(value, digits) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Math.abs(value) < 1e6 && Number.isInteger(value)) return String(value);
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const plain = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent < -4 || exponent >= digits) return `${plain(mantissa)}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
  return plain(value.toFixed(Math.max(digits - 1 - exponent, 0)));
}
