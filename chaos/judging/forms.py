"""JSON texts that differ only in their numbers, parsed together: a run has millions of values, in few forms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.law import Form

Ints = npt.NDArray[np.int64]

#: Stands for a number in a form. Python's JSON reads it, and no value of a history holds it.
MASK = "NaN"
#: A whole number that is the value of a key, and short enough for 64 bits.
_NUMBER = r'(":\s*)-?(?:0|[1-9][0-9]{0,17})(\s*[,}])'
#: Fewer texts than this of one form are parsed one by one.
FEW = 8


def parse(text: str | None) -> dict[str, Any]:
    """One value. Raises ``ValueError`` when it is no JSON; one that is no object counts as empty."""
    parsed = json.loads(text) if text else {}
    return parsed if isinstance(parsed, dict) else {}


def forms(texts: pa.Array) -> list[Form]:
    """All values, each in one :class:`chaos.law.Form`. Raises ``ValueError`` as :func:`parse` does.

    Each number is masked, and what is left of a text is its form, which is parsed once. A pattern made from the form
    then gives the numbers of all its texts. Texts that it does not fit are parsed one by one, so nothing depends on how
    they were written.
    """
    masked = pc.replace_substring_regex(texts.fill_null(""), _NUMBER, rf"\1{MASK}\2").dictionary_encode()
    codes = masked.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=len(masked.dictionary))
    ends = np.cumsum(counts)
    found: list[Form] = []
    single: list[Ints] = []
    for form, end, begin in zip(masked.dictionary.to_pylist(), ends, ends - counts, strict=True):
        at = order[begin:end]
        fits = None if len(at) < FEW and MASK in form else _together(form, at, texts)
        if fits is None:
            single.append(at)
        else:
            found.append(fits[0])
            single.append(fits[1])
    return [*found, *_one_by_one(np.sort(np.concatenate([*single, np.empty(0, dtype=np.int64)])), texts)]


def _together(form: str, at: Ints, texts: pa.Array) -> tuple[Form, Ints] | None:
    """The texts at these places as one form, and the places of those that it does not fit; None if they must be parsed
    one by one."""
    parts = form.split(MASK)
    columns: list[Ints] = []
    left = np.empty(0, dtype=np.int64)
    if len(parts) > 1:
        try:
            fits, columns = _numbers(parts, texts.take(pa.array(at)))
        except pa.ArrowInvalid:  # too long for a pattern
            return None
        at, left = at[fits], at[~fits]
    read = iter(columns)
    try:
        value = (
            json.loads(form, parse_constant=lambda word: next(read) if word == MASK else float(word)) if form else {}
        )
    except (ValueError, RecursionError):
        return None
    if next(read, None) is not None:  # a number was masked inside of a text
        return None
    return Form(value if isinstance(value, dict) else {}, at), left


def _numbers(parts: list[str], texts: pa.Array) -> tuple[npt.NDArray[np.bool_], list[Ints]]:
    """Which of these texts have a number between each two of these parts; those numbers, an array for each place."""
    names = [f"n{place}" for place in range(len(parts) - 1)]
    captures = [f"(?P<{name}>-?[0-9]+)" for name in names]
    pattern = "".join(
        re.escape(part) + capture for part, capture in zip(parts, [*captures, r"\z"], strict=True)
    )  # fmt: skip
    found = pc.extract_regex(texts, rf"\A{pattern}")
    fits = found.is_valid().to_numpy(zero_copy_only=False)
    whole = found.filter(pa.array(fits))
    return fits, [np.asarray(pc.cast(pc.struct_field(whole, name), pa.int64()).to_numpy()) for name in names]


def _one_by_one(at: Ints, texts: pa.Array) -> Iterator[Form]:
    for place, text in zip(at.tolist(), texts.take(pa.array(at)).to_pylist(), strict=True):
        yield Form(parse(text), np.array([place], dtype=np.int64))
