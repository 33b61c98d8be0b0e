"""What else is made of the rows of a large run where these are divided: its page, say. Who asks for the verdict brings
it, so that all rows are read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from chaos.history.pieces import Readable
from chaos.judging.blocks import Blocks

#: Returns ``work(given, bucket, blocks)`` of each of these buckets, as
#: :meth:`chaos.judging.spark_shuffle.Shuffled.collect`; to ``work`` the bucket may have another number.
Collect = Callable[[Callable[[Any, int, Blocks], Any], Any, Sequence[int]], list[Any]]


class Summary(Protocol):
    """It travels between processes, and so does what its tasks are given and return."""

    @property
    def buckets(self) -> int:
        """How many buckets it needs."""

    def divide(self, rows: pa.Table) -> Iterator[tuple[int, bytes]]:
        """Yield what the rows of a piece bring to the buckets, which are numbered from 0 on."""

    def collected(self, collect: Collect) -> Any:
        """Return what comes of it."""


def divide(summary: Summary, piece: Readable) -> list[tuple[int, tuple[int, bytes]]]:
    """Return what a piece brings to the buckets of a summary alone, with the number of its first row."""
    return [(bucket, (piece.first_index, block)) for bucket, block in summary.divide(piece.read())]
