// Exercises to write on the page. MicroPython, the small torch and judge.js come with the first click into an editor.
const TIME_LIMIT_MS = 2000; // of one call
const JUDGE_LIMIT_MS = 15000; // of a piece of chapter 21 on an input that may be large
const TOO_LARGE = "This input is large for the Python of this page. A smaller one shows as much; JupyterLab takes this one, too.";

let python; // the worker and what it waits for; started anew after a loop without end
const scripts = new Map();

function loadScript(address) {
  if (!scripts.has(address))
    scripts.set(address, new Promise((resolve, reject) => {
      const script = Object.assign(document.createElement("script"), { src: address, onload: resolve, onerror: () => reject(new Error(`${address} cannot be read`)) });
      document.head.append(script);
    }));
  return scripts.get(address);
}

function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** A worker with the interpreter in it, ready. Nothing is fetched: what it is made of came as a script. */
async function startWorker() {
  coursePython.worker ??= URL.createObjectURL(new Blob([await unpacked(coursePython.module)], { type: "text/javascript" }));
  const worker = new Worker(coursePython.worker);
  const told = await new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = (event) => reject(new Error(event.message || "no worker"));
    unpacked(coursePython.wasm).then((wasm) => worker.postMessage({ files: coursePython.files, wasm }, [wasm]));
  });
  if (told.failed) throw new Error(told.failed);
  return worker;
}

/** What the calls of an answer give; ``null`` where one takes too long. */
async function runJob(job) {
  python ??= startWorker();
  const worker = await python;
  return new Promise((resolve, reject) => {
    let isMade = false; // the input that the answer is to make
    const stop = () => {
      worker.terminate();
      python = undefined;
      resolve(isMade ? { passed: false, message: TOO_LARGE } : null);
    };
    let timer = setTimeout(stop, TIME_LIMIT_MS);
    worker.onmessage = ({ data }) => {
      clearTimeout(timer);
      isMade = Boolean(job.piece);
      if (data.beat) timer = setTimeout(stop, isMade ? JUDGE_LIMIT_MS : TIME_LIMIT_MS);
      else if (data.failed) { python = undefined; worker.terminate(); reject(new Error(data.failed)); }
      else resolve(data.done);
    };
    worker.postMessage({ job });
  });
}

/** What is said of an answer; ``progress`` hears what is being done. */
async function checkAnswer(exercise, source) {
  const { name, piece } = exercise;
  if (isEmpty(source)) return { name, verdict: "not attempted yet", lead: "Put your code in place of the dots and run it again." };
  const report = await (piece ? runJob({ source, name, required: ["ordinary"], piece }) : reportOn(exercise, source, runJob));
  if (!report) return { name, verdict: "not yet", lead: `It was still running after ${TIME_LIMIT_MS / 1000} s and was stopped.` };
  if (report.error) {
    const where = report.line ? ` (line ${report.line})` : "";
    return { name, verdict: "not yet", lead: `It cannot be run: ${report.error}: ${report.message}${where}. This page's Python is MicroPython; most of Python is in it.` };
  }
  return { name, ...report };
}

/** Whether there is nothing yet below the docstring. */
function isEmpty(source) {
  const code = source.replace(/("""|''')[\s\S]*?\1/g, "").replace(/#.*/g, "");
  const lines = code.split("\n").map((line) => line.trim()).filter(Boolean);
  return lines.length > 0 && lines.slice(1).every((line) => /^(\.\.\.|pass|return( None)?|raise NotImplementedError(\(\))?)$/.test(line)) && lines[0].startsWith("def ");
}

function element(tag, text = "", attributes = {}, ...children) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(text, ...children);
  return made;
}

/** A report in the words and the order of JupyterLab's. */
function reportParts(exercise, report) {
  const verdict = report.verdict ?? (report.passed ? "passed" : "not yet");
  if (report.notHere) return [element("strong", `${report.name}: not told here`), element("p", `${report.notHere[0].toUpperCase()}${report.notHere.slice(1)}.`)];
  const count = report.probes ? (report.passed ? `, ${report.probes} probes` : `, ${report.right} of ${report.probes} right`) : "";
  const parts = [element("strong", `${report.name}: ${verdict}${count}`)];
  const mistakes = (report.keys ?? []).map((key) => exercise.mistakes[key]);
  const points = report.lead ? [report.lead] : [report.message, ...mistakes.map((mistake) => mistake.wrong)].filter(Boolean);
  if (points.length > 1) parts.push(element("p", `${points.length} things to mend, in this order:`), element("ol", "", {}, ...points.map((point) => element("li", point))));
  else if (points.length) parts.push(element("p", points[0]));
  if (report.before?.length) parts.push(element("p", `Passed already: the probes of ${report.before.join(", ")}. The first to fail is of ${report.stage}.`));
  if (mistakes.length) parts.push(element("p", "", {}, element("em", "Why it matters:"), ` ${mistakes[0].matters}`));
  if (report.evidence) parts.push(element("p", "It shows in:"), element("pre", report.evidence.join("\n"), { tabIndex: 0 }));
  if (report.printed?.length) parts.push(folded("What it printed", element("pre", report.printed.join("\n"))));
  for (const remark of report.remarks ?? []) parts.push(element("p", "", {}, element("em", "Remark:"), ` ${remark}`));
  if (mistakes.length) parts.push(folded(report.message ? "Hint for 2" : "Hint", mistakes[0].hint));
  if (report.passed && exercise.elsewhere) parts.push(element("p", `JupyterLab tries its gradients too (${exercise.elsewhere} more).`));
  return parts;
}

const folded = (summary, content) => element("details", "", {}, element("summary", summary), content);

/** Put text in place of the selection, so that it can be undone. */
function insert(area, text) {
  if (!document.execCommand("insertText", false, text)) area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
}

/** Python's indentation by the keys; after Escape, Tab leaves the editor. */
function handleKeys(area, run) {
  let leaves = false;
  area.addEventListener("keydown", (event) => {
    const { selectionStart: start, selectionEnd: end, value } = area;
    const line = value.slice(value.lastIndexOf("\n", start - 1) + 1, start);
    if (event.key === "Escape") leaves = true;
    else if (event.key === "Tab" && !leaves) {
      event.preventDefault();
      if (!event.shiftKey) insert(area, " ".repeat(4 - (line.length % 4)));
      else if (/^ +$/.test(line)) { area.setSelectionRange(start - (line.length % 4 || 4), end); document.execCommand("delete"); }
    } else if (event.key === "Enter" && event.shiftKey) {
      event.preventDefault();
      run();
    } else if (event.key === "Enter") {
      event.preventDefault();
      const deeper = /:\s*(#.*)?$/.test(line) ? 4 : 0;
      insert(area, `\n${" ".repeat(line.length - line.trimStart().length + deeper)}`);
    } else if (event.key === "Backspace" && start === end && /^ +$/.test(line)) {
      event.preventDefault();
      area.setSelectionRange(start - (line.length % 4 || 4), end);
      document.execCommand("delete");
    }
    if (!["Escape", "Tab", "Shift"].includes(event.key)) leaves = false;
  });
}

/** The editor of one exercise, in its place. */
function addEditor(place) {
  const { exercise: name, static: folder } = place.dataset;
  const { stub, start = stub, told } = JSON.parse(place.querySelector("script").textContent);
  const key = `course-write-${name}`;
  const kept = () => { try { return localStorage.getItem(key); } catch { return null; } }; // a browser may keep nothing of a file
  const keep = (text) => { try { localStorage.setItem(key, text); } catch { /* nor does it here */ } };
  const area = element("textarea", "", { value: kept() ?? start, spellcheck: false, autocapitalize: "off", ariaLabel: `your ${name}, in Python; Escape, then Tab leaves the editor` });
  const said = element("div", "", { className: "course-verdict", role: "status" });
  const button = (text, onclick) => element("button", text, { type: "button", onclick });
  const grow = () => { area.rows = Math.max(area.value.split("\n").length + 1, 5); };
  const load = () => Promise.all([loadScript(`${folder}/python.js`), loadScript(`${folder}/write_${name}.js`)]);
  let isRunning = false;

  const tell = (exercise, report) => {
    said.dataset.verdict = report.verdict ?? (report.passed ? "passed" : "not yet");
    said.replaceChildren(...reportParts(exercise, report));
  };
  const run = async () => {
    if (isRunning) return;
    isRunning = true;
    said.dataset.verdict = "";
    said.replaceChildren("Running …");
    try {
      await load();
      const exercise = courseExercises[name];
      const report = await checkAnswer(exercise, area.value.replace(/^check\..*$/gm, ""));
      tell(exercise, report);
    } catch (error) {
      python = undefined;
      said.dataset.verdict = "none";
      said.replaceChildren(`This page cannot run Python in this browser (${error.message}). JupyterLab can.`);
    }
    isRunning = false;
  };
  const answer = () => { globalThis.courseAnswer = run(); };
  const take = async () => {
    const text = `${area.value.trimEnd()}\n\n\ncheck.${name}(${name})\n`;
    try { await navigator.clipboard.writeText(text); said.replaceChildren("Copied. Paste it over the exercise's cell in JupyterLab."); }
    catch { area.select(); said.replaceChildren("Copy what is marked now, and paste it over the exercise's cell in JupyterLab."); }
  };
  const reset = () => { area.value = start; keep(start); grow(); said.replaceChildren(); said.dataset.verdict = ""; };

  const prepare = () => { globalThis.courseAnswer = load().then(() => (python ??= startWorker())).catch(() => {}); };
  area.addEventListener("focus", prepare, { once: true });
  area.addEventListener("input", () => { keep(area.value); grow(); });
  handleKeys(area, answer);
  grow();
  if (told && area.value === start) tell(told, told); // the first page shows a report before it is asked
  const buttons = element("div", "", { className: "course-buttons" }, button("Run (Shift+Enter)", answer), button("Reset", reset), button("Take it to JupyterLab", take));
  place.append(area, buttons, said);
}

addEventListener("DOMContentLoaded", () => document.querySelectorAll(".course-write").forEach(addEditor));
