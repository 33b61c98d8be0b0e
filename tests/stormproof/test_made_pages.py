"""What the pages say that are made from the code is what the code says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.judging.registry import registry
from stormproof import catalogue, commands_page, events_page, laws_page, options_page

DOCS = Path(__file__).parents[2] / "docs"
MADE = {
    "faults.md": catalogue.write,
    "commands.md": commands_page.write,
    "history.md": events_page.write,
    "laws.md": laws_page.write,
    "options.md": options_page.write,
    **{f"promises/{promise.name}.md": laws_page.write_promise for promise in registry().promises},
}


@pytest.mark.parametrize(("name", "write"), MADE.items())
def test_what_a_page_says_is_what_the_code_says(name: str, write: Callable[[str], str]) -> None:
    """What is new may be missing: `make docs` writes the pages, and `make dist` refuses to go on without it."""
    page = (DOCS / name).read_text("utf-8")
    now = {*write(page).splitlines()}
    assert [line for line in page.splitlines() if line not in now] == [], "`make pages` writes it again"


@pytest.mark.parametrize(("name", "write"), MADE.items())
def test_what_is_written_again_stays(name: str, write: Callable[[str], str]) -> None:
    once = write((DOCS / name).read_text("utf-8"))
    assert write(once) == once
