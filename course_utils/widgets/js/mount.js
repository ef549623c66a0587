// One widget on the page: controls, picture, facts; the state kept with the kernel; a counter that tests can wait for.

/**
 * What a widget's script exports: `describe(data, model)` returns the options of `mount`; tests ask it for them.
 *
 * options: { name, title, hint, specs: as controls.js has them, size(state, width, data) -> height,
 *            draw(context, state, width, data, height), summary(state, data) -> text,
 *            facts(state, data, answer) -> [[label, text]],
 *            change?(state, control, value, data) -> state, where more follows than the control's own field,
 *            pick?: { at(x, y, state, width, data, held) -> state | null, key(event, state, data) -> state | null },
 *            factClasses?: { label: any of "wide code live" }, asksKernel?, needsKernel?: nothing answers in its place,
 *            reseed?: the name of a button that draws anew, from the next of data.limits.seed,
 *            play?: { tick(state, data) -> the state `every` (50) ms later, rest?(state) -> where to stop, every? } }
 *
 * `facts` gets the kernel's last answer that came, and lines of class "live" fade while the next one is late. `held` is
 * true while what a press has hit is being dragged.
 */
const widgetOf = (describe) => ({ describe, render: (view) => mount(view, describe(view.model.get("data"), view.model)) });

/** The state with one field changed: what a control does unless a widget says more. */
const withField = (state, control, value) => ({ ...state, [control]: value });

/** Put a widget into `el`. The root carries data-frame, counted up once a change of state has been drawn. */
function mount({ model, el }, options) {
  const data = model.get("data"); // never changes
  const change = options.change ?? withField;
  const root = element("div", { class: "course-widget", "data-widget": options.name });
  root.dataset.frame = 0;
  if (options.needsKernel) root.dataset.needsKernel = "";
  const hintId = uniqueId();
  const canvas = element("canvas", { "aria-label": options.title, role: "img", "aria-describedby": hintId });
  const stage = element("div", { class: "course-stage" }, canvas);
  const hint = element("p", { class: "course-hint", id: hintId }, options.hint);
  const summary = element("p", { class: "course-summary", role: "status" });
  const facts = element("dl", { class: "course-facts" });
  const { panel, show } = controlPanel(options.specs, data, (control, value) =>
    setState(change(model.get("state"), control, value, data)),
  );
  const player = options.play && playButton(options.play, model, setState, summary);
  if (player) panel.prepend(player.row);
  const buttons = element("div", { class: "course-control course-buttons" });
  if (options.reseed) buttons.append(button(options.reseed, () => setState(reseeded(model.get("state"), data))));
  buttons.append(button("reset", () => setState(structuredClone(data.first)))); // the first state
  panel.append(buttons);
  root.append(element("div", { class: "course-body" }, panel, summary, stage, hint, facts));
  el.append(root);
  root.addEventListener("keydown", handOn);

  const answer = () => (model.get("answer")?.request === model.get("request") ? model.get("answer") : null);
  let width = 0;

  function drawPicture() {
    if (!width) return;
    const state = model.get("state");
    const wide = Math.max(width, options.minimumWidth?.(state) ?? 0);
    const height = options.size(state, wide, data);
    options.draw(prepareCanvas(canvas, wide, height), state, wide, data, height);
  }

  function writeWords() {
    const state = model.get("state");
    setText(summary, options.summary(state, data));
    root.dataset.stale = Boolean(options.asksKernel) && !answer();
    showFacts(facts, options.facts(state, data, model.get("answer")), options.factClasses ?? {});
  }

  function onState() {
    show(model.get("state"));
    drawPicture();
    writeWords();
    root.dataset.frame = Number(root.dataset.frame) + 1;
  }

  function onAnswer() {
    if (!answer()) return; // the answer to a state that is gone: the newer one is under way
    drawPicture();
    writeWords();
  }

  // The kernel is told of the newest state only: while it is busy, ipywidgets merges what has been set since.
  function setState(state) {
    if (JSON.stringify(state) === JSON.stringify(model.get("state"))) return; // at the end of a row, say
    if (options.asksKernel) model.set("request", model.get("request") + 1);
    model.set("state", state);
    model.save_changes();
  }

  if (options.pick) makePickable(canvas, options.pick, model, setState);

  const observer = new ResizeObserver(([entry]) => {
    const next = Math.floor(entry.contentRect.width);
    if (next === width) return;
    width = next;
    drawPicture();
  });
  observer.observe(stage);
  model.on("change:state", onState);
  model.on("change:answer", onAnswer);
  show(model.get("state"));
  writeWords();

  return () => {
    player?.stop();
    observer.disconnect();
    model.off("change:state", onState);
    model.off("change:answer", onAnswer);
  };
}

/** JupyterLab is kept from all keys of a control: Shift + Enter and Ctrl + Enter run the cell all the same. */
function handOn(event) {
  const notebook = event.currentTarget.closest(".jp-Notebook");
  const runs = event.key === "Enter" && (event.shiftKey || event.ctrlKey);
  if (!notebook || !runs || event.target.matches("textarea")) return;
  event.preventDefault(); // a button is not pressed by it
  notebook.dispatchEvent(new KeyboardEvent("keydown", event));
}

function button(name, press) {
  const pressed = element("button", { type: "button", ...KEEP_KEYS }, name);
  pressed.addEventListener("click", press);
  return pressed;
}

const reseeded = (state, data) => ({ ...state, seed: (state.seed + 1) % (data.limits.seed[1] + 1) });

/** A button that lets time pass until it is pressed again; where motion is unwelcome, a second at each press. */
function playButton({ tick, rest = (state) => state, every = 50 }, model, setState, summary) {
  const data = model.get("data");
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const button = element("button", { type: "button", ...KEEP_KEYS });
  let timer = 0;
  const show = () => setText(button, timer ? "■ pause" : still() ? "▶ a second on" : "▶ play");
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    summary.setAttribute("aria-live", "polite");
  };
  button.addEventListener("click", () => {
    if (timer) {
      stop();
      setState(rest(model.get("state")));
    } else if (still()) {
      let next = model.get("state");
      for (let i = 0; i < 1000 / every; i++) next = tick(next, data);
      setState(rest(next));
    } else {
      summary.setAttribute("aria-live", "off"); // nobody wants to hear every tick
      timer = setInterval(() => setState(tick(model.get("state"), data)), every);
    }
    show();
  });
  show();
  return { row: element("div", { class: "course-control course-play" }, button), stop };
}

/** Let the picture be clicked, and moved in with the arrow keys. */
function makePickable(canvas, pick, model, setState) {
  const data = model.get("data");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("data-lm-suppress-shortcuts", "true");
  const apply = (next, event) => {
    if (!next) return;
    event.preventDefault();
    setState(next);
  };
  canvas.addEventListener("keydown", (event) => apply(pick.key(event, model.get("state"), data), event));
  let held = false; // whether this press has hit something
  const pickAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const next = pick.at(x, y, model.get("state"), canvas.clientWidth, data, held);
    held ||= next !== null;
    apply(next, event);
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    held = false;
    pickAt(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons & 1) pickAt(event);
  });
}

/** Show label and text pairs; the elements are kept from one state to the next, and lines without text are hidden. */
function showFacts(list, rows, classes) {
  while (list.children.length > 2 * rows.length) list.lastChild.remove();
  rows.forEach(([label, text], i) => {
    if (!list.children[2 * i]) list.append(element("dt"), element("dd"));
    const [term, description] = [list.children[2 * i], list.children[2 * i + 1]];
    setText(term, label);
    setText(description, text);
    term.hidden = description.hidden = !text;
    description.className = (classes[label] ?? "").replace(/\w+/g, "course-$&");
  });
}
