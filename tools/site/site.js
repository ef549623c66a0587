// What scrolls sideways is reached with the Tab key, so that the arrow keys can scroll it, and is seen to go on.
const showMore = (region) =>
  region.toggleAttribute("data-more", region.scrollLeft + region.clientWidth < region.scrollWidth - 1);
const observer = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
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
  const rows = [...document.querySelectorAll("article tr[id]")];
  if (rows.length) addFilter(rows);
});

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
