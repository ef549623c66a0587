// The ledger as a table to search. The table comes whole from Python; here its rows are shown and hidden.

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** Whether a row { text, source, verdict } is shown in a state; "" means any. */
function isShown(row, state) {
  if (state.source && row.source !== state.source) return false;
  if (state.verdict && row.verdict !== state.verdict) return false;
  const text = row.text.toLowerCase();
  return wordsOf(state.text).every((word) => text.includes(word));
}

/** What is shown, in words: a claim with two sources stands in two groups and counts once. */
function summaryOf(shown, all) {
  const count = (rows) => new Set(rows.map((row) => row.id)).size;
  return shown.length ? `${count(shown)} of ${count(all)} claims` : `none of ${count(all)} claims: try fewer words`;
}

/** The rows of the table as data, each with its element; a group's name belongs to its rows. */
function rowsOf(groups) {
  return groups.flatMap((group) =>
    [...group.querySelectorAll("tbody tr")].map((element) => ({
      element,
      group,
      id: element.cells[0].textContent + element.querySelector("a").getAttribute("href"),
      source: group.dataset.source,
      verdict: element.dataset.verdict,
      text: `${group.querySelector("summary").textContent} ${element.textContent}`,
    })),
  );
}

/**
 * JupyterLab opens a link of its own page in the tab where the learner is. Told by these two attributes, it opens the
 * notebook beside this one instead and goes to the cell; elsewhere they mean nothing.
 */
function openInLab(event) {
  const link = event.target.closest("a");
  const folder = decodeURIComponent(location.pathname).match(/\/tree\/(.*\/)?[^/]*$/);
  if (!link || !folder || link.host !== location.host) return;
  const [file, id] = link.getAttribute("href").split("#");
  link.dataset.commandlinkerCommand = "rendermime:handle-local-link";
  link.dataset.commandlinkerArgs = JSON.stringify({ path: (folder[1] ?? "") + file, id: `#${id}` });
}

function render({ model, el }) {
  const data = model.get("data");
  const root = element("div", { class: "course-widget course-ledger", "data-widget": "ledger", "data-frame": 0 });
  const setState = (change) => {
    model.set("state", { ...model.get("state"), ...change });
    model.save_changes();
  };
  const specs = [
    { name: "text", label: "words", kind: "line" },
    { name: "source", label: "source", kind: "select", options: [["", "every source"], ...data.sources] },
    { name: "verdict", label: "verdict", kind: "select", options: [["", "every verdict"], ...data.verdicts] },
  ];
  const { panel, show } = controlPanel(specs, data, (control, value) => setState({ [control]: value }));
  const summary = element("p", { class: "course-summary", role: "status" });
  const look = { class: "course-ledger-rows", role: "region", "aria-label": "Claims", tabindex: 0, ...KEEP_KEYS };
  const region = element("div", look);
  region.innerHTML = data.html;
  region.addEventListener("click", openInLab);
  for (const link of region.querySelectorAll("a[href^=http]")) [link.target, link.rel] = ["_blank", "noopener"];
  const groups = [...region.querySelectorAll("details")];
  const rows = rowsOf(groups);
  root.append(panel, summary, region);
  el.append(root);

  function draw() {
    const state = model.get("state");
    const shown = rows.filter((row) => isShown(row, state));
    for (const row of rows) row.element.hidden = true;
    for (const row of shown) row.element.hidden = false;
    const isFiltered = Boolean(state.text.trim() || state.source || state.verdict);
    for (const group of groups) {
      group.hidden = !shown.some((row) => row.group === group);
      group.open = isFiltered && !group.hidden;
    }
    show(state);
    setText(summary, summaryOf(shown, rows));
  }

  function onState() {
    draw();
    root.dataset.frame = Number(root.dataset.frame) + 1;
  }

  model.on("change:state", onState);
  draw();
  return () => model.off("change:state", onState);
}

export { isShown, summaryOf };
export default { render };
