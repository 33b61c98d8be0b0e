"""What kernels tell of each shard, for a judgement that puts it together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from checkers._views.arrays import Ints

#: What all shards together tell.
Facts = Sequence[Mapping[str, Any]]


def joined(facts: Iterable[Mapping[str, Any]], *names: str) -> list[Ints]:
    """These columns of all facts that have the first of them, one behind the other."""
    some = [fact for fact in facts if names[0] in fact]
    none = np.empty(0, dtype=np.int64)
    return [np.concatenate([none, *(np.array(fact[name], dtype=np.int64) for fact in some)]) for name in names]
