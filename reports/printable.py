"""Texts as people can be shown them: values come from the system under test, and from runs of strangers.

What a terminal takes for a command, what turns the direction of writing, and what is no character at all, is replaced
in texts and escaped in JSON.
"""

from __future__ import annotations

import json

INSTEAD = "\N{REPLACEMENT CHARACTER}"
#: What may stand between the lines of a document, and within them.
_LAYOUT = "\n\t"


def printable(text: str) -> str:
    """Return a text as one line, or a part of one: what would begin another one is replaced, too."""
    return text if text.isprintable() else "".join(c if c.isprintable() else INSTEAD for c in text)


def document(text: str) -> str:
    """Return a text of several lines as people can be shown it."""
    return "".join(c if c.isprintable() or c in _LAYOUT else INSTEAD for c in text)


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON. JSON itself escapes the first control characters alone, not DEL nor those that follow it,
    and no mark that turns the direction of writing; halves of surrogate pairs could not be written at all."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if all(map(str.isprintable, text.split("\n"))):
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}" if character.isascii() else json.dumps(character)[1:-1]


def argument(path: object) -> str:
    """Return a path as a word of a command line that no program takes for an option."""
    word = str(path)
    return f"./{word}" if word.startswith("-") else word
