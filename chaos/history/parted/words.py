"""The words of a text column, and those under a key of a row's ``value``, as numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import VALUE
from chaos.history.values import extracted, to_json, value_of, word_under


def coded(table: pa.Table, column: str) -> tuple[npt.NDArray[Any], list[str]]:
    """Each row's word in this column as a number, -1 for none, and the words that the numbers stand for."""
    array = table.select([column]).unify_dictionaries().combine_chunks()[column]
    chunk = array.chunk(0) if array.num_chunks else pa.array([], pa.string())
    if not pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_encode()
    return pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False), chunk.dictionary.to_pylist()


def among(table: pa.Table, column: str, words: Collection[str]) -> npt.NDArray[np.bool_]:
    """Which rows have one of these words in a column."""
    codes, texts = coded(table, column)
    found: npt.NDArray[np.bool_] = np.array([*(text in words for text in texts), False], np.bool_)[codes]
    return found


def named(table: pa.Table, key: str) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Likewise what stands under this key of each row's ``value``; what is not a text, as JSON. Where a pattern
    can't find it, the value is parsed: whose a row is must not depend on how a stranger writes it."""
    texts = table[VALUE].cast(pa.string()).combine_chunks()
    at = np.flatnonzero(pc.fill_null(pc.match_substring_regex(texts, rf'"{key}"|\\u'), False).to_numpy(False))
    texts = texts.take(pa.array(at))
    found = extracted(texts, word_under(key))
    is_odd = pc.or_(pc.is_null(found), pc.greater(pc.count_substring_regex(texts, rf'"{key}"|\\u'), 1))
    encoded = found.dictionary_encode()
    known = {word: number for number, word in enumerate(encoded.dictionary.to_pylist())}
    of_each = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    for place in np.flatnonzero(pc.fill_null(is_odd, True).to_numpy(False)).tolist():
        value = value_of(texts[place].as_py()).get(key)
        word = value if value is None or isinstance(value, str) else to_json(value)
        of_each[place] = -1 if word is None else known.setdefault(word, len(known))
    codes = np.full(table.num_rows, -1, np.int64)
    codes[at] = of_each
    return codes, [*known]
