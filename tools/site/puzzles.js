// The pieces of chapter 21 without a kernel: guess the wrong line; a right guess opens the input that shows it.
const CLEAN = "-1";

addEventListener("DOMContentLoaded", () => {
  for (const puzzle of document.querySelectorAll(".course-puzzle")) {
    const output = puzzle.closest(".cell_output");
    const hints = [...output.querySelectorAll("details")];
    const lines = output.querySelector("pre").textContent.split("\n");
    const { wrong, innocent } = JSON.parse(puzzle.dataset.answer);
    const isClean = wrong.length === 0;
    const choice = document.createElement("select");
    choice.ariaLabel = "the wrong line";
    choice.add(new Option("Which line is wrong?", ""));
    lines.forEach((line, i) => line.trim() && choice.add(new Option(line.trim(), i)));
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
