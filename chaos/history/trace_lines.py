"""The lines of a trace file: typed ones, JSON objects, and the headers that say what typed ones mean.

``docs/history.md`` defines them. A node writes most of its rows in few forms, so that a form is given once, as a
header, and its rows are numbers and pieces of JSON with tabs between them: about half the work for writers, and a
fraction of it for readers. Imports only the standard library, because nodes do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

#: The whole numbers of a typed line, after that of its form.
COLUMNS = ("time_ns", "step", "epoch", "queue", "offset", "position", "message", "hash")
#: What all rows of a form have in common.
COMMON = ("f", "node", "incarnation")
#: The end of a line that was cut short: with it, it is no row whatever was left of it.
SPOILT = "!\n"
#: A header begins with it. Typed lines begin with a digit, JSON objects with a brace.
HEADER = b"="
#: The columns of a trace row that are numbers, and texts; the others are not for it to say.
_NUMBERS = frozenset({*COLUMNS, "incarnation", "op"})
_TEXTS = frozenset({"f", "node", "type", "process"})
#: So many forms has a life; rows of others are JSON objects, as of a node whose values have ever new keys.
MOST_FORMS = 256
LARGEST_FORM = 1_000
#: Of lines of so many bytes a segment is made while their node goes on writing.
PIECE_BYTES = 1 << 25

#: A whole number as it stands in a typed line: as Python writes it, and nothing else.
_NUMBER = re.compile(rb"0|-?[1-9][0-9]*")
#: ``json.dumps`` would make a new one for each row.
_encode = json.JSONEncoder(separators=(",", ":")).encode
_numbers = itemgetter(*COLUMNS)
#: Of a row that may be typed: all of these, ``kind`` and ``value``.
_WHOLE = len(COLUMNS) + len(COMMON) + 2


@dataclass(frozen=True, slots=True)
class Form:
    """What a header says: the rows of these lines have the columns ``common``, a number for each of ``columns``, and a
    value with ``keys``, each of which has a piece of JSON."""

    number: int
    common: Mapping[str, Any]
    columns: tuple[str, ...]
    keys: tuple[str, ...]

    @classmethod
    def parse(cls, line: bytes) -> Form:
        """Return the form that a header gives. Raises ``ValueError`` for what is none."""
        header = json.loads(line.removeprefix(HEADER))
        if not isinstance(header, dict):
            raise ValueError("it is not an object")
        number, common, columns, keys = (header.get(name) for name in ("form", "row", "columns", "value"))
        if type(number) is not int or not 0 <= number < LARGEST_FORM or not isinstance(common, dict):
            raise ValueError("it lacks its number, or what its rows have in common")
        if not isinstance(columns, list) or not isinstance(keys, list):
            raise ValueError("it lacks columns, or keys")
        if not all(isinstance(name, str) for name in (*columns, *keys)):
            raise ValueError("a column or a key is not a text")
        if {*columns} & {*common} or not {*columns, *common} <= _NUMBERS | _TEXTS or {*columns} & _TEXTS:
            raise ValueError("no trace row has such columns")
        if not all(type(given) is (str if name in _TEXTS else int) for name, given in common.items()):
            raise ValueError("a column of its rows is none")
        return cls(number, common, tuple(columns), tuple(keys))

    @property
    def header(self) -> str:
        """The header that gives this form, without its end."""
        fields = {"form": self.number, "row": self.common, "columns": self.columns, "value": self.keys}
        return f"={_encode(fields)}"

    def row(self, pieces: Sequence[bytes]) -> dict[str, Any]:
        """Return the row of the pieces that follow the form's number in a line. Raises ``ValueError`` when they are
        none."""
        if len(pieces) != len(self.columns) + len(self.keys):
            raise ValueError("it has more or fewer pieces than its form")
        numbers, values = pieces[: len(self.columns)], pieces[len(self.columns) :]
        if not all(_NUMBER.fullmatch(piece) for piece in numbers) or not b"".join(values).isascii():
            raise ValueError("a piece is not a number, or not in ASCII")
        return {
            **self.common,
            **dict(zip(self.columns, map(int, numbers), strict=True)),
            "value": dict(zip(self.keys, map(json.loads, values), strict=True)),
        }


class Encoder:
    """Makes lines of the rows of one life."""

    def __init__(self) -> None:
        self._forms: dict[tuple[object, ...], str] = {}

    def encode(self, row: Mapping[str, Any]) -> str:
        """Return the lines of a row, in ASCII, each with its end: the last one is its own, before it may stand a
        header."""
        try:
            if len(row) != _WHOLE or row["kind"] != "trace":
                raise _NoForm
            value = row["value"]
            key = (row["f"], row["node"], row["incarnation"], *value)
            header, form = "", self._forms.get(key)
            if form is None:
                header, form = self._begin(row, key)
            pieces = [piece if type(piece) is int else _encode(piece) for piece in value.values()]
            return header + form % (*_numbers(row), *pieces)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, _NoForm):
            return _encode(row) + "\n"

    def _begin(self, row: Mapping[str, Any], key: tuple[object, ...]) -> tuple[str, str]:
        """Return a header, and how the lines are made that follow it."""
        value, number = row["value"], len(self._forms)
        texts = all(isinstance(name, str) and "%" not in name for name in value)
        if number == MOST_FORMS or not texts:
            raise _NoForm
        pieces = ["%d"] * len(COLUMNS) + ["%s"] * len(value)
        form = "\t".join([str(number), *pieces]) + "\n"
        _ = form % (*_numbers(row), *value.values())  # a header is written with the first row only
        self._forms[key] = form
        return f"{Form(number, {name: row[name] for name in COMMON}, COLUMNS, (*value,)).header}\n", form


class _NoForm(Exception):
    """A row that is a JSON object."""


class Decoder:
    """Reads the lines of one file one by one, in their order."""

    def __init__(self) -> None:
        self._forms: dict[int, Form] = {}

    def decode(self, line: bytes) -> dict[str, Any] | None:
        """Return the row of a line, None for a header. Raises ``ValueError`` for a line that is neither."""
        if line.startswith(HEADER):
            form = Form.parse(line)
            self._forms[form.number] = form
            return None
        if not line[:1].isdigit():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("it is not an object")
            return row
        number, *pieces = line.rstrip(b"\n").split(b"\t")
        if not _NUMBER.fullmatch(number) or int(number) not in self._forms:
            raise ValueError("it names no form")
        return self._forms[int(number)].row(pieces)
