"""All commands with their arguments and options, as a page that is made from the commands themselves.

``python -m stormproof.commands_page docs/commands.md`` writes the tables of that page again, between its marks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from stormproof.catalogue import fill, prose
from stormproof.cli import stormproof
from stormproof.outcome import MEANINGS


def write(page: str) -> str:
    """Return the page with its parts made again."""
    return fill(page, {"commands": _commands(), "exit codes": _exits()})


def _commands() -> Iterator[str]:
    parent = click.Context(stormproof, info_name="stormproof")
    for name in stormproof.list_commands(parent):
        command = stormproof.get_command(parent, name)
        assert command is not None
        context = click.Context(command, parent=parent, info_name=name)
        yield from (
            f"## {name}",
            "",
            f"    {' '.join(['stormproof', name, *command.collect_usage_pieces(context)])}",
            "",
        )
        for paragraph in _paragraphs(command.help or ""):
            yield from (*paragraph, "")
        yield from _options(command, context)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [one.get_help_record(context) for one in command.params if isinstance(one, click.Option)]
    if shown := [record for record in records if record is not None]:
        yield from ("| option | meaning |", "|---|---|")
        yield from (f"| `{_cell(words)}` | {_cell(meaning)} |" for words, meaning in shown)
        yield ""


def _paragraphs(text: str) -> Iterator[list[str]]:
    r"""Yield the paragraphs of a command's help; one that begins with ``\b`` keeps its lines."""
    for paragraph in text.split("\f")[0].strip().split("\n\n"):
        if paragraph.startswith("\b"):
            yield [f"    {line}" for line in paragraph.splitlines()[1:]]
        else:
            yield prose(" ".join(paragraph.split()))


def _exits() -> Iterator[str]:
    yield from ("| code | meaning |", "|---|---|")
    yield from (f"| {int(code)} | {_cell(meaning)} |" for code, meaning in MEANINGS.items())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(write(path.read_text("utf-8")).rstrip("\n") + "\n", "utf-8")


if __name__ == "__main__":
    main()
