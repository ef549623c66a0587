"""How soon a widget's picture follows the hand: from a key going down to the redrawn pixels, measured in the page."""

from dataclasses import dataclass, field
from statistics import quantiles

from playwright.sync_api import Locator
from widget_driver import Widget, arrow_key

__all__ = ["Latency", "measure_latency"]

_PRESSES = 48
_BUDGET_MS = 2000

# In the page, so that no time of Playwright's is counted: from the key's own time stamp, frame by frame, to the moment
# after the frame in which the counter has moved on.
_TIMER = """
() => {
  const counters = {browser: 'frame', kernel: 'kernelFrame'};

  window.courseTimer = (root, who, budget_ms) => new Promise(resolve => {
    const before = {...root.dataset};
    const awaited = Object.entries(counters).filter(([name]) => who.includes(name));
    const found = {};

    const look = pressed => requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => {
        const waited = performance.now() - pressed;
        for (const [name, counter] of awaited)
          if (!(name in found) && root.dataset[counter] !== before[counter]) found[name] = waited;
        if (Object.keys(found).length === awaited.length || waited > budget_ms) resolve(found);
        else look(pressed);
      };
      channel.port2.postMessage(0);
    });

    document.addEventListener('keydown', event => look(event.timeStamp), {capture: true, once: true});
  });
}
"""


@dataclass(frozen=True)
class Latency:
    """Milliseconds from a key going down to the picture, over all presses of one widget."""

    browser_ms: list[float] = field(default_factory=list)
    kernel_ms: list[float] = field(default_factory=list)

    @staticmethod
    def percentile(times_ms: list[float], percent: int) -> float:
        """Return a percentile; with fewer than two times, the only one."""
        return quantiles(times_ms, n=100, method="inclusive")[percent - 1] if len(times_ms) > 1 else times_ms[0]

    def __str__(self) -> str:
        def line(who: str, times_ms: list[float]) -> str:
            if not times_ms:
                return f"{who}: none"
            p50, p95 = (self.percentile(times_ms, percent) for percent in (50, 95))
            return f"{who}: p50 {p50:.0f} ms, p95 {p95:.0f} ms over {len(times_ms)} presses"

        return f"{line('drawn by the browser', self.browser_ms)}; {line('answered by the kernel', self.kernel_ms)}"


def measure_latency(widget: Widget, presses: int = _PRESSES) -> Latency:
    """Press arrow keys on a widget's sliders, ``presses`` in all, and time each redraw.

    Half of them as the widget is found, half with every slider at its end, where the most is drawn. A redraw that does
    not come counts as ``_BUDGET_MS``; a kernel that the first press does not ask is not timed.
    """
    widget.page.evaluate(_TIMER)
    latency = Latency()
    who = ["browser", "kernel"]
    for press in range(presses):
        sliders = [control for control in widget.controls() if control.kind == "range" and control.usable]
        if not sliders:
            break
        if press == presses // 2:
            for slider in sliders:
                widget.element(slider).press("End")
            widget.page.wait_for_timeout(300)  # the kernel's answers to that are none of the times
        slider = widget.element(sliders[press * 2 * len(sliders) // presses % len(sliders)])
        found = _time_press(widget, slider, arrow_key(slider, press), who)
        if press == 0 and "kernel" not in found:
            who = ["browser"]
        latency.browser_ms.append(found.get("browser", _BUDGET_MS))
        if "kernel" in who:
            latency.kernel_ms.append(found.get("kernel", _BUDGET_MS))
        widget.page.wait_for_timeout(30)  # about as often as a held key repeats
    return latency


def _time_press(widget: Widget, slider: Locator, key: str, who: list[str]) -> dict[str, float]:
    slider.focus()
    arm = "([root, who, budget]) => { window.courseTiming = courseTimer(root, who, budget) }"
    widget.page.evaluate(arm, [widget.root.element_handle(), who, _BUDGET_MS])
    widget.page.keyboard.press(key)
    return widget.page.evaluate("() => window.courseTiming")
