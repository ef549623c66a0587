// Formulas come last: MathJax is 2 MB, and a page is read and played with before it is there.
// On a phone a long formula is broken where its parts end, then, if it has its own lines, set smaller; what is wider still
// scrolls.
const PHONE_PX = 500, SMALLEST = 0.6, LONG = 25, SHORT = 8;
const mathjax = new URL("tex-svg.js", document.currentScript.src).href;

/** Each token of a formula, and whether it stands in no braces. */
function* tokens(tex) {
  let depth = 0;
  for (const token of tex.trim().match(/\\[a-zA-Z]+|\\.|[^\\\s]|\s+/gs) ?? []) {
    depth += (token === "{" || token === "\\left") - (token === "}" || token === "\\right");
    yield [token, depth === 0];
  }
}

const isRelation = (token) => /^(=|\\approx|\\le|\\ge)$/.test(token);

/** A formula in lines: its parts between wide spaces, and a long part before its later relations. */
function broken(tex) {
  if (/\\begin|\\\\|&/.test(tex)) return tex;
  const lines = [[]];
  let related = false;
  for (const [token, isOutside] of tokens(tex)) {
    const relates = isOutside && isRelation(token), isSpace = isOutside && /^\\q?quad$/.test(token);
    if (isSpace || (relates && related && lines.at(-1).length > LONG)) {
      lines.push([]);
      related = false;
    }
    if (!isSpace) lines.at(-1).push(token);
    related ||= relates;
  }
  return lines.length > 1 ? `\\begin{gathered}${lines.map((line) => line.join("")).join("\\\\")}\\end{gathered}` : tex;
}

/** A long formula of a line in pieces, between which the line may end: before its relations. */
function inPieces(tex) {
  const all = [...tokens(tex)], pieces = [[]];
  for (const [token, isOutside] of all) {
    if (isOutside && isRelation(token) && all.length > LONG && pieces.at(-1).length > SHORT) pieces.push(["{}"]);
    pieces.at(-1).push(token);
  }
  return pieces.map((piece) => `\\(${piece.join("")}\\)`).join("");
}

/** Set each displayed formula as small as its place asks for, but not too small to read. */
function fit() {
  for (const formula of document.querySelectorAll("mjx-container[display=true]")) {
    formula.style.fontSize = "";
    const room = formula.closest(".math").parentElement.clientWidth;
    // twice: a letter's height is rounded, and the width goes with it
    for (let size = 1, tries = 0; tries < 2 && innerWidth < PHONE_PX; tries += 1) {
      const ratio = room / formula.querySelector("svg").getBoundingClientRect().width;
      if (ratio >= 1) break;
      size = Math.max(SMALLEST, size * ratio * 0.99);
      formula.style.fontSize = `${size * 100}%`;
    }
  }
}

/** When no answer is being judged (write.js): to start MathJax holds a phone's one thread for two seconds. */
async function answered() {
  let last;
  while (last !== globalThis.courseAnswer) await (last = globalThis.courseAnswer);
}

addEventListener("DOMContentLoaded", () => {
  if (innerWidth < PHONE_PX)
    for (const formula of document.querySelectorAll(".math")) {
      const [, open, tex, close] = formula.textContent.match(/^\s*(\\[[(])(.*)(\\[\])])\s*$/s);
      formula.textContent = open === "\\[" ? open + broken(tex) + close : inPieces(tex);
    }
  MathJax.startup = { pageReady: () => MathJax.startup.defaultPageReady().then(fit) };
  addEventListener("resize", fit);
  const script = Object.assign(document.createElement("script"), { src: mathjax });
  const onload = () => answered().then(() => document.head.append(script));
  const early = Object.assign(document.createElement("link"), { rel: "prefetch", href: mathjax, onload, onerror: onload });
  const isFetched = location.protocol !== "file:" && early.relList.supports("prefetch");
  requestAnimationFrame(() => setTimeout(() => (isFetched ? document.head.append(early) : onload())));
});
