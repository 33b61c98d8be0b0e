"""One Chromium for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser, browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as tab:
        yield tab
