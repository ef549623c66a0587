// The pieces of chapter 21 without a kernel: guess the wrong line; a right guess opens the input that shows it.
const CLEAN = "-1";

addEventListener("DOMContentLoaded", () => {
  for (const puzzle of document.querySelectorAll(".course-puzzle")) {
    const output = puzzle.closest(".cell_output");
    const hints = [...output.querySelectorAll("details")];
    const pre = output.querySelector("pre");
    const lines = pre.textContent.trimEnd().split("\n");
    const { wrong, innocent } = JSON.parse(puzzle.dataset.answer);
    const isClean = wrong.length === 0;
    const choice = document.createElement("select");
    choice.ariaLabel = "the wrong line";
    choice.add(new Option("Which line is wrong? Click it above, or choose", ""));
    let inDocstring = false;
    lines.forEach((line, i) => {
      const quotes = line.split('"""').length - 1;
      const isCode = line.trim() && !quotes && !inDocstring && !/^(import|from) /.test(line);
      if (quotes === 1) inDocstring = !inDocstring;
      if (isCode) choice.add(new Option(line.trim(), i));
    });
    choice.add(new Option("None: it is clean.", CLEAN));
    const said = document.createElement("p");
    said.role = "status";
    puzzle.append(choice, said);
    let guesses = 0;

    const isRight = () => (isClean ? choice.value === CLEAN : wrong.includes(Number(choice.value)));
    const whyNot = () => {
      if (choice.value === CLEAN) return "Not clean: there is an input on which it gives a wrong answer.";
      const why = innocent[choice.value] ?? "it stands as it is in a version that is right";
      return `Not this one: ${why}.`;
    };

    pre.style.cursor = "pointer";
    pre.addEventListener("click", (event) => {
      if (String(getSelection())) return; // somebody copies
      const { paddingTop, paddingBottom } = getComputedStyle(pre);
      const height = (pre.scrollHeight - parseFloat(paddingTop) - parseFloat(paddingBottom)) / lines.length;
      const top = pre.getBoundingClientRect().top + pre.clientTop + parseFloat(paddingTop);
      const line = String(Math.floor((event.clientY - top) / height));
      if (![...choice.options].some((option) => option.value === line)) return;
      choice.value = line;
      choice.dispatchEvent(new Event("change"));
    });

    choice.addEventListener("change", () => {
      if (choice.value === "") return;
      guesses += 1;
      if (!isRight()) {
        const hint = hints[guesses - 1];
        if (hint) hint.open = true;
        said.textContent = whyNot() + (hint ? ` Hint ${guesses}, above, is open now.` : "");
        return;
      }
      const when = guesses === 1 ? "at the first guess" : `at guess ${guesses}`;
      said.textContent = `Yes, ${when}. Below: what shows it, and the answer.`;
      for (const fold of puzzle.closest("section").querySelectorAll("details"))
        fold.open ||= fold.matches(".hide") || fold.firstElementChild.textContent.includes("the answer");
    });
  }
});
