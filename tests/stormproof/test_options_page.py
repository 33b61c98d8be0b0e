"""The page of options has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import plugins
from chaos.driver import TellsEvents
from chaos.plugins import PluginKind
from stormproof import options_page

PAGE = options_page.write((Path(__file__).parents[2] / "docs/options.md").read_text("utf-8"))


def test_the_page_is_what_the_code_says() -> None:
    assert options_page.write(PAGE) == PAGE, "write it anew with `python -m stormproof.options_page docs/options.md`"


@pytest.mark.parametrize("kind", [PluginKind.DRIVER, PluginKind.WORKLOAD])
def test_every_option_is_on_it(kind: PluginKind) -> None:
    for described in plugins.describe(kind):
        part = PAGE.partition(f"### {described.name}\n")[2].partition("\n### ")[0]
        shown = {line.split()[1].strip("`") for line in part.splitlines() if line.startswith("* `")}
        assert {option.name for option in described.options} <= shown


def test_every_event_of_a_trigger_is_on_it() -> None:
    for name in plugins.names(PluginKind.DRIVER):
        driver = plugins.build(PluginKind.DRIVER, name)
        events = driver.events() if isinstance(driver, TellsEvents) else ()
        assert [event for event in events if f"`{event}`" not in PAGE] == []
