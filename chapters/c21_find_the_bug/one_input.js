// One input through the worked piece, which averages over whole sequences, and through its mended version.

const HEADINGS = 22; // above a line of cards
const right = (x) => x; // float64, in which the answer is found

/** The rows of one sequence, normalized with the mean and variance of `groups` of rows, each operation rounded. */
function normalizedRows(groups, to) {
  return groups.flatMap((rows) => {
    const values = rows.flat();
    const meanOf = (list) => to(list.reduce((sum, x) => to(sum + x), 0) / list.length);
    const mean = meanOf(values);
    const variance = meanOf(values.map((x) => to(to(x - mean) ** 2)));
    const rstd = to(1 / Math.sqrt(to(variance + to(1e-5))));
    return rows.map((row) => row.map((x) => to(to(x - mean) * rstd)));
  });
}

/** Everything the picture shows: of the piece and of the mended one the outputs, [sequence][token][feature], which of
 * them are wrong, and whether any is. */
function inputFigure(state, data) {
  const x = data.values
    .slice(0, state.sequences)
    .map((rows) => rows.slice(0, state.tokens).map((row) => row.map((value) => Math.fround(value + state.offset))));
  const answer = x.map((rows) => normalizedRows(rows.map((row) => [row]), right));
  const allowed = data.tolerance * Math.max(1, ...answer.flat(2).map(Math.abs));
  const judge = (outputs) => {
    const wrong = outputs.map((rows, b) => rows.map((row, t) => row.map((y, c) => !(Math.abs(y - answer[b][t][c]) <= allowed))));
    return { outputs, wrong, isWrong: wrong.flat(2).includes(true) };
  };
  return {
    piece: judge(x.map((rows) => normalizedRows([rows], Math.fround))),
    mended: judge(x.map((rows) => normalizedRows(rows.map((row) => [row]), Math.fround))),
  };
}

const cardsFor = (state, width) => cardsOf(state.sequences, state.tokens, 4, width, { top: 20 });

const TITLES = { piece: "The piece: one mean for a sequence", mended: "Mended: one mean for a token" };

function drawInput(context, state, width, data) {
  const cards = cardsFor(state, width);
  const figure = inputFigure(state, data);
  Object.entries(TITLES).forEach(([which, title], line) => {
    const { outputs, wrong } = figure[which];
    context.save();
    context.translate(0, line * (cards.height + HEADINGS));
    drawText(context, title, 4, 10, { weight: "bold" });
    context.translate(0, HEADINGS);
    outputs.forEach((rows, b) => {
      const groupOf = (row) => (which === "piece" ? b : row + b);
      const look = (row, column) => ({
        fill: tint(STYLE.palette[groupOf(row) % 2 ? 2 : 0], 0.3),
        lines: [rows[row][column].toFixed(2).replace("-", "−")],
        crossed: wrong[b][row][column],
      });
      drawCard(context, cards, b, `sequence ${b + 1}`, look);
    });
    context.restore();
  });
}

function summary(state, data) {
  const { piece, mended } = inputFigure(state, data);
  if (!piece.isWrong) return "The piece is right on this input.";
  return mended.isWrong ? "Both are wrong: this input shows nothing about the line." : "The bug shows: the piece is wrong, and the mended one right.";
}

function facts(state, data) {
  const { piece, mended } = inputFigure(state, data);
  const count = ({ wrong }) => `${wrong.flat(2).filter(Boolean).length} of ${wrong.flat(2).length}`;
  return [["wrong, the piece", count(piece)], ["wrong, mended", count(mended)]];
}

export default widgetOf(() => ({
  name: "one_input",
  title: "The outputs of piece 0 and of its mended version on one input; what is wrong is crossed.",
  hint: "A card is a sequence, a line a token. Values of one colour beside each other share a mean. Crossed: off by more than is allowed.",
  specs: [
    { name: "sequences", label: "sequences" },
    { name: "tokens", label: "tokens in each" },
    { name: "offset", label: "added to all", format: tickText },
  ],
  size: (state, width) => 2 * (cardsFor(state, width).height + HEADINGS),
  draw: drawInput,
  summary,
  facts,
}));

export { inputFigure };
