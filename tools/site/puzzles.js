// The pieces of chapter 19 without a kernel: guess the wrong line; a right guess opens the input that shows it.
addEventListener("DOMContentLoaded", () => {
  for (const puzzle of document.querySelectorAll(".course-puzzle")) {
    const lines = puzzle.closest(".cell_output").querySelector("pre").textContent.split("\n");
    const wrong = puzzle.dataset.wrong.split(" ").map(Number);
    const choice = document.createElement("select");
    choice.ariaLabel = "the wrong line";
    choice.add(new Option("Which line is wrong?", ""));
    lines.forEach((line, i) => line.trim() && choice.add(new Option(line.trim(), i)));
    const said = document.createElement("p");
    said.role = "status";
    puzzle.append(choice, said);
    let guesses = 0;
    choice.addEventListener("change", () => {
      if (choice.value === "") return;
      guesses += 1;
      const isRight = wrong.includes(Number(choice.value));
      if (isRight) said.textContent = guesses === 1 ? "Yes, at the first guess." : `Yes, at guess ${guesses}.`;
      else said.textContent = guesses < 3 ? "Not this one." : "Not this one. The hints above help.";
      if (!isRight) return;
      said.textContent += " Below: an input that shows it, and what was wrong.";
      for (const fold of puzzle.closest("section").querySelectorAll("details"))
        fold.open ||= fold.matches(".hide") || fold.firstElementChild.textContent.includes("what was wrong");
    });
  }
});
