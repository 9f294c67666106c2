"""A browser for the tests of pages: the system's Chromium, which a test does without where there is none."""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 120.0  # seconds: a busy machine is slow, and no failure
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser, or a skipped test that says what is missing; a failed one where ``.ci/run`` asks for it."""
    missing = pytest.fail if os.environ.get("OUTRIDER_BROWSER") == "required" else pytest.skip
    if importlib.util.find_spec("playwright") is None:
        missing("the page's tests need the extra `browser` (playwright)")
    if CHROMIUM is None:
        missing("the page's tests need a Chromium of the system")
    api = importlib.import_module("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


class Tab:
    """A place for one page after the other, with everything that the last one complained of and asked for.

    A renderer takes seconds to start, and each page some for reading plotly: tests share both where they can.
    """

    def __init__(self, browser: Any) -> None:
        self.page = browser.new_context().new_page()
        self.page.set_default_timeout(1000 * PATIENCE)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, address: str, color_scheme: str = "light") -> Tab:
        self.page.set_viewport_size({"width": 1300, "height": 900})
        self.page.emulate_media(color_scheme=color_scheme)
        self.page.goto("about:blank")  # else the page before may still complain of its server, which is gone
        self.complaints.clear()
        self.requests.clear()
        self.page.goto(address)
        self.page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
        return self

    def draw_all(self) -> None:
        """Open every fold, as a reader would, without scrolling to any plot."""
        expand = self.page.locator("#expand")
        if expand.is_visible() and expand.inner_text() == "Expand all":
            expand.click()
        self.until("!document.querySelector('.plot:not(.drawn)')")

    def until(self, script: str) -> None:
        """Wait until a script is true; the page's policy forbids the browser's own way, which evaluates text."""
        end = time.monotonic() + PATIENCE
        while not self.page.evaluate(script):
            assert time.monotonic() < end, f"never true: {script}"
            self.page.wait_for_timeout(20)

    def style(self, selector: str, name: str) -> str:
        script = "([selector, name]) => getComputedStyle(document.querySelector(selector))[name]"
        return self.page.evaluate(script, [selector, name])
