// What scrolls sideways is reached with the Tab key, so that the arrow keys can scroll it, and is seen to go on.
const showMore = (region) =>
  region.toggleAttribute("data-more", region.scrollLeft + region.clientWidth < region.scrollWidth - 1);
const observer = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
    if (target.scrollWidth > target.clientWidth) requestAnimationFrame(() => setSmaller(target));
    showMore(target);
  }
});

addEventListener("DOMContentLoaded", () => {
  for (const region of document.querySelectorAll("pre, .output, .table-wrapper, .math-wrapper")) {
    observer.observe(region);
    region.addEventListener("scroll", () => showMore(region), { passive: true });
  }
  // Sphinx says that a part of the contents is a heading, and not of which level.
  for (const caption of document.querySelectorAll(".caption[role=heading]")) caption.setAttribute("aria-level", "2");
  showSectionsOnTheLeft();
  const note = document.querySelector(".course-note");
  if (note && document.querySelector(".cell_input")) addSwitch(note);
  const rows = [...document.querySelectorAll("article tr[id]")];
  if (rows.length) addFilter(rows);
});

const PHONE = 500, SMALLEST_LETTER = { phone: 9, screen: 11 }; // pixels

/** What is a little too wide is set smaller: what a line says often stands at its end. On a phone code scrolls, tables are stacked. */
function setSmaller(region) {
  const onPhone = innerWidth < PHONE, table = region.querySelector("table");
  if (table) return onPhone ? stack(table) : table.classList.add("course-tight");
  if (region.tagName !== "PRE" || (onPhone && !region.closest(".cell_output"))) return;
  if (region.scrollWidth <= region.clientWidth) return;
  const size = (0.98 * parseFloat(getComputedStyle(region).fontSize) * region.clientWidth) / region.scrollWidth;
  if (size >= SMALLEST_LETTER[onPhone ? "phone" : "screen"]) region.style.fontSize = `${size}px`;
  else if (onPhone && !region.closest(".text_markdown, .text_html")) wrap(region, size);
}

/** Let the lines of a text wrap, but not those with columns: where these alone fit, they say how large its letters are. */
function wrap(region, size) {
  const lines = region.textContent.split("\n"), longest = (some) => Math.max(0, ...some.map((line) => line.length));
  const table = lines.filter((line) => (line.match(/\S {2,}(?=\S)/g) ?? []).length > 1);
  const fitting = (size * longest(lines)) / longest(table); // infinite without columns
  if (fitting < SMALLEST_LETTER.phone) return;
  if (fitting < parseFloat(getComputedStyle(region).fontSize)) region.style.fontSize = `${fitting}px`;
  region.style.whiteSpace = "pre-wrap";
}

/** On a phone a table that is too wide is a paragraph a row, each cell behind the name of its column; site.css has the rest. */
function stack(table) {
  if (!table.tHead || table.classList.contains("course-stacked")) return;
  table.classList.add("course-stacked");
  const names = table.tHead.rows[0].cells;
  for (const row of table.tBodies[0].rows)
    for (const [column, cell] of [...row.cells].entries()) {
      cell.hidden = !cell.textContent.trim();
      if (!column || !names[column].textContent.trim()) continue;
      const name = document.createElement("span");
      name.append(...names[column].cloneNode(true).childNodes, ": "); // formulas, too
      cell.prepend(name);
    }
}

/** The sections of this chapter below its title on the left, for where the right column has no room. */
function showSectionsOnTheLeft() {
  const here = document.querySelector(".sidebar-tree .current-page"), sections = document.querySelector(".toc-tree > ul > li > ul");
  if (!here || !sections) return;
  const copy = sections.cloneNode(true);
  copy.className = "course-sections";
  for (const deeper of copy.querySelectorAll("ul")) deeper.remove();
  here.append(copy);
  const scrolled = here.closest(".sidebar-scroll");
  const [line, list] = [here, scrolled].map((each) => each.getBoundingClientRect().top);
  scrolled.scrollTop += line - list - scrolled.clientHeight / 4;
}

/** One switch for the code of all pages: the lesson's, all of it, or none. Solutions stay closed, exercises stay. */
function addSwitch(note) {
  const choice = document.createElement("select");
  choice.ariaLabel = "which code is shown";
  for (const [value, name] of Object.entries({ told: "show code: what the lesson needs", all: "show code: all", none: "show code: none" })) choice.add(new Option(name, value));
  const apply = () => {
    document.body.dataset.code = choice.value;
    for (const fold of document.querySelectorAll(".cell:not(.tag_solution) > details.hide")) fold.open = choice.value === "all";
    try { localStorage.setItem("course-code", choice.value); } catch { /* a browser may keep nothing of a file */ }
  };
  try { choice.value = localStorage.getItem("course-code") ?? "told"; } catch { choice.value = "told"; }
  if (choice.value !== "told") apply();
  choice.addEventListener("change", apply);
  note.append(" · ", choice);
}

// On paper what is folded is open, but code that only draws or tests stays out unless the switch says otherwise.
const openedToPrint = [];
addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll(":is(article details, .course-cite):not([open])")) {
    fold.open = true;
    openedToPrint.push(fold);
  }
  for (const picture of document.querySelectorAll("img[loading]")) picture.loading = "eager";
});
addEventListener("afterprint", () => { for (const fold of openedToPrint.splice(0)) fold.open = false; });

/** What is looked up: a link to each row, and a field that leaves the rows with all of its words. */
function addFilter(rows) {
  for (const row of rows) {
    const link = Object.assign(document.createElement("a"), { href: `#${row.id}`, textContent: "¶", title: "Link to this row" });
    link.className = "headerlink";
    row.cells[0].append(link);
  }
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const field = Object.assign(document.createElement("input"), { type: "search", placeholder: "a word: momentum, GGUF, layout …" });
  field.ariaLabel = "filter the rows of all tables";
  const count = document.createElement("span");
  count.role = "status";
  const filter = document.createElement("p");
  filter.className = "course-filter";
  filter.append(field, count);
  const article = document.querySelector("article");
  article.querySelector("h1").after(filter);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row, i) => (row.hidden = !words.every((word) => texts[i].includes(word))));
    article.classList.toggle("course-filtered", words.length > 0);
    count.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
  });
}
