"""The manual pages, one for each command, made by click-man: ``python -m stormproof.release.manual FOLDER``.

Their date is ``SOURCE_DATE_EPOCH``, where that is set.
"""

from __future__ import annotations

import sys
from copy import copy
from pathlib import Path

import click
from click_man.core import write_man_pages

from chaos.version import VERSION
from stormproof.cli import stormproof
from stormproof.outcome import MEANINGS


def write(folder: Path) -> None:
    """Write ``stormproof.1`` and a ``stormproof-COMMAND.1`` for each command that is shown into a new folder."""
    folder.mkdir(parents=True)
    # click-man sees the commands that a group holds, and ours is asked for each.
    whole = click.Group("stormproof", help=stormproof.help, params=stormproof.params)
    context = click.Context(stormproof)
    for name in stormproof.list_commands(context):
        command = copy(stormproof.get_command(context, name))
        assert command is not None
        command.short_help = first_sentence(command)
        whole.add_command(command, name)
    whole.short_help = first_sentence(whole)
    write_man_pages("stormproof", whole, version=VERSION, target_dir=str(folder))
    with (folder / "stormproof.1").open("a", encoding="utf-8") as file:
        file.write(".SH EXIT STATUS\n")
        file.writelines(f".TP\n\\fB{code}\\fP\n{meaning}\n" for code, meaning in MEANINGS.items())
        file.write(".PP\nOf several runs the worst code counts, in the order 1, 4, 3, 5, 2, 0.\n")


def first_sentence(command: click.Command) -> str:
    return " ".join((command.help or "").split()).partition(". ")[0].rstrip(".")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
