"""The few rows of a run that tell whether it shows anything at all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.columns import Kind

#: Rows of these kinds are few, and so are traces of this name: of each life of a node the first hundred.
RARE = (Kind.HARNESS, Kind.FAULT)
MALFORMED = "malformed"
_NAMES = ["kind", "f", "type", "node"]


class Rare:
    """Takes the rows of a run, some at a time, and keeps all that are rare; of the others the first one of each kind,
    ``f``, type and node. ``apart``: how the names of those processes begin whose rows count apart from the others."""

    def __init__(self, apart: str) -> None:
        self._apart = apart
        self._known: set[tuple[str | bool, ...]] = set()
        self._kept: list[pa.Table] = []

    def add(self, block: pa.Table) -> None:
        plain = pa.table({name: block[name].cast(pa.string()) for name in (*_NAMES, "process")})
        rare = pc.or_(
            pc.is_in(plain["kind"], pa.array([str(kind) for kind in RARE])), pc.equal(plain["f"], MALFORMED)
        ).to_numpy()
        firsts = pa.table(
            {
                **{name: plain[name] for name in _NAMES},
                "apart": pc.starts_with(plain["process"], self._apart),
                "place": pa.array(np.arange(block.num_rows)),
            }
        ).group_by([*_NAMES, "apart"])
        keep = np.flatnonzero(rare).tolist()
        for first in firsts.aggregate([("place", "min")]).to_pylist():
            name = tuple(first[column] for column in (*_NAMES, "apart"))
            if name not in self._known:
                self._known.add(name)
                keep.append(first["place_min"])
        self._kept.append(block.take(pa.array(np.unique(keep).astype(np.int64))))

    def table(self) -> pa.Table:
        """The rows that were kept, in their order."""
        return pa.concat_tables(self._kept).unify_dictionaries().combine_chunks()
