"""The manual page ``stormproof(1)``, made from the commands: ``python -m stormproof.release.manual`` prints it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from chaos.version import VERSION
from stormproof.cli import stormproof
from stormproof.outcome import ExitCode

#: The meaning of each exit code.
EXITS = {
    ExitCode.VALID: "VALID: every promise was kept.",
    ExitCode.INVALID: "INVALID: a promise was broken.",
    ExitCode.UNKNOWN: "UNKNOWN: the evidence does not suffice.",
    ExitCode.ERROR: "Bad input, or the harness broke.",
    ExitCode.NOT_RECOVERED: "The system did not recover.",
    ExitCode.NOT_REACHED: "With --must-reach: a goal that no run reached.",
}


def page() -> str:
    """Return the page in roff, with macros of man(7)."""
    context = click.Context(stormproof, info_name="stormproof")
    return "\n".join([*_head(), *_commands(context), *_end(), ""])


def _head() -> Iterator[str]:
    yield f'.TH STORMPROOF 1 "" "stormproof {VERSION}" "User Commands"'
    yield from (".SH NAME", f"stormproof \\- {roff(_first_sentence(stormproof))}")
    yield from (".SH SYNOPSIS", ".B stormproof", r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]")
    yield from (".SH DESCRIPTION", roff(stormproof.help or ""))
    yield from (".PP", "Each command explains itself with", r".BR \-\-help .")
    yield ".SH COMMANDS"


def _commands(parent: click.Context) -> Iterator[str]:
    for name in stormproof.list_commands(parent):
        command = stormproof.get_command(parent, name)
        assert command is not None
        context = click.Context(command, parent=parent, info_name=name)
        words = " ".join(roff(word) for word in command.collect_usage_pieces(context))
        yield from (f".SS {roff(name)}", f".B stormproof {roff(name)}", words, ".PP")
        yield from _paragraphs(command.help or "")
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None and (record[1] or isinstance(parameter, click.Option)):
                yield from (".TP", f"\\fB{roff(record[0])}\\fR", roff(record[1]) or "\\&")


def _end() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, meaning in EXITS.items():
        yield from (".TP", f"\\fB{int(code)}\\fR", roff(meaning))
    yield from (".PP", "Of several runs the worst code counts, in the order 1, 4, 3, 5, 2, 0.")


def _first_sentence(command: click.Command) -> str:
    return " ".join((command.help or "").split()).partition(". ")[0].rstrip(".")


def _paragraphs(text: str) -> Iterator[str]:
    r"""Yield the paragraphs of a command's help; ``\b`` marks one whose lines stay as they are."""
    for number, paragraph in enumerate(text.split("\f")[0].strip().split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield from (".nf", *(roff(line) for line in paragraph.splitlines()[1:]), ".fi")
        else:
            yield roff(" ".join(paragraph.split()))


def roff(text: str) -> str:
    """Return a text so that roff shows it as it is: no backslash, hyphen, or point at the start of a line has a
    meaning."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


if __name__ == "__main__":
    print(page(), end="")
