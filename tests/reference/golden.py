"""Scenarios as text, after the ``datadriven`` tests of etcd's raft: a page of commands and what each of them showed.

A page holds steps. A step is one command a line, then ``----``, then its output up to the next empty line; lines that
begin with ``#`` and empty lines stand between steps. A scenario gives each command a method ``do_NAME``: the words
behind the name are its arguments, ``key=value`` its keyword arguments.

The output must be the same to the letter. With ``STORMPROOF_REWRITE=1`` in the environment the pages are written anew:
look at the difference before you commit it.
"""

from __future__ import annotations

import difflib
import inspect
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

REWRITE = "STORMPROOF_REWRITE"
TESTDATA = Path(__file__).parent / "testdata"
_RULE = "----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Commands; ``before`` are the comments and empty lines above them."""

    before: tuple[str, ...]
    commands: tuple[str, ...]


class Scenario:
    """What a page's commands do. Methods add to ``lines`` what is to be seen."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def perform(self, command: str) -> None:
        """Raises ``ValueError`` for a command that there isn't, or that is wrongly used."""
        name, *given = shlex.split(command)
        method = getattr(self, f"do_{name}", None)
        if method is None:
            known = ", ".join(sorted(known[3:] for known in dir(self) if known.startswith("do_")))
            raise ValueError(f"{command!r}: expected one of {known}")
        words = [word for word in given if "=" not in word]
        options = dict(word.split("=", 1) for word in given if "=" in word)
        try:
            inspect.signature(method).bind(*words, **options)
        except TypeError as error:
            raise ValueError(f"{command!r}: {error}") from error
        method(*words, **options)


def pages(folder: str) -> list[Path]:
    """The pages of one protocol. Raises ``FileNotFoundError`` when there is none."""
    found = sorted((TESTDATA / folder).glob("*.txt"))
    if not found:
        raise FileNotFoundError(f"{TESTDATA / folder} holds no page")
    return found


def check(page: Path, make: Callable[[], Scenario]) -> None:
    """Play a page. Raises ``AssertionError`` with the difference, unless it is to be written anew."""
    text = page.read_text("utf-8")
    played = play(text, make())
    if os.environ.get(REWRITE) == "1":
        page.write_text(played, "utf-8")
    elif played != text:
        names = (f"{page.name}, as it is", f"{page.name}, as played")
        difference = difflib.unified_diff(text.splitlines(), played.splitlines(), *names, lineterm="", n=12)
        raise AssertionError("\n".join([*difference, f"If it should be so, say {REWRITE}=1"]))


def play(text: str, scenario: Scenario) -> str:
    """The same page with the output that its commands have now."""
    written: list[str] = []
    for step in _steps(text):
        scenario.lines = []
        for command in step.commands:
            scenario.perform(command)
        assert "" not in scenario.lines, "an empty line ends the output"
        written += [*step.before, *step.commands]
        written += [_RULE, *scenario.lines, ""] if step.commands else []
    while written and not written[-1]:
        written.pop()
    return "\n".join(written) + "\n"


def _steps(text: str) -> Iterator[Step]:
    """Raises ``ValueError`` for commands without a ``----`` below them."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        begin = at
        while at < len(lines) and (not lines[at] or lines[at].startswith("#")):
            at += 1
        before, commands_at = lines[begin:at], at
        while at < len(lines) and lines[at] and lines[at] != _RULE:
            at += 1
        commands = lines[commands_at:at]
        if commands and (at == len(lines) or lines[at] != _RULE):
            raise ValueError(f"line {at + 1}: expected {_RULE} below {commands[-1]!r}")
        while commands and at < len(lines) and lines[at]:  # the old output
            at += 1
        yield Step(before=tuple(before), commands=tuple(commands))
        at += 1
