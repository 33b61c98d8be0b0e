"""Does in this process, task by task, what :class:`chaos.judging.spark.Session` has workers do for a large run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from chaos.history.memory import give_back
from chaos.judging import blocks
from chaos.judging.blocks import Blocks, Places
from chaos.judging.spark_job import OnProgress

S = TypeVar("S")
G = TypeVar("G")
R = TypeVar("R")


class InProcess:
    """Use it as a context manager: what is brought to buckets stands in a file on the disk of ``folder``, if it is a
    lot. Raises ``OSError`` when the disk is full."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = blocks.file(None if folder is None else str(folder))

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def map(self, work: Callable[[S], R], tasks: Sequence[S], on_progress: OnProgress | None = None) -> list[R]:
        """As :meth:`chaos.judging.spark.Session.map`."""
        return [work(task) for task in tasks]

    def shuffled(
        self, work: Callable[[G, S], Iterable[tuple[int, Any]]], given: G, tasks: Sequence[S], buckets: int
    ) -> Filed:
        """As :meth:`chaos.judging.spark.Session.shuffled`; the blocks are (number, bytes)."""
        places: list[list[tuple[int, int, int]]] = [[] for _ in range(buckets)]
        for task in tasks:
            for bucket, (number, block) in work(given, task):
                places[bucket].append((number, self._file.tell(), len(block)))
                self._file.write(block)
        return Filed(self._file, places)


class Filed:
    """Buckets whose blocks stand in a file."""

    def __init__(self, file: Any, places: Sequence[Places]) -> None:
        self._file = file
        self._places = places

    def collect(
        self,
        work: Callable[[Any, int, Blocks], Any],
        given: Any,
        buckets: Sequence[int],
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """As :meth:`chaos.judging.spark_shuffle.Shuffled.collect`."""
        found = []
        for done, bucket in enumerate(buckets, start=1):
            found.append(work(given, bucket, Blocks(self._file, self._places[bucket])))
            give_back()
            if on_progress is not None:
                on_progress(done, len(buckets))
        return found
