"""The few rows of a run that say whether it shows anything at all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from chaos.events import MalformedMessage
from chaos.history.columns import Kind
from chaos.history.parted.choosing import coded

#: Rows of these kinds are few, and so are traces of this name: of each life of a node the first hundred.
RARE = (Kind.HARNESS, Kind.FAULT)
_NAMES = ("kind", "f", "type", "node")


class Rare:
    """Takes the rows of a run, some at a time, and keeps all that are rare; of the others the first one of each kind,
    ``f``, type and node. ``apart``: how the names of those processes begin whose rows count apart from the others."""

    def __init__(self, apart: str) -> None:
        self._apart = apart
        self._known: set[tuple[str | bool, ...]] = set()
        self._kept: list[pa.Table] = []

    def add(self, block: pa.Table) -> None:
        process, processes = coded(block, "process")
        apart = np.array([*(text.startswith(self._apart) for text in processes), False])[process]
        words = [coded(block, name) for name in _NAMES]
        group = apart.astype(np.int64)
        for code, texts in words:
            group = group * (len(texts) + 1) + code + 1
        (kind, kinds), (f, fs), *_ = words
        rare = np.array([*(text in RARE for text in kinds), False])[kind]
        rare |= np.array([*(text == MalformedMessage.f for text in fs), False])[f]
        keep = np.flatnonzero(rare).tolist()
        for first in np.unique(group, return_index=True)[1].tolist():
            name = (*(texts[code[first]] if code[first] >= 0 else "" for code, texts in words), bool(apart[first]))
            if name not in self._known:
                self._known.add(name)
                keep.append(first)
        self._kept.append(block.take(pa.array(np.unique(keep).astype(np.int64))))

    def table(self) -> pa.Table:
        """Return the rows that were kept, in their order."""
        return pa.concat_tables(self._kept).unify_dictionaries().combine_chunks()
