"""The page of commands has all of them, and what reads runs can print JSON."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from stormproof import commands_page
from stormproof.cli import stormproof

PAGE = commands_page.write((Path(__file__).parents[2] / "docs/commands.md").read_text("utf-8"))
#: Commands that read what was recorded, and print what they found.
READING = ("check", "diff", "explain", "export", "finding", "linearize", "list", "report", "rows", "runs", "summary")


def test_the_page_is_what_the_commands_say() -> None:
    assert commands_page.write(PAGE) == PAGE, "write it anew with `python -m stormproof.commands_page docs/commands.md`"


def test_every_command_and_option_is_on_it() -> None:
    context = click.Context(stormproof, info_name="stormproof")
    for name in stormproof.list_commands(context):
        command = stormproof.get_command(context, name)
        assert command is not None and f"\n## {name}\n" in PAGE
        part = PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        options = [one for it in command.params if isinstance(it, click.Option) and not it.hidden for one in it.opts]
        assert [one for one in options if one not in part] == []


@pytest.mark.parametrize("name", READING)
def test_what_reads_runs_prints_json_too(name: str) -> None:
    command = stormproof.get_command(click.Context(stormproof), name)
    assert command is not None
    assert "--json" in [one for it in command.params for one in it.opts]
