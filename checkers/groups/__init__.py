"""Each group of a storage cluster is a Raft group, and keeps what Raft promises; so does meta.

Raft's five (Ongaro and Ousterhout, figure 3): one leader a term, who was elected; it only appends; logs that agree in
an entry agree in all before it; what is committed stays; and all apply the same. Here besides: nothing is acknowledged
that a majority's disks do not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.groups.applied import Applications
from checkers.groups.elections import Elections


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[Elections | Applications]:
    return (Elections(), Applications())
