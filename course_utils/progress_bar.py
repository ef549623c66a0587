"""A progress bar for long work: in a notebook a bar that leaves one line behind, in a terminal
tqdm's."""

import sys
import time
from types import TracebackType

__all__ = ["ProgressBar"]

EVERY_S = 0.2


class ProgressBar:
    """A context in which ``show(done)`` moves the bar.

    In a notebook the bar stands under ``title`` and goes when the work is done or interrupted; what
    stays is the title alone, the same on every machine.

    Args:
        title: what is being done.
        total: how much of it there is, in units of the caller's.
        shown: whether to show anything.
    """

    def __init__(self, title: str, total: float, *, shown: bool = True) -> None:
        self.title, self.total, self.shown = title, total, shown
        self._handle = self._tqdm = None
        self._last = -EVERY_S

    def __enter__(self) -> "ProgressBar":
        self._start = time.monotonic()
        if not self.shown:
            return self
        if _in_notebook():
            from IPython.display import display

            self._handle = display(self._bundle(""), raw=True, display_id=True)
        else:
            from tqdm import tqdm

            layout = "{l_bar}{bar}| {elapsed}<{remaining}"
            self._tqdm = tqdm(
                total=self.total, desc=self.title, file=sys.stderr, bar_format=layout, leave=True
            )
        return self

    def show(self, done: float) -> None:
        """Say that ``done`` of the total is done; cheap enough for an inner loop."""
        now = time.monotonic() - self._start
        if now - self._last < EVERY_S:
            return
        self._last = now
        if self._tqdm is not None:
            self._tqdm.update(done - self._tqdm.n)
        if self._handle is not None:
            left = f", about {now / done * (self.total - done):.0f} s left" if done > 0 else ""
            bar = (
                f'<progress value="{done:g}" max="{self.total:g}" '
                f'aria-label="{self.title}"></progress>'
            )
            self._handle.update(self._bundle(f"{bar} {now:.0f} s{left}"), raw=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._tqdm is not None:
            if kind is None:
                self._tqdm.update(self.total - self._tqdm.n)
            self._tqdm.close()
        if self._handle is not None:
            self._handle.update(self._bundle(""), raw=True)

    def _bundle(self, bar: str) -> dict[str, str]:
        return {"text/html": f"<div>{self.title} {bar}</div>", "text/plain": self.title}


def _in_notebook() -> bool:
    """Return whether a Jupyter kernel runs this process."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
