// The least time of a layer norm by its bytes and by its operations, and what the built-in really took, as bars.

const LABEL = 64; // pixels, room for a time beside its bar
const BARS = { top: 34, pitch: 46, thick: 22, bottom: 44 };
const edges = (width) => (width < 500 ? { left: 112, right: 84 } : { left: 150, right: 110 });

/** What follows from the state without measuring. */
function leastTime(state, data) {
  const [matrix, both] = [state.rows * state.features, state.direction === "both"];
  const numbers = 2 * matrix + 2 * state.features + (both ? 3 * matrix + 3 * state.features : 0);
  const bytes = numbers * data.itemsizes[state.dtype];
  const operations = data.operations[state.direction] * matrix;
  return { bytes, operations, memoryMs: bytes / data.bandwidth_gbps / 1e6, arithmeticMs: operations / data.peak_gflops / 1e6 };
}

const FROM_CACHE =
  "Less than memory allows: from one run to the next the numbers, or a part of them, stay in a cache, which is faster.";

const timeText = (ms) => (ms < 1 ? `${formatNumber(1e3 * ms)} µs` : `${formatNumber(ms)} ms`);

function drawTimes(context, state, width, answer, data) {
  const times = leastTime(state, data);
  const bars = [
    ["from memory", times.memoryMs, STYLE.palette[0]],
    ["by arithmetic", times.arithmeticMs, STYLE.palette[1]],
    ["measured", answer?.measured_ms, STYLE.palette[2]],
  ];
  const { left, right } = edges(width);
  const longest = Math.max(...bars.map(([, ms]) => ms ?? 0)); // from zero, so that a bar of half the time is half as long
  const across = scaleOf([0, longest], [left, width - right]);
  const bottom = BARS.top + BARS.pitch * bars.length;
  const least = Math.max(across(Math.max(times.memoryMs, times.arithmeticMs)), left + 2);
  const bound = times.memoryMs >= times.arithmeticMs ? "least, from memory" : "least, by arithmetic";
  const [unit, inUnit] = longest < 1 ? ["µs", 1e3] : ["ms", 1];
  for (const tick of ticksBetween(0, longest * inUnit, width < 500 ? 3 : 6)) {
    const place = across(tick / inUnit);
    drawLine(context, [[place, BARS.top - 10], [place, bottom]], { colour: STYLE.rule });
    drawText(context, tickText(tick), place, bottom + 14, { px: 12, align: "center" });
  }
  drawText(context, `time (${unit})`, (left + width - right) / 2, bottom + 34, { align: "center" });
  bars.forEach(([name, ms, colour], i) => {
    const y = BARS.top + BARS.pitch * i;
    drawText(context, name, left - 10, y + BARS.thick / 2, { align: "right", weight: "bold" });
    if (!ms) {
      drawText(context, "measuring …", left + 8, y + BARS.thick / 2, { colour: STYLE.muted });
      return;
    }
    const end = Math.max(across(ms), left + 2); // the shortest is a stub on the axis
    context.fillStyle = colour;
    context.fillRect(left, y, end - left, BARS.thick);
    const wouldMeet = end < least && least < end + 8 + LABEL; // the dashed line
    drawText(context, timeText(ms), (wouldMeet ? least : end) + 8, y + BARS.thick / 2);
  });
  drawLine(context, [[least, BARS.top - 10], [least, bottom]], { width: 2, dash: [5, 4] });
  drawText(context, bound, Math.max(least, left + 60), BARS.top - 20, { px: 12, align: "center" });
}

function facts(state, answer, data) {
  const times = leastTime(state, data);
  const least = Math.max(times.memoryMs, times.arithmeticMs);
  const measured = answer.measured_ms;
  const rate = measured && `${timeText(measured)}, ${formatNumber(measured / least)} times the least`;
  return [
    ["to move", `${times.bytes.toLocaleString("en")} bytes`],
    ["operations per byte", formatNumber(times.operations / times.bytes)],
    [times.memoryMs >= times.arithmeticMs ? "least, from memory" : "least, by arithmetic", timeText(least)],
    ["built-in, measured", rate],
    ["useful bandwidth", measured && `${formatNumber(times.bytes / measured / 1e6)} GB/s of ${formatNumber(data.bandwidth_gbps)}`],
    ["remark", measured < least ? FROM_CACHE : ""],
  ];
}

function summary(state, data) {
  const times = leastTime(state, data);
  const limit = times.memoryMs >= times.arithmeticMs ? "memory" : "arithmetic";
  const shape = `(${state.rows}, ${state.features}) ${state.dtype}`;
  return `${shape}, ${data.directions[state.direction]}: bound by ${limit}, at least ${timeText(Math.max(times.memoryMs, times.arithmeticMs))}.`;
}

export default widgetOf((data, model) => {
  const recorded = (state) => data.recorded_ms?.[[state.rows, state.features, state.dtype, state.direction].join("/")];
  const answerTo = (state) => {
    if (data.recorded_ms) return { measured_ms: recorded(state) };
    const answer = model.get("answer");
    return answer?.request === model.get("request") ? answer : null;
  };
  return {
    name: "least_time",
    title: "The least time of a layer norm by its bytes and by its operations, and the measured one.",
    hint: data.recorded_ms
      ? "Times of F.layer_norm and the roofline were recorded on a machine of two CPU cores."
      : "The kernel measures F.layer_norm a few times for every setting; the roofline is this machine's.",
    specs: [
      { name: "rows", label: "rows" },
      { name: "features", label: "features" },
      { name: "dtype", label: "dtype", kind: "select", options: data.order.itemsizes },
      { name: "direction", label: "pass", kind: "select", options: choicesIn(data, "directions") },
    ],
    size: () => BARS.top + 3 * BARS.pitch + BARS.bottom,
    draw: (context, state, width) => drawTimes(context, state, width, answerTo(state), data),
    summary,
    facts: (state, data, answer) => facts(state, answerTo(state) ?? answer ?? {}, data),
    factClasses: { "built-in, measured": "live", "useful bandwidth": "live", remark: "wide live" },
    asksKernel: !data.recorded_ms,
    needsKernel: !data.recorded_ms,
  };
});

export { leastTime };
