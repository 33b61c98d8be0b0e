"""``stormproof --help``: all commands in groups, each in a line that is not cut, and older names that still work."""

from __future__ import annotations

import click
import pytest

from stormproof import cli
from stormproof.commands._groups import GROUPS, HIDDEN

COLUMNS, LINES = 80, 45


def test_the_help_shows_every_command_in_a_line_of_its_group(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    assert cli._run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= COLUMNS and len(lines) <= LINES
    shown = [line.split()[0] for line in lines[lines.index("Start:") :] if line.startswith("  ")]
    context = click.Context(cli.stormproof)
    assert sorted(shown) == sorted(set(cli.stormproof.list_commands(context)) - set(HIDDEN))
    assert not [line for line in lines[1:] if line.endswith("...")]


def test_every_group_names_commands_that_there_are() -> None:
    known = set(cli.stormproof.list_commands(click.Context(cli.stormproof)))
    assert {name for commands in GROUPS.values() for name in commands} <= known
    assert set(HIDDEN) <= known


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_hidden_still_works(name: str) -> None:
    command = cli.stormproof.get_command(click.Context(cli.stormproof), name)
    assert command is not None and command.hidden
