"""All commands with their arguments and options, as a page that is made from the commands themselves.

``python -m stormproof.commands_page docs/commands.md`` writes the tables of that page again, between its marks.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from stormproof.catalogue import fill, prose
from stormproof.cli import stormproof
from stormproof.outcome import MEANINGS

#: Options with the same words in so many commands stand in one table.
SHARED = 3

Record = tuple[str, str]


def write(page: str) -> str:
    """Return the page with its parts made again."""
    found = dict(_records())
    counts = Counter(record for records in found.values() for record in records)
    shared = [record for record, count in counts.items() if count >= SHARED]
    parts = {
        "groups": _groups(),
        "exit codes": _exits(),
        "shared options": _table(shared),
        "commands": _commands(found, shared),
    }
    return fill(page, parts)


def _records() -> Iterator[tuple[click.Context, list[Record]]]:
    """Yield the context of each command with its options' words and meanings."""
    parent = click.Context(stormproof, info_name="stormproof")
    for name in stormproof.list_commands(parent):
        command = stormproof.get_command(parent, name)
        assert command is not None
        context = click.Context(command, parent=parent, info_name=name)
        records = [one.get_help_record(context) for one in command.params if isinstance(one, click.Option)]
        yield context, [record for record in records if record is not None]


def _groups() -> Iterator[str]:
    """Yield a table of the commands in the groups of ``stormproof --help``."""
    yield from ("| | command | what it does |", "|---|---|---|")
    for title, lines in stormproof.groups(click.Context(stormproof)):
        for number, (name, words) in enumerate(lines):
            yield f"| {'' if number else title} | [`{name}`](#{name}) | {_cell(words)} |"
    yield ""


def _commands(found: Mapping[click.Context, Sequence[Record]], shared: Sequence[Record]) -> Iterator[str]:
    for context, records in found.items():
        command = context.command
        usage = " ".join(["stormproof", str(context.info_name), *command.collect_usage_pieces(context)])
        yield from (f"## {context.info_name}", "", f"    {usage}", "")
        for paragraph in _paragraphs(command.help or ""):
            yield from (*paragraph, "")
        yield from _table([record for record in records if record not in shared])
        if names := [_names(words) for words, meaning in records if (words, meaning) in shared]:
            yield from (f"Also {', '.join(names)}.", "")


def _names(words: str) -> str:
    """Return the names of an option, without its value."""
    return "/".join(f"`{word.rstrip(',')}`" for word in words.split() if word.startswith("-"))


def _table(records: Sequence[Record]) -> Iterator[str]:
    if records:
        yield from ("| option | meaning |", "|---|---|")
        yield from (f"| `{_cell(words)}` | {_cell(meaning)} |" for words, meaning in records)
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
