// Drawing on a canvas that is sharp on every screen, and the few marks that the widgets share.

const FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
const fontOf = (px, weight = "normal") => `${weight} ${px}px ${FONT}`;

/** Size the canvas in page pixels, back it with the screen's own, and return a context that draws in page pixels. */
function prepareCanvas(canvas, width, height) {
  const density = Math.max(1, window.devicePixelRatio || 1);
  const [columns, rows] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.fillStyle = STYLE.paper;
  context.fillRect(0, 0, width, height);
  context.textBaseline = "middle";
  return context;
}

/** Mix a palette colour with the paper: amount 1 is the colour, 0 the paper. */
function tint(colour, amount) {
  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const paper = channels(STYLE.paper);
  return `rgb(${channels(colour)
    .map((c, i) => Math.round(paper[i] + (c - paper[i]) * amount))
    .join(",")})`;
}

/** Write a line of text, `onPlate` where it would lie on lines: they stay pale below it. */
function drawText(context, text, x, y, { px = 13, weight = "normal", align = "left", colour = STYLE.ink, onPlate } = {}) {
  context.font = fontOf(px, weight);
  context.textAlign = align;
  if (onPlate) {
    const wide = context.measureText(text).width + 4;
    const left = x - { left: 2, center: wide / 2, right: wide - 2 }[align];
    context.fillStyle = STYLE.paper + "dd";
    context.fillRect(left, y - px / 2 - 1, wide, px + 2);
  }
  context.fillStyle = colour;
  context.fillText(text, x, y);
}

/** Write text in lines no wider than `width`; returns the height below the last line. */
function drawParagraph(context, text, x, y, width, { px = 13, weight = "normal", colour = STYLE.ink } = {}) {
  context.font = fontOf(px, weight);
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line ? `${line} ${word}` : word;
    if (line && context.measureText(longer).width > width) {
      drawText(context, line, x, y, { px, weight, colour });
      [line, y] = [word, y + px * 1.4];
    } else line = longer;
  }
  drawText(context, line, x, y, { px, weight, colour });
  return y + px * 1.4;
}

/** What PyTorch says to an impossible setting, in a box of its own. */
function drawRefusal(context, message, { left, top, width, height }, heading = "PyTorch refuses") {
  context.fillStyle = STYLE.paper;
  context.fillRect(left, top, width, height);
  context.strokeStyle = STYLE.palette[1];
  context.lineWidth = 2;
  context.strokeRect(left, top, width, height);
  drawText(context, heading, left + 12, top + 17, { weight: "bold" });
  drawParagraph(context, message, left + 12, top + 37, width - 24);
}

/** What a line of this look stands for, written above a panel's right end. */
function drawKey(context, text, right, y, look) {
  drawText(context, text, right, y, { px: 12, align: "right" });
  const end = right - context.measureText(text).width - 6;
  drawLine(
    context,
    [
      [end - 20, y],
      [end, y],
    ],
    look,
  );
}

function drawLine(context, points, { colour = STYLE.ink, width = 1, dash = [] } = {}) {
  context.beginPath();
  points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
}

/** A linear scale from values to pixels. */
const scaleOf =
  ([v0, v1], [p0, p1]) =>
  (value) =>
    p0 + ((value - v0) / (v1 - v0)) * (p1 - p0);

/** The smallest of `digits` times a power of ten that is not below `value`. */
function ceilingOf(value, digits) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * digits.find((digit) => digit * power >= value * (1 - 1e-12));
}

/** An axis's end that moves in steps, so that what it measures is seen to move. */
const axisLimit = (value) => ceilingOf(value, [1, 1.5, 2, 3, 4, 5, 6, 8, 10]);

/** Round tick values inside [low, high], at most `most` of them. */
function ticksBetween(low, high, most = 5) {
  const step = ceilingOf((high - low) / most, [1, 2, 5, 10]);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

const grouped = (value) => (Math.abs(value) < 1e3 ? String(value) : value.toLocaleString("en-US")).replaceAll("-", "−");
const tickText = (value) => grouped(Number(value.toPrecision(6)));

/** Horizontal rules with their values, and the axis's name above. */
function drawVerticalAxis(context, { scale, ticks, left, right, top, name, text = tickText }) {
  for (const tick of ticks) {
    const y = scale(tick);
    drawLine(
      context,
      [
        [left, y],
        [right, y],
      ],
      { colour: tick === 0 ? STYLE.muted : STYLE.rule },
    );
    drawText(context, text(tick), left - 6, y, { px: 12, align: "right" });
  }
  drawText(context, name, left, top, { px: 13, weight: "bold" });
}

/** Numbers as the course's `format_number` writes them: 3 significant digits, thousands grouped, a true minus sign. */
function formatNumber(value) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e5) return value.toExponential(1).replaceAll("-", "−");
  return grouped(Number(size < 1e3 ? value.toPrecision(3) : value.toFixed(0)));
}
