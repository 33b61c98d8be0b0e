"""JSON texts that differ only in their numbers, parsed together: a run has millions of values, in few forms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history.masks import MASK, WORDS, Masked
from chaos.law import Form

Ints = npt.NDArray[np.int64]


def parse(text: str | None) -> dict[str, Any]:
    """One value. Raises ``ValueError`` when it is no JSON; one that is no object counts as empty."""
    parsed = json.loads(text) if text else {}
    return parsed if isinstance(parsed, dict) else {}


def forms(texts: pa.Array) -> list[Form]:
    """All values, each in one :class:`chaos.law.Form`. Raises ``ValueError`` as :func:`parse` does.

    The numbers that are values of keys are masked, and what is left of a text is its form, which is parsed once. Where
    a form is not what it seems (a text within it looks like a key and its number), its texts are parsed one by one, so
    that nothing depends on how they were written.
    """
    whole = pa.array(texts.fill_null(""), pa.large_string())
    bounds = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole) + 1]
    data = np.frombuffer(whole.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]
    masked = Masked.of(data, bounds - bounds[0])
    found: list[Form] = []
    odd: list[Ints] = [masked.first[:0]]
    for form, at in masked.groups():
        together = _together(form, at, masked.columns(form, at))
        if together is None:
            odd.append(at)
        else:
            found.append(together)
    return [*found, *_one_by_one(np.sort(np.concatenate(odd)), texts)]


def _together(form: bytes, at: Ints, columns: list[Ints] | None) -> Form | None:
    """The texts at these places as one form; None if they must be parsed one by one."""
    if columns is None:
        return None
    left = iter(columns)
    try:
        value = json.loads(form.replace(MASK, WORDS[0]), parse_constant=lambda _: next(left, None)) if form else {}
    except (ValueError, RecursionError):
        return None
    if next(left, None) is not None:  # what was masked is no number, but stands within a text
        return None
    return Form(value if isinstance(value, dict) else {}, at)


def _one_by_one(at: Ints, texts: pa.Array) -> Iterator[Form]:
    for place, text in zip(at.tolist(), texts.take(pa.array(at)).to_pylist(), strict=True):
        yield Form(parse(text), np.array([place], dtype=np.int64))
