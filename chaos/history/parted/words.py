"""The words of a text column as numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


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
