// Sections, claims and rows with all the words of a question, best first, each with the words around the first hit.
const MOST = 60, BEFORE = 80, EXCERPT = 260;

/** The words of a question, small; one of a class's name counts as the words in it, too: RMSNorm as RMS norm. */
function wordsOf(question) {
  const words = question.split(/\s+/).filter(Boolean);
  const apart = words.flatMap((word) => word.split(/(?<=[a-zA-Z])(?=[A-Z][a-z])/));
  return [words, apart].map((several) => several.map((word) => word.toLowerCase()));
}

/** How well an entry answers: nothing where a word is missing; a title counts more than text, the whole phrase more still, and most where it begins the title. */
function score({ title, text }, words) {
  const inTitle = title.toLowerCase(), inText = text.toLowerCase();
  if (!words.every((word) => inTitle.includes(word) || inText.includes(word))) return 0;
  const phrase = words.join(" ");
  const often = words.map((word) => Math.min(5, inText.split(word).length - 1) + 10 * inTitle.includes(word));
  return 1 + often.reduce((sum, n) => sum + n) + 20 * inTitle.includes(phrase) + 20 * inTitle.startsWith(phrase) + 5 * inText.includes(phrase);
}

/** The text around the first word found, the words marked. */
function excerpt(text, words) {
  const hits = words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0);
  const start = hits.length ? Math.max(0, Math.min(...hits) - BEFORE) : 0;
  const from = start ? text.indexOf(" ", start) + 1 : 0;
  const part = text.slice(from, from + EXCERPT);
  const shown = document.createElement("p");
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  part.split(new RegExp(`(${escaped.join("|")})`, "i")).forEach((piece, i) => {
    const mark = document.createElement(i % 2 ? "mark" : "span");
    mark.textContent = piece;
    shown.append(mark);
  });
  if (from) shown.prepend("… ");
  if (from + EXCERPT < text.length) shown.append(" …");
  return shown;
}

function answer(question, list, status) {
  const [words, apart] = wordsOf(question);
  const points = (entry) => Math.max(score(entry, words), score(entry, apart));
  const found = words.length ? sections.map((entry) => [points(entry), entry]).filter(([points]) => points) : [];
  found.sort(([a], [b]) => b - a);
  list.replaceChildren(...found.slice(0, MOST).map(([, entry]) => {
    const item = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: entry.address, textContent: `${entry.page} › ${entry.title}` });
    item.append(link, excerpt(entry.text, [...new Set([...words, ...apart])]));
    return item;
  }));
  const more = found.length > MOST ? `, the best ${MOST} here` : "";
  status.textContent = words.length ? `${found.length} place${found.length === 1 ? "" : "s"}${more}` : "";
}

addEventListener("DOMContentLoaded", () => {
  const field = document.querySelector(".course-search");
  const list = document.getElementById("search-results");
  const status = document.querySelector("article [role=status]");
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", () => answer(field.value, list, status));
  answer(field.value, list, status);
});
