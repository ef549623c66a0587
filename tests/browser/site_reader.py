"""Somebody who reads the built site in Chromium, from its files."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

__all__ = ["DESKTOP", "PHONE", "TOO_WIDE", "Reader"]

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}
# whatever is wider than a phone must scroll in its own place, and not the page with it
TOO_WIDE = (
    "() => [document.documentElement, document.querySelector('.content')].some((e) => "
    "e.scrollWidth > e.clientWidth)"
)


@dataclass
class Reader:
    """Somebody who reads the whole site: what each page showed, and what went wrong on the way."""

    page: Page
    site: Path
    visits: dict[str, Any] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def watch(self):
        """Keep what the page asks for and what its console says."""
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", self._complain)
        self.page.on("request", lambda request: self.outside.append(request.url))

    def _complain(self, request):
        if request.failure != "net::ERR_ABORTED":  # the reader went on before it was there
            self.complaints.append(request.url)

    def open(self, address):
        """Open a page of the site and wait until its formulas are drawn."""
        self.page.goto(f"{self.site.as_uri()}/{address}")
        if self.page.locator(".math").count():  # they come last
            self.page.wait_for_function("() => MathJax.startup?.promise")
            self.page.evaluate("() => MathJax.startup.promise")

    def strangers(self):
        """Return what was asked for elsewhere than in the site's own files."""
        return [
            url
            for url in self.outside
            if not url.startswith((self.site.as_uri(), "data:", "blob:null"))
        ]
