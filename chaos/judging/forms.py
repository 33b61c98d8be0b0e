"""Values of many rows at once: JSON texts that differ only in their numbers, and what stands in them under one key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.masks import MASK, WORDS, Masked
from chaos.history.values import extracted, number_under, whole_numbers, word_under
from chaos.shard_rows import Form

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]

#: Of so many texts the numbers are sought at a time, which takes ten times as many bytes as they have.
MOST_TEXTS = 1 << 15
#: So many texts are searched one by one.
FEW = 64
_INT64 = range(-(2**63), 2**63)


#: Reads the JSON that begins at a place of a text: (what it is, where it ends).
_read = json.JSONDecoder().raw_decode


def parse(text: str | None) -> dict[str, Any]:
    """Return one value. Raises ``ValueError`` when it is not JSON; one that is not an object counts as empty."""
    if not text:
        return {}
    try:
        parsed, end = _read(text)
    except ValueError:
        end = -1
    if end != len(text):  # blanks around it, or no JSON, of which ``json`` says more
        parsed = json.loads(text)
    return parsed if isinstance(parsed, dict) else {}


def forms(texts: pa.Array) -> list[Form]:
    """All values, each in one :class:`chaos.law.Form`. Raises ``ValueError`` as :func:`parse` does.

    The numbers that are values of keys are masked, and what is left of a text is its form, which is parsed once. Where
    a form is not what it seems (a text within it looks like a key and its number), its texts are parsed one by one, so
    that nothing depends on how they were written.
    """
    pieces: dict[bytes, list[tuple[Ints, list[Ints] | None]]] = {}
    for begin in range(0, len(texts), MOST_TEXTS):
        masked = _masked(texts.slice(begin, MOST_TEXTS))
        for form, at in masked.groups():
            pieces.setdefault(form, []).append((at + begin, masked.columns(form, at)))
    found: list[Form] = []
    odd: list[Ints] = [np.empty(0, np.int64)]
    for form, parts in pieces.items():
        at = np.concatenate([at for at, _ in parts])
        together = _together(form, at, _joined([columns for _, columns in parts]))
        if together is None:
            odd.append(at)
        else:
            found.append(together)
    return [*found, *_one_by_one(np.sort(np.concatenate(odd)), texts)]


def _masked(texts: pa.Array) -> Masked:
    decoded = texts.dictionary_decode() if pa.types.is_dictionary(texts.type) else texts
    whole = pa.array(decoded.fill_null(""), pa.large_string())
    bounds = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole) + 1]
    data = np.frombuffer(whole.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]
    return Masked.of(data, bounds - bounds[0])


def _joined(parts: list[list[Ints] | None]) -> list[Ints] | None:
    """Return the numbers of one form from all pieces; None if any of them has what looks like a mask and is none."""
    whole = [columns for columns in parts if columns is not None]
    return [np.concatenate(column) for column in zip(*whole, strict=True)] if len(whole) == len(parts) else None


def _together(form: bytes, at: Ints, columns: list[Ints] | None) -> Form | None:
    """Return the texts at these places as one form; None if they must be parsed one by one."""
    if columns is None:
        return None
    left = iter(columns)
    try:
        value = json.loads(form.replace(MASK, WORDS[0]), parse_constant=lambda _: next(left, None)) if form else {}
    except (ValueError, RecursionError):
        return None
    if next(left, None) is not None:  # what was masked is not a number, but stands within a text
        return None
    return Form(value if isinstance(value, dict) else {}, at)


def _one_by_one(at: Ints, texts: pa.Array) -> Iterator[Form]:
    for place, text in zip(at.tolist(), texts.take(pa.array(at)).to_pylist(), strict=True):
        yield Form(parse(text), np.array([place], dtype=np.int64))


class Searched:
    """The column of values, of which each text that occurs is searched for a key once: many rows have the same, and
    many laws ask for it. Arrow takes as long to begin a search as Python takes for a :data:`FEW` texts."""

    def __init__(self, values: pa.DictionaryArray) -> None:
        self.values = values
        self._texts = values.dictionary
        #: Which text each row has; the last place of all tables stands for none.
        self._codes = pc.fill_null(values.indices, -1).to_numpy(zero_copy_only=False)
        self._numbers: dict[str, tuple[Places, Ints]] = {}
        self._labels: dict[str, tuple[Places, Ints, dict[str, int]]] = {}

    def numbers(self, key: str, at: Ints) -> Ints:
        """As :meth:`chaos.law.Rows.numbers`."""
        codes = self._codes[at]
        places, known = self._numbers.get(key) or (self._unknown(), np.full(2, -1, np.int64))
        fresh = _fresh(places, codes)
        if len(fresh):
            places[fresh] = np.arange(len(known), len(known) + len(fresh))
            known = np.append(known, self._numbers_in(fresh, key))
            self._numbers[key] = places, known
        return known[places[codes]]

    def labels(self, key: str, at: Ints) -> tuple[Ints, list[str]]:
        """As :meth:`chaos.law.Rows.labels`."""
        codes = self._codes[at]
        places, known, words = self._labels.get(key) or (self._unknown(), np.zeros(2, np.int64), {"": 0})
        fresh = _fresh(places, codes)
        if len(fresh):
            places[fresh] = np.arange(len(known), len(known) + len(fresh))
            known = np.append(known, self._words_in(fresh, key, words))
            self._labels[key] = places, known, words
        return known[places[codes]], [*words]

    def _numbers_in(self, codes: Ints, key: str) -> Ints:
        if len(codes) > FEW:
            return whole_numbers(self._texts.take(pa.array(codes)), key)
        found = [int(text or -1) for text in self._found(codes, number_under(key))]
        if any(number not in _INT64 for number in found):
            raise pa.ArrowInvalid(f"a number under {key} has more than 64 bits")
        return np.array(found, dtype=np.int64)

    def _words_in(self, codes: Ints, key: str, words: dict[str, int]) -> Ints:
        """Return the number of each text's word; a word that is new gets the next one."""
        if len(codes) <= FEW:
            found = self._found(codes, word_under(key))
            return np.array([words.setdefault(word, len(words)) for word in found], dtype=np.int64)
        encoded = pc.fill_null(extracted(self._texts.take(pa.array(codes)), word_under(key)), "").dictionary_encode()
        numbers = [words.setdefault(word, len(words)) for word in encoded.dictionary.to_pylist()]
        return np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy()]

    def _found(self, codes: Ints, pattern: str) -> list[str]:
        """Return what the pattern finds in these texts, "" where it finds nothing."""
        search = re.compile(pattern).search
        matches = [search(self._texts[code].as_py() or "") for code in codes.tolist()]
        return [match["found"] if match else "" for match in matches]

    def _unknown(self) -> Places:
        """Return the place of each text among those that were searched: 0, as none was, and 1 for no text."""
        places = np.zeros(len(self._texts) + 1, dtype=np.int32)
        places[-1] = 1
        return places


def _fresh(places: Places, codes: npt.NDArray[Any]) -> Ints:
    """Which of these codes have no place yet, ascending."""
    if places[codes].all():
        return np.empty(0, dtype=np.int64)
    occurs = np.zeros(len(places), dtype=np.bool_)
    occurs[codes] = True
    return np.flatnonzero(occurs & (places == 0))
