"""Columns of numbers as a kernel hands them to the judgement: packed, since there may be one for each message."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping

import numpy as np

from chaos.findings import Facts
from checkers._facts.arrays import Ints


def packed(**columns: Ints) -> Mapping[str, str]:
    """Return a fact that has these columns."""
    return {
        name: b64encode(zlib.compress(column.astype("<i8").tobytes(), 1)).decode("ascii")
        for name, column in columns.items()
    }


def unpacked(facts: Facts, *names: str) -> list[Ints]:
    """Return these columns of all facts that have the first of them, one behind the other."""
    some = [fact for fact in facts if names[0] in fact]
    none = np.empty(0, dtype=np.int64)
    return [np.concatenate([none, *(_column(fact[name]) for fact in some)]) for name in names]


def _column(text: str) -> Ints:
    return np.frombuffer(zlib.decompress(b64decode(text)), dtype="<i8")
