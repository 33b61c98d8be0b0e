"""Run the commands of a page in order, in one shell, and compare what they print with what the page says.

``python tests/tutorial.py docs/tutorial.md`` does it in the current folder, which should be empty. With ``--write`` it
puts what was printed into the page instead, and into the numbers of its prose; lines that the page leaves out (``...``)
stay out. ``--install`` prints the page's commands that show no output, for ``tests/tutorial_container.sh``. Needs the
standard library alone.
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: A line of the page that stands for any number of lines.
LEFT_OUT = "..."
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.,/-])\d+(?:[.,]\d+)*(?![\w])")
#: Numbers in prose that no command prints: of headings and lists, of versions, and in addresses and commands.
NOT_SHOWN = re.compile(r"^#.*$|^ *\d+\. |Python [\d.]+|\]\([^)]*\)|`(?:stormproof|\.?/)[^`]*`", re.MULTILINE)
#: When a run began is part of its name, and differs each time.
BEGAN = re.compile(r"\b\d{8}T\d{6}\b")
#: What the shell prints before the output of each command.
MARK = "\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """``printed``: what the page shows below it."""

    line: str
    printed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """``files``: by name, what the reader is told to save. ``install``: commands whose output the page doesn't show."""

    files: Mapping[str, str]
    install: str
    commands: tuple[Command, ...]


def parse(text: str) -> Page:
    blocks = BLOCK.findall(text)
    consoles = (commands_of(body) for kind, _, body in blocks if kind == "console")
    return Page(
        files={title: body for _, title, body in blocks if title},
        install="".join(body for kind, _, body in blocks if kind == "sh"),
        commands=tuple(command for console in consoles for command in console),
    )


def commands_of(console: str) -> list[Command]:
    """The commands of one block: each begins with ``$``, and what follows is its output."""
    parts = re.split(r"^\$ ", console, flags=re.MULTILINE)
    if parts[0].strip():
        raise ValueError(f"a console block begins with output: {parts[0].splitlines()[0]!r}")
    split = (part.splitlines() for part in parts[1:])
    return [Command(line=line, printed=tuple(printed)) for line, *printed in split]


def run(page: Page, folder: Path, environment: Mapping[str, str] | None = None) -> list[list[str]]:
    """The lines that each command printed, in an order of their own: one shell runs all, in ``folder``."""
    for name, text in page.files.items():
        (folder / name).write_text(text, "utf-8")
    # The mark is printed between two commands, and must not hide from the second how the first ended.
    script = "".join(f"before=$?; printf '{MARK}'; (exit $before)\n{command.line}\n" for command in page.commands)
    done = subprocess.run(
        ["bash"], input=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=environment
    )
    return [part.splitlines() for part in done.stdout.split(MARK)[1:]]


def fits(said: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the printed lines are the said ones, each :data:`LEFT_OUT` standing for any number of lines."""
    if not said:
        return not printed
    if said[0] == LEFT_OUT:
        return any(fits(said[1:], printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and _same(said[0], printed[0]) and fits(said[1:], printed[1:])


def _same(said: str, printed: str) -> bool:
    return _plain(said) == _plain(printed)


def _plain(line: str) -> str:
    """Without when the run began, and without the width that a column has."""
    return " ".join(BEGAN.sub("", line).split())


def misfits(page: Page, printed: Sequence[Sequence[str]]) -> list[str]:
    """A text for each command whose output is not what the page says."""
    wrong = []
    for command, lines in zip(page.commands, printed, strict=True):
        if not fits(command.printed, lines):
            said, got = "\n".join(command.printed), "\n".join(lines)
            wrong.append(f"$ {command.line}\nthe page says:\n{said}\nit prints:\n{got}")
    return wrong


def unshown(text: str) -> list[str]:
    """The numbers of a page's prose that stand neither in the output that it shows nor in the files that it gives."""
    blocks, prose = FENCE.findall(text), NOT_SHOWN.sub("", FENCE.sub("", text))
    shown = {_value(number) for block in blocks for number in re.findall(r"\d+(?:[.,]\d+)*", block)}
    return [number for number in NUMBER.findall(prose) if _value(number) not in shown]


def _value(number: str) -> str:
    """Without the commas of thousands."""
    return number.replace(",", "")


def renumbered(text: str, said: Sequence[str], printed: Sequence[str]) -> str:
    """The page with those numbers of its prose replaced that have changed from the lines said to the lines printed:
    where both are alike but for numbers, and no number has become two."""
    pairs: dict[str, set[str]] = {}
    for old, new in zip(said, printed, strict=False):
        if NUMBER.sub("", _plain(old)) == NUMBER.sub("", _plain(new)):
            for before, after in zip(NUMBER.findall(_plain(old)), NUMBER.findall(_plain(new)), strict=True):
                pairs.setdefault(before, set()).add(after)
    changed = {before: next(iter(after)) for before, after in pairs.items() if len(after) == 1}
    parts = FENCE.split(text)
    return "".join(
        part if part.startswith("```") else NUMBER.sub(lambda one: changed.get(_value(one[0]), one[0]), part)
        for part in parts
    )


def rewritten(text: str, page: Page, printed: Sequence[Sequence[str]]) -> str:
    """The page with the output of those commands replaced that no longer fit, and the numbers that the prose has of
    it."""
    for command, lines in zip(page.commands, printed, strict=True):
        if not fits(command.printed, lines):
            said, now = "\n".join([f"$ {command.line}", *command.printed]), _shortened(command.printed, lines)
            text = text.replace(said, "\n".join([f"$ {command.line}", *now]), 1)
            text = renumbered(text, command.printed, now)
    return text


def _shortened(said: Sequence[str], printed: Sequence[str]) -> list[str]:
    """All lines; or, where the page leaves lines out, those that are most like the ones it shows."""
    lines = [line.rstrip() for line in printed]
    if LEFT_OUT not in said:
        return lines
    alike = ([line] if line == LEFT_OUT else difflib.get_close_matches(line, lines, n=1) for line in said)
    return [line for found in alike for line in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", action="store_true", help="put what was printed into the page")
    parser.add_argument("--install", action="store_true", help="print the commands that show no output")
    given = parser.parse_args()
    text = given.page.read_text("utf-8")
    page = parse(text)
    if given.install:
        print(page.install, end="")
        return
    printed = run(page, Path.cwd())
    wrong = misfits(page, printed)
    if given.write:
        given.page.write_text(rewritten(text, page, printed), "utf-8")
    elif wrong:
        sys.exit("\n\n".join(wrong))
    print(f"{len(page.commands)} commands, {len(wrong)} with another output than the page says")


if __name__ == "__main__":
    main()
