// Widgets without a kernel: each is drawn by the JavaScript that JupyterLab runs, from the state and data in the page.
const courseWidgets = {};

/** What anywidget gives a widget to keep its state in, here for this page alone. */
function localModel(values) {
  const listeners = new Map();
  return {
    get: (name) => values[name],
    set(name, value) {
      values[name] = value;
      for (const listener of listeners.get(`change:${name}`) ?? []) listener();
    },
    save_changes() {},
    on(name, listener) {
      listeners.set(name, [...(listeners.get(name) ?? []), listener]);
    },
    off() {},
  };
}

addEventListener("DOMContentLoaded", () => {
  for (const place of document.querySelectorAll(".course-live")) {
    const { state, data } = JSON.parse(place.querySelector("script").textContent);
    const model = localModel({ state, data, request: 0, answer: {} });
    place.querySelector(".course-picture")?.remove();
    courseWidgets[place.dataset.widget].render({ model, el: place });
  }
});
