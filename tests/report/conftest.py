"""A browser for each file of tests of a page, and a tab in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browsing import Tab, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def tab(browser: Any) -> Tab:
    return Tab(browser)
